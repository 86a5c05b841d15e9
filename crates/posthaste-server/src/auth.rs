//! Finds out who is calling: by token, and by nothing else.

use std::net::SocketAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, USER_AGENT};
use axum::http::request::Parts;
use parking_lot::RwLock;
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::{DEFAULT_TEAM, InstanceId, Name};
use posthaste_core::messaging::message::{Principal, Via};
use posthaste_core::registry::{self, JoinKey, NewInstance, TokenHash};
use posthaste_core::road::TraceParent;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::App;
use crate::failure::{Failure, invalid, not_found};
use crate::request::KnownCaller;

/// Names the instance for which the operator acts.
const INSTANCE: &str = "x-posthaste-instance";
/// Headers that identify a joiner: the same key and secret are the same instance.
const AGENT: &str = "x-posthaste-agent";
const TEAM: &str = "x-posthaste-team";
const KEY: &str = "x-posthaste-key";
const SECRET: &str = "x-posthaste-secret";

/// SHA-256 of the two tokens that are not an instance's.
#[derive(Clone, Copy)]
pub struct Keys {
    pub operator: TokenHash,
    pub join: TokenHash,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// The source of the two tokens, which may be replaced while the hub runs.
pub trait KeyFiles: Send + Sync {
    fn read(&self) -> Result<Keys, ApiError>;
}

/// Fixed keys, which a reload does not change.
impl KeyFiles for Keys {
    fn read(&self) -> Result<Keys, ApiError> {
        Ok(*self)
    }
}

/// The keys in force.
pub(crate) struct KnownKeys {
    files: Box<dyn KeyFiles>,
    now: RwLock<Keys>,
}

impl KnownKeys {
    pub(crate) fn new(files: impl KeyFiles + 'static) -> Result<Self, ApiError> {
        let now = RwLock::new(files.read()?);
        Ok(Self { files: Box::new(files), now })
    }

    pub(crate) fn now(&self) -> Keys {
        *self.now.read()
    }

    /// Reads the files again: from now on only their tokens are valid. Returns the names
    /// of the changed ones.
    pub(crate) fn reload(&self) -> Result<Vec<&'static str>, ApiError> {
        let new = self.files.read()?;
        let old = std::mem::replace(&mut *self.now.write(), new);
        let changed = [("operator", old.operator != new.operator), ("join", old.join != new.join)];
        Ok(changed.into_iter().filter_map(|(word, changed)| changed.then_some(word)).collect())
    }
}

/// The rights of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    Mail(Principal),
    Join,
}

pub(crate) fn digest(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

/// Returns a name of fixed length for a text of any length.
pub(crate) fn fingerprint(text: &str) -> String {
    hex(&digest(text)[..16])
}

/// Looks a token up. An instance that shows its own token gives a sign of life, whatever
/// becomes of the call.
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
    let keys = app.keys.now();
    if bool::from(hash.ct_eq(&keys.operator)) {
        return Ok(Some(Opens::Mail(Principal::Operator)));
    }
    if bool::from(hash.ct_eq(&keys.join)) {
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

/// Returns the instance or the operator whose token the request bears.
pub(crate) fn caller(app: &App, headers: &HeaderMap) -> Result<Principal, Failure> {
    match opens(app, headers)? {
        Some(Opens::Mail(principal)) => Ok(principal),
        Some(Opens::Join) => Err(forbidden("the join token only opens POST /v1/join")),
        None => Err(unauthorized("this call needs a token")),
    }
}

/// The sender of a request.
#[derive(Debug, Clone)]
pub(crate) enum Identity {
    Known(Principal),
    /// An agent that names itself and has not joined: its first act makes it join.
    Newcomer(Box<NewInstance>),
    /// A holder of the join token that names no agent.
    Nobody,
}

/// Identifies the sender: by its own token, by the operator's and the instance that the
/// operator acts for, or by the join token and its headers.
pub(crate) fn identify(app: &App, headers: &HeaderMap) -> Result<Identity, Failure> {
    match opens(app, headers)? {
        Some(Opens::Mail(Principal::Operator)) => match text(headers, INSTANCE)? {
            Some(id) => act_as(app, id).map(Identity::Known),
            None => Ok(Identity::Known(Principal::Operator)),
        },
        Some(Opens::Mail(principal)) => Ok(Identity::Known(principal)),
        Some(Opens::Join) => by_key(app, headers),
        None => Err(unauthorized("this door needs a token")),
    }
}

/// Lets the sender act: a newcomer joins.
pub(crate) async fn admit(app: &App, from: Identity) -> Result<Principal, Failure> {
    match from {
        Identity::Known(who) => Ok(who),
        Identity::Newcomer(new) => Ok(Principal::Instance(app.hub.join(*new).await?.instance.id)),
        Identity::Nobody => Err(nobody()),
    }
}

pub(crate) fn text<'a>(
    headers: &'a HeaderMap,
    name: &'static str,
) -> Result<Option<&'a str>, Failure> {
    let value = headers.get(name).map(|value| value.to_str());
    value.transpose().map_err(|_| invalid(name, "it is not plain text"))
}

