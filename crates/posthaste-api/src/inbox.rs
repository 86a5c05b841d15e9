//! `GET /v1/inbox`: waiting for mail, and proving that it arrived.

use std::borrow::Cow;

use compact_str::CompactString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::messages::MessageRef;

/// `GET /v1/inbox`; each field is a query parameter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InboxQuery {
    /// Seconds to wait for the first message, 0 to 600; default 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Seconds to go on collecting after the first message arrived; default 0.05, and 2
    /// while work that the caller gave out is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_window: Option<f64>,
    /// `any` (default), `all` or a number of distinct senders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for: Option<String>,
    /// Only from these: instances, names or labels, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The receipt of a former answer: proves that its mail arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// `receipt` (default): prove with the receipt. `auto`: consumed once written, at your own risk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<String>,
    /// Most characters of all bodies together; longer ones are clipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_chars: Option<usize>,
    /// `true` when the reader starts anew: what it held unproven comes again, marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<bool>,
}

/// The answer: what arrived, and what is still missing.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Inbox<'a> {
    pub messages: Vec<Entry<'a>>,
    pub total: usize,
    /// `complete`, `partial`, `empty` or `call_again`.
    pub status: Cow<'a, str>,
    pub waited_s: f64,
    /// Whom the wait was for and who has not sent yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// Reports that a gather waited for and that earlier answers held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub already: Vec<Already>,
    /// How many more wait that did not fit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remaining: usize,
    /// Ids that the hub took as received before without a receipt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<u64>,
    /// Give it back to prove that this answer arrived. Absent when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub receipt: Option<CompactString>,
}

/// One message as its reader gets it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Entry<'a> {
    /// The message's number; the same when it comes again.
    pub id: u64,
    #[schemars(with = "String")]
    pub uid: CompactString,
    pub from: Cow<'a, str>,
    #[schemars(with = "String")]
    pub sender_id: CompactString,
    /// `parent`, `child`, `sibling`, `leader`, `peer`, `human` or `system`.
    pub relation: Cow<'a, str>,
    pub to: Cow<'a, str>,
    pub message: Cow<'a, str>,
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    #[schemars(with = "String")]
    pub thread_id: CompactString,
    #[schemars(with = "String")]
    pub created_at: CompactString,
    /// The door that the message came through: `mcp`, `rest`, `runner`, `dashboard`,
    /// `file`, `cli` or `cao`.
    #[serde(default)]
    pub via: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<u64>,
    /// May have been seen before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redelivered: bool,
    /// A report on work that was reported on before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// The body is clipped: read on at `next_offset`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_chars: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub metadata: Option<Cow<'a, RawValue>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub status: String,
}

/// A report that was handed over before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Already {
    /// The message's number: read it again with `GET /v1/messages/{id}`.
    pub id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// `POST /v1/inbox/ack` and `/v1/inbox/nack`: a receipt or ids, not both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SettleRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<MessageRef>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acked {
    pub acked: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    pub returned: usize,
    /// Refused for the fifth time: dead now, the operator is asked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}
