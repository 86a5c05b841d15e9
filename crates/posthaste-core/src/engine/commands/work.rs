//! Workers and their tasks: hire, and begin the run.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::people::unavailable;
use crate::address::{InstanceId, Mailbox};
use crate::engine::line::unanswered;
use crate::engine::people::stopping;
use crate::engine::writer::Command;
use crate::engine::{Engine, Shared, Started};
use crate::ledger::{BeginPlan, HirePlan, JoinPlan, KeyLook, KeyMark, Ledger, PlannedHire};
use crate::messaging::message::{Draft, MessageRef, Seq};
use crate::messaging::send::SendError;
use crate::orchestration::AssignError;
use crate::ports::change::Change;
use crate::ports::{Hire, Hired, Opening, StoreError, Ticket};
use crate::registry::{Instance, RegistryError, TokenHash, Work};
use crate::time::Timestamp;

impl Engine {
    /// Makes the worker, `starting`, and its task in one group: all or nothing. Without
    /// `work` the task goes to the agent of that name that has the least to do and has
    /// been quiet the longest. The same key returns the same worker.
    pub fn hire(&self, hire: Hire) -> Started<Hired, AssignError> {
        if let Some(damage) = self.shared.damage() {
            return async { Err(damage.into()) }.boxed();
        }
        let mut answer = self.shared.line.push(|tx| NewWorker::new(hire, tx));
        let shared = Arc::clone(&self.shared);
        async move {
            loop {
                let (mark, mut hire) = match answer.await.map_err(unanswered)?? {
                    HireOutcome::New(hired) => return Ok(*hired),
                    HireOutcome::Before(task, hire) => {
                        return before(&shared, task, &hire.draft).await;
                    }
                    HireOutcome::Unsure(mark, hire) => (mark, hire),
                };
                if let Some(task) = shared.accepted_before(&hire.draft).await? {
                    return before(&shared, task, &hire.draft).await;
                }
                hire.draft = hire.draft.with_new_key(mark);
                answer = shared.line.push(|tx| NewWorker::new(*hire, tx));
            }
        }
        .boxed()
    }

    /// Returns the worker that was accepted under the key of this draft, if any.
    pub async fn hired(&self, draft: &Draft) -> Result<Option<Hired>, AssignError> {
        let task = match self.ledger(|ledger| ledger.look_for_key(draft)) {
            KeyLook::New => None,
            KeyLook::Known(task) => Some(task),
            KeyLook::Perhaps(_) => self.shared.accepted_before(draft).await?,
        };
        match task {
            Some(task) => before(&self.shared, task, draft).await.map(Some),
            None => Ok(None),
        }
    }

    /// Makes a worker, `starting`, without a task.
    pub fn open_worker(&self, opening: Opening) -> Started<Instance, AssignError> {
        if let Some(damage) = self.shared.damage() {
            return async { Err(damage.into()) }.boxed();
        }
        let answer = self.shared.line.push(|tx| OpenWorker::new(opening, tx));
        async move { answer.await.map_err(unanswered)? }.boxed()
    }

    /// Replaces the record of a worker.
    pub fn put_record(&self, worker: InstanceId, record: String) -> Started<(), RegistryError> {
        let answer = self.shared.line.push(|tx| PutRecord::new(worker, record, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    /// Notes that the worker runs from now on, with this token, in this place.
    pub fn begin_work(
        &self,
        who: InstanceId,
        token: TokenHash,
        work: Work,
    ) -> Started<Instance, RegistryError> {
        let answer = self.shared.line.push(|tx| BeginWork::new(who, token, work, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }
}

/// Returns the worker that was accepted under a key before, if the request was the same.
async fn before(shared: &Shared, task: Seq, draft: &Draft) -> Result<Hired, AssignError> {
    let record = shared.record(MessageRef::Seq(task)).await?;
    let record = record.ok_or(StoreError::Unavailable("the first task is gone".into()))?;
    let message = &record.message;
    if message.idempotency_key != draft.details().idempotency_key
        || message.from.instance != draft.from.instance()
    {
        let lost = StoreError::Unavailable("the first assignment was not kept".into());
        return Err(lost.into());
    }
    if message.body != draft.body() {
        return Err(SendError::KeyReused { seq: task }.into());
    }
    let worker = record.deliveries.iter().find_map(|d| match d.mailbox {
        Mailbox::Instance(id) => shared.ask(|ledger| ledger.instance(id)),
        _ => None,
    });
    let worker = worker.ok_or(StoreError::Unavailable("the first worker is gone".into()))?;
    Ok(Hired { instance: worker.instance, task, duplicate: true })
}

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

/// Adds a worker without a task.
pub(in crate::engine) struct OpenWorker {
    opening: Opening,
    plan: Option<JoinPlan>,
    refused: Option<AssignError>,
    tx: oneshot::Sender<Result<Instance, AssignError>>,
}

impl OpenWorker {
    pub(in crate::engine) fn new(
        opening: Opening,
        tx: oneshot::Sender<Result<Instance, AssignError>>,
    ) -> Self {
        Self { opening, plan: None, refused: None, tx }
    }
}

impl Command for OpenWorker {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        match ledger.plan_open(self.opening.clone(), now, rand::random) {
            Ok(plan) => {
                plan.tell(changes);
                self.plan = Some(plan);
                true
            }
            Err(error) => {
                self.refused = Some(error);
                false
            }
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Some(plan) = self.plan.take() {
            ledger.undo_join(&plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let opened = match (failure, self.plan, self.refused) {
            (Some(failure), ..) => Err(failure.into()),
            (None, Some(plan), _) => Ok(plan.instance),
            (None, None, refused) => Err(refused.unwrap_or(StoreError::Closed.into())),
        };
        let _ = self.tx.send(opened);
    }
}

/// Replaces the record of a worker.
pub(in crate::engine) struct PutRecord {
    worker: InstanceId,
    record: String,
    before: Result<Instance, RegistryError>,
    tx: oneshot::Sender<Result<(), RegistryError>>,
}

impl PutRecord {
    pub(in crate::engine) fn new(
        worker: InstanceId,
        record: String,
        tx: oneshot::Sender<Result<(), RegistryError>>,
    ) -> Self {
        Self { worker, record, before: Err(RegistryError::Ended(String::new())), tx }
    }
}

impl Command for PutRecord {
    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.before = ledger.put_record(self.worker, self.record.clone());
        if self.before.is_ok() {
            let (worker, record) = (self.worker, self.record.as_str().into());
            changes.push(Change::RecordWritten { worker, record });
        }
        self.before.is_ok()
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Ok(before) = &self.before {
            ledger.undo_put_record(before);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let written = self.before.map(drop);
        let _ = self.tx.send(failure.map_or(written, |f| Err(unavailable(&f))));
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
