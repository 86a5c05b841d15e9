//! The ports: what the core needs of the world.
//!
//! [`Store`] remembers what the ledger decided. [`Queue`] carries tickets; a lost ticket
//! costs only time, because the ledger knows the mail itself. [`Launcher`] starts
//! workers. Each promise in a doc comment here has a test in the conformance suites,
//! which every backend runs.

pub mod change;
mod launcher;
pub mod store;
mod tools;
mod transcript;
mod working;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::address::{Mailbox, instance_of};
use crate::messaging::delivery::{AnswerId, DeliveryNo, MoveError};
use crate::messaging::message::{
    Message, MessageId, Principal, Priority, Recipient, SenderKind, Seq, ThreadId,
};
use crate::registry::Relation;
use crate::time::Timestamp;

mod reading;

pub use self::launcher::{
    Ended, Found, Job, LaunchError, Launcher, Letter, ModelUse, Outcome, Output, Start, Stream,
    Task, Terminal, Token, WakeRequest, Way, Workplace,
};
pub use self::reading::{
    DeliveryRecord, HeldMail, HistoryPage, HistoryQuery, Kept, Marked, Note, Noted, Oldest,
    OpenBox, Record, RecordState, ThreadSummary,
};
pub use self::store::Store;
pub use self::tools::{OwnAnswer, OwnCall, OwnTool, OwnTools, ToolSet};
pub use self::transcript::{TranscriptEntry, TranscriptKind, TranscriptPage};
pub use self::working::{Ending, Given, Hire, Hired, Opening};
pub use crate::time::Clock;

/// An open call of an instance.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenCall {
    /// Number of times that the instance's last lasting connection had closed when the
    /// call began.
    pub(crate) departures: u32,
}

/// Carries tickets to waiting readers. In process it is a bell per reader.
pub trait Queue: Send + Sync {
    /// Hands a ticket over. Does not block and never fails: the sweep puts a lost ticket
    /// again.
    fn put(&self, ticket: Ticket);

    /// Listens on these mailboxes from now on. Mail of an exact mailbox rings all its
    /// listeners. One-of mail rings the first listener that may take it: readers before
    /// drivers, and last gathers and listeners that want only mail that nobody else could
    /// take.
    fn listen(&self, reader: Principal, mailboxes: Arc<[Mailbox]>, filter: Filter)
    -> Box<dyn Bell>;

    /// Counts the listeners on this mailbox, apart from `but` and the quiet ones.
    fn waiting(&self, mailbox: &Mailbox, but: Principal) -> u32;

    /// Forgets the mailbox of an ended instance.
    fn cleanup(&self, mailbox: &Mailbox);

    fn close(&self);
}

/// Rings when there may be mail. A bell that is dropped unanswered passes one-of tickets
/// on to the next listener.
pub trait Bell: Send {
    /// Completes when a ticket came since the last time, at once if one did already.
    fn rung(&mut self) -> BoxFuture<'_, ()>;

    /// Notes that the reader was answered: the tickets of what it took are spent, the
    /// others are passed on.
    fn answered(&mut self, taken: &[DeliveryNo]);
}

/// A notice that a delivery became queued, with enough to tell which readers may want it.
#[derive(Debug, Clone)]
pub struct Ticket {
    pub delivery: DeliveryNo,
    pub mailbox: Mailbox,
    /// `None` when the text is on disk: then every reader may want it.
    pub message: Option<Arc<Message>>,
}

/// The filter of a reader: which of the waiting mail it wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Instances, names or labels; empty is everybody. Shared: each look takes a copy.
    pub from: Arc<[String]>,
    pub label: Option<String>,
    pub thread: Option<ThreadId>,
    /// Only these messages; empty is all.
    pub among: Box<[Seq]>,
    /// Messages of the human after this question: linked to it, or to nothing.
    pub answers: Option<Seq>,
    /// Only urgent messages.
    pub urgent: bool,
    /// No mail that another living instance could take as well.
    pub own: bool,
    /// Also mail that ends every wait, whatever else is asked for.
    pub or_ends_wait: bool,
    /// Leaves out reports on the reader's assignments that came within
    /// `limits.report_hold`: a gather may still fetch them.
    pub holds_reports: bool,
    /// Leaves the human's mail to another read. It ends the wait all the same.
    pub leaves_human: bool,
    /// Set by drivers: not counted by `Queue::waiting`, and given no second message that
    /// others could take before the first is acked.
    pub quiet: bool,
}

