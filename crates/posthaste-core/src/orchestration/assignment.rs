//! Work that was given out, and what came back.

use std::sync::Arc;

use crate::address::{InstanceId, Mailbox};
use crate::messaging::delivery::DeliveryNo;
use crate::messaging::message::{Principal, Seq};
use crate::ports::change::Copies;
use crate::time::Timestamp;

/// A task, who has it, and who waits for its report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The message that is the task.
    pub task: Seq,
    pub worker: InstanceId,
    pub by: Principal,
    pub label: Option<Arc<str>>,
    pub opened_at: Timestamp,
    pub report: Option<Report>,
}

/// The message that settled an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub seq: Seq,
    pub delivery: DeliveryNo,
    /// Where it went: to whoever gave the work, or whom that one had it from.
    pub mailbox: Mailbox,
    pub at: Timestamp,
}

impl Report {
    /// The message `seq` as a report, if it has a delivery and a mailbox.
    pub(crate) fn of(
        seq: Seq,
        copies: &Copies,
        mailbox: Option<Mailbox>,
        at: Timestamp,
    ) -> Option<Self> {
        let (_, delivery) = *copies.first()?;
        Some(Self { seq, delivery, mailbox: mailbox?, at })
    }
}

/// Where the report of an assignment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// There is none yet.
    Open,
    /// It waits in the mailbox.
    Waits(Seq),
    /// It lies in an answer that is not proven yet.
    Handed(Seq),
    /// It was read.
    Done(Seq),
    /// It died unread, or went to another: the giver was never handed it.
    Lost(Seq),
    /// The database cannot read it: the giver cannot be handed it.
    Unreadable(Seq),
}

impl Standing {
    /// No read brings it any more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done(_) | Self::Lost(_) | Self::Unreadable(_))
    }
}
