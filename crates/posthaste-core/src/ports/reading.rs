//! Questions about messages, deliveries and open mail, and their answers.

use std::collections::HashMap;
use std::sync::Arc;

use crate::address::{InstanceId, Mailbox, Name};
use crate::messaging::delivery::{DeliveryNo, Proof, Reason};
use crate::messaging::message::{Message, Principal, Seq, ThreadId};
use crate::time::Timestamp;

/// A message and the state of each of its deliveries.
#[derive(Debug, Clone)]
pub struct Record {
    pub message: Arc<Message>,
    pub deliveries: Vec<DeliveryRecord>,
    /// The parts that cannot be read: table, row, column, and the fault.
    pub unreadable: Vec<String>,
}

impl Record {
    /// Returns the delivery that is the reader's: in its own mailbox, or one-of mail that
    /// it holds or has settled, or that only it could take.
    pub fn delivery_of(&self, reader: Principal) -> Option<&DeliveryRecord> {
        let own = Mailbox::of(reader);
        let is_own = |d: &&DeliveryRecord| {
            let only = d.only.map(Principal::Instance);
            d.mailbox == own || d.mailbox.is_one_of() && d.by.or(only) == Some(reader)
        };
        self.deliveries.iter().find(is_own)
    }

    /// Returns whether the message is addressed to the reader and neither acked nor dead.
    pub fn is_unread_by(&self, reader: Principal) -> bool {
        let open =
            |d: &DeliveryRecord| matches!(d.state, RecordState::Queued | RecordState::Leased);
        self.delivery_of(reader).is_some_and(open)
    }

    /// Returns when the reader acked it; for all others, when its last recipient did.
    pub fn read_at(&self, reader: Principal) -> Option<Timestamp> {
        let at = |d: &DeliveryRecord| match d.state {
            RecordState::Acked(_) => d.settled_at,
            RecordState::Queued | RecordState::Leased | RecordState::Dead { .. } => None,
        };
        match self.delivery_of(reader) {
            Some(own) => at(own),
            None => {
                let all: Option<Vec<Timestamp>> = self.deliveries.iter().map(at).collect();
                all.and_then(|all| all.into_iter().max())
            }
        }
    }
}

#[derive(Debug, Clone)]
pub struct DeliveryRecord {
    pub delivery: DeliveryNo,
    pub mailbox: Mailbox,
    pub state: RecordState,
    pub marked: bool,
    /// Number of refusals.
    pub attempts: u8,
    /// Its reader cancelled an answer that contained it, since the hub started.
    pub doubted: bool,
    pub leased_at: Option<Timestamp>,
    pub settled_at: Option<Timestamp>,
    /// The reader that holds or settled it.
    pub by: Option<Principal>,
    /// The only instance that could take it now, if it is queued one-of mail.
    pub only: Option<InstanceId>,
}

impl DeliveryRecord {
    /// Returns whether the delivery is before a holder of these keys: in its own mailbox,
    /// or in a one-of mailbox while it is queued, and after that only if `who` took it.
    pub fn is_before(&self, who: Principal, keys: &[Mailbox]) -> bool {
        let taken_by_another =
            self.mailbox.is_one_of() && self.state != RecordState::Queued && self.by != Some(who);
        keys.contains(&self.mailbox) && !taken_by_another
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordState {
    Queued,
    Leased,
    Acked(Proof),
    Dead { reason: Reason, maybe_seen: bool },
}

impl RecordState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Acked(_) => "acked",
            Self::Dead { .. } => "dead",
        }
    }
}

/// An event of a delivery that was not its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub delivery: DeliveryNo,
    pub at: Timestamp,
    pub noted: Noted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// Its reader refused it; it went back to its mailbox.
    Refused(Option<Principal>),
    /// It was dead, for this reason, and was queued again.
    Requeued(Option<Reason>),
    /// It was set aside: the place of its row, and the fault.
    Unreadable(Box<str>),
}

/// A query of the history. Its filters are joined by AND.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    pub mailbox: Option<Mailbox>,
    pub thread: Option<ThreadId>,
    /// Addressed to this team: its name's and anyone's mailboxes, and those of its
    /// instances.
    pub team: Option<Name>,
    /// An instance, a name, an address, or `human`.
    pub from: Option<String>,
    pub label: Option<String>,
    pub kind: Option<String>,
    /// One of `queued`, `leased`, `acked`, `dead`.
    pub status: Option<&'static str>,
    /// Addressed to this reader and not acked yet.
    pub unread_by: Option<Principal>,
    /// Strictly after this time.
    pub since: Option<Timestamp>,
    /// Strictly before this number.
    pub before: Option<Seq>,
    /// Strictly after this number: the page begins there and goes forward.
    pub after: Option<Seq>,
    pub last: usize,
    /// Bytes of bodies after which the page ends; the first message always fits.
    pub bytes: Option<usize>,
    /// Only messages that this instance may see, and without mailbox, thread and team
    /// only those that it sent or has a key to.
    pub of: Option<InstanceId>,
}

/// A page of history.
#[derive(Debug, Clone, Default)]
pub struct HistoryPage {
    pub records: Vec<Record>,
    /// The beginning of the next page: the value for `before`, or for `after` if that was
    /// asked for.
    pub next: Option<Seq>,
}

/// The result of a marking read.
#[derive(Debug, Clone, Default)]
pub struct Marked {
    pub page: HistoryPage,
    /// Messages that this call acked.
    pub marked: Vec<Seq>,
}

/// The open mail of one mailbox.
#[derive(Debug, Clone)]
pub struct OpenBox {
    pub mailbox: Mailbox,
    /// The team that the mailbox belongs to.
    pub team: Option<Name>,
    /// The only instance that could take the queued mail of a one-of mailbox.
    pub only: Option<InstanceId>,
    /// Number of deliveries that are neither acked nor dead.
    pub unread: usize,
    pub oldest: Option<Oldest>,
    /// Number of these that are not leased.
    pub queued: usize,
    pub oldest_queued: Option<Oldest>,
    /// The leased ones, by holder.
    pub held: Vec<HeldMail>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oldest {
    pub seq: Seq,
    /// Time when it was accepted; `None` until the store has looked it up.
    pub at: Option<Timestamp>,
    /// The sending instance; `None` for the operator and the hub.
    pub sender: Option<InstanceId>,
}

/// The unacked leases that one reader has of one mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldMail {
    pub by: Principal,
    pub count: usize,
    /// The message that it has held longest, and since when.
    pub seq: Seq,
    pub since: Timestamp,
}

/// Counts of kept messages.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Time when the oldest kept message was accepted.
    pub since: Option<Timestamp>,
    pub received: HashMap<Mailbox, u64>,
    pub sent: HashMap<InstanceId, u64>,
}

/// The counts of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadSummary {
    pub total: u64,
    pub unread: u64,
    /// Time when its last message was accepted.
    pub last_at: Option<Timestamp>,
}
