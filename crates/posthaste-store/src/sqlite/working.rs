//! The `Working` part of the store.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::messaging::message::{Draft, MessageRef, Principal, Seq};
use posthaste_core::messaging::send::SendError;
use posthaste_core::orchestration::{AssignError, Assignment};
use posthaste_core::ports::{Given, Hire, Hired, Started, StoreError, Working};
use posthaste_core::registry::{Instance, RegistryError, TokenHash, Work};

use super::ops::work::{BeginWork, HireOutcome, NewWorker};
use super::writer::unanswered;
use super::{Shared, SqliteStore, find, stopping};

impl Working for SqliteStore {
    fn hire(&self, hire: Hire) -> Started<Hired, AssignError> {
        if let Some(damage) = self.shared.readers.damage() {
            return async { Err(damage.into()) }.boxed();
        }
        let answer = self.shared.commands.push(|tx| NewWorker::new(hire, tx));
        let shared = Arc::clone(&self.shared);
        async move {
            match answer.await {
                Ok(Ok(HireOutcome::New(hired))) => Ok(*hired),
                Ok(Ok(HireOutcome::Before(task, hire))) => before(&shared, task, &hire.draft).await,
                Ok(Err(error)) => Err(error),
                Err(error) => Err(unanswered(error).into()),
            }
        }
        .boxed()
    }

    fn hired(&self, draft: Draft) -> BoxFuture<'_, Result<Option<Hired>, AssignError>> {
        async move {
            let task = self.shared.ledger.lock().accepted(&draft);
            match task {
                Some(task) => before(&self.shared, task, &draft).await.map(Some),
                None => Ok(None),
            }
        }
        .boxed()
    }

    fn begin_work(
        &self,
        who: InstanceId,
        token: TokenHash,
        work: Work,
    ) -> Started<Instance, RegistryError> {
        let answer = self.shared.commands.push(|tx| BeginWork::new(who, token, work, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    fn given(&self, by: Principal, done: bool) -> Vec<Given> {
        self.shared.now().given(by, done)
    }

    fn given_in_round(&self, by: Principal) -> Vec<Given> {
        self.shared.ledger.lock().given_in_round(by)
    }

    fn unread(&self, who: Principal) -> usize {
        self.shared.now().unread_of(who).0
    }

    fn taken_on(&self, by: InstanceId) -> Vec<Assignment> {
        self.shared.ledger.lock().taken_on(by)
    }

    fn assignment(&self, task: Seq) -> Option<Given> {
        self.shared.now().assignment(task)
    }

    fn nearest_profiles(&self, wanted: &str) -> Vec<String> {
        self.shared.ledger.lock().nearest_profiles(wanted)
    }

    fn in_line(&self) -> Vec<Instance> {
        self.shared.ledger.lock().in_line()
    }

    fn at_work(&self) -> Vec<Instance> {
        self.shared.ledger.lock().at_work()
    }

    fn session(&self, who: InstanceId) -> Principal {
        self.shared.ledger.lock().session(who)
    }

    fn below(&self, who: Principal) -> Vec<Arc<Instance>> {
        self.shared.ledger.lock().below(who)
    }
}

/// The worker that a key was accepted for before, if it was the same wish.
async fn before(shared: &Shared, task: Seq, draft: &Draft) -> Result<Hired, AssignError> {
    let record = find(shared, MessageRef::Seq(task)).await?;
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
        Mailbox::Instance(id) => shared.now().instance(id),
        _ => None,
    });
    let worker = worker.ok_or(StoreError::Unavailable("the first worker is gone".into()))?;
    Ok(Hired { instance: worker.instance, task, duplicate: true })
}
