//! The identity of the agent towards the hub.
//!
//! An agent that was given a token or an instance uses it. Any other agent joins with its
//! first call of a tool: under its program's name, as the same instance as before, so
//! that it finds its mailbox again. Until then the join token opens what everybody may
//! see, so a program that only lists the tools leaves no instance behind.

use std::collections::HashMap;

use posthaste_api::client::ClientError;
use posthaste_api::{ApiError, Client, ErrorCode};
use posthaste_core::address::{InstanceId, Name};
use tokio::sync::{Mutex, Notify};

use super::super::Session;
use super::super::member::Member;
use super::super::program::{self, Program, Variables};
use super::super::way::{self, TERMINAL, Wish};
use super::message::Message;
use crate::cli::{Dialect, McpArgs};
use crate::failure::{Failure, told};
use crate::identity::{Key, Token};

pub(super) use look::{Look, Seen};

mod look;

/// The identity in a bridge that has only one.
const ONLY: &str = "";

/// The reason why a call has no answer yet.
#[derive(Debug)]
pub(super) enum Trouble {
    /// No hub answers: try again.
    Absent(ApiError),
    /// The hub dropped the call in the middle: try again.
    Cut(ApiError),
    /// The hub is busy: try again.
    Busy(ApiError),
    /// The hub refused.
    Refused(ApiError),
}

/// The credentials of a request.
#[derive(Debug, Clone)]
pub(super) struct Bearer {
    pub(super) token: Token,
    /// The instance for which the operator acts.
    pub(super) instance: Option<InstanceId>,
    /// The identity of the token's owner, if the owner is an agent.
    pub(super) identity: Option<String>,
    /// The value that tells the conversation from others, also from those of the same
    /// agent.
    pub(super) conversation: String,
}

pub(super) struct Who {
    session: Session,
    way: Way,
    /// The process of the program, for a conversation without a name.
    process: String,
    agents: Mutex<Agents>,
    /// Threads of Codex that began earlier do not belong to this bridge.
    earliest: u64,
    /// Notified when a token was refused: its agent is not joined any more.
    forgotten: Notify,
}

enum Way {
    Token(Token),
    Acting(InstanceId),
    Join(Wish),
    /// Programs of CAO know their terminal or have none.
    Nobody,
}

struct Agents {
    program: Program,
    /// The joined agents, by identity.
    joined: HashMap<String, Known>,
    latest: Option<String>,
}

