//! The inbox of a terminal.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TERMINAL;
use crate::error::ErrorCode::{MailboxFull, NoRecipient, NotFound, RateLimited, RecipientGone};
use crate::openapi::{Who, call_table, get, json, of, post};

call_table![
    POST = post(
        "/terminals/{id}/inbox/messages",
        "Write to a terminal; the words stand in the query or in the body",
        Who::Neighbour,
        &[json(200, "Accepted: it is on disk.", of::<CaoPosted>)],
    )
    .part(TERMINAL)
    .query(of::<CaoPost>)
    .optional_body(of::<CaoPost>)
    .fails(&[NoRecipient, NotFound, RecipientGone, MailboxFull, RateLimited]),
    LIST = get(
        "/terminals/{id}/inbox/messages",
        "What a terminal was sent; never consumes",
        Who::Neighbour,
        &[json(200, "The newest, oldest first.", of::<Vec<CaoMessage>>)],
    )
    .part(TERMINAL)
    .query(of::<CaoList>)
    .fails(&[NotFound]),
    WAIT = get(
        "/terminals/{id}/inbox/messages/wait",
        "Wait for mail of a terminal; it counts as read once the answer is written",
        Who::Neighbour,
        &[json(200, "What arrived; an empty list when the time is over.", of::<Vec<CaoReceived>>)],
    )
    .part(TERMINAL)
    .query(of::<CaoWait>)
    .fails(&[NotFound]),
];

/// `POST /terminals/{id}/inbox/messages`: both words are needed, in the query or in the
/// body; the query counts first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaoPost {
    /// The terminal that writes: the one that the token belongs to, or any for the
    /// operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<String>,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// 200: the message is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoPosted {
    /// Always `true`.
    pub success: bool,
    /// The message's number, which other calls name `seq`.
    pub message_id: u64,
    /// The terminal that wrote.
    pub sender_id: String,
    /// The terminal that it is for.
    pub receiver_id: String,
    /// When it was accepted; null if it is kept no more.
    #[schemars(extend("x-nullable" = true))]
    pub created_at: Option<String>,
}

/// `GET /terminals/{id}/inbox/messages`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaoList {
    /// 1 to 100, default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// `pending`, `delivered`, `consumed` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// A message of a terminal, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoMessage {
    /// The message's number, which other calls name `seq`.
    pub id: u64,
    /// The instance that wrote, or `human`, or `system`.
    pub sender_id: String,
    /// The terminal.
    pub receiver_id: String,
    /// The text.
    pub message: String,
    /// `pending` (queued), `delivered` (leased), `consumed` (acked) or `failed` (dead).
    pub status: String,
    /// When it was accepted.
    pub created_at: String,
    /// The door that the message came through.
    pub via: String,
}

/// `GET /terminals/{id}/inbox/messages/wait`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaoWait {
    /// Whole seconds to wait for the first message, up to `limits.wait`; default 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
    /// Seconds to go on collecting after the first message arrived; default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_window: Option<f64>,
}

/// A message that a terminal received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoReceived<'a> {
    /// The message's number, which other calls name `seq`.
    pub id: u64,
    /// The instance that wrote, or `human`, or `system`.
    pub sender_id: Cow<'a, str>,
    /// The text.
    pub message: Cow<'a, str>,
    /// When it was accepted.
    pub created_at: Cow<'a, str>,
    /// The door that the message came through.
    pub via: Cow<'a, str>,
}
