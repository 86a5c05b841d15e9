//! `/v1/stats/…`: counts. The operator sees all, an agent its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::openapi::{Who, call_table, get, json, of};

call_table![
    MAILBOXES = get(
        "/v1/stats/mailboxes",
        "What lies in the mailboxes",
        Who::Anybody,
        &[json(200, "One entry for each mailbox.", of::<Vec<MailboxStats>>)],
    ),
    AGENTS = get(
        "/v1/stats/agents",
        "Figures by agent",
        Who::Anybody,
        &[json(200, "One entry for each agent.", of::<AgentsStats>)],
    ),
    TEAMS = get(
        "/v1/stats/teams",
        "Figures by team",
        Who::Anybody,
        &[json(200, "One entry for each team.", of::<TeamsStats>)],
    ),
    STUCK = get(
        "/v1/stats/stuck",
        "Mail that does not move, why, and what to do",
        Who::Anybody,
        &[json(200, "Oldest first.", of::<Vec<Stuck>>)],
    ),
];

/// `GET /v1/stats/mailboxes` is a list of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MailboxStats {
    /// The instance, or the key of a mailbox that is nobody's own.
    pub agent_id: String,
    /// Messages that are kept, read ones too.
    pub total: u64,
    /// Messages that nobody has proved yet.
    pub unread: u64,
    /// Whole seconds; 0 when nothing is unread.
    pub oldest_unread_age_sec: u64,
    /// The mailbox.
    pub mailbox: String,
    /// The team that it belongs to, if any.
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
    /// One for each instance.
    pub agents: Vec<AgentStats>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStats {
    /// The instance.
    pub agent_id: String,
    /// Its address.
    pub address: String,
    /// Its team.
    pub team: String,
    /// Its status, as `GET /v1/instances` tells it.
    pub status: String,
    /// Messages that it sent.
    pub sent: u64,
    /// In its own mailbox.
    pub received: u64,
    /// Unproved mail that only this instance could take.
    pub unread: u64,
    /// Calls that wait for mail at this moment.
    pub waiting: u32,
    /// Its last sign of life.
    pub last_seen: String,
}

/// `GET /v1/stats/teams`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamsStats {
    /// The counts begin here: older messages are pruned. Absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// One for each team.
    pub teams: Vec<TeamStats>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamStats {
    /// The team's name.
    pub team: String,
    /// Instances that are starting or running.
    pub active: u64,
    /// Messages that its instances sent; those who have ended are not counted.
    pub sent: u64,
    /// In the mailboxes of the team and of its instances.
    pub received: u64,
    /// Of those, how many nobody has proved yet.
    pub unread: u64,
    /// Calls of its instances that wait for mail at this moment.
    pub waiting: u32,
    /// The last sign of life of any of its instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
}

/// `GET /v1/stats/stuck` is a list of these, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stuck {
    /// `unread`, `no_taker` or `held`.
    pub kind: String,
    /// The mailbox.
    pub mailbox: String,
    /// The team that it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// How many messages do not move.
    pub count: u64,
    /// The oldest of them; `posthaste trail` tells its story.
    pub seq: u64,
    /// Whole seconds since the oldest was accepted.
    pub age_sec: u64,
    /// Why it does not move.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}
