//! Who the agent is to the hub.
//!
//! An agent that was given a token or an instance has it. Any other joins: under
//! its program's name, with a key that is the same as long as its conversation is,
//! so that it finds its mailbox again. Until it is known who calls, the join token
//! opens what everybody may see.

use std::collections::HashMap;

use posthaste_api::client::ClientError;
use posthaste_api::instances::JoinRequest;
use posthaste_api::{ApiError, Client, ErrorCode};
use posthaste_core::address::{InstanceId, Name};
use tokio::sync::Mutex;

use super::super::Session;
use super::super::program::{self, Program, Variables};
use super::super::way::{self, TERMINAL, Wish};
use super::message::Message;
use crate::cli::{Dialect, McpArgs};
use crate::failure::{Failure, told};
use crate::identity::{Key, Token};

/// The identity of those who have only one.
const ONLY: &str = "";

/// Why a call has no answer yet.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nobody is there: try again.
    Absent(ApiError),
    /// It was there and left in the middle: try again.
    Cut(ApiError),
    /// It cannot work just now: try again.
    Busy(ApiError),
    /// It said no.
    Refused(ApiError),
}

/// What a request bears.
#[derive(Debug, Clone)]
pub(super) struct Bearer {
    pub(super) token: Token,
    /// Whom the operator acts for.
    pub(super) instance: Option<InstanceId>,
    /// Whose the token is, where it is an agent's.
    pub(super) identity: Option<String>,
}

pub(super) struct Who {
    session: Session,
    way: Way,
    agents: Mutex<Agents>,
}

enum Way {
    Token(Token),
    Acting(InstanceId),
    Join(Wish),
    /// CAO's programs know their terminal or have none.
    Nobody,
}

struct Agents {
    program: Program,
    /// The token of each key that joined.
    joined: HashMap<String, Token>,
    latest: Option<String>,
}

impl Who {
    pub(super) fn new(
        args: &McpArgs,
        session: &Session,
        variables: Variables,
    ) -> Result<Self, Failure> {
        let way = match way::Way::of(&args.agent, session, variables)? {
            way::Way::Token(token) => Way::Token(token),
            way::Way::Acting(id) => Way::Acting(id),
            way::Way::Join(_) if args.dialect == Some(Dialect::Cao) => Way::Nobody,
            way::Way::Join(wish) => Way::Join(wish),
        };
        let program = Program::new(variables);
        let agents = Agents { program, joined: HashMap::new(), latest: None };
        Ok(Self { session: session.clone(), way, agents: Mutex::new(agents) })
    }

    /// Why this call of a tool needs no hub to be refused.
    pub(super) fn refusal(&self, message: &Message) -> Option<String> {
        let nobody = matches!(self.way, Way::Nobody) && message.is("tools/call");
        nobody.then(|| {
            format!(
                "{TERMINAL} is not set, so this agent has no inbox: start it in a terminal that \
                 sets {TERMINAL}, or set it (or POSTHASTE_INSTANCE) to an instance that \
                 `posthaste agents` lists"
            )
        })
    }

    /// What this message bears to the hub there. Whoever is not known yet and can
    /// be joins first.
    pub(super) async fn bearer(&self, hub: &str, message: &Message) -> Result<Bearer, Trouble> {
        let wish = match &self.way {
            Way::Join(wish) => wish,
            _ => return self.given(hub),
        };
        // Held while joining: two calls at once must not join twice.
        let mut agents = self.agents.lock().await;
        if let Some(own) = &message.client {
            agents.program.calls_itself(own);
        }
        let key = match agents.key(wish, message) {
            Some(key) => key,
            None => return Ok(as_stranger(self.join_token(hub, wish)?)),
        };
        if let Some(token) = agents.joined.get(&key) {
            let token = token.clone();
            return Ok(Bearer { token, instance: None, identity: Some(key) });
        }
        let request = JoinRequest {
            agent: wish.name.clone().unwrap_or_else(|| agents.program.name()).to_string(),
            team: wish.team.as_ref().map(Name::to_string),
            key: key.clone(),
            secret: None,
        };
        let client = Client::new(hub).map_err(trouble)?;
        let client = client.with_token(self.join_token(hub, wish)?.reveal());
        let token = Token::from(client.join(&request).await.map_err(trouble)?.token);
        agents.joined.insert(key.clone(), token.clone());
        agents.latest = Some(key.clone());
        Ok(Bearer { token, instance: None, identity: Some(key) })
    }

