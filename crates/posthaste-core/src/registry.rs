//! Profiles, instances and teams, and the states of instances.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::address::{Address, InstanceId, Mailbox, Name};
use crate::messaging::message::{Principal, Sender, SenderKind, ThreadId};
use crate::profiles::Template;
use crate::time::Timestamp;

/// SHA-256 of a token. The token itself is kept nowhere.
pub type TokenHash = [u8; 32];

/// The kind of an agent, as far as mail is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentKind {
    /// An agent that comes by itself and reads its mail.
    #[default]
    External,
    /// A machine of fixed habits: reachable by name, never given `@anyone`.
    Mechanical,
}

impl AgentKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::Mechanical => "mechanical",
        }
    }
}

impl FromStr for AgentKind {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        match text {
            "external" => Ok(Self::External),
            "mechanical" => Ok(Self::Mechanical),
            _ => Err(RegistryError::Invalid {
                field: "kind",
                why: "it is `external` or `mechanical`".into(),
            }),
        }
    }
}

/// The maker of an instance. A leader that is named by its name must be the operator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The operator made it: `POST /v1/instances`, or work that the operator gave out.
    Operator,
    /// The agent came by itself, with the join token.
    Join,
    /// Another agent gave out work, and the hub made a worker for it.
    Assigned,
}

impl Origin {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Operator, "operator"), (Self::Join, "join"), (Self::Assigned, "assigned")];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(origin, _)| *origin == self).map_or("", |(_, word)| word)
    }

    /// Parses an origin as a store keeps it.
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(origin, _)| *origin)
    }
}

/// ```text
/// starting ──▶ running ──▶ finished | failed | stopped
///                 ▲ ▼
///                lost      (no sign of life; any sign brings it back)
/// ```
///
/// A listing shows `away` in place of `running` while the instance has no connection.
/// `away` is never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Starting,
    Running,
    Away,
    Lost,
    Finished,
    Failed,
    Stopped,
}

impl Status {
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Starting, "starting"),
        (Self::Running, "running"),
        (Self::Away, "away"),
        (Self::Lost, "lost"),
        (Self::Finished, "finished"),
        (Self::Failed, "failed"),
        (Self::Stopped, "stopped"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(s, _)| *s == self).map_or("", |(_, word)| word)
    }

    /// Returns whether the instance has ended for good: its address takes no more mail.
    pub fn has_ended(self) -> bool {
        match self {
            Self::Starting | Self::Running | Self::Away | Self::Lost => false,
            Self::Finished | Self::Failed | Self::Stopped => true,
        }
    }

    /// Returns whether the instance is alive: counted by receipts and by `@everyone`.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

impl FromStr for Status {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        Self::ALL.iter().find(|(_, word)| *word == text).map(|(s, _)| *s).ok_or_else(|| {
            RegistryError::Invalid {
                field: "status",
                why: "it is starting, running, away, lost, finished, failed or stopped".into(),
            }
        })
    }
}

/// One running or connected agent.
#[derive(Debug, Clone)]
pub struct Instance {
    pub id: InstanceId,
    pub agent: Name,
    pub team: Name,
    pub kind: AgentKind,
    pub origin: Origin,
    pub label: Option<String>,
    pub parent: Option<InstanceId>,
    pub thread: ThreadId,
    /// The key that it joined with.
    pub key: Option<String>,
    /// The hash of the secret that belongs to the key. An instance that joined before
    /// keys had secrets has a key and none.
    pub secret: Option<TokenHash>,
    pub status: Status,
    pub created_at: Timestamp,
    pub last_seen: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// The work of an instance that the hub started; `None` for an external one.
    pub work: Option<Arc<Work>>,
    /// `agent.instance@team`, made once.
    pub address: Arc<str>,
    /// The mailboxes that it has keys to, its own first; made once.
    pub keys: Arc<[Mailbox]>,
}

impl Instance {
    pub fn sender(&self) -> Sender {
        Sender {
            address: Arc::clone(&self.address),
            instance: Some(self.id),
            kind: SenderKind::Agent,
        }
    }

    /// Returns whether `other` is the same instance, or its parent, child or sibling.
    pub fn is_kin_of(&self, other: &Self) -> bool {
        self.id == other.id
            || other.parent == Some(self.id)
            || self.parent == Some(other.id)
            || self.parent.is_some() && self.parent == other.parent
    }

