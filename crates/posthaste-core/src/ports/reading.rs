//! Looking: what was sent, what became of it, and what is open.

use std::collections::HashMap;
use std::sync::Arc;

use crate::address::{InstanceId, Mailbox, Name};
use crate::messaging::delivery::{DeliveryNo, Proof, Reason};
use crate::messaging::message::{Message, Principal, Seq, ThreadId};
use crate::time::Timestamp;

/// A message and where each of its deliveries stands.
#[derive(Debug, Clone)]
pub struct Record {
    pub message: Arc<Message>,
    pub deliveries: Vec<DeliveryRecord>,
    /// What of it cannot be read: table, row, column, and what is wrong there.
    pub unreadable: Vec<String>,
}

impl Record {
    /// The delivery that is the reader's: in its own mailbox, or one-of mail that
    /// it holds or has settled, or that only it could take.
    pub fn delivery_of(&self, reader: Principal) -> Option<&DeliveryRecord> {
        let own = Mailbox::of(reader);
        let is_own = |d: &&DeliveryRecord| {
            let only = d.only.map(Principal::Instance);
            d.mailbox == own || d.mailbox.is_one_of() && d.by.or(only) == Some(reader)
        };
        self.deliveries.iter().find(is_own)
    }

    /// Addressed to the reader and neither proved nor dead.
    pub fn is_unread_by(&self, reader: Principal) -> bool {
        let open =
            |d: &DeliveryRecord| matches!(d.state, RecordState::Queued | RecordState::Leased);
        self.delivery_of(reader).is_some_and(open)
    }

    /// When the reader proved it; for all others, when its last recipient did.
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
    /// How often it was refused.
    pub attempts: u8,
    /// Its reader cancelled an answer that held it, since the hub started.
    pub doubted: bool,
    pub leased_at: Option<Timestamp>,
    pub settled_at: Option<Timestamp>,
    /// Who holds or settled it.
    pub by: Option<Principal>,
    /// The only instance that could take it now: of queued one-of mail.
    pub only: Option<InstanceId>,
}

impl DeliveryRecord {
    /// Whether a holder of these keys has this delivery before it: in its own mailbox, or
    /// in a one-of mailbox as long as nobody took it, and then only who did.
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

/// Something that happened to a delivery and was not its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub delivery: DeliveryNo,
    pub at: Timestamp,
    pub noted: Noted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// By its reader; back to the queue.
    Refused(Option<Principal>),
    /// It was dead, for this reason, and got another chance.
    Requeued(Option<Reason>),
    /// It was set aside: where its row is, and what is wrong with it.
    Unreadable(Box<str>),
}

/// Filters are joined by AND.
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
    /// Addressed to this one and not proved yet.
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
    /// Only what this one may see, and without mailbox, thread and team only what
    /// it sent or has a key to.
    pub of: Option<InstanceId>,
}

/// A part of history.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub records: Vec<Record>,
    /// Where the next page begins: give it as `before`, or as `after` if that was
    /// asked for.
    pub next: Option<Seq>,
}

/// What a marking read got.
#[derive(Debug, Clone, Default)]
pub struct Marked {
    pub page: Page,
    /// What this call settled.
    pub marked: Vec<Seq>,
}

/// What is open in one mailbox.
#[derive(Debug, Clone)]
pub struct OpenBox {
    pub mailbox: Mailbox,
    /// The team that it belongs to.
    pub team: Option<Name>,
    /// The only instance that could take what is queued in a one-of mailbox.
    pub only: Option<InstanceId>,
    /// Neither proved nor dead.
    pub unread: usize,
    pub oldest: Option<Oldest>,
    /// Of those, in nobody's hands.
    pub queued: usize,
    pub oldest_queued: Option<Oldest>,
    /// Of those, in somebody's hands.
    pub held: Vec<HeldMail>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oldest {
    pub seq: Seq,
    /// When it was accepted; `None` until the store has looked it up.
    pub at: Option<Timestamp>,
    /// The instance that sent it; nobody's is the operator's or the hub's.
    pub sender: Option<InstanceId>,
}

/// What one reader holds unproven of one mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldMail {
    pub by: Principal,
    pub count: usize,
    /// The one that it has held longest, and since when.
    pub seq: Seq,
    pub since: Timestamp,
}

/// Counts of what is kept.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// When the oldest message that is kept was accepted.
    pub since: Option<Timestamp>,
    pub received: HashMap<Mailbox, u64>,
    pub sent: HashMap<InstanceId, u64>,
}

/// A thread in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadSummary {
    pub total: u64,
    pub unread: u64,
    /// When its last message was accepted.
    pub last_at: Option<Timestamp>,
}