struct Known {
    member: Member,
    conversation: String,
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
        let process = program::process();
        let (session, agents) = (session.clone(), Mutex::new(agents));
        Ok(Self {
            session,
            way,
            process,
            agents,
            earliest: look::earliest(),
            forgotten: Notify::new(),
        })
    }

    /// Returns why this call of a tool is refused without a hub, if it is.
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

    /// Returns the credentials of this message for this hub. A call of a tool is an act:
    /// an agent that has not joined yet joins first.
    pub(super) async fn bearer(&self, hub: &str, message: &Message) -> Result<Bearer, Trouble> {
        // Held while joining: two concurrent calls must not join twice.
        let mut agents = self.agents.lock().await;
        if let Some(own) = &message.client {
            agents.program.calls_itself(own);
        }
        let wish = match &self.way {
            Way::Join(wish) => wish,
            _ => return self.given(hub, &agents),
        };
        let said = agents.conversation(message);
        let conversation =
            agents.program.told_conversation(said.as_deref(), wish.key.is_some(), &self.process);
        if !message.is("tools/call") {
            // Only a call of a tool tells which agent it is, so nothing else may join.
            if let Some((latest, known)) = agents.latest() {
                return Ok(known.bearer(latest.to_owned()));
            }
            let token = self.join_token(hub, wish)?;
            return Ok(Bearer { token, instance: None, identity: None, conversation });
        }
        let identity = label(wish.key.as_ref().or(said.as_ref()));
        agents.latest = Some(identity.clone());
        if let Some(known) = agents.joined.get(&identity) {
            return Ok(known.bearer(identity));
        }
        let name = wish.name.clone().unwrap_or_else(|| agents.program.name());
        let whom = (name.as_str(), wish.team.as_ref().map(Name::as_str));
        let door = Client::new(hub).map_err(trouble)?;
        let door = door.with_token(self.join_token(hub, wish)?.reveal());
        let member = Member::of(&self.session, &door, whom, wish.which(said)).await;
        let known = Known { member: member.map_err(trouble)?, conversation };
        let bearer = known.bearer(identity.clone());
        agents.joined.insert(identity, known);
        Ok(bearer)
    }

    /// Returns the same for a stream of notifications, which never joins.
    pub(super) async fn known(&self, hub: &str, identity: &str) -> Option<Bearer> {
        let agents = self.agents.lock().await;
        match &self.way {
            Way::Join(_) => Some(agents.joined.get(identity)?.bearer(identity.to_owned())),
            _ => self.given(hub, &agents).ok(),
        }
    }

    /// Forgets a token that the hub does not know any more. Returns whether another try
    /// is worth it.
    pub(super) async fn forget(&self, bearer: &Bearer) -> bool {
        match &self.way {
            Way::Join(_) => {
                let mut agents = self.agents.lock().await;
                let of_token = |known: &Known| known.member.me.token == bearer.token;
                // If the expiry cannot be written, the next call finds it out again.
                agents.joined.values().filter(|known| of_token(known)).for_each(|known| {
                    let _ = known.member.expire();
                });
                agents.joined.retain(|_, known| !of_token(known));
                self.forgotten.notify_one();
                true
            }
            // The file may have changed since.
            Way::Acting(_) | Way::Nobody => true,
            Way::Token(_) => false,
        }
    }

    /// Adds a hint to a refusal.
    pub(super) fn explain(&self, error: ApiError) -> ApiError {
        match &self.way {
            Way::Token(_) => told(self.session.explain(Failure::Told(error))),
            _ => error,
        }
    }

    /// Returns the credentials of the one agent, for all conversations of the program.
    fn given(&self, hub: &str, agents: &Agents) -> Result<Bearer, Trouble> {
        let said = agents.program.conversation(None);
        let conversation = agents.program.told_conversation(said.as_deref(), true, &self.process);
        let key = |key| {
            let client = Client::new(hub).map_err(trouble)?;
            self.session.key(key, &client).map_err(no_key)
        };
        let (token, instance, known) = match &self.way {
            Way::Token(token) => (token.clone(), None, true),
            Way::Acting(id) => (key(Key::Operator)?, Some(*id), true),
            Way::Nobody | Way::Join(_) => (key(Key::Join)?, None, false),
        };
        let identity = known.then(|| ONLY.to_owned());
        Ok(Bearer { token, instance, identity, conversation })
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
    /// Returns the agent that called a tool last, while it is joined.
    fn latest(&self) -> Option<(&str, &Known)> {
        let latest = self.latest.as_deref()?;
        Some((latest, self.joined.get(latest)?))
    }

    /// Returns the conversation that a message belongs to, if it has a name.
    fn conversation(&self, message: &Message) -> Option<String> {
        let codex = self.program.is_codex();
        self.program.conversation(message.thread.as_deref().filter(|_| codex))
    }
}

impl Known {
    fn bearer(&self, identity: String) -> Bearer {
        let (token, conversation) = (self.member.me.token.clone(), self.conversation.clone());
        Bearer { token, instance: None, identity: Some(identity), conversation }
    }
}

/// Returns the identity that tells the agents of one bridge apart.
fn label(key: Option<&String>) -> String {
    key.map_or_else(|| ONLY.to_owned(), |key| format!("key {key}"))
}

/// A folder without a token has never had a hub; the first hub creates it.
fn no_key(failure: Failure) -> Trouble {
    match told(failure) {
        error if error.code == ErrorCode::Unavailable => Trouble::Absent(error),
        error => Trouble::Refused(error),
    }
}

fn trouble(error: ClientError) -> Trouble {
    match &error {
        ClientError::Unreachable { .. } => Trouble::Absent(error.into()),
        ClientError::Interrupted { .. } | ClientError::Silent { .. } => Trouble::Cut(error.into()),
        ClientError::Api(told) if told.code == ErrorCode::Unavailable => {
            Trouble::Busy(error.into())
        }
        _ => Trouble::Refused(error.into()),
    }
}
