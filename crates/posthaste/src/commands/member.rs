//! Becomes the agent of a program: with the credentials of an earlier join, or with new
//! ones.

use posthaste_api::client::ClientError;
use posthaste_api::instances::{JoinRequest, Joined};
use posthaste_api::{ApiError, Client, ErrorCode};

use super::Session;
use crate::identity::{Identity, Token};
use crate::keyring::{Credentials, Found, Keyring, Owner, Which};

/// An agent that has joined, and the place of its credentials.
#[derive(Debug, Clone)]
pub(super) struct Member {
    ring: Keyring,
    owner: Owner,
    which: Which,
    pub(super) me: Identity,
}

impl Member {
    /// Returns the agent, which joins through `door` if it has no token yet.
    pub(super) async fn of(
        session: &Session,
        door: &Client,
        (agent, team): (&str, Option<&str>),
        which: Which,
    ) -> Result<Self, ClientError> {
        let (ring, owner) = (session.keyring(), session.owner(door, agent, team));
        let found = match &which {
            Which::Keyed(key) => ring.keyed(&owner, key)?,
            Which::Running(program) => match ring.running(&owner, program)? {
                Found::These(one) => one,
                Found::Several(away) => {
                    let gone = forgotten(session, door, away).await?;
                    ring.forget(&owner, &which, &gone)?;
                    ring.another(&owner, program)?
                }
            },
        };
        let me = match &found.joined {
            Some(me) => me.clone(),
            None => Identity::from(&enter(door, &ring, &owner, &which, &found).await?),
        };
        Ok(Self { ring, owner, which, me })
    }

    /// Returns the agent that a hook of this process has joined as, if one has: that of
    /// the key or of the process. Never joins.
    pub(super) fn of_hook(
        session: &Session,
        hub: &Client,
        (agent, team): (&str, Option<&str>),
        which: Which,
        process: &str,
    ) -> Option<Self> {
        let (ring, owner) = (session.keyring(), session.owner(hub, agent, team));
        let me = ring.joined_by(&owner, &which, process)?.joined?;
        Some(Self { ring, owner, which, me })
    }

    /// Does the same where each conversation of the process has a key. Returns the agent
    /// of the conversation that began last, if that was at `earliest` or later, and its
    /// credentials.
    pub(super) fn of_last_hook(
        session: &Session,
        hub: &Client,
        (agent, team): (&str, Option<&str>),
        (process, earliest): (&str, u64),
    ) -> Option<(Self, Credentials)> {
        let (ring, owner) = (session.keyring(), session.owner(hub, agent, team));
        let found = ring.last_joined_by(&owner, process, earliest)?;
        let (which, me) = (Which::Keyed(found.key.clone()), found.joined.clone()?);
        Some((Self { ring, owner, which, me }, found))
    }

    /// Records that a hook of this process has used the agent, so that its bridge may
    /// find it. An agent without a key has its process recorded already.
    pub(super) fn used_by_hook(&self, process: &str, begins: bool) -> Result<(), ApiError> {
        match &self.which {
            Which::Keyed(_) => {
                self.ring.used(&self.owner, &self.which, &self.me.token, (process, begins))
            }
            Which::Running(_) => Ok(()),
        }
    }

    /// Forgets a token that the hub does not know any more: the next caller joins again.
    pub(super) fn expire(&self) -> Result<(), ApiError> {
        self.ring.expire(&self.owner, &self.which, &self.me.token)
    }
}

/// Joins with a key, for a token of its own.
pub(super) async fn join(
    session: &Session,
    door: &Client,
    (agent, team): (&str, Option<&str>),
    key: String,
) -> Result<Joined, ClientError> {
    let (ring, owner) = (session.keyring(), session.owner(door, agent, team));
    let found = ring.keyed(&owner, &key)?;
    enter(door, &ring, &owner, &Which::Keyed(key), &found).await
}

async fn enter(
    door: &Client,
    ring: &Keyring,
    owner: &Owner,
    which: &Which,
    with: &Credentials,
) -> Result<Joined, ClientError> {
    let request = JoinRequest {
        agent: owner.agent.clone(),
        team: Some(owner.team.clone()),
        key: with.key.clone(),
        secret: Some(with.secret.reveal().to_owned()),
    };
    let joined = door.join(&request).await?;
    ring.joined(owner, which, &with.secret, Identity::from(&joined))?;
    Ok(joined)
}

/// Returns the credentials that the hub has forgotten. Does not send the agents' own
/// tokens, which would be a sign of life.
async fn forgotten(
    session: &Session,
    door: &Client,
    away: Vec<Credentials>,
) -> Result<Vec<Token>, ClientError> {
    let mut gone = Vec::new();
    let Some(operator) = session.operator(door) else { return Ok(gone) };
    for one in away {
        let known = match &one.joined {
            None => false,
            Some(me) => match operator.instance(&me.instance).await {
                Ok(instance) => instance.ended_at.is_none(),
                Err(ClientError::Api(e)) if e.code == ErrorCode::NotFound => false,
                Err(e) => return Err(e),
            },
        };
        if !known {
            gone.push(one.secret);
        }
    }
    Ok(gone)
}
