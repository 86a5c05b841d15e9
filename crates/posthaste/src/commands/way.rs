//! The identity of an agent towards the hub, as its program was told: the same for its
//! tools and its hooks.
//!
//! An agent that was given a token or an instance uses it. Any other agent joins: under
//! its program's name, with a key that stays the same as long as its conversation does; a
//! program whose conversations have no name is known by its folder.

use posthaste_api::{ApiError, ErrorCode};
use posthaste_core::address::{AddressError, InstanceId, Name};

use super::program::{self, Variables};
use super::{Session, name};
use crate::cli::AgentArgs;
use crate::failure::Failure;
use crate::identity::Token;
use crate::keyring::Which;

/// The variable by which CAO tells programs in which terminal they run.
pub(super) const TERMINAL: &str = "CAO_TERMINAL_ID";

pub(super) enum Way {
    Token(Token),
    Acting(InstanceId),
    Join(Wish),
}

/// The name, team and key with which an agent wants to join.
pub(super) struct Wish {
    pub(super) name: Option<Name>,
    pub(super) team: Option<Name>,
    pub(super) key: Option<String>,
    /// The agent does not want to continue the one that was in its folder.
    pub(super) new: bool,
    pub(super) token: Option<Token>,
}

impl Way {
    pub(super) fn of(
        args: &AgentArgs,
        session: &Session,
        variables: Variables,
    ) -> Result<Self, Failure> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let instance = given(&args.instance).or_else(|| variables(TERMINAL));
        let token = match (&session.token, &session.acting) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(who)) => Some(session.folder.identity(who)?.token),
            (None, None) => None,
        };
        Ok(match (token, instance) {
            (Some(token), _) => Self::Token(token),
            (None, Some(id)) => Self::Acting(instance_of(&id)?),
            (None, None) => Self::Join(Wish {
                name: given(&args.name).as_deref().map(name).transpose()?,
                team: given(&args.team).as_deref().map(name).transpose()?,
                key: given(&args.key),
                new: args.new,
                token: given(&args.join_token).map(Token::from),
            }),
        })
    }
}

impl Wish {
    /// Returns which agent this is, in a conversation with or without a name.
    pub(super) fn which(&self, conversation: Option<String>) -> Which {
        match self.key.clone().or(conversation) {
            Some(key) => Which::Keyed(key),
            None => Which::Running(program::running(self.new)),
        }
    }
}

fn instance_of(text: &str) -> Result<InstanceId, ApiError> {
    text.parse().map_err(|e: AddressError| {
        let told = format!("`{text}` in POSTHASTE_INSTANCE or {TERMINAL} names nobody: {}", e.why);
        ApiError::new(ErrorCode::InvalidArgument, told).hint("`posthaste agents` lists who is here")
    })
}
