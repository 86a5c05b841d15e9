//! Who is here: `/v1/instances` and `/v1/join`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /v1/instances` (operator)
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateInstance {
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The instance that this one works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// `external` (default) or `mechanical`: never gets `@anyone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// `POST /v1/join` (join token): the same instance for the same key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// What stays the same when the same conversation comes back.
    pub key: String,
}

/// 201: the instance and its token. The token is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    pub instance: String,
    pub address: String,
    pub team: String,
    pub thread_id: String,
    pub token: String,
    /// The key was known: this instance was here before.
    #[serde(default)]
    pub resumed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceView {
    pub instance: String,
    pub address: String,
    pub agent: String,
    pub team: String,
    pub kind: String,
    /// `starting`, `running`, `finished`, `failed`, `stopped` or `lost`.
    pub status: String,
    /// `waiting_inbox`, `waiting_user` or `unknown`.
    pub activity: String,
    /// The key that it joined with: its conversation. Only the operator is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub thread_id: String,
    /// Mail in its own mailbox that nobody proved yet.
    pub unread: usize,
    pub created_at: String,
    pub last_seen: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}

/// `GET /v1/instances`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InstancesQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// A status, or `active` (starting, running, lost), or `all`; default `active`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// 1 to 1000, default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Instances {
    pub instances: Vec<InstanceView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
