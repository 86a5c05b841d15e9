//! Who asks, through which client, and in which words.

use std::borrow::Cow;

use axum::http::HeaderMap;
use axum::http::request::Parts;
use compact_str::{CompactString, format_compact};
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::{InstanceId, Name};
use posthaste_core::messaging::message::Principal;
use posthaste_core::registry::{AgentKind, NewInstance};
use posthaste_core::road::TraceParent;
use serde::Deserialize;

use super::dialects::Dialect;
use super::label;
use crate::App;
use crate::auth::{self, Opens};
use crate::extract::query;
use crate::failure::{Failure, invalid, not_found};

/// The process that carries stdio to the hub names itself.
const BRIDGE: &str = "x-posthaste-bridge";
/// The operator acts for this instance.
const INSTANCE: &str = "x-posthaste-instance";
/// Joining by headers: the same key is the same instance.
const AGENT: &str = "x-posthaste-agent";
const TEAM: &str = "x-posthaste-team";
const KEY: &str = "x-posthaste-key";

/// The longest label that is kept as it is.
const LONG: usize = 100;

#[derive(Clone)]
pub(crate) struct Asker {
    /// Nobody: may look at the tools and call none.
    pub(crate) principal: Option<Principal>,
    pub(crate) bridge: Option<CompactString>,
    /// The name space of this client's request ids; empty when there is none.
    label: CompactString,
    /// As its label says; `None` in the era without labels.
    pub(crate) client: Option<CompactString>,
    pub(crate) dialect: Dialect,
    pub(crate) trace: Option<TraceParent>,
}

impl Asker {
    pub(crate) fn somebody(&self) -> Result<Principal, Failure> {
        self.principal.ok_or_else(|| {
            let why = "the join token alone is nobody's: the hub does not know who is calling";
            let error = ApiError::new(ErrorCode::Forbidden, why).hint(
                "join first (POST /v1/join gives a token), or send X-Posthaste-Agent and X-Posthaste-Key beside the join token",
            );
            error.into()
        })
    }

    /// What a request of this client is called, where ids mean something.
    pub(crate) fn name_of(&self, id: &str) -> Option<CompactString> {
        (!self.label.is_empty()).then(|| format_compact!("{}|{id}", self.label))
    }
}

#[derive(Debug, Default, Deserialize)]
struct Query {
    dialect: Option<String>,
}

pub(crate) async fn identify(app: &App, parts: &Parts) -> Result<Asker, Failure> {
    let headers = &parts.headers;
    let principal = match auth::opens(app, headers)? {
        Some(Opens::Mail(Principal::Operator)) => match text(headers, INSTANCE)? {
            Some(id) => Some(act_as(app, id)?),
            None => Some(Principal::Operator),
        },
        Some(Opens::Mail(principal)) => Some(principal),
        Some(Opens::Join) => by_key(app, headers).await?,
        None => return Err(auth::unauthorized("the MCP door needs a token")),
    };
    let session = text(headers, label::HEADER)?;
    let client = match session {
        Some(session) => label::client(session, principal)?,
        None => None,
    };
    let bridge = text(headers, BRIDGE)?.map(short);
    let label = bridge.clone().or(session.map(short)).unwrap_or_default();
    let dialect = match parts.uri.query() {
        None => Dialect::Native,
        Some(_) => match query::<Query>(&parts.uri)?.dialect {
            None => Dialect::Native,
            Some(word) => word.parse()?,
        },
    };
    let trace = auth::trace(app, headers);
    Ok(Asker { principal, bridge, label, client, dialect, trace })
}

fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Failure> {
    let value = headers.get(name).map(|value| value.to_str());
    value.transpose().map_err(|_| invalid(name, "it is not plain text"))
}

/// A client may call itself what it likes, but not at any length.
fn short(text: &str) -> CompactString {
    match text.len() {
        0..=LONG => text.into(),
        _ => auth::digest(text)[..16].iter().map(|b| format!("{b:02x}")).collect(),
    }
}

/// The operator may do whatever an instance may.
fn act_as(app: &App, id: &str) -> Result<Principal, Failure> {
    let id: InstanceId = id.parse().map_err(|_| invalid(INSTANCE, "it has 8 hex digits"))?;
    match app.hub.lives(id) {
        true => Ok(Principal::Instance(id)),
        false => Err(not_found("instance")),
    }
}

/// Whoever has the join token is who its headers say, and stays it by its key.
async fn by_key(app: &App, headers: &HeaderMap) -> Result<Option<Principal>, Failure> {
    let Some(agent) = text(headers, AGENT)? else { return Ok(None) };
    let agent: Name = agent.parse().map_err(ApiError::from)?;
    let team = text(headers, TEAM)?.unwrap_or(posthaste_core::address::DEFAULT_TEAM);
    let team: Name = team.parse().map_err(ApiError::from)?;
    let Some(key) = text(headers, KEY)? else {
        let why = "it is missing: it says which conversation this is";
        return Err(invalid("X-Posthaste-Key", Cow::Borrowed(why)));
    };
    if let Some(id) = app.hub.keyed(&agent, &team, key) {
        return Ok(Some(Principal::Instance(id)));
    }
    let new = NewInstance {
        agent,
        team: Some(team),
        label: None,
        parent: None,
        kind: None::<AgentKind>,
        key: Some(key.to_owned()),
        // Nobody will ever know it: the key opens the door.
        token: rand::random(),
    };
    Ok(Some(Principal::Instance(app.hub.join(new).await?.instance.id)))
}
