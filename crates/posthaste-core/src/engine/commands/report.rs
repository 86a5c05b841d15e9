//! The report of a worker whose turn has ended, and that goes on living.

use tokio::sync::oneshot;

use super::people::unavailable;
use crate::address::InstanceId;
use crate::engine::writer::Command;
use crate::ledger::{AppendPlan, Ledger};
use crate::messaging::message::Seq;
use crate::ports::change::Change;
use crate::ports::{StoreError, Ticket};
use crate::registry::RegistryError;
use crate::time::Timestamp;

/// Reports on all open assignments of a worker, except those whose task it has not had.
pub(in crate::engine) struct ReportAnswer {
    who: InstanceId,
    answer: String,
    unseen: Vec<Seq>,
    plans: Result<Vec<AppendPlan>, RegistryError>,
    tx: oneshot::Sender<Result<usize, RegistryError>>,
}

impl ReportAnswer {
    pub(in crate::engine) fn new(
        who: InstanceId,
        answer: String,
        unseen: Vec<Seq>,
        tx: oneshot::Sender<Result<usize, RegistryError>>,
    ) -> Self {
        Self { who, answer, unseen, plans: Ok(Vec::new()), tx }
    }
}

impl Command for ReportAnswer {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plans = ledger.plan_reports(self.who, &self.answer, &self.unseen, now);
        let Ok(plans) = &self.plans else { return false };
        plans.iter().for_each(|plan| plan.tell(changes));
        !plans.is_empty()
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        for plan in self.plans.iter().flatten() {
            ledger.commit_append(plan, tickets);
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        for plan in self.plans.iter().flatten().rev() {
            ledger.undo_append(plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let reported = self.plans.map(|plans| plans.len());
        let _ = self.tx.send(failure.map_or(reported, |f| Err(unavailable(&f))));
    }
}
