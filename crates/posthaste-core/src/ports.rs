//! What the core asks of the world.
//!
//! [`Store`] is the memory of the hub and its only source of truth, leases
//! included. [`Queue`] carries tickets and loses nothing that matters: what a
//! ticket says, a look into the store says better. Each promise in a doc comment
//! here has a test in the conformance suites, which every backend runs.

pub mod change;
mod launcher;
mod profiles;
pub mod store;
mod working;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::address::{Mailbox, Name, instance_of};
use crate::events::Page as EventPage;
use crate::figures::Figures;
use crate::messaging::delivery::{AnswerId, DeliveryNo, MoveError, Proof};
use crate::messaging::message::{
    Draft, Message, MessageId, MessageRef, Principal, Recipient, SenderKind, Seq, ThreadId,
};
use crate::messaging::send::SendError;
use crate::registry::{
    Instance, InstanceFilter, InstanceView, JoinKey, Joined, NewInstance, RegistryError, Relation,
    Team, TokenHash,
};
use crate::time::Timestamp;

mod reading;

pub use self::launcher::{
    Ended, Found, Job, LaunchError, Launcher, Letter, Nap, Outcome, Output, Place, Start, Stream,
    Token, Way,
};
pub use self::profiles::Profiles;
pub use self::reading::{
    DeliveryRecord, HeldMail, HistoryQuery, Kept, Marked, Note, Noted, Oldest, OpenBox, Page,
    Reading, Record, RecordState, ThreadSummary,
};
pub use self::working::{Ending, Given, Hire, Hired, Working};
pub use crate::time::Clock;

/// The work is under way when the call returns, and a dropped future does not
/// stop it: the future only tells how it went.
pub type Started<T, E = StoreError> = BoxFuture<'static, Result<T, E>>;

/// The truth: messages, deliveries, leases, who is here, and what happened.
pub trait Store: Mail + Reading + Registry + Working + Profiles + Journal + Upkeep {}
impl<T: Mail + Reading + Registry + Working + Profiles + Journal + Upkeep> Store for T {}

/// Messages and deliveries.
pub trait Mail: Send + Sync {
    /// Routes the draft and keeps the message with one queued delivery per
    /// mailbox: all or nothing, on disk when the future says so. Routing, the
    /// recipient's life and the limits are decided inside the same transaction.
    /// Tickets are put after the commit, in its order, before this answers. A store that
    /// knows of damage, or whose files are not in their place, accepts nothing.
    fn append(&self, draft: Draft) -> Started<Appended, SendError>;

    /// Hands out queued mail, urgent first, then by number: everything that fits and
    /// that only this reader could take, and of each one-of mailbox at most one message
    /// that other living instances could take as well; never what the reader sent. If
    /// nobody else lives who holds a key to a one-of mailbox, or nobody but the sender,
    /// its mail is the reader's own. A gather (`or_ends_wait`) gets reports and
    /// what ended it before the rest. A delivery has at most one lease; none is
    /// given once the stop is noted. A message that cannot be read does not stop the
    /// others: its deliveries are set aside, dead (`unreadable`).
    fn lease(&self, take: Take) -> BoxFuture<'_, Result<Lease, StoreError>>;

    /// What a lease would find, without taking anything.
    fn survey(
        &self,
        reader: Principal,
        filter: Filter,
    ) -> BoxFuture<'_, Result<Survey, StoreError>>;

    /// Settles what the caller holds, or held and lies queued again. An ack is
    /// final; what is settled already stays so. What another holds is `lost`.
    fn ack(&self, by: Principal, what: What, proof: Proof) -> Started<Acked>;

    /// Returns the caller's leases to their queues, marked. Only what that answer
    /// still holds; `doubt` remembers that its reader cancelled.
    fn give_back(&self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId, doubt: bool);

    /// The same for what nobody was shown: back as it was, without a mark.
    fn put_back(&self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId);

    /// The reader refuses: back to the queue, marked, and dead the fifth time.
    fn nack(&self, by: Principal, what: What) -> Started<Nacked>;

