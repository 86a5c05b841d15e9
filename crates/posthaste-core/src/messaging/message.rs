//! Three stages of a message, three types: [`Draft`], [`Message`], and the receipt that
//! tells the sender about its recipients.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use super::body::Body;
pub use super::draft::{Details, Draft, DraftError, RepliedTo, ThreadChoice};
pub use super::identifiers::{MessageId, MessageRef, Seq, ThreadId};
use crate::address::{InstanceId, Mailbox};
use crate::stored::{Cells, Misread, Row, Stored, Value, Values, stored};
use crate::time::Timestamp;

/// Who acts: an instance by its token, or the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Principal {
    Operator,
    Instance(InstanceId),
}

impl Principal {
    pub fn instance(self) -> Option<InstanceId> {
        match self {
            Self::Operator => None,
            Self::Instance(id) => Some(id),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator => f.write_str("human"),
            Self::Instance(id) => id.fmt(f),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    #[default]
    Normal,
    Urgent,
}

impl Priority {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Urgent => "urgent",
        }
    }
}

impl FromStr for Priority {
    type Err = DraftError;

    fn from_str(text: &str) -> Result<Self, DraftError> {
        match text {
            "normal" => Ok(Self::Normal),
            "urgent" => Ok(Self::Urgent),
            _ => Err(DraftError::Invalid {
                field: "priority",
                why: "it is `normal` or `urgent`".into(),
            }),
        }
    }
}

/// The door through which a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Mcp,
    Rest,
    Runner,
    Dashboard,
    File,
    Cli,
    Cao,
    /// No door: the hub itself reports on a worker that has ended.
    Hub,
}

impl Via {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Mcp, "mcp"),
        (Self::Rest, "rest"),
        (Self::Runner, "runner"),
        (Self::Dashboard, "dashboard"),
        (Self::File, "file"),
        (Self::Cli, "cli"),
        (Self::Cao, "cao"),
        (Self::Hub, "hub"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(via, _)| *via == self).map_or("rest", |(_, word)| word)
    }

    /// Parses a door as a store keeps it.
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, w)| *w == word).map(|(via, _)| *via)
    }
}

/// The type of a message: `text`, `result`, `question`, … or any slug.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind(Cow<'static, str>);

impl Kind {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a full mailbox takes it all the same: a caller waits for it.
    pub fn always_fits(&self) -> bool {
        matches!(&*self.0, "result" | "answer") || self.is_of_system()
    }

    /// Parses a type as a store keeps it, the hub's own included.
    pub fn read(word: &str) -> Option<Self> {
        let default = Self::default();
        match word {
            _ if word == default.as_str() => Some(default),
            _ if is_slug(word) => Some(Self(Cow::Owned(word.to_owned()))),
            _ => None,
        }
    }

    /// The answer to a task.
    pub const RESULT: Self = Self(Cow::Borrowed("result"));
    /// The report on a worker that ended without a result.
    pub const AGENT_FAILED: Self = Self(Cow::Borrowed("system.agent_failed"));
    /// What the asker wants to know.
    pub const QUESTION: Self = Self(Cow::Borrowed("question"));
    /// What the asker wanted to know.
    pub const ANSWER: Self = Self(Cow::Borrowed("answer"));
    /// An order that only a parent, a leader or the human may send.
    pub const DIRECTIVE: Self = Self(Cow::Borrowed("directive"));

    /// Returns whether it is a type of the hub's own messages.
    pub fn is_of_system(&self) -> bool {
        self.0.starts_with("system.")
    }
}

impl Default for Kind {
    fn default() -> Self {
        Self(Cow::Borrowed("text"))
    }
}

impl FromStr for Kind {
    type Err = DraftError;

    fn from_str(text: &str) -> Result<Self, DraftError> {
        let invalid = |why: &str| Err(DraftError::Invalid { field: "type", why: why.into() });
        let Some(kind) = Self::read(text) else {
            return invalid(
                "a type is a word like `text`, `result` or `question`: a-z, 0-9, `_`, `-`, `.`, at most 64",
            );
        };
        if text.starts_with("system.") || text == "system" {
            return invalid("types that begin with `system.` are the hub's own");
        }
        Ok(kind)
    }
}

fn is_slug(text: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b);
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.len() <= 64
        && text.bytes().all(is_part)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderKind {
    Agent,
    Human,
    System,
}

