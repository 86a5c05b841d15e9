//! `GET /v1/messages/{id or seq}/trail`: what happened to a message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{InvalidArgument, NotFound};
use crate::messages::MESSAGE;
use crate::openapi::{Who, call_table, get, json, of};

call_table![
    TRAIL = get(
        "/v1/messages/{id}/trail",
        "What happened to a message, and why",
        Who::Anybody,
        &[json(200, "In order of time, with a verdict.", of::<TrailView>)],
    )
    .part(MESSAGE)
    .fails(&[NotFound, InvalidArgument]),
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrailView {
    /// The message's number.
    pub seq: u64,
    /// The message's 16-digit id.
    pub id: String,
    /// One line: what became of it, and why it was not answered.
    pub verdict: String,
    /// Oldest first.
    pub steps: Vec<StepView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    /// Absent when nobody kept the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// `accepted`, `queued`, `leased`, `returned`, `refused`, `requeued`, `acked`,
    /// `unreadable`, `dead`, `answered`, or `stopped`: an answer that the hop limit refused.
    pub event: String,
    /// The mailbox that it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<String>,
    /// Whose doing it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The door, the proof, or the reason of death.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// The number of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// The step as a sentence.
    pub text: String,
}
