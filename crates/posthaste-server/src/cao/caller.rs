//! Who calls by CAO's routes, and what that caller may do.
//!
//! CAO believes any `sender_id`, and its programs send no token unless they are told one
//! (`CAO_AUTH_LOCAL_TOKEN`). A caller with a token is who the token says. A caller without
//! one may act for terminals that these routes made, and for no other instance, if it is a
//! program of the hub's own system user: such a program could read the tokens anyway.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::request::Parts;
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::Principal;

use super::terminal::Terminal;
use super::{neighbour, terminal_id};
use crate::App;
use crate::auth::{Caller, Peer};
use crate::failure::{Failure, not_found};

/// The hint for CAO's own programs, which send no token by themselves.
const HOW_TO_GET_A_TOKEN: &str = "give CAO's programs a token in CAO_AUTH_LOCAL_TOKEN: a worker's \
    own is in its POSTHASTE_TOKEN, the operator's is told by `posthaste token --operator`. Without \
    one they act for terminals that they made themselves, as the hub's own system user on the same \
    machine";

/// The sender that CAO's MCP server for operators names, which has no terminal.
const OF_NO_TERMINAL: &str = "cao-ops-mcp";

/// A caller of CAO's routes. Asked for before a body is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum CaoCaller {
    Token(Principal),
    /// A program of the hub's own system user.
    Neighbour,
}

impl FromRequestParts<App> for CaoCaller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        if parts.headers.contains_key(AUTHORIZATION) {
            let Caller(caller) = Caller::from_request_parts(parts, app).await?;
            return Ok(Self::Token(caller));
        }
        let peer = parts.extensions.get::<Peer>().copied();
        match peer.filter(|_| !is_for_somebody_else(&parts.headers)) {
            Some(peer) if neighbour::is_own_user(peer).await => Ok(Self::Neighbour),
            _ => Err(unknown_caller()),
        }
    }
}

/// Returns whether the program at the other end asks for somebody else: a browser for a
/// page, which is not the user who looks at it, or a proxy for its clients. CAO's own
/// programs send none of these headers.
fn is_for_somebody_else(headers: &HeaderMap) -> bool {
    let tells = |name: &str| {
        matches!(name, "cookie" | "forwarded" | "via" | "x-real-ip")
            || name.starts_with("sec-")
            || name.starts_with("x-forwarded-")
    };
    headers.contains_key(ORIGIN) || headers.keys().any(|name| tells(name.as_str()))
}

fn unknown_caller() -> Failure {
    ApiError::new(ErrorCode::Unauthorized, "this call needs a token")
        .hint(HOW_TO_GET_A_TOKEN)
        .into()
}

fn forbidden(why: &str) -> Failure {
    ApiError::new(ErrorCode::Forbidden, why).into()
}

impl CaoCaller {
    /// Returns who the caller is by its token.
    pub(super) fn by_token(self) -> Option<Principal> {
        match self {
            Self::Token(caller) => Some(caller),
            Self::Neighbour => None,
        }
    }

    /// Returns a terminal that the caller may look at: its own, one of its family or of its
    /// session.
    pub(super) fn sees(self, app: &App, id: InstanceId) -> Result<Terminal, Failure> {
        let terminal = self.find(app, id)?;
        let Self::Token(Principal::Instance(me)) = self else { return Ok(terminal) };
        let near = Terminal::find(app, me).is_some_and(|mine| {
            mine.view.instance.is_kin_of(&terminal.view.instance)
                || mine.session_name() == terminal.session_name()
        });
        match near || app.hub.is_above(Principal::Instance(me), id) {
            true => Ok(terminal),
            false => Err(forbidden("the terminal is not of the caller's family or session")),
        }
    }

    /// Returns the principal of a living terminal for which the caller may read and write.
    pub(super) fn acts_as(self, app: &App, id: InstanceId) -> Result<Principal, Failure> {
        let me = Principal::Instance(id);
        if let Self::Token(caller) = self
            && caller != me
            && caller != Principal::Operator
        {
            return Err(forbidden("the terminal is not the one that the token belongs to"));
        }
        let terminal = self.find(app, id)?;
        if terminal.view.instance.status.has_ended() {
            return Err(not_found("terminal"));
        }
        app.hub.seen(me);
        Ok(me)
    }

    /// Returns the principal in whose name the caller sends. [`OF_NO_TERMINAL`] is the
    /// human's.
    pub(super) fn sends_as(self, app: &App, sender: &str) -> Result<Principal, Failure> {
        match (terminal_id(sender), self) {
            (Ok(id), _) => self.acts_as(app, id),
            (Err(_), Self::Neighbour | Self::Token(Principal::Operator))
                if sender == OF_NO_TERMINAL =>
            {
                Ok(Principal::Operator)
            }
            (Err(wrong), _) => Err(wrong),
        }
    }

    /// Returns a terminal that the caller may prompt, read and end, and in whose name it
    /// does so.
    pub(super) fn directs(
        self,
        app: &App,
        id: InstanceId,
    ) -> Result<(Principal, Terminal), Failure> {
        let terminal = self.find(app, id)?;
        match self {
            Self::Neighbour => Ok((Principal::Operator, terminal)),
            Self::Token(by) if by == Principal::Instance(id) || app.hub.is_above(by, id) => {
                Ok((by, terminal))
            }
            Self::Token(_) => {
                Err(forbidden("only those above a terminal and the human may do this"))
            }
        }
    }

    /// Refuses a caller that is neither the giver of a terminal's work nor above it.
    pub(super) fn may_ask(self, app: &App, terminal: &Terminal) -> Result<(), Failure> {
        match self {
            Self::Neighbour => Ok(()),
            Self::Token(by)
                if by.instance().is_some_and(|me| terminal.view.instance.parent == Some(me))
                    || app.hub.is_above(by, terminal.id()) =>
            {
                Ok(())
            }
            Self::Token(_) => Err(forbidden("the work is not the caller's")),
        }
    }

    /// Returns in whose name the caller makes a terminal or prompts one: in that of the
    /// terminal that it names, else in its own.
    pub(super) fn on_behalf_of(
        self,
        app: &App,
        terminal: Option<InstanceId>,
    ) -> Result<Principal, Failure> {
        match (self, terminal) {
            (_, Some(id)) => self.acts_as(app, id),
            (Self::Token(caller), None) => Ok(caller),
            (Self::Neighbour, None) => Ok(Principal::Operator),
        }
    }

    /// Finds a terminal. A caller without a token finds those that these routes made.
    fn find(self, app: &App, id: InstanceId) -> Result<Terminal, Failure> {
        let terminal = Terminal::find(app, id).ok_or_else(|| not_found("terminal"))?;
        match self {
            Self::Neighbour if terminal.record.is_none() => Err(unknown_caller()),
            _ => Ok(terminal),
        }
    }
}