impl Filter {
    /// Returns whether the filter takes every message.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
            && self.label.is_none()
            && self.thread.is_none()
            && self.among.is_empty()
            && self.answers.is_none()
            && !self.urgent
            && !self.leaves_human
    }

    pub fn accepts(&self, message: &Message) -> bool {
        self.or_ends_wait && message.ends_a_wait() || self.asks_for(message)
    }

    fn asks_for(&self, message: &Message) -> bool {
        (self.from.is_empty() || self.is_from_one_of(message))
            && self.label.as_ref().is_none_or(|l| message.label.as_ref() == Some(l))
            && self.thread.is_none_or(|t| message.thread == t)
            && (self.among.is_empty() || self.among.contains(&message.seq))
            && self.answers.is_none_or(|question| answers(message, question))
            && (!self.urgent || message.priority == Priority::Urgent)
    }

    fn is_from_one_of(&self, message: &Message) -> bool {
        let (label, sender) = (message.label.as_deref(), Parts::of(&message.from.address));
        self.from.iter().any(|who| label == Some(who) || sender.is_called(who))
    }
}

/// Returns whether a message answers a question: any message of the human after it does,
/// unless it is linked to another message.
fn answers(message: &Message, question: Seq) -> bool {
    message.from.kind == SenderKind::Human
        && message.seq > question
        && message.in_reply_to.is_none_or(|to| to == question)
}

/// Returns whether `who`, an instance, a name, an address or a label, sent the message.
pub fn is_from(message: &Message, who: &str) -> bool {
    message.label.as_deref() == Some(who) || is_sender(message, who)
}

/// Returns whether `who`, an instance, a name or an address, sent the message.
pub fn is_sender(message: &Message, who: &str) -> bool {
    is_called(&message.from.address, who)
}

/// Returns whether `who` means the owner of this full address: an instance, a name, or an
/// address of which parts may be left out.
pub fn is_called(address: &str, who: &str) -> bool {
    Parts::of(address).is_called(who)
}

/// The parts of `name.instance@team` that are there. A gather compares each of many
/// messages with each of many names, so an address is parsed once, and an id is compared
/// as text before it is parsed.
pub(crate) struct Parts<'a> {
    name: &'a str,
    instance: Option<&'a str>,
    team: Option<&'a str>,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let (left, team) = split(text, b'@');
        let (name, instance) = split(left, b'.');
        Self { name, instance, team }
    }

    pub(crate) fn is_called(&self, who: &str) -> bool {
        // A bare id, which no name looks like; a gather of many assignments names them
        // so.
        if let Some(own) = self.instance
            && own.len() == who.len()
            && who.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return own.eq_ignore_ascii_case(who);
        }
        let who = Parts::of(who);
        let is_it = match who.instance {
            Some(exact) => who.name.eq_ignore_ascii_case(self.name) && self.is_instance(exact),
            None => who.name.eq_ignore_ascii_case(self.name) || self.is_instance(who.name),
        };
        let here = |team: &str| self.team.is_some_and(|own| own.eq_ignore_ascii_case(team));
        is_it && who.team.is_none_or(here)
    }

    /// Equal ids are equal texts, but for case and the prefix that people write.
    fn is_instance(&self, id: &str) -> bool {
        let meant = instance_of(id);
        meant.is_some() && self.instance.and_then(instance_of) == meant
    }
}

/// Splits at the first `mark`. A loop over few bytes is quicker here than a search.
fn split(text: &str, mark: u8) -> (&str, Option<&str>) {
    match text.bytes().position(|byte| byte == mark) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// The request of one read.
#[derive(Debug, Clone)]
pub struct Take {
    pub reader: Principal,
    pub answer: AnswerId,
    pub filter: Filter,
    pub messages: usize,
    /// Bytes of bodies after which no more is taken; the first message always is.
    pub bytes: usize,
    /// Set for answers that clip long bodies: then reports come first.
    pub clips: Option<Clips>,
}

/// The rule for clipping: bodies of more than `whole` characters may shrink to `share`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clips {
    pub whole: usize,
    pub share: usize,
}

impl Take {
    /// Returns the least number of bytes that a body of this size takes of the answer.
    pub(crate) fn least(&self, size: usize) -> usize {
        match self.clips {
            // A character is at least a byte, so the body may be a long one.
            Some(Clips { whole, share }) if size > whole => size.min(share),
            _ => size,
        }
    }
}

