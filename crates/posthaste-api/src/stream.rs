//! `GET /v1/instances/{id}/stream`: what a worker does, live.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{InvalidAddress, NotFound, RateLimited};
use crate::instances::INSTANCE;
use crate::openapi::{Who, call_table, get, of, pieces};

const STREAM: &str = "Entries as server-sent events, oldest first: `id:` is the entry's `no` and \
    `event:` its kind. After `end`, whose `id:` is the last `no`, nothing follows; `alive` says every 15 seconds that the hub is \
    there; `gap` says that older entries are kept no more.";

call_table![
    STREAMED = get(
        "/v1/instances/{id}/stream",
        "What a worker does, live: its transcript, its screen, its output; for those above it and \
         the operator",
        Who::Anybody,
        &[pieces(STREAM, "text/event-stream", of::<StreamEntry>)],
    )
    .part(INSTANCE)
    .query(of::<StreamQuery>)
    .fails(&[NotFound, InvalidAddress, RateLimited]),
];

/// Sent when the worker has ended and everything was sent.
pub const END: &str = "end";
/// Sent in place of entries that are kept no more.
pub const GAP: &str = "gap";

/// `GET /v1/instances/{id}/stream`; each field is a query parameter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StreamQuery {
    /// Begin after this `no`; `Last-Event-ID` beats it. Default 0: with the oldest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Begin with the last so many entries, if that is later. Of a worker without a
    /// conversation everything comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<u64>,
    /// `false`: end when everything that is there was sent. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

/// One entry of what a worker does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamEntry {
    /// The entry's number; of a worker without a conversation, the offset of the output
    /// after this piece.
    pub no: u64,
    /// When it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// `prompt`, `text`, `thought`, `tool`, `permission`, `answer`, `screen`, `unknown` or
    /// `note`; `output` for a piece of the output of a worker without a conversation.
    pub kind: String,
    /// What was said, asked or done.
    pub text: String,
    /// The tool's name, or the subject of a permission request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program's own id of the tool's call or of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Of a tool's call: `began`, `done` or `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}
