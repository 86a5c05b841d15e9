//! `POST /v1/messages`, and reading what was sent.

use std::fmt;

use compact_str::CompactString;
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::ApiError;
use crate::error::ErrorCode::{
    Conflict, HopLimit, InvalidAddress, InvalidArgument, KeyReused, MailboxFull, NoRecipient,
    NotFound, RateLimited, RecipientGone,
};
use crate::openapi::{Who, call_table, get, json, of, pieces, post};
pub use crate::wire::{MessageView, SendRequest};

pub(crate) const MESSAGE: &str = "The message: its number (`seq`) or its 16-digit `id`.";

call_table![
    SEND = post(
        "/v1/messages",
        "Send a message",
        Who::Anybody,
        &[
            json(201, "Accepted: it is on disk.", of::<Receipt>),
            json(207, "One answer for each address of a list, in order.", of::<SendMany>),
        ],
    )
    .body(of::<SendRequest>)
    .fails(&[
        NoRecipient,
        NotFound,
        KeyReused,
        RecipientGone,
        InvalidAddress,
        MailboxFull,
        RateLimited,
        HopLimit,
    ]),
    HISTORY = get(
        "/v1/messages",
        "History; never consumes",
        Who::Anybody,
        &[json(200, "Oldest first.", of::<History>)],
    )
    .query(of::<HistoryQuery>)
    .fails(&[NotFound, InvalidAddress]),
    READ = get(
        "/v1/messages/{id}",
        "One message, by number or id",
        Who::Anybody,
        &[json(200, "With where each delivery stands.", of::<MessageView>)],
    )
    .part(MESSAGE)
    .query(of::<ReadQuery>)
    .fails(&[NotFound]),
    CANCEL = post(
        "/v1/messages/{id}/cancel",
        "Take back what nobody has read",
        Who::Anybody,
        &[json(200, "As it is now.", of::<MessageView>)],
    )
    .part(MESSAGE)
    .fails(&[NotFound, Conflict, InvalidArgument]),
    REQUEUE = post(
        "/v1/messages/{id}/requeue",
        "Give the dead another chance",
        Who::Anybody,
        &[json(200, "As it is now.", of::<MessageView>)],
    )
    .part(MESSAGE)
    .fails(&[NotFound, Conflict, InvalidArgument]),
    EXPORT = get(
        "/v1/export",
        "Every message with its deliveries, as lines of JSON",
        Who::Operator,
        &[pieces("Each line has this shape.", "application/x-ndjson", of::<MessageView>)],
    )
    .query(of::<ExportQuery>),
];

/// One address or up to 100 of them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum To {
    One(String),
    Many(Vec<String>),
}

impl<'de> Deserialize<'de> for To {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ToVisitor)
    }
}

struct ToVisitor;

impl<'de> Visitor<'de> for ToVisitor {
    type Value = To;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address or a list of addresses")
    }

    fn visit_str<E>(self, one: &str) -> Result<To, E> {
        Ok(To::One(one.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<To, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(To::Many)
    }
}

/// A message by number (`4711`, `"4711"`) or by id (`"9f86d081884c7d65"`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MessageRef {
    Seq(u64),
    Text(String),
}

/// 201: the message is accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The message's number.
    pub seq: u64,
    /// The message's 16-digit id.
    #[schemars(with = "String")]
    pub id: CompactString,
    /// The thread that it is in.
    #[schemars(with = "String")]
    pub thread_id: CompactString,
    /// The mailboxes that it lies in.
    pub recipients: Vec<Recipient>,
    /// The same idempotency key was accepted before; this is that message.
    pub duplicate: bool,
    /// `false` only under `--ephemeral`.
    pub durable: bool,
    /// Full mailboxes that `@everyone` left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// Who has a key to the mailbox right now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recipient {
    /// The mailbox, like `i.3fa76470` or `n.bob`.
    #[schemars(with = "String")]
    pub mailbox: CompactString,
    /// Instances that are starting or running and may read it.
    pub active: u32,
    /// Of those, how many wait for mail at this moment.
    pub waiting: u32,
}

/// 207: one answer for each address of the list, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendMany {
    /// One for each address, in order.
    pub results: Vec<SendOne>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendOne {
    /// The address, as it was written.
    pub to: String,
    /// The HTTP status that this one alone would have had.
    pub status: u16,
    #[serde(flatten)]
    pub outcome: SendOutcome,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SendOutcome {
    Accepted(Receipt),
    Refused { error: ApiError },
}

/// Which part of a long body an answer holds, in characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The character that this part begins at.
    pub offset: usize,
    /// Characters of the whole body.
    pub total_chars: usize,
    /// Where the next part begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryView {
    /// The mailbox.
    pub mailbox: String,
    /// `queued`, `leased`, `acked` or `dead`.
    pub state: String,
    /// Who holds or settled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What proved it (`receipt`, `reply`, `auto`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// Why it is dead (`recipient_gone`, `expired`, `cancelled`, `refused`, `unreadable`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Dead, and somebody may have read it before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maybe_seen: bool,
    /// May have been handed out before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redelivered: bool,
    /// When it was handed to a reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leased_at: Option<String>,
    /// When it was proved or died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<String>,
}

/// `GET /v1/messages`: filters are joined by AND; newest last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryQuery {
    /// A mailbox key (`i.a3f7b2c1`, `n.mason`, `human`, …) or an instance id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<String>,
    /// Only of this thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Everything addressed to this team, for its leaders and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// The sender: an instance, a name, an address, or `human`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Only with this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Only of this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `queued`, `leased`, `acked` or `dead`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Unix milliseconds; strictly after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// 1 to 200, default 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_n: Option<u32>,
    /// From a former answer: the page before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// A message's number: the page begins after it and goes forward. Not together
    /// with `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Oldest first.
    pub messages: Vec<MessageView>,
    /// Give it back as `cursor` for what came before; absent at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// When `after` was given: give it back so for what came later; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// `GET /v1/export`: one [`MessageView`] per line, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExportQuery {
    /// Only messages above this number: an export that broke off goes on here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// `GET /v1/messages/{id or seq}`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReadQuery {
    /// Begin the body at this character.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// At most this many characters of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_chars: Option<usize>,
}
