//! `GET /v1/inbox`: waiting for mail, and proving that it arrived.

use std::borrow::Cow;

use compact_str::CompactString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{LeaseLost, NotFound};
use crate::messages::MessageRef;
use crate::openapi::{Who, call_table, get, json, of, post};
pub use crate::wire::Entry;

call_table![
    RECEIVE = get(
        "/v1/inbox",
        "Wait for mail; leases it until its receipt comes back",
        Who::Anybody,
        &[json(200, "What arrived, and what is still missing.", of::<Inbox<'static>>)],
    )
    .query(of::<InboxQuery>),
    ACK = post(
        "/v1/inbox/ack",
        "Prove that mail arrived",
        Who::Anybody,
        &[json(200, "Settled.", of::<Acked>)],
    )
    .body(of::<SettleRequest>)
    .fails(&[NotFound, LeaseLost]),
    NACK = post(
        "/v1/inbox/nack",
        "Refuse mail: it comes again, and dies the fifth time",
        Who::Anybody,
        &[json(200, "Returned.", of::<Returned>)],
    )
    .body(of::<SettleRequest>)
    .fails(&[NotFound, LeaseLost]),
];

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
    /// Only with this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Only of this thread.
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
    /// `true` for a reader that was restarted: the hub delivers again, marked `redelivered`,
    /// what it was handed before and did not prove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<bool>,
}

/// The answer: what arrived, and what is still missing.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Inbox<'a> {
    /// The mail, urgent first, else in order.
    pub messages: Vec<Entry<'a>>,
    /// How many messages there are in this answer.
    pub total: usize,
    /// `complete`; `partial` (somebody who was waited for has not sent, or more mail waits
    /// than is here); `empty` (time was up); over MCP also `call_again` (the client would not
    /// wait longer).
    pub status: Cow<'a, str>,
    /// How long the call waited.
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
    /// Numbers of messages that the hub took as received before without a receipt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<u64>,
    /// Give it back to prove that this answer arrived. Absent when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub receipt: Option<CompactString>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// The instance that has not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The label of its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its status, like `running`.
    pub status: String,
}

/// A report that was handed over before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Already {
    /// The report's number: read it again with `GET /v1/messages/{id}`.
    #[serde(default)]
    pub seq: u64,
    /// The same number, under its older name.
    pub id: u64,
    /// The label of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// `POST /v1/inbox/ack` and `/v1/inbox/nack`: a receipt or ids, not both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SettleRequest {
    /// The receipt of an answer: everything in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Messages by number or id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<MessageRef>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acked {
    /// How many deliveries are settled by this call.
    pub acked: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// How many deliveries went back to their queue.
    pub returned: usize,
    /// Refused for the fifth time: dead now, the operator is asked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}