    /// Returns the mailboxes that an instance of this name, team and kind may read.
    pub fn keys(id: InstanceId, agent: &Name, team: &Name, kind: AgentKind) -> Arc<[Mailbox]> {
        let mut keys = vec![
            Mailbox::Instance(id),
            Mailbox::Name(agent.clone()),
            Mailbox::NameIn(agent.clone(), team.clone()),
        ];
        if kind != AgentKind::Mechanical {
            keys.push(Mailbox::Anyone);
            keys.push(Mailbox::AnyoneIn(team.clone()));
        }
        keys.into()
    }
}

/// The start of an agent by the hub, and its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Its directory: as it was asked for, and as it is once the worker runs.
    pub directory: Option<String>,
    /// Set if it has, or gets, a git worktree of its own.
    pub worktree: bool,
    /// The branch of that worktree.
    pub branch: Option<String>,
    /// Maximum time that it may run, as its assignment or its profile says.
    pub timeout: Option<Duration>,
    pub started_at: Option<Timestamp>,
    pub exit_code: Option<i32>,
    /// The reason of its end, in a few words.
    pub why: Option<String>,
    /// The terms of a door that sets more than a task.
    pub terms: Option<Terms>,
}

impl Work {
    /// Returns the record of the door that made the worker.
    pub fn record(&self) -> Option<&str> {
        self.terms.as_ref()?.record.as_deref()
    }
}

/// Settings of one worker, in place of those of its profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// In place of the profile's driver. Such a worker needs no profile.
    pub driver: Option<String>,
    /// In place of the profile's `config`: a JSON object, as text.
    pub config: Option<String>,
    /// In place of both lists of tools of the profile; `*` is no list.
    pub allowed_tools: Option<Vec<String>>,
    /// The record of the door that made the worker, in that door's own form; the core
    /// does not read it. A worker with a record may start without a task and may stay
    /// idle: the users of that door end it.
    pub record: Option<String>,
}

impl Terms {
    /// Puts the terms in place of what the profile says.
    pub fn apply(&self, template: &mut Template) {
        if let Some(driver) = &self.driver {
            template.driver = Some(driver.clone());
        }
        if let Some(config) = &self.config {
            template.config.clone_from(config);
        }
        if let Some(tools) = &self.allowed_tools {
            let every = tools.iter().any(|tool| tool == "*");
            template.tools = None;
            template.allowed_tools = Some(tools.clone()).filter(|_| !every);
        }
    }
}

/// An instance with the counts of its mail, for callers.
#[derive(Debug, Clone)]
pub struct InstanceView {
    /// The instance with the shown status: `away` in place of `running`.
    pub instance: Instance,
    /// Number of unacked deliveries that only this instance could take, or that it holds.
    pub unread: usize,
    /// Number of queued one-of deliveries that other instances could take as well.
    pub unread_shared: usize,
    /// Time of its last call; an open connection is none.
    pub called_at: Timestamp,
}

/// A request for a new instance, by the operator or by an agent that joins.
#[derive(Debug, Clone)]
pub struct NewInstance {
    pub agent: Name,
    pub team: Option<Name>,
    pub label: Option<String>,
    pub parent: Option<InstanceId>,
    pub kind: Option<AgentKind>,
    /// The same key and secret return the same instance again.
    pub key: Option<JoinKey>,
    pub origin: Origin,
    /// The hash of its token; with a key, the seed of its token ([`joined_token`]).
    pub token: TokenHash,
}

/// Makes the token of an instance that joined with a key. The token is made from the
/// joiner's seed and from the instance, so every join returns the same one, and a later
/// instance with that key gets another.
pub fn joined_token(seed: &TokenHash, of: InstanceId) -> String {
    let mut hash = Sha256::new();
    hash.update("posthaste: the token of a joined agent");
    hash.update(seed);
    hash.update(of.0.to_be_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hash of [`joined_token`], which is all that the hub keeps of it.
pub fn joined_hash(seed: &TokenHash, of: InstanceId) -> TokenHash {
    Sha256::digest(joined_token(seed, of)).into()
}

/// The key of an agent that wants to be found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinKey {
    /// Names the conversation. Others may guess it.
    pub key: String,
    /// The hash of the secret that only its owner knows.
    pub secret: TokenHash,
}

/// The result of a create or a join.
#[derive(Debug, Clone)]
pub struct Joined {
    pub instance: Instance,
    /// Set if the instance was here before.
    pub resumed: bool,
    /// Set if the secret of this join became the secret of the instance.
    pub secret_kept: bool,
}

/// An address scope with leaders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    pub name: Name,
    pub leaders: Vec<Leader>,
}

