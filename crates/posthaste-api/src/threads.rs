//! `GET /v1/threads/{thread_id}/messages`: a conversation, and a mark on what was
//! unread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::messages::MessageView;
use crate::openapi::{Who, call_table, get, json, of};

call_table![
    READ_THREAD = get(
        "/v1/threads/{id}/messages",
        "Read a conversation, and mark it as read on request",
        Who::Anybody,
        &[json(200, "Oldest first.", of::<ThreadMessages>)],
    )
    .part("The thread: `t-` and 8 hex digits.")
    .query(of::<ThreadQuery>),
];

/// Filters are joined by AND.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ThreadQuery {
    /// Only what is addressed to the caller and not read yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_only: Option<bool>,
    /// 1 to 200 of the newest, default 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_n: Option<u32>,
    /// Unix milliseconds; strictly after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// What is shown and addressed to the caller counts as read, at its own risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark_as_read: Option<bool>,
}

/// Oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadMessages {
    /// The thread.
    pub thread_id: String,
    /// Oldest first.
    pub messages: Vec<ThreadMessage>,
    /// What this call did.
    pub summary: ThreadSummary,
    /// There may be more before these: `GET /v1/messages?thread_id=…&cursor=…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadMessage {
    #[serde(flatten)]
    pub view: MessageView,
    /// When the caller read it; for mail of others, when its last recipient did.
    /// What this call marked is read. Null if it is unread.
    #[schemars(extend("x-nullable" = true))]
    pub read_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadSummary {
    /// Messages in this answer.
    pub total_fetched: usize,
    /// Messages that this call marked as read.
    pub marked_as_read: usize,
}
