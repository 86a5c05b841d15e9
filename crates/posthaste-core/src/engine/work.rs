//! Workers and their tasks.

use std::sync::Arc;

use futures_util::FutureExt;

use super::commands::work::{BeginWork, HireOutcome, NewWorker};
use super::line::unanswered;
use super::people::stopping;
use super::{Engine, Shared, Started};
use crate::address::{InstanceId, Mailbox};
use crate::ledger::KeyLook;
use crate::messaging::message::{Draft, MessageRef, Seq};
use crate::messaging::send::SendError;
use crate::orchestration::AssignError;
use crate::ports::{Hire, Hired, StoreError};
use crate::registry::{Instance, RegistryError, TokenHash, Work};

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