/// A leader of a team: one instance, or every instance of a name, also a future one, that
/// the operator made in that team. Every agent may join under any name, so a name alone
/// would make any agent a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    Name(Name),
    Instance(InstanceId),
}

impl FromStr for Leader {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        match text.parse::<Address>() {
            Ok(Address::Named { name, team: None }) => Ok(Self::Name(name)),
            Ok(Address::Exact { instance, team: None, .. }) => Ok(Self::Instance(instance)),
            _ => Err(RegistryError::Invalid {
                field: "leaders",
                why: format!("`{text}` is neither an agent's name nor an instance"),
            }),
        }
    }
}

impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Instance(id) => id.fmt(f),
        }
    }
}

impl Team {
    pub fn is_led_by(&self, instance: &Instance) -> bool {
        self.leaders.iter().any(|leader| match leader {
            Leader::Name(name) => {
                *name == instance.agent
                    && self.name == instance.team
                    && instance.origin == Origin::Operator
            }
            Leader::Instance(id) => *id == instance.id,
        })
    }
}

/// The relation of a message's sender to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    Parent,
    Child,
    Sibling,
    Leader,
    Peer,
    Human,
    System,
}

impl Relation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Child => "child",
            Self::Sibling => "sibling",
            Self::Leader => "leader",
            Self::Peer => "peer",
            Self::Human => "human",
            Self::System => "system",
        }
    }
}

/// The instances that a listing shows.
#[derive(Debug, Clone, Default)]
pub struct InstanceFilter {
    pub agent: Option<Name>,
    pub team: Option<Name>,
    pub statuses: Vec<Status>,
    pub parent: Option<InstanceId>,
    /// The session whose tree they are in.
    pub session: Option<Principal>,
    pub limit: usize,
    /// The last id of the page before.
    pub after: Option<InstanceId>,
}

/// Returns the names nearest to an unknown one, best first.
pub fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> =
        known.filter_map(|name| Some((likeness(wanted, name)?, name))).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

/// Returns the likeness of two words, if a slip of the hand could make one from the
/// other. Damerau-Levenshtein counts slips, swapped letters too; Jaro-Winkler likes
/// common beginnings, and is lenient with words that have little in common.
fn likeness(a: &str, b: &str) -> Option<f64> {
    let (slips, begins) =
        (strsim::normalized_damerau_levenshtein(a, b), strsim::jaro_winkler(a, b));
    (slips >= 0.6 || begins >= 0.85).then_some(slips.max(begins))
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    #[error("{field}: {why}")]
    Invalid { field: &'static str, why: String },
    #[error("no such {what}: {name}")]
    NotFound { what: &'static str, name: String, nearest: Vec<String> },
    #[error("{0} has already ended")]
    Ended(String),
    #[error("another agent called {0} is here with this key, and its secret is a different one")]
    Taken(String),
    #[error("there is already a profile called {0}")]
    Exists(String),
    #[error("{name} has changed: it is at version {current} now")]
    Stale { name: String, current: u64 },
    #[error("{name} stands in a file: {file}")]
    InFile { name: String, file: String },
    #[error("{name} is in use: {active} of its instances have not ended")]
    InUse { name: String, active: usize },
    #[error("the hub cannot write just now: {0}")]
    Unavailable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_best_first() {
        let known = ["mason", "maison", "builder", "madison"];
        assert_eq!(nearest("masonn", known.into_iter())[0], "mason");
        assert_eq!(nearest("bbo", ["bob"].into_iter()), ["bob"]);
        for far in ["zzz", "build", "is", "carl"] {
            assert!(nearest(far, ["weird", "bob", "claude"].into_iter()).is_empty(), "{far}");
        }
    }
}
