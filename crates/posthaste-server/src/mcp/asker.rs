//! The sender of an MCP request, its client and its dialect.

use axum::http::request::Parts;
use compact_str::CompactString;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::proof::Process;
use posthaste_core::road::TraceParent;
use serde::Deserialize;

use super::dialects::Dialect;
use super::label;
use crate::App;
use crate::auth::{self, Identity};
use crate::extract::query;
use crate::failure::Failure;

/// Header by which a bridge, the process that carries stdio to the hub, names itself.
const BRIDGE: &str = "x-posthaste-bridge";

/// Header by which a bridge names its conversation, or the process of its program where
/// the program has no conversation.
const CONVERSATION: &str = "x-posthaste-conversation";

/// Longest label that is kept unchanged.
const LONG: usize = 100;

#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) from: Identity,
    bridge: Option<CompactString>,
    session: Option<CompactString>,
    conversation: Option<CompactString>,
    /// The client that the session label names; `None` in the era without labels.
    pub(crate) client: Option<CompactString>,
    pub(crate) dialect: Dialect,
    pub(crate) trace: Option<TraceParent>,
}

impl Asker {
    /// Returns the sender if it is known. Others may look at the tools.
    pub(crate) fn principal(&self) -> Option<Principal> {
        match self.from {
            Identity::Known(who) => Some(who),
            Identity::Newcomer(_) | Identity::Nobody => None,
        }
    }

    pub(crate) fn somebody(&self) -> Result<Principal, Failure> {
        self.principal().ok_or_else(auth::nobody)
    }

    /// Identifies the caller of a tool: a newcomer joins.
    pub(crate) async fn acts(&mut self, app: &App) -> Result<Principal, Failure> {
        let who = auth::admit(app, self.from.clone()).await?;
        self.from = Identity::Known(who);
        Ok(who)
    }

    /// The process behind the request, as the request describes it.
    pub(crate) fn process(&self) -> Process<'_> {
        Process {
            bridge: self.bridge.as_deref(),
            session: self.session.as_deref(),
            conversation: self.conversation.as_deref(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct Query {
    dialect: Option<String>,
}

pub(crate) fn identify(app: &App, parts: &Parts) -> Result<Asker, Failure> {
    let headers = &parts.headers;
    let from = auth::identify(app, headers)?;
    let principal = match from {
        Identity::Known(who) => Some(who),
        Identity::Newcomer(_) | Identity::Nobody => None,
    };
    let session = auth::text(headers, label::HEADER)?;
    let client = match session {
        Some(session) => label::client(session, principal)?,
        None => None,
    };
    let bridge = auth::text(headers, BRIDGE)?.map(short);
    let conversation = auth::text(headers, CONVERSATION)?.map(short);
    let session = session.map(short);
    let dialect = match parts.uri.query() {
        None => Dialect::Native,
        Some(_) => match query::<Query>(&parts.uri)?.dialect {
            None => Dialect::Native,
            Some(word) => word.parse()?,
        },
    };
    let trace = auth::trace(app, headers);
    Ok(Asker { from, bridge, session, conversation, client, dialect, trace })
}

/// Returns a text as it is, or the fingerprint of one that is too long to keep.
fn short(text: &str) -> CompactString {
    match text.len() {
        0..=LONG => text.into(),
        _ => auth::fingerprint(text).into(),
    }
}
