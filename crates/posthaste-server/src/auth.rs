//! Who is calling: by token, and by nothing else.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, USER_AGENT};
use axum::http::request::Parts;
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::messaging::message::{Principal, Via};
use posthaste_core::registry::TokenHash;
use posthaste_core::road::TraceParent;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::call::Who;
use crate::failure::Failure;
use crate::{App, guard};

/// SHA-256 of the two tokens that are not an instance's.
#[derive(Clone)]
pub struct Keys {
    pub operator: TokenHash,
    pub join: TokenHash,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// What a token opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    Mail(Principal),
    Join,
}

pub(crate) fn digest(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

pub(crate) fn opens(app: &App, headers: &HeaderMap) -> Result<Option<Opens>, Failure> {
    let Some(header) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let token = header.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let Some(token) = token else {
        return Err(unauthorized("the Authorization header is not `Bearer TOKEN`"));
    };
    let hash = digest(token);
    if let Some(principal) = app.hub.caller(&hash) {
        return Ok(Some(Opens::Mail(principal)));
    }
    if bool::from(hash.ct_eq(&app.keys.operator)) {
        return Ok(Some(Opens::Mail(Principal::Operator)));
    }
    if bool::from(hash.ct_eq(&app.keys.join)) {
        return Ok(Some(Opens::Join));
    }
    Err(unauthorized("the token is not known here"))
}

pub(crate) fn unauthorized(why: &str) -> Failure {
    Failure(ApiError::new(ErrorCode::Unauthorized, why).hint(
        "send `Authorization: Bearer TOKEN`: an agent's from POST /v1/join, the operator's from the file operator.token in the data folder",
    ))
}

pub(crate) fn forbidden(why: &str) -> Failure {
    Failure(ApiError::new(ErrorCode::Forbidden, why))
}

/// The instance or the operator whose token the request bears.
pub(crate) fn caller(app: &App, headers: &HeaderMap) -> Result<Principal, Failure> {
    match opens(app, headers)? {
        Some(Opens::Mail(principal)) => Ok(principal),
        Some(Opens::Join) => Err(forbidden("the join token only opens POST /v1/join")),
        None => Err(unauthorized("this call needs a token")),
    }
}

/// Tells the log who it was.
fn note(parts: &Parts, caller: Principal) {
    if let Some(who) = parts.extensions.get::<Who>() {
        who.is(caller);
    }
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// An instance or the operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller(pub(crate) Principal);

impl FromRequestParts<App> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let caller = caller(app, &parts.headers)?;
        note(parts, caller);
        Ok(Self(caller))
    }
}

/// A caller, or nobody: for routes that also serve those without a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaybeCaller(pub(crate) Option<Principal>);

impl FromRequestParts<App> for MaybeCaller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        match opens(app, &parts.headers)? {
            Some(Opens::Mail(principal)) => {
                note(parts, principal);
                Ok(Self(Some(principal)))
            }
            Some(Opens::Join) => Err(forbidden("the join token only opens POST /v1/join")),
            // Here a mere GET takes mail: an image on any page could.
            None if guard::is_from_another_site(&parts.headers) => {
                Err(forbidden("requests from other sites need a token"))
            }
            None => Ok(Self(None)),
        }
    }
}

/// The door that a message came through: our own command line says so.
pub(crate) fn via(headers: &HeaderMap) -> Via {
    let agent = headers.get(USER_AGENT).map_or(&b""[..], |v| v.as_bytes());
    // The whole name: other programs' names may begin like ours.
    let name = agent.split(|b| matches!(b, b'/' | b' ')).next();
    let cli = name == Some(posthaste_api::client::CLI_AGENT.as_bytes());
    if cli { Via::Cli } else { Via::Rest }
}

/// The trace that the caller is in, where anybody follows.
pub(crate) fn trace(app: &App, headers: &HeaderMap) -> Option<TraceParent> {
    if !app.hub.is_followed() {
        return None;
    }
    headers.get("traceparent")?.to_str().ok()?.parse().ok()
}

/// The operator alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operator;

impl FromRequestParts<App> for Operator {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        match Caller::from_request_parts(parts, app).await? {
            Caller(Principal::Operator) => Ok(Self),
            Caller(Principal::Instance(_)) => Err(forbidden("only the operator may do this")),
        }
    }
}

/// Whoever may bring a new agent: the join token, or the operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joiner;

impl FromRequestParts<App> for Joiner {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        match opens(app, &parts.headers)? {
            Some(Opens::Join | Opens::Mail(Principal::Operator)) => Ok(Self),
            Some(Opens::Mail(Principal::Instance(_))) => {
                Err(forbidden("an agent's token does not open this; use the join token"))
            }
            None => Err(unauthorized("joining needs the join token (`posthaste token`)")),
        }
    }
}