    /// Kills the queued deliveries of a message. `Conflict` if none is queued.
    fn cancel(&self, message: Seq) -> BoxFuture<'_, Result<(), ActError>>;

    /// Queues the dead deliveries of a message again, marked if anybody may have
    /// seen them. `Conflict` if none is dead, or a recipient has ended or has no room.
    fn requeue(&self, message: Seq) -> BoxFuture<'_, Result<(), ActError>>;

    /// One message with all its deliveries.
    fn message(&self, which: MessageRef) -> BoxFuture<'_, Result<Option<Record>, StoreError>>;

    /// Whether something that `from` wrote to `to` before this message is still
    /// unread: then whatever `to` says in it, it says without knowing that.
    fn unseen(&self, from: Principal, to: crate::address::InstanceId, before: Seq) -> bool;

    /// Ids taken as received by a weak proof, that the reader was not told yet
    /// before the last hub start.
    fn taken(&self, reader: Principal) -> Vec<Seq>;

    /// Whether a restart keeps what was accepted.
    fn is_durable(&self) -> bool;
}

/// Instances, teams, tokens.
pub trait Registry: Send + Sync {
    /// Creates an instance, or finds the one that joined with the same key and secret.
    /// A key of somebody who lives is refused without its secret. An unknown agent becomes a profile of kind external, an unknown team a team.
    fn join(&self, new: NewInstance) -> Started<Joined, RegistryError>;

    /// Whose token this is: a sign of life. Ended instances have none.
    fn caller(&self, token: &TokenHash) -> Option<Principal>;

    /// A sign of life: a lost instance is running again, and one without a lasting
    /// connection is alive for `limits.away_after`.
    fn seen(&self, who: Principal);

    /// A lasting connection (stream, bridge) opens: the instance is alive while it is
    /// open.
    fn connected(&self, who: Principal);

    /// A lasting connection closes. After the last one the instance is away at once:
    /// still an address, not active, and no taker of one-of mail while others live.
    fn disconnected(&self, who: Principal);

    /// A call begins: the instance is alive while it is open.
    fn call_opened(&self, who: Principal) -> OpenCall;

    /// A call ends. An instance without a lasting connection is alive for
    /// `limits.away_after` after it, unless its last connection closed during the call.
    fn call_closed(&self, who: Principal, call: OpenCall);

    /// Ends everybody who is away or lost without a sign of life since `before` and has
    /// neither mail nor open work. Decided inside the transaction that ends them.
    fn forget_gone(&self, before: Timestamp) -> Started<Vec<Instance>, RegistryError>;

    fn instance(&self, id: crate::address::InstanceId) -> Option<InstanceView>;

    /// Who joined with this key and secret and has not ended.
    fn keyed(&self, agent: &Name, team: &Name, key: &JoinKey)
    -> Option<crate::address::InstanceId>;

    fn instances(&self, filter: &InstanceFilter) -> Vec<InstanceView>;

    /// The mailboxes that the reader holds keys to.
    fn keys(&self, reader: Principal) -> Arc<[Mailbox]>;

    /// What `sender` is to `reader`.
    fn relation(&self, reader: Principal, sender: &crate::messaging::message::Sender) -> Relation;

    /// Death in one transaction: the status, returned one-of leases, dead exact
    /// mail (`maybe_seen` if anyone may have read it), and one report for each of its
    /// open assignments, to whoever gave it, or whom that one had its work from.
    fn end(
        &self,
        who: crate::address::InstanceId,
        ending: Ending,
    ) -> Started<Instance, RegistryError>;

    fn put_team(&self, team: Team) -> Started<(), RegistryError>;

    fn team(&self, name: &Name) -> Option<(Team, Vec<Instance>)>;

    fn teams(&self) -> Vec<Name>;
}

/// An open call of an instance.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenCall {
    /// How often the instance's last lasting connection had closed when it began.
    pub(crate) departures: u32,
}

/// What happened, in one ordered line.
pub trait Journal: Send + Sync {
    /// The events after this number, in order, at most so many: none is left out,
    /// none comes twice. They are numbered in the transaction that made them true.
    fn events(&self, after: u64, most: usize) -> BoxFuture<'_, Result<EventPage, StoreError>>;

