//! Three moments of a message, three types: [`Draft`], [`Message`], and the
//! receipt that tells the sender what became of it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;

pub use super::body::Body;
use crate::address::{Address, InstanceId, Mailbox};
use crate::hex;
use crate::limits::Limits;
use crate::time::Timestamp;

/// The place of a message in the one line of all messages. Who has seen `n` has
/// seen all below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message's other name: 16 hex digits from 8 random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub u64);

impl MessageId {
    pub fn text(self) -> CompactString {
        hex::text::<16>("", self.0)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// A message named by a client: its number or its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRef {
    Seq(Seq),
    Id(MessageId),
}

impl FromStr for MessageRef {
    type Err = DraftError;

    /// Sixteen hex digits are an id, fewer digits a number.
    fn from_str(text: &str) -> Result<Self, DraftError> {
        let hex = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let parsed = if hex {
            u64::from_str_radix(text, 16).ok().map(|id| Self::Id(MessageId(id)))
        } else {
            // No store counts further. Only as it is printed: `+5` or `05` is no number, and
            // one with zeros in front could be taken for an id.
            let number = text.parse().ok().filter(|n| (1..=i64::MAX as u64).contains(n));
            number.filter(|n| n.to_string() == text).map(|n| Self::Seq(Seq(n)))
        };
        parsed.ok_or_else(|| DraftError::Invalid {
            field: "message id",
            why: "give a message's number, like 4711, or its id of 16 hex digits".into(),
        })
    }
}

impl fmt::Display for MessageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seq(seq) => seq.fmt(f),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// A conversation: `t-` and 8 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// The operator's own thread.
    pub const OPERATOR: Self = Self(0);

    pub fn text(self) -> CompactString {
        hex::text::<8>("t-", self.0.into())
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl FromStr for ThreadId {
    type Err = DraftError;

    fn from_str(text: &str) -> Result<Self, DraftError> {
        text.strip_prefix("t-")
            .filter(|hex| hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .map(Self)
            .ok_or_else(|| DraftError::Invalid {
                field: "thread_id",
                why: "a thread is `t-` and 8 hex digits".into(),
            })
    }
}

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
}

impl Via {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Mcp, "mcp"),
        (Self::Rest, "rest"),
        (Self::Runner, "runner"),
        (Self::Dashboard, "dashboard"),
        (Self::File, "file"),
        (Self::Cli, "cli"),
        (Self::Cao, "cao"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(via, _)| *via == self).map_or("rest", |(_, word)| word)
    }

    /// What a store wrote, read back.
    pub fn read(word: &str) -> Self {
        Self::ALL.iter().find(|(_, w)| *w == word).map_or(Self::Rest, |(via, _)| *via)
    }
}

/// What kind of message: `text`, `result`, `question`, … or any slug.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind(Cow<'static, str>);

impl Kind {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Never refused for a full mailbox: somebody waits for it.
    pub fn always_fits(&self) -> bool {
        matches!(&*self.0, "result" | "answer") || self.is_of_system()
    }

    /// What the hub itself wrote, read back.
    pub fn read(word: &str) -> Self {
        Self(Cow::Owned(word.to_owned()))
    }

    /// The answer to a task.
    pub const RESULT: Self = Self(Cow::Borrowed("result"));
    /// A worker ended without one.
    pub const AGENT_FAILED: Self = Self(Cow::Borrowed("system.agent_failed"));
    /// What only a parent, a leader or the human may send.
    pub const DIRECTIVE: Self = Self(Cow::Borrowed("directive"));

    /// The hub's own words, whomever they are about.
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
        let slug = !text.is_empty()
            && text.len() <= 64
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b))
            && text.as_bytes()[0].is_ascii_lowercase();
        if !slug {
            return invalid(
                "a type is a word like `text`, `result` or `question`: a-z, 0-9, `_`, `-`, `.`, at most 64",
            );
        }
        if text.starts_with("system.") || text == "system" {
            return invalid("types that begin with `system.` are the hub's own");
        }
        Ok(Self::read(text))
    }
}

/// What a sender hands in. A draft that exists is within the limits.
#[derive(Debug, Clone)]
pub struct Draft {
    pub from: Principal,
    pub to: Address,
    pub via: Via,
    body: Body,
    details: Details,
    late: bool,
}

/// What a sender may add to a message.
#[derive(Debug, Clone, Default)]
pub struct Details {
    pub priority: Priority,
    pub kind: Kind,
    pub label: Option<String>,
    pub in_reply_to: Option<Seq>,
    /// How many quick answers in a row this one is.
    pub hop: u8,
    pub thread: ThreadChoice,
    /// A JSON object, as text.
    pub metadata: Option<String>,
    pub ttl: Option<Duration>,
    pub idempotency_key: Option<String>,
}