    /// The same for a stream of news, which never joins.
    pub(super) async fn known(&self, hub: &str, identity: &str) -> Option<Bearer> {
        match &self.way {
            Way::Join(_) => {
                let token = self.agents.lock().await.joined.get(identity)?.clone();
                Some(Bearer { token, instance: None, identity: Some(identity.to_owned()) })
            }
            _ => self.given(hub).ok(),
        }
    }

    /// The hub does not know this token any more. Whether it is worth another try.
    pub(super) async fn forget(&self, bearer: &Bearer) -> bool {
        match &self.way {
            Way::Join(_) => {
                let mut agents = self.agents.lock().await;
                agents.joined.retain(|_, token| *token != bearer.token);
                true
            }
            // The file may have changed since.
            Way::Acting(_) | Way::Nobody => true,
            Way::Token(_) => false,
        }
    }

    /// A refusal, with what to do about it here.
    pub(super) fn explain(&self, error: ApiError) -> ApiError {
        match &self.way {
            Way::Token(_) => told(self.session.explain(Failure::Told(error))),
            _ => error,
        }
    }

    fn given(&self, hub: &str) -> Result<Bearer, Trouble> {
        let key = |key| {
            let client = Client::new(hub).map_err(trouble)?;
            self.session.key(key, &client).map_err(no_key)
        };
        let identity = Some(ONLY.to_owned());
        match &self.way {
            Way::Token(token) => Ok(Bearer { token: token.clone(), instance: None, identity }),
            Way::Acting(id) => {
                Ok(Bearer { token: key(Key::Operator)?, instance: Some(*id), identity })
            }
            Way::Nobody | Way::Join(_) => Ok(as_stranger(key(Key::Join)?)),
        }
    }

    fn join_token(&self, hub: &str, wish: &Wish) -> Result<Token, Trouble> {
        match &wish.token {
            Some(token) => Ok(token.clone()),
            None => {
                let client = Client::new(hub).map_err(trouble)?;
                self.session.key(Key::Join, &client).map_err(no_key)
            }
        }
    }
}

impl Agents {
    /// Whose call this is, or nothing as long as that cannot be told.
    fn key(&self, wish: &Wish, message: &Message) -> Option<String> {
        let calls = message.is("tools/call");
        let codex = self.program.is_codex();
        let said = self.program.conversation(message.thread.as_deref().filter(|_| codex));
        // Who joins under a wrong name is another agent.
        let sure = wish.name.is_some() || self.program.is_known() || calls;
        let sure = sure && message.is_request();
        match wish.key.clone().or(said) {
            Some(key) if sure || codex => Some(key),
            // Codex will say whose it is with its first call.
            None if sure && (calls || !codex) => Some(program::process()),
            _ => self.latest.clone(),
        }
    }
}

fn as_stranger(token: Token) -> Bearer {
    Bearer { token, instance: None, identity: None }
}

/// A folder without a token has never had a hub; the first one makes it.
fn no_key(failure: Failure) -> Trouble {
    match told(failure) {
        error if error.code == ErrorCode::Unavailable => Trouble::Absent(error),
        error => Trouble::Refused(error),
    }
}

fn trouble(error: ClientError) -> Trouble {
    match &error {
        ClientError::Unreachable { .. } => Trouble::Absent(error.into()),
        ClientError::Interrupted { .. } => Trouble::Cut(error.into()),
        ClientError::Api(told) if told.code == ErrorCode::Unavailable => {
            Trouble::Busy(error.into())
        }
        _ => Trouble::Refused(error.into()),
    }
}
