//! Append: a message and its deliveries, all or nothing.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::oneshot;

use crate::address::Address;
use crate::engine::line::unanswered;
use crate::engine::writer::Command;
use crate::engine::{Engine, Shared, Started};
use crate::ledger::{AppendPlan, KeyDigest, KeyLook, KeyMark, Ledger, Planned};
use crate::messaging::message::{Draft, MessageRef, Principal, Recipient, Seq};
use crate::messaging::send::SendError;
use crate::needs::NeedId;
use crate::ports::change::Change;
use crate::ports::{Appended, DeliveryRecord, Queue, StoreError, Ticket};
use crate::time::Timestamp;

/// The result of an append.
#[derive(Debug)]
pub(in crate::engine) enum Accepted {
    New(Appended),
    /// The same key was accepted before, as this message; the draft may differ.
    Before(Seq, Box<Draft>),
    /// The store must be asked for the key.
    Unsure(KeyMark, Box<Draft>),
}

impl Engine {
    /// Routes the draft and stores the message with one queued delivery per mailbox: all
    /// or nothing, durable when the future completes. Routing, the recipient's life and
    /// the limits are decided inside the same group. Tickets are put after the commit, in
    /// its order, before this answers. A damaged store accepts nothing.
    pub fn append(&self, draft: Draft) -> Started<Appended, SendError> {
        if let Some(damage) = self.shared.damage() {
            return async { Err(damage.into()) }.boxed();
        }
        let accepted = self.shared.line.append(draft);
        let shared = Arc::clone(&self.shared);
        async move {
            match accepted.await.map_err(unanswered)?? {
                Accepted::New(appended) => Ok(appended),
                // Boxed: the rare paths would enlarge every send's future.
                Accepted::Before(seq, draft) => Box::pin(duplicate(&shared, &draft, seq)).await,
                Accepted::Unsure(mark, draft) => Box::pin(look_up(&shared, *draft, mark)).await,
            }
        }
        .boxed()
    }
}

impl Shared {
    /// Asks the store for the message that was accepted under the key of this draft.
    pub(in crate::engine) async fn accepted_before(
        &self,
        draft: &Draft,
    ) -> Result<Option<Seq>, StoreError> {
        let Some(digest) = KeyDigest::of(draft) else { return Ok(None) };
        let since = self.clock.now() - self.limits.key_retention;
        self.store.key(digest, since).await
    }
}

/// Asks the store for the key of a draft, and appends the draft if the key is new.
async fn look_up(
    shared: &Shared,
    mut draft: Draft,
    mut mark: KeyMark,
) -> Result<Appended, SendError> {
    loop {
        if let Some(seq) = shared.accepted_before(&draft).await? {
            return duplicate(shared, &draft, seq).await;
        }
        let again = shared.line.append(draft.with_new_key(mark));
        (mark, draft) = match again.await.map_err(unanswered)?? {
            Accepted::New(appended) => return Ok(appended),
            Accepted::Before(seq, draft) => return duplicate(shared, &draft, seq).await,
            Accepted::Unsure(mark, draft) => (mark, *draft),
        };
    }
}

/// Returns the receipt of a message that was accepted before, if its text is the same.
/// The message is committed: the writer tells of a key only after the commit of the first
/// draft that had it.
async fn duplicate(shared: &Shared, draft: &Draft, seq: Seq) -> Result<Appended, SendError> {
    let record = shared.record(MessageRef::Seq(seq)).await?;
    let record = record.ok_or(StoreError::Unavailable("the first message is gone".into()))?;
    if record.message.body != draft.body() {
        return Err(SendError::KeyReused { seq });
    }
    let from = draft.from;
    let recipients = shared.ask(|ledger| {
        let recipient = |d: DeliveryRecord| Recipient {
            active: ledger.active(&d.mailbox, from),
            waiting: shared.queue.waiting(&d.mailbox, from),
            mailbox: d.mailbox,
        };
        record.deliveries.into_iter().map(recipient).collect()
    });
    Ok(Appended {
        seq,
        id: record.message.id,
        thread: record.message.thread,
        recipients,
        skipped: Vec::new(),
        duplicate: true,
    })
}

/// The command of a send.
pub(in crate::engine) struct Append {
    from: Principal,
    to: Address,
    answers_need: Option<NeedId>,
    /// `None` while the plan has the draft's text.
    draft: Option<Draft>,
    plan: Option<Box<AppendPlan>>,
    /// The result of the look for its key.
    key: KeyLook,
    outcome: Option<Result<Appended, SendError>>,
    tx: oneshot::Sender<Result<Accepted, SendError>>,
}

impl Append {
    pub(in crate::engine) fn new(
        draft: Draft,
        tx: oneshot::Sender<Result<Accepted, SendError>>,
    ) -> Self {
        let (from, to) = (draft.from, draft.to.clone());
        let answers_need = draft.answers_need();
        let (plan, key, outcome) = (None, KeyLook::New, None);
        Self { from, to, answers_need, draft: Some(draft), plan, key, outcome, tx }
    }
}

impl Command for Append {
    fn is_early(&self) -> bool {
        // A key, and the delivery that a reply acks, must be looked up in the backlog.
        self.draft.as_ref().is_some_and(|d| {
            d.details().idempotency_key.is_none() && d.details().in_reply_to.is_none()
        })
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        let Some(draft) = self.draft.take() else { return false };
        (self.key, self.outcome) = (KeyLook::New, None);
        let draft = match ledger.plan_append(draft, now) {
            Planned::New(plan) => {
                plan.tell(changes);
                self.plan = Some(plan);
                return true;
            }
            Planned::Duplicate(seq, draft) => {
                self.key = KeyLook::Known(seq);
                draft
            }
            Planned::Unsure(mark, draft) => {
                self.key = KeyLook::Perhaps(mark);
                draft
            }
            Planned::Refused(error, draft) => {
                self.outcome = Some(Err(error));
                draft
            }
        };
        self.draft = Some(*draft);
        false
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        if let Some(plan) = &mut self.plan {
            ledger.commit_append(plan, tickets);
            self.outcome = Some(Ok(plan.appended()));
        }
    }

    fn look(&mut self, queue: &dyn Queue) {
        if let Some(Ok(appended)) = &mut self.outcome {
            for recipient in &mut appended.recipients {
                recipient.waiting = queue.waiting(&recipient.mailbox, self.from);
            }
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Some(plan) = self.plan.take() {
            ledger.undo_append(&plan);
            // No reader has seen the message yet: it becomes a draft again.
            let message = Arc::unwrap_or_clone(plan.message);
            let draft = Draft::again(message, self.from, self.to.clone(), plan.thread);
            self.draft = Some(draft.answering(self.answers_need));
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let outcome = match (failure, self.key, self.draft, self.outcome) {
            (Some(failure), ..) => Err(failure.into()),
            (None, KeyLook::Known(seq), Some(draft), _) => {
                Ok(Accepted::Before(seq, Box::new(draft)))
            }
            (None, KeyLook::Perhaps(mark), Some(draft), _) => {
                Ok(Accepted::Unsure(mark, Box::new(draft)))
            }
            (None, _, _, Some(outcome)) => outcome.map(Accepted::New),
            (None, _, _, None) => Err(StoreError::Closed.into()),
        };
        // The message of a sender that went away is accepted all the same.
        let _ = self.tx.send(outcome);
    }
}