/// What decides the thread of a draft. The append decides, with what is true then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadChoice {
    /// The thread that the sender names.
    pub named: Option<ThreadId>,
    /// The message that the draft answers.
    pub replied_to: Option<RepliedTo>,
}

/// What counts of the message that a draft answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepliedTo {
    /// A message that the sender may see.
    Seen {
        thread: ThreadId,
        /// The mailbox of that message's sender, if the answering one had received the
        /// message: no policy forbids to write there.
        back_to: Option<Mailbox>,
    },
    /// There is no such message that the sender may see. Only a repeat of an accepted
    /// idempotency key passes with it.
    Unseen(MessageRef),
}

impl ThreadChoice {
    /// The sender names the thread.
    pub fn named(thread: ThreadId) -> Self {
        Self { named: Some(thread), replied_to: None }
    }

    /// Whom the draft answers, if that one wrote to the sender.
    pub(crate) fn back_to(&self) -> Option<&Mailbox> {
        match &self.replied_to {
            Some(RepliedTo::Seen { back_to, .. }) => back_to.as_ref(),
            Some(RepliedTo::Unseen(_)) | None => None,
        }
    }
}

impl Draft {
    pub fn new(
        from: Principal,
        to: Address,
        body: Body,
        details: Details,
        via: Via,
        limits: &Limits,
    ) -> Result<Self, DraftError> {
        let too_large = |what, limit: usize, key| Err(DraftError::TooLarge { what, limit, key });
        let invalid = |field, why: String| Err(DraftError::Invalid { field, why });
        if body.is_empty() {
            return invalid("message", "it is empty".into());
        }
        if body.len() > limits.body_bytes {
            return too_large("the message", limits.body_bytes, "body_bytes");
        }
        if details.metadata.as_ref().is_some_and(|m| m.len() > limits.metadata_bytes) {
            return too_large("the metadata", limits.metadata_bytes, "metadata_bytes");
        }
        let long = |text: &Option<String>, limit| {
            text.as_ref().is_some_and(|t| t.is_empty() || t.chars().count() > limit)
        };
        if long(&details.label, limits.label_chars) {
            return invalid("label", format!("it has 1 to {} characters", limits.label_chars));
        }
        if long(&details.idempotency_key, limits.key_chars) {
            let why = format!("it has 1 to {} characters", limits.key_chars);
            return invalid("idempotency_key", why);
        }
        if details.ttl.is_some_and(|ttl| ttl.is_zero() || ttl > limits.ttl) {
            return invalid(
                "ttl_s",
                format!("it lies between 1 and {} seconds", limits.ttl.as_secs()),
            );
        }
        Ok(Self { from, to, via, body, details, late: false })
    }

    /// What a message was before it was accepted.
    pub fn again(message: Message, from: Principal, to: Address, thread: ThreadChoice) -> Self {
        let life = |at: Timestamp| at.since(message.created_at);
        Self {
            from,
            to,
            via: message.via,
            details: Details {
                priority: message.priority,
                kind: message.kind,
                label: message.label,
                in_reply_to: message.in_reply_to,
                hop: message.hop,
                thread,
                metadata: message.metadata,
                ttl: message.expires_at.map(life),
                idempotency_key: message.idempotency_key,
            },
            body: message.body,
            late: false,
        }
    }

    pub fn body(&self) -> &str {
        &self.body
    }

    pub fn details(&self) -> &Details {
        &self.details
    }

    /// It goes to whoever wrote what it answers, and to nobody else.
    pub(crate) fn goes_back(&self, mailboxes: &[Mailbox]) -> bool {
        match (mailboxes, self.details.thread.back_to()) {
            ([only], Some(asker)) => only == asker,
            _ => false,
        }
    }

    pub(crate) fn take_thread_choice(&mut self) -> ThreadChoice {
        std::mem::take(&mut self.details.thread)
    }

    /// It reports on a task: it answers that task, under its label, unless its
    /// sender said otherwise.
    pub(crate) fn reports_on(&mut self, task: Seq, label: Option<&str>) {
        self.details.in_reply_to.get_or_insert(task);
        if self.details.label.is_none() {
            self.details.label = label.map(str::to_owned);
        }
    }

    /// It is an assignment: its key is none of a message to the same name.
    pub(crate) fn assigns(&mut self) {
        if let Some(key) = &mut self.details.idempotency_key {
            key.insert_str(0, "assign ");
        }
    }

