//! Changes: the ledger's decisions as plain data, and the only thing that a store writes.
//!
//! A [`Change`] states what is true afterwards. No store decides anything from it: the
//! ledger chose each number, each time and each state.

use std::sync::Arc;

use smallvec::SmallVec;

use super::reading::Note;
use crate::address::{InstanceId, Mailbox, Name};
use crate::ledger::{BoxNo, KeyDigest, Settled};
use crate::messaging::delivery::DeliveryNo;
use crate::messaging::message::{Message, Seq};
use crate::needs::{Closed, Need, NeedId, Remembered};
use crate::orchestration::{Assignment, Report};
use crate::profiles::Profile;
use crate::registry::{Instance, Status, Team, TokenHash};
use crate::time::Timestamp;

/// The deliveries of a message: one for most, many for `@everyone`. Their numbers follow
/// each other without a gap.
pub type Copies = SmallVec<[(BoxNo, DeliveryNo); 1]>;

/// One durable change.
#[derive(Debug, Clone)]
pub enum Change {
    /// A mailbox gets a number. A number that another mailbox has is an error.
    MailboxOpened {
        no: BoxNo,
        mailbox: Mailbox,
    },
    /// The number is free for the next new mailbox.
    MailboxFreed {
        no: BoxNo,
    },

    /// A message with its deliveries, all open, and the digest of its idempotency key.
    MessageAdded {
        message: Arc<Message>,
        copies: Copies,
        key: Option<KeyDigest>,
    },
    /// An open delivery ends: acked or dead.
    DeliverySettled {
        settled: Settled,
        at: Timestamp,
    },
    /// A reader refused an open delivery; `attempts` counts the refusals so far. It stays
    /// open and is marked.
    DeliveryReturned {
        delivery: DeliveryNo,
        seq: Seq,
        attempts: u8,
    },
    /// A dead delivery is open again: without attempts, lease, end or expiry.
    DeliveryRequeued {
        delivery: DeliveryNo,
        seq: Seq,
        marked: bool,
    },
    /// Readers may have seen these open deliveries.
    DeliveriesMarked(Vec<DeliveryNo>),
    /// An event of a delivery that its row does not hold.
    NoteAdded(Note),
    /// Removes messages with their deliveries and notes. A store leaves a message alone
    /// that has an open delivery: it was requeued since the list was made.
    MessagesPruned(Vec<Seq>),

    /// A new instance, or one that joined again: then its status, secret and last sign of
    /// life are new.
    InstanceAdded(Arc<Instance>),
    /// The instance runs: status, last sign of life and work are new.
    InstanceStarted(Arc<Instance>),
    /// The instance ended: status, end and work are new, and it has no tokens.
    InstanceEnded(Arc<Instance>),
    /// The last sign of life of an instance, unless a later one is known.
    InstanceSeen {
        id: InstanceId,
        at: Timestamp,
        status: Status,
    },
    /// The record of a worker is new, whether or not it has ended.
    RecordWritten {
        worker: InstanceId,
        record: Arc<str>,
    },
    TokenAdded {
        token: TokenHash,
        of: InstanceId,
    },
    TokenRemoved(TokenHash),

    /// A team that its first instance made and nobody described.
    TeamAdded(Name),
    TeamWritten(Team),
    /// A new profile, or a new version of one.
    ProfileWritten(Arc<Profile>),
    ProfileRemoved(Name),

    AssignmentOpened(Assignment),
    AssignmentSettled {
        task: Seq,
        report: Report,
    },

    NeedOpened(Arc<Need>),
    /// An open need is closed.
    NeedClosed {
        id: NeedId,
        closed: Closed,
    },
    /// A verdict on a subject for a profile; the last one counts.
    VerdictRemembered(Remembered),
    VerdictForgotten {
        profile: Name,
        subject: String,
    },

    /// Removes rows that were kept for long enough: idempotency keys and ids acked by
    /// weak proof (`keys`), ended instances with their work (`ended`), settled
    /// assignments (`settled`), events (`events`), closed needs (`needs`).
    OldForgotten {
        keys: Old,
        ended: Old,
        settled: Old,
        events: Old,
        needs: Old,
    },
    /// No delivery below this one is open.
    LowWater(DeliveryNo),
    /// The hub stopped cleanly: no reader was given a delivery that is not marked.
    Stopped,
}

/// The rows that have been kept for long enough, although the machine's clock may have
/// been wrong, or is wrong now.
///
/// Within a run time never goes back. So a row whose time lies in the future was written
/// before this start, and is at least as old as this run is long. Nothing else is known
/// of the row: its clock was ahead, or that of this run is behind. The row stays until
/// the run has lasted as long as such a row is kept, and it holds no other row back. Rows
/// keep the times that they have: the next start may know better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Old {
    /// Rows from before this time are old.
    pub before: Timestamp,
    /// Rows from after this time are old, too.
    pub beyond: Timestamp,
    pub now: Timestamp,
}

impl Old {
    /// Rows that are kept for `kept`, in a run that began at `started`.
    pub fn new(now: Timestamp, started: Timestamp, kept: std::time::Duration) -> Self {
        let before = now - kept;
        let beyond = if started < before { now } else { Timestamp(i64::MAX) };
        Self { before, beyond, now }
    }

    pub fn has(&self, at: Timestamp) -> bool {
        at < self.before || at > self.beyond
    }
}