impl SenderKind {
    /// Returns the kind of a sender, from the instance and the type of its message.
    fn of(instance: Option<InstanceId>, kind: &Kind) -> Self {
        match instance {
            _ if kind.is_of_system() => Self::System,
            Some(_) => Self::Agent,
            None => Self::Human,
        }
    }
}

/// The sender of a message. Set by the hub from the caller's token, never by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub address: Arc<str>,
    pub instance: Option<InstanceId>,
    pub kind: SenderKind,
}

impl Sender {
    pub fn human() -> Self {
        Self { address: "human".into(), instance: None, kind: SenderKind::Human }
    }

    /// Makes the sender of a message of this type.
    pub fn read(address: &str, instance: Option<InstanceId>, of: &Kind) -> Self {
        let kind = SenderKind::of(instance, of);
        Self { address: address.into(), instance, kind }
    }

    /// Returns the instance, or `human`, or `system`.
    pub fn id(&self) -> String {
        self.instance.map_or_else(|| self.address.to_string(), |id| id.to_string())
    }
}

stored! {
    /// A draft that the hub has accepted. Immutable.
    ///
    /// Each field names the columns in which every store keeps it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Message {
        seq: Seq => "seq",
        id: MessageId => "id",
        thread: ThreadId => "thread",
        created_at: Timestamp => "created_at",
        from: Sender => "sender", "sender_instance",
        /// The recipients as the sender wrote them.
        to: String => "recipient",
        kind: Kind => "kind",
        priority: Priority => "urgent",
        label: Option<String> => "label",
        in_reply_to: Option<Seq> => "in_reply_to",
        expires_at: Option<Timestamp> => "expires_at",
        via: Via => "via",
        idempotency_key: Option<String> => "idempotency_key",
        /// A JSON object, as text.
        metadata: Option<String> => "metadata",
        /// Number of quick answers in a row, this one included.
        hop: u8 => "hop",
        /// Set for a report that came after the assignment was settled.
        late: bool => "late",
        body: Body => "body",
    }
}

impl Message {
    /// A plain message in the operator's thread, without anything that a message may lack.
    ///
    /// Code that makes a message names the fields that it sets and takes the others from
    /// here, so only this function and the list above know every field.
    pub fn new(
        seq: Seq,
        id: MessageId,
        from: Sender,
        to: impl Into<String>,
        body: impl Into<Body>,
        created_at: Timestamp,
        via: Via,
    ) -> Self {
        Self {
            seq,
            id,
            thread: ThreadId::OPERATOR,
            created_at,
            from,
            to: to.into(),
            kind: Kind::default(),
            priority: Priority::Normal,
            label: None,
            in_reply_to: None,
            expires_at: None,
            via,
            idempotency_key: None,
            metadata: None,
            hop: 0,
            late: false,
            body: body.into(),
        }
    }

    /// Reads a row as far as it can be read, and says which columns cannot.
    pub fn read(row: &dyn Row) -> (Self, Vec<Misread>) {
        let (mut message, misread) = Self::read_columns(row);
        message.from.kind = SenderKind::of(message.from.instance, &message.kind);
        (message, misread)
    }

    /// Returns whether the message ends every wait, as questions, urgent and human mail
    /// do: else a supervisor and its worker would wait for each other.
    pub fn ends_a_wait(&self) -> bool {
        self.priority == Priority::Urgent
            || self.from.kind == SenderKind::Human
            || self.kind.as_str() == "question"
    }

    /// Returns whether the message is a report, for which the giver of work waits.
    pub fn is_report(&self) -> bool {
        self.kind == Kind::RESULT || self.kind == Kind::AGENT_FAILED
    }
}

/// The hub's answer to a send.
#[derive(Debug, Clone)]
pub struct Receipt {
    pub seq: Seq,
    pub id: MessageId,
    pub thread: ThreadId,
    pub recipients: Vec<Recipient>,
    pub duplicate: bool,
    pub durable: bool,
    /// Full mailboxes that `@everyone` left out.
    pub skipped: Vec<Mailbox>,
}

#[derive(Debug, Clone)]
pub struct Recipient {
    pub mailbox: Mailbox,
    /// Number of instances that are starting or running and have a key to the mailbox.
    pub active: u32,
    /// Number of these that wait for mail at this moment.
    pub waiting: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hub_sends_system_types() {
        for good in ["text", "result", "context_push", "my-own.type2"] {
            assert!(good.parse::<Kind>().is_ok(), "{good}");
        }
        for bad in ["", "system.agent_failed", "system", "Text", "9", "a b", "ü"] {
            assert!(bad.parse::<Kind>().is_err(), "{bad}");
        }
    }
}