    /// It asks somebody whom its sender does not direct.
    pub(crate) fn asks(&mut self) {
        self.details.kind = Kind::default();
    }

    /// It reports on something that is settled.
    pub(crate) fn comes_late(&mut self) {
        self.late = true;
    }

    /// The draft becomes a message: it has a number, a name and a time.
    pub(crate) fn accept(
        self,
        seq: Seq,
        id: MessageId,
        from: Sender,
        thread: ThreadId,
        now: Timestamp,
    ) -> Message {
        let Details {
            priority, kind, label, in_reply_to, hop, metadata, ttl, idempotency_key, ..
        } = self.details;
        Message {
            seq,
            id,
            thread,
            from,
            late: self.late,
            to: self.to.to_string(),
            kind,
            priority,
            body: self.body,
            label,
            in_reply_to,
            hop,
            metadata,
            created_at: now,
            expires_at: ttl.map(|ttl| now + ttl),
            idempotency_key,
            via: self.via,
        }
    }
}

/// Why a draft cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    #[error("{what} is larger than {limit} bytes")]
    TooLarge { what: &'static str, limit: usize, key: &'static str },
    #[error("{field}: {why}")]
    Invalid { field: &'static str, why: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderKind {
    Agent,
    Human,
    System,
}

/// Who sent it. Set by the hub from the caller's token, never by the caller.
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

    /// What a store wrote, read back.
    pub fn read(address: &str, instance: Option<InstanceId>, of: &Kind) -> Self {
        let kind = match instance {
            _ if of.is_of_system() => SenderKind::System,
            Some(_) => SenderKind::Agent,
            None => SenderKind::Human,
        };
        Self { address: address.into(), instance, kind }
    }

    /// The instance, or `human`, or `system`.
    pub fn id(&self) -> String {
        self.instance.map_or_else(|| self.address.to_string(), |id| id.to_string())
    }
}

/// A draft that the hub has accepted. Immutable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub seq: Seq,
    pub id: MessageId,
    pub thread: ThreadId,
    pub from: Sender,
    /// As the sender wrote it.
    pub to: String,
    pub kind: Kind,
    pub priority: Priority,
    pub body: Body,
    pub label: Option<String>,
    pub in_reply_to: Option<Seq>,
    /// How many quick answers in a row this one is.
    pub hop: u8,
    /// A JSON object, as text.
    pub metadata: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub via: Via,
    /// A report that came after the assignment was settled.
    pub late: bool,
}

impl Message {
    /// A question, urgent or human mail ends every wait: else a supervisor and
    /// its worker would wait for each other.
    pub fn ends_a_wait(&self) -> bool {
        self.priority == Priority::Urgent
            || self.from.kind == SenderKind::Human
            || self.kind.as_str() == "question"
    }

    /// What whoever gave out work waits for.
    pub fn is_report(&self) -> bool {
        self.kind == Kind::RESULT || self.kind == Kind::AGENT_FAILED
    }
}

/// What the sender is told.
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
    /// Instances that are starting or running and hold a key to the mailbox.
    pub active: u32,
    /// Of those, how many wait for mail at this moment.
    pub waiting: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_named_by_number_or_by_id() {
        assert_eq!("4711".parse(), Ok(MessageRef::Seq(Seq(4711))));
        assert_eq!("00000000000000ff".parse(), Ok(MessageRef::Id(MessageId(255))));
        for bad in ["", "0", "-1", "0x10", "abc", "99999999999999999999"] {
            assert!(bad.parse::<MessageRef>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_draft_beyond_a_limit_cannot_be_made() {
        let limits = Limits { body_bytes: 4, ttl: Duration::from_secs(9), ..Limits::default() };
        let draft = |body: &str, details| {
            Draft::new(
                Principal::Operator,
                Address::Human,
                body.into(),
                details,
                Via::Rest,
                &limits,
            )
        };
        assert!(draft("four", Details::default()).is_ok());
        assert!(matches!(draft("", Details::default()), Err(DraftError::Invalid { .. })));
        assert!(matches!(draft("five!", Details::default()), Err(DraftError::TooLarge { .. })));
        let ttl = |s| Details { ttl: Some(Duration::from_secs(s)), ..Details::default() };
        assert!(draft("x", ttl(9)).is_ok());
        assert!(draft("x", ttl(10)).is_err());
        assert!(draft("x", ttl(0)).is_err());
        let label = |n: usize| Details { label: Some("é".repeat(n)), ..Details::default() };
        assert!(draft("x", label(200)).is_ok());
        assert!(draft("x", label(201)).is_err());
    }

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