/// The result of one read.
#[derive(Debug, Clone, Default)]
pub struct Lease {
    pub mail: Vec<Leased>,
    /// Number of further deliveries that this reader could take.
    pub remaining: usize,
    /// Number of these that others could take as well.
    pub shared: usize,
}

/// A delivery that a reader has leased.
#[derive(Debug, Clone)]
pub struct Leased {
    pub delivery: DeliveryNo,
    pub mailbox: Mailbox,
    pub message: Arc<Message>,
    /// A reader may have seen it before.
    pub redelivered: bool,
    /// Its reader cancelled an earlier answer that contained it.
    pub doubted: bool,
    pub relation: Relation,
}

#[derive(Debug, Clone, Default)]
pub struct Survey {
    pub waiting: usize,
    /// Time when the first of the waiting mail arrived; `None` also for an old backlog.
    pub first_at: Option<Timestamp>,
    /// Set if mail waits that ends every wait.
    pub ends_wait: bool,
    /// Addresses of the distinct senders of the waiting mail.
    pub senders: Vec<Arc<str>>,
    /// Labels of the waiting mail.
    pub labels: Vec<String>,
}

/// The deliveries that an ack or a nack is about.
#[derive(Debug, Clone)]
pub enum What {
    Deliveries(Vec<DeliveryNo>),
    /// Only those of them that this answer still holds.
    Held(AnswerId, Vec<DeliveryNo>),
    Messages(Vec<Seq>),
}

impl What {
    /// Returns the answer that it is limited to.
    pub fn answer(&self) -> Option<AnswerId> {
        match self {
            Self::Held(answer, _) => Some(*answer),
            Self::Deliveries(_) | Self::Messages(_) => None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acked {
    pub acked: usize,
    /// Messages that this ack settled.
    pub settled: Vec<Seq>,
    /// Held by another reader, or never leased by the caller.
    pub lost: Vec<Seq>,
    /// Being settled by another write, which may have failed.
    pub settling: Vec<Seq>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nacked {
    pub returned: usize,
    pub refused: usize,
    /// Not leased by the caller, or being settled.
    pub lost: Vec<Seq>,
}

#[derive(Debug, Clone)]
pub struct Appended {
    pub seq: Seq,
    pub id: MessageId,
    pub thread: ThreadId,
    /// The state when the message was accepted, before any reader was woken.
    pub recipients: Vec<Recipient>,
    pub skipped: Vec<Mailbox>,
    pub duplicate: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    pub expired: usize,
    pub pruned: usize,
    pub lost: usize,
}

/// The reason why a message cannot be cancelled or queued again.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    #[error("no such message")]
    NotFound,
    #[error("{0}")]
    Refused(#[from] MoveError),
    #[error("{0}")]
    Conflict(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An error of the store. Variants differ in what the caller can do about it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Try again later. Nothing was changed.
    #[error("the store cannot write or read just now: {0}")]
    Unavailable(Arc<str>),
    /// Too many writes wait. Nothing was changed.
    #[error("the hub is busy: {limit} writes wait for its disk")]
    Busy { limit: usize },
    /// The disk failed in the middle of a write, and the next start may find it whole.
    #[error("the disk failed, and whether this was written is not known: {0}")]
    Unknown(Arc<str>),
    /// Something on disk cannot be read any more, so nothing new is accepted. Nothing was
    /// changed.
    #[error("{what}")]
    Damaged { what: Arc<str>, hint: Arc<str> },
    /// The files that are open do not stand at their paths any more: what is written
    /// now would not be found by the next start. Nothing was changed.
    #[error("{what}")]
    Misplaced { what: Arc<str>, hint: Arc<str> },
    /// The hub is stopping.
    #[error("the hub is stopping")]
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_meant_by_any_part_of_its_address_that_names_it() {
        let address = "mason.a3f7b2c1@avalon";
        for who in [
            "mason",
            "Mason",
            "a3f7b2c1",
            "A3F7B2C1",
            "inst-a3f7b2c1",
            "INST-A3F7B2C1",
            "mason.a3f7b2c1",
            "mason@avalon",
            "mason.a3f7b2c1@avalon",
            "a3f7b2c1@avalon",
            "mason.inst-a3f7b2c1@avalon",
        ] {
            assert!(is_called(address, who), "{who}");
        }
        for who in
            ["", "@", "mas", "avalon", "mason@main", "a3f7b2c2", "mason.a3f7b2c2", "bob.a3f7b2c1"]
        {
            assert!(!is_called(address, who), "{who}");
        }
        assert!(is_called("human", "human"));
    }
}