    /// The number of the last event, and the news of each further one.
    fn last_event(&self) -> watch::Receiver<u64>;
}

/// What happens without being asked.
pub trait Upkeep: Send + Sync {
    /// Expires, prunes, marks the lost, writes signs of life, puts tickets of
    /// mail that waits: whatever is due at this time.
    fn sweep(&self) -> BoxFuture<'_, Result<Swept, StoreError>>;

    /// When the next message expires.
    fn next_expiry(&self) -> Option<Timestamp>;

    /// Whether the last write succeeded, the files are in their place, and nothing is
    /// known to be damaged.
    fn is_healthy(&self) -> bool;

    /// Whether everything that the last run left open is known again. Until then
    /// reads wait.
    fn is_ready(&self) -> bool;

    /// Writes as much as a message and removes it again: does the disk take it?
    fn probe(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// What it counted since it was opened, and how it stands.
    fn figures(&self) -> BoxFuture<'_, Result<Figures, StoreError>>;

    /// Completes when the store cannot go on without a new start, and tells why: a task
    /// that it needs has ended by itself, or another hub has taken its place. Never
    /// after `close`.
    fn failed(&self) -> BoxFuture<'_, Arc<str>>;

    /// Finishes what is under way and notes that the stop was clean.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Carries tickets to those who wait. In process it is a bell per reader.
pub trait Queue: Send + Sync {
    /// Hands a ticket over. It delays nobody and never fails: a ticket that is
    /// lost is found by the sweep.
    fn put(&self, ticket: Ticket);

    /// Listens on these mailboxes from now on. Mail of an exact mailbox rings
    /// all its listeners. One-of mail rings the first that may take it: readers before
    /// drivers, and last those who gather or want only what nobody else could take.
    fn listen(&self, reader: Principal, mailboxes: Arc<[Mailbox]>, filter: Filter)
    -> Box<dyn Bell>;

    /// How many listen on this mailbox right now, apart from `but` and the quiet.
    fn waiting(&self, mailbox: &Mailbox, but: Principal) -> u32;

    /// The mailbox has ended with its instance.
    fn cleanup(&self, mailbox: &Mailbox);

    fn close(&self);
}

/// Rings when there may be mail. Dropped unanswered, it passes one-of tickets on
/// to the next who waits.
pub trait Bell: Send {
    /// Completes when something arrived since the last time, at once if so.
    fn rung(&mut self) -> BoxFuture<'_, ()>;

    /// The reader was answered: tickets of what it took are spent, the rest is
    /// passed on.
    fn answered(&mut self, taken: &[DeliveryNo]);
}

/// A delivery that became queued. It says enough to tell who might want it.
#[derive(Debug, Clone)]
pub struct Ticket {
    pub delivery: DeliveryNo,
    pub mailbox: Mailbox,
    /// `None` when the text is on disk: then everybody may want it.
    pub message: Option<Arc<Message>>,
}

/// What a reader wants of what waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Instances, names or labels; empty is everybody. Shared: each look takes a copy.
    pub from: Arc<[String]>,
    pub label: Option<String>,
    pub thread: Option<ThreadId>,
    /// Only these; empty is all.
    pub among: Box<[Seq]>,
    /// What the human says to this question, after it: linked to it, or to nothing.
    pub answers: Option<Seq>,
    /// Nothing that another living instance could take as well.
    pub own: bool,
    /// Also what ends every wait, whatever else is asked for.
    pub or_ends_wait: bool,
    /// Leaves out reports on the reader's assignments that came within
    /// `limits.report_hold`: a gather may still fetch them.
    pub holds_reports: bool,
    /// Set by drivers: not counted by `Queue::waiting`, and given no second message that
    /// others could take before the first is proved.
    pub quiet: bool,
}

impl Filter {
    /// Takes every message.
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
            && self.label.is_none()
            && self.thread.is_none()
            && self.among.is_empty()
            && self.answers.is_none()
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
    }

