//! The fields of a message on the wire, all in this file: what a sender gives, what history
//! shows, and what a reader gets.
//!
//! `CONTRIBUTING.md`, "A field more", says which lines a new field needs.

use std::borrow::Cow;
use std::time::Duration;

use compact_str::{CompactString, ToCompactString};
use posthaste_core::messaging::message::{Details, DraftError, Priority, ThreadChoice};
use posthaste_core::messaging::receive;
use posthaste_core::ports::{DeliveryRecord, Record, RecordState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::ApiError;
use crate::messages::{DeliveryView, MessageRef, Part, To};
use crate::taken::taken;

/// `POST /v1/messages`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// Whom to write to: one address, or a list of up to 100 (`limits.recipients`).
    pub to: To,
    /// The text.
    pub message: String,
    /// `normal` (default) or `urgent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// `text` (default), `result`, `question`, `answer`, … or any slug.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A short word that the reader and the history show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The thread to write into: one's own (the default), a relative's or the recipient's. A
    /// name in `to` then means the agent of that name whose thread it is, or who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The number or the 16-digit id of the message that this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<MessageRef>,
    /// Anything for programs, up to 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// Dies unread after this many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
    /// The same key to the same address is the same message, for 24 hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

impl SendRequest {
    pub fn new(to: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            to: To::One(to.into()),
            message: message.into(),
            priority: None,
            kind: None,
            label: None,
            thread_id: None,
            in_reply_to: None,
            metadata: None,
            ttl_s: None,
            idempotency_key: None,
        }
    }
    /// Takes what the sender says of the message, beside its recipients and its text. The
    /// message that it answers is for the hub to look up.
    pub fn take_details(&mut self) -> Result<Details, ApiError> {
        // As text it takes little, and it is not read again.
        let metadata = self.metadata.take().map(|map| serde_json::to_string(&map)).transpose();
        let metadata = metadata
            .map_err(|error| DraftError::Invalid { field: "metadata", why: error.to_string() })?;
        let thread = self.thread_id.as_deref().map(str::parse).transpose()?;
        Ok(Details {
            priority: self.priority.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
            kind: self.kind.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
            label: self.label.take(),
            thread: ThreadChoice { named: thread, replied_to: None },
            metadata,
            ttl: self.ttl_s.map(Duration::from_secs),
            idempotency_key: self.idempotency_key.take(),
            ..Details::default()
        })
    }
}

taken! {
    /// A message as history shows it: everything, and where each delivery stands.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct MessageView from (record: Record, m = &record.message) {
        /// The message's number.
        seq: u64 = m.seq.0,
        /// The message's 16-digit id.
        id: String = m.id.to_string(),
        /// The thread that it is in.
        thread_id: String = m.thread.to_string(),
        /// The sender's address; `sender_id` is the instance, or `human`, or `system`.
        from: String = m.from.address.to_string(),
        /// The instance that wrote it, or `human`, or `system`.
        sender_id: String = m.from.id(),
        /// The address, as it was written.
        to: String = m.to.clone(),
        /// `text`, `result`, `question`, `answer`, … or any slug.
        kind as "type": String = m.kind.as_str().to_owned(),
        /// `normal` or `urgent`.
        priority: String = m.priority.as_str().to_owned(),
        /// The text.
        message: String = m.body.as_str().to_owned(),
        /// The sender's label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String> = m.label.clone(),
        /// The number of the message that it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_reply_to: Option<u64> = m.in_reply_to.map(|seq| seq.0),
        /// What the sender added for programs; empty if nothing.
        #[serde(default)]
        metadata: serde_json::Map<String, serde_json::Value> = m
            .metadata
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default(),
        /// When it was accepted.
        created_at: String = m.created_at.to_string(),
        /// When it dies unread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<String> = m.expires_at.map(|at| at.to_string()),
        /// The door that it came through: `mcp`, `rest`, `runner`, `dashboard`, `file`, `cli` or
        /// `cao`; `hub` if the hub itself made it.
        via: String = m.via.as_str().to_owned(),
        /// A report on work that was reported on before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        late: bool = m.late,
        /// True once every delivery is proved.
        read: bool = is_read(&record.deliveries),
        /// One for each mailbox that it lies in.
        deliveries: Vec<DeliveryView> = record.deliveries.iter().map(DeliveryView::from).collect(),
        /// Set when `message` is only a part of the body.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Part> = None,
    }
}

fn is_read(deliveries: &[DeliveryRecord]) -> bool {
    let acked = |d: &DeliveryRecord| matches!(d.state, RecordState::Acked(_));
    !deliveries.is_empty() && deliveries.iter().all(acked)
}

taken! {
    written
    /// One message as its reader gets it.
    #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
    pub struct Entry<'a> from (entry: &'a receive::Entry, m = &entry.leased.message) {
        /// The message's number; the same when it comes again.
        #[serde(default)]
        seq: u64 = m.seq.0,
        /// The same number, under its older name.
        id: u64 = m.seq.0,
        /// The message's 16-digit id.
        #[schemars(with = "String")]
        uid: CompactString = m.id.text(),
        /// The sender's address.
        from: Cow<'a, str> = Cow::Borrowed(&m.from.address),
        /// The instance that wrote it, or `human`, or `system`.
        #[schemars(with = "String")]
        sender_id: CompactString = match m.from.instance {
            Some(id) => id.text(),
            None => m.from.id().into(),
        },
        /// `parent`, `child`, `sibling`, `leader`, `peer`, `human` or `system`.
        relation: Cow<'a, str> = Cow::Borrowed(entry.leased.relation.as_str()),
        /// The address, as it was written.
        to: Cow<'a, str> = Cow::Borrowed(&m.to),
        /// The text.
        message: Cow<'a, str> = Cow::Borrowed(entry.text()),
        /// `text`, `result`, `question`, `answer`, … or any slug.
        kind as "type": Cow<'a, str> = Cow::Borrowed(m.kind.as_str()),
        /// The sender marked it as urgent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        urgent: bool = m.priority == Priority::Urgent,
        /// The thread that it is in.
        #[schemars(with = "String")]
        thread_id: CompactString = m.thread.text(),
        /// When it was accepted.
        #[schemars(with = "String")]
        created_at: CompactString = m.created_at.to_compact_string(),
        /// The door that the message came through: `mcp`, `rest`, `runner`, `dashboard`,
        /// `file`, `cli` or `cao`; `hub` if the hub itself made it.
        #[serde(default)]
        via: Cow<'a, str> = Cow::Borrowed(m.via.as_str()),
        /// The sender's label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<Cow<'a, str>> = m.label.as_deref().map(Cow::Borrowed),
        /// The number of the message that it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_reply_to: Option<u64> = m.in_reply_to.map(|seq| seq.0),
        /// May have been seen before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redelivered: bool = entry.leased.redelivered,
        /// A report on work that was reported on before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        late: bool = m.late,
        /// The body is clipped: read on at `next_offset`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        truncated: bool = entry.clip.is_some(),
        /// Characters of the whole body, if it is clipped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total_chars: Option<usize> = entry.clip.map(|clip| clip.total_chars),
        /// Where the rest begins, if it is clipped: `GET /v1/messages/{id}?offset=…`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_offset: Option<usize> = entry.clip.map(|clip| clip.chars),
        /// What the sender added for programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
        metadata: Option<Cow<'a, RawValue>> =
            m.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok()),
    }
}
