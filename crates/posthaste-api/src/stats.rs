//! `/v1/stats/…`: counts. The operator sees all, an agent its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `GET /v1/stats/mailboxes` is a list of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MailboxStats {
    /// The instance, or the key of a mailbox that is nobody's own.
    pub agent_id: String,
    /// Messages that are kept, read ones too.
    pub total: u64,
    pub unread: u64,
    /// Whole seconds; 0 when nothing is unread.
    pub oldest_unread_age_sec: u64,
    pub mailbox: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// The only instance that could take what waits in the mailbox of a name or of
    /// anyone: it counts that mail as its own unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<String>,
}

/// `GET /v1/stats/agents`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentsStats {
    /// The counts begin here: older messages are pruned. Absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    pub agents: Vec<AgentStats>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStats {
    pub agent_id: String,
    pub address: String,
    pub team: String,
    pub status: String,
    pub sent: u64,
    /// In its own mailbox.
    pub received: u64,
    pub unread: u64,
    /// Calls that wait for mail at this moment.
    pub waiting: u32,
    pub last_seen: String,
}

/// `GET /v1/stats/teams`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamsStats {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    pub teams: Vec<TeamStats>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamStats {
    pub team: String,
    /// Instances that are starting or running.
    pub active: u64,
    pub sent: u64,
    /// In the mailboxes of the team and of its instances.
    pub received: u64,
    pub unread: u64,
    pub waiting: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
}

/// `GET /v1/stats/stuck` is a list of these, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stuck {
    /// `unread`, `no_taker` or `held`.
    pub kind: String,
    pub mailbox: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    pub count: u64,
    /// The oldest of them; `posthaste trail` tells its story.
    pub seq: u64,
    pub age_sec: u64,
    /// Why it does not move.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}