    fn is_from_one_of(&self, message: &Message) -> bool {
        let (label, sender) = (message.label.as_deref(), Parts::of(&message.from.address));
        self.from.iter().any(|who| label == Some(who) || sender.is_called(who))
    }
}

/// What the human writes while one waits for an answer is one, unless it is linked
/// to something else.
fn answers(message: &Message, question: Seq) -> bool {
    message.from.kind == SenderKind::Human
        && message.seq > question
        && message.in_reply_to.is_none_or(|to| to == question)
}

/// Whether `who`, an instance, a name, an address or a label, sent it.
pub fn is_from(message: &Message, who: &str) -> bool {
    message.label.as_deref() == Some(who) || is_sender(message, who)
}

/// Whether `who`, an instance, a name or an address, sent it.
pub fn is_sender(message: &Message, who: &str) -> bool {
    is_called(&message.from.address, who)
}

/// Whether somebody of this full address is meant by `who`: an instance, a name, or
/// an address of which parts may be left out.
pub fn is_called(address: &str, who: &str) -> bool {
    Parts::of(address).is_called(who)
}

/// `name.instance@team`, as much of it as is there. A gather compares each of many
/// messages with each of many names, so an address is taken apart once, and an id is
/// compared as text before anybody asks whether it is one.
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
        // A bare id, which no name looks like; those who gather many name them so.
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

/// At the first `mark`. A loop over few bytes is quicker here than a search.
fn split(text: &str, mark: u8) -> (&str, Option<&str>) {
    match text.bytes().position(|byte| byte == mark) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// One read.
#[derive(Debug, Clone)]
pub struct Take {
    pub reader: Principal,
    pub answer: AnswerId,
    pub filter: Filter,
    pub messages: usize,
    /// Bytes of bodies after which no more is taken; the first always is.
    pub bytes: usize,
    /// Set for answers that clip long bodies: then reports come first.
    pub clips: Option<Clips>,
}

/// How an answer clips: bodies of more than `whole` characters may shrink to `share`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clips {
    pub whole: usize,
    pub share: usize,
}

impl Take {
    /// What a body of this many bytes takes of the answer at least.
    pub(crate) fn least(&self, size: usize) -> usize {
        match self.clips {
            // No character is shorter than a byte, so it may be a long one.
            Some(Clips { whole, share }) if size > whole => size.min(share),
            _ => size,
        }
    }
}

/// What one read got.
#[derive(Debug, Clone, Default)]
pub struct Lease {
    pub mail: Vec<Leased>,
    /// How much more this reader could take.
    pub remaining: usize,
    /// Of those, how many others could take as well.
    pub shared: usize,
}

/// A delivery in the hands of a reader.
#[derive(Debug, Clone)]
pub struct Leased {
    pub delivery: DeliveryNo,
    pub mailbox: Mailbox,
    pub message: Arc<Message>,
    /// May have been seen before.
    pub redelivered: bool,
    /// Its reader cancelled the answer that held it once already.
    pub doubted: bool,
    pub relation: Relation,
}

#[derive(Debug, Clone, Default)]
pub struct Survey {
    pub waiting: usize,
    /// When the first of it arrived; `None` also for an old backlog.
    pub first_at: Option<Timestamp>,
    /// Something waits that ends every wait.
    pub ends_wait: bool,
    /// Addresses of the distinct senders of what waits.
    pub senders: Vec<Arc<str>>,
    /// Labels of what waits.
    pub labels: Vec<String>,
}

/// What is to be settled.
#[derive(Debug, Clone)]
pub enum What {
    Deliveries(Vec<DeliveryNo>),
    /// Only what this very answer still holds of them.
    Held(AnswerId, Vec<DeliveryNo>),
    Messages(Vec<Seq>),
}

impl What {
    /// The answer to which it is limited.
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
    /// What this ack settled.
    pub settled: Vec<Seq>,
    /// Held by another reader now, or never handed to the caller.
    pub lost: Vec<Seq>,
    /// Another write was settling it, and may have failed.
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
    /// As it was when the message was accepted, before anyone was woken.
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

/// Why a message cannot be cancelled or queued again.
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

/// Variants answer the caller's one question: what can I do about it?
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