/// Returns an instance that another's token identified, and notes its sign of life.
fn known(app: &App, id: InstanceId) -> Principal {
    let who = Principal::Instance(id);
    app.hub.seen(who);
    who
}

/// Lets the operator act as an instance, with all its rights.
fn act_as(app: &App, id: &str) -> Result<Principal, Failure> {
    let id: InstanceId = id.parse().map_err(|_| invalid(INSTANCE, "it has 8 hex digits"))?;
    match app.hub.lives(id) {
        true => Ok(known(app, id)),
        false => Err(not_found("instance")),
    }
}

/// Identifies the holder of a join token by its headers: the same key and secret are the
/// same instance.
fn by_key(app: &App, headers: &HeaderMap) -> Result<Identity, Failure> {
    let Some(agent) = text(headers, AGENT)? else { return Ok(Identity::Nobody) };
    let agent: Name = agent.parse().map_err(ApiError::from)?;
    let team = text(headers, TEAM)?.unwrap_or(DEFAULT_TEAM);
    let team: Name = team.parse().map_err(ApiError::from)?;
    let Some(key) = text(headers, KEY)? else {
        let why = "it is missing: it says which conversation this is";
        return Err(invalid("X-Posthaste-Key", why));
    };
    let Some(secret) = text(headers, SECRET)? else {
        let why = "it is missing: it proves that the key is yours; choose one and keep it";
        return Err(invalid("X-Posthaste-Secret", why));
    };
    let token = seed_of(app, &agent, &team, key, secret);
    let secret = secret_of(app, "X-Posthaste-Secret", secret)?;
    let key = JoinKey { key: key.to_owned(), secret };
    if let Some(id) = app.hub.keyed(&agent, &team, &key) {
        return Ok(Identity::Known(known(app, id)));
    }
    Ok(Identity::Newcomer(Box::new(NewInstance {
        agent,
        team: Some(team),
        label: None,
        parent: None,
        kind: None,
        key: Some(key),
        origin: registry::Origin::Join,
        token,
    })))
}

/// Derives the seed of the token of an instance that joins with this key and secret.
pub(crate) fn seed_of(app: &App, agent: &Name, team: &Name, key: &str, secret: &str) -> TokenHash {
    let mut hash = Sha256::new();
    hash.update(app.keys.now().join);
    for part in [agent.as_str(), team.as_str(), key, secret] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hashes the secret that a joiner shows; refuses one that could be guessed.
pub(crate) fn secret_of(
    app: &App,
    field: &'static str,
    secret: &str,
) -> Result<TokenHash, Failure> {
    let least = app.hub.limits().secret_chars;
    match secret.chars().count() >= least {
        true => Ok(digest(secret)),
        false => {
            let why = format!("it has at least {least} characters (limits.secret_chars)");
            Err(invalid(field, why))
        }
    }
}

/// Refuses a holder of the join token that names no agent.
pub(crate) fn nobody() -> Failure {
    let why = "the join token alone is nobody's: the hub does not know who is calling";
    let error = ApiError::new(ErrorCode::Forbidden, why).hint(
        "join first (POST /v1/join gives a token), or send X-Posthaste-Agent, X-Posthaste-Key and X-Posthaste-Secret beside the join token",
    );
    error.into()
}

/// Notes the caller for the log.
fn note(parts: &Parts, caller: Principal) {
    if let Some(who) = parts.extensions.get::<KnownCaller>() {
        who.is(caller);
    }
}

/// The two ends of the connection that a request comes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// The caller's.
    pub(crate) from: SocketAddr,
    /// The hub's own.
    pub(crate) to: SocketAddr,
}

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

/// Returns the door that a message came through; our command line names itself.
pub(crate) fn via(headers: &HeaderMap) -> Via {
    let agent = headers.get(USER_AGENT).map_or(&b""[..], |v| v.as_bytes());
    // Compare the whole name: other programs' names may begin like ours.
    let name = agent.split(|b| matches!(b, b'/' | b' ')).next();
    let cli = name == Some(posthaste_api::client::CLI_AGENT.as_bytes());
    if cli { Via::Cli } else { Via::Rest }
}

/// Returns the trace of the caller, if traces are followed.
pub(crate) fn trace(app: &App, headers: &HeaderMap) -> Option<TraceParent> {
    if !app.hub.is_followed() {
        return None;
    }
    headers.get("traceparent")?.to_str().ok()?.parse().ok()
}

/// The operator, and no other caller.
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

/// A caller that may bring a new agent: it holds the join token, or is the operator.
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

/// A caller that acts, known by its token or by its key and secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Somebody(pub(crate) Principal);

impl FromRequestParts<App> for Somebody {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let who = admit(app, identify(app, &parts.headers)?).await?;
        note(parts, who);
        Ok(Self(who))
    }
}
