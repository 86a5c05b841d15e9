//! Assignments and their reports.

use std::sync::Arc;

use crate::address::{InstanceId, Mailbox};
use crate::messaging::delivery::DeliveryNo;
use crate::messaging::message::{Principal, Seq};
use crate::ports::change::Copies;
use crate::time::Timestamp;

/// A task, its worker, and its giver, who waits for the report.
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
    /// The mailbox that got it: the giver's, or that of the giver's own giver.
    pub mailbox: Mailbox,
    pub at: Timestamp,
}

impl Report {
    /// Makes a report of the message `seq`, if it has a delivery and a mailbox.
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

/// The state of an assignment's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportState {
    /// There is no report yet.
    Open,
    /// The report waits in the mailbox.
    Waits(Seq),
    /// The report is in an answer that is not proven yet.
    Handed(Seq),
    /// The report was read.
    Done(Seq),
    /// The report died unread, or went to another: the giver never got it.
    Lost(Seq),
    /// The store cannot read the report: the giver cannot get it.
    Unreadable(Seq),
}

impl ReportState {
    /// Returns whether no read brings the report any more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done(_) | Self::Lost(_) | Self::Unreadable(_))
    }
}
