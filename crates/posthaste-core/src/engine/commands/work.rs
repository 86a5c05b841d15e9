//! Commands that hire a worker and begin its run.

use tokio::sync::oneshot;

use super::people::unavailable;
use crate::address::InstanceId;
use crate::engine::writer::Command;
use crate::ledger::{BeginPlan, HirePlan, KeyMark, Ledger, PlannedHire};
use crate::messaging::message::Seq;
use crate::orchestration::AssignError;
use crate::ports::change::Change;
use crate::ports::{Hire, Hired, StoreError, Ticket};
use crate::registry::{Instance, RegistryError, TokenHash, Work};
use crate::time::Timestamp;

/// The result of a request for a worker.
pub(in crate::engine) enum HireOutcome {
    New(Box<Hired>),
    /// The key was accepted before, for this task; the request may differ.
    Before(Seq, Box<Hire>),
    /// The store must be asked for the key.
    Unsure(KeyMark, Box<Hire>),
}

/// Adds a worker and its task: all or nothing.
pub(in crate::engine) struct NewWorker {
    hire: Hire,
    plan: Option<Box<HirePlan>>,
    outcome: Option<Result<HireOutcome, AssignError>>,
    tx: oneshot::Sender<Result<HireOutcome, AssignError>>,
}

impl NewWorker {
    pub(in crate::engine) fn new(
        hire: Hire,
        tx: oneshot::Sender<Result<HireOutcome, AssignError>>,
    ) -> Self {
        Self { hire, plan: None, outcome: None, tx }
    }
}

impl Command for NewWorker {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        match ledger.plan_hire(self.hire.clone(), now, rand::random) {
            Ok(PlannedHire::New(plan)) => {
                plan.tell(changes);
                self.plan = Some(plan);
                return true;
            }
            Ok(PlannedHire::Duplicate(seq)) => {
                self.outcome = Some(Ok(HireOutcome::Before(seq, Box::new(self.hire.clone()))));
            }
            Ok(PlannedHire::Unsure(mark)) => {
                self.outcome = Some(Ok(HireOutcome::Unsure(mark, Box::new(self.hire.clone()))));
            }
            Err(error) => self.outcome = Some(Err(error)),
        }
        false
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        if let Some(plan) = &self.plan {
            ledger.commit_hire(plan, tickets);
            self.outcome = Some(Ok(HireOutcome::New(Box::new(plan.hired()))));
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Some(plan) = self.plan.take() {
            ledger.undo_hire(&plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let outcome = match failure {
            Some(failure) => Err(failure.into()),
            None => self.outcome.unwrap_or(Err(StoreError::Closed.into())),
        };
        let _ = self.tx.send(outcome);
    }
}

/// Notes that a worker runs from now on.
pub(in crate::engine) struct BeginWork {
    who: InstanceId,
    token: TokenHash,
    work: Work,
    plan: Result<BeginPlan, RegistryError>,
    tx: oneshot::Sender<Result<Instance, RegistryError>>,
}

impl BeginWork {
    pub(in crate::engine) fn new(
        who: InstanceId,
        token: TokenHash,
        work: Work,
        tx: oneshot::Sender<Result<Instance, RegistryError>>,
    ) -> Self {
        Self { who, token, work, plan: Err(RegistryError::Ended(String::new())), tx }
    }
}

impl Command for BeginWork {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_begin_work(self.who, self.token, self.work.clone(), now);
        let Ok(plan) = &self.plan else { return false };
        plan.tell(changes);
        true
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Ok(plan) = &self.plan {
            ledger.undo_begin_work(plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let begun = self.plan.map(|plan| plan.instance);
        let _ = self.tx.send(failure.map_or(begun, |f| Err(unavailable(&f))));
    }
}
