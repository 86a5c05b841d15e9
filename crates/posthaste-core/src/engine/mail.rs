//! Messages: lease, settle.

use std::collections::HashSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::commands::set_aside;
use super::commands::settle::{Ack, Cancel, Nack, Requeue, Requeued};
use super::line::unanswered;
use super::{Engine, Shared, Started};
use crate::ledger::{DeadDelivery, Heads, Queued, Remaining, Sought};
use crate::messaging::delivery::{AnswerId, DeliveryNo, Proof};
use crate::messaging::message::{MessageRef, Principal, Priority, Seq};
use crate::ports::store::{Bodies, FoundMessages, RowOf, StoredDelivery};
use crate::ports::{
    Acked, ActError, Filter, Lease, Leased, Nacked, Record, RecordState, StoreError, Survey, Take,
    What,
};

/// Number of tries of a lease that finds unreadable messages. Each try sets aside all
/// that it finds.
const LEASE_TRIES: usize = 100;
/// Number of tries of a requeue whose list of dead deliveries became stale.
const REQUEUE_TRIES: usize = 8;

impl Engine {
    /// Leases queued mail, urgent first, then by number: everything that fits and that
    /// only this reader could take, and of each one-of mailbox at most one message that
    /// other living instances could take as well; never messages that the reader sent. If
    /// no other living instance has a key to a one-of mailbox, or only the sender has
    /// one, its mail counts as the reader's own. A gather (`or_ends_wait`) gets reports
    /// and the message that ended it before the rest. A delivery has at most one lease;
    /// none is given once the shutdown is noted. A message that cannot be read does not
    /// stop the others: its deliveries are set aside, dead (`unreadable`).
    pub fn lease(&self, take: Take) -> BoxFuture<'_, Result<Lease, StoreError>> {
        // Boxed: it would enlarge the future of every waiting call.
        async move {
            for _ in 0..LEASE_TRIES {
                if let Some(lease) = self.shared.try_lease(&take).await? {
                    return Ok(lease);
                }
            }
            Err(StoreError::Unavailable("a message's text cannot be read".into()))
        }
        .boxed()
    }

    /// Returns what a lease would find, without leasing anything.
    pub fn survey(
        &self,
        reader: Principal,
        filter: Filter,
    ) -> BoxFuture<'_, Result<Survey, StoreError>> {
        async move {
            let heads = self.shared.heads(reader, &filter).await?;
            let now = self.shared.clock.now();
            Ok(self.ledger(|ledger| ledger.survey(reader, &filter, now, &heads)))
        }
        .boxed()
    }

    /// Acks deliveries that the caller holds, or that it held and that are queued again.
    /// An ack is final; settled deliveries stay as they are. Deliveries that another
    /// reader holds are `lost`.
    pub fn ack(&self, by: Principal, what: What, proof: Proof) -> Started<Acked> {
        let answer = self.shared.line.push(|tx| Ack::new(by, what, proof, tx));
        async move { answer.await.map_err(unanswered)? }.boxed()
    }

    /// Returns the caller's leases to their mailboxes, marked: only those that this
    /// answer still holds. `doubt` remembers that the reader cancelled.
    pub fn give_back(&self, by: Principal, what: &[DeliveryNo], from: AnswerId, doubt: bool) {
        let tickets = self.shared.ledger.lock().give_back(by, what, Some(from), doubt);
        self.shared.put_all(tickets);
    }

    /// Gives leases that no reader was shown back to their mailboxes, as they were.
    pub fn put_back(&self, by: Principal, what: &[DeliveryNo], from: AnswerId) {
        self.shared.put_back(by, what, from);
    }

    /// Refuses deliveries: they go back to their mailboxes, marked, and die at the fifth
    /// refusal.
    pub fn nack(&self, by: Principal, what: What) -> Started<Nacked> {
        let answer = self.shared.line.push(|tx| Nack::new(by, what, tx));
        async move { answer.await.map_err(unanswered)? }.boxed()
    }

    /// Kills the queued deliveries of a message. `Conflict` if none is queued.
    pub async fn cancel(&self, message: Seq) -> Result<(), ActError> {
        let record = self.message(MessageRef::Seq(message)).await?;
        let found = record.ok_or(ActError::NotFound)?.deliveries.into_iter();
        let targets = found.map(|d| (d.mailbox, d.delivery)).collect();
        let answer = self.shared.line.push(|tx| Cancel::new(targets, tx));
        answer.await.map_err(unanswered)?
    }

    /// Queues the dead deliveries of a message again, marked if a reader may have seen
    /// them. `Conflict` if none is dead, or a recipient has ended or has no room.
    pub async fn requeue(&self, message: Seq) -> Result<(), ActError> {
        for _ in 0..REQUEUE_TRIES {
            // The revision comes first, so that a change after the look is noticed.
            let revision = self.ledger(|ledger| ledger.revision());
            let which = vec![MessageRef::Seq(message)];
            let found = self.shared.store.records(which, usize::MAX).await?;
            let (dead, always_fits) = match found.into_iter().next() {
                Some(record) => {
                    let message = record.message;
                    let again = |d: StoredDelivery| dead_delivery(d, &message);
                    let dead = record.deliveries.into_iter().filter_map(again).collect();
                    (dead, message.kind.always_fits())
                }
                None => (Vec::new(), false),
            };
            let wish = |tx| Requeue::new(dead, always_fits, revision, tx);
            let answer = self.shared.line.push(wish);
            match answer.await.map_err(unanswered)?? {
                Requeued::Done => return Ok(()),
                Requeued::Stale => {}
            }
        }
        Err(ActError::Conflict("others are requeueing or pruning it: try again".into()))
    }

    /// Returns one message with all its deliveries.
    pub async fn message(&self, which: MessageRef) -> Result<Option<Record>, StoreError> {
        self.shared.record(which).await
    }

    /// Returns the ids acked by weak proof before the last start that the reader was not
    /// yet told.
    pub fn weakly_acked(&self, reader: Principal) -> Vec<Seq> {
        self.shared.weakly_acked.get(&reader).cloned().unwrap_or_default()
    }
}

/// Returns a dead delivery as it would be queued again.
fn dead_delivery(
    found: StoredDelivery,
    message: &crate::messaging::message::Message,
) -> Option<DeadDelivery> {
    let Some(RecordState::Dead { reason, maybe_seen }) = found.end else { return None };
    let marked = found.marked || maybe_seen;
    let entry = Queued {
        delivery: found.delivery,
        seq: message.seq,
        message: None,
        size: found.size,
        sender: message.from.instance,
        attempts: 0,
        urgent: message.priority == Priority::Urgent,
        marked,
        leased_before: marked,
        doubted: false,
        expires_at: None,
    };
    Some(DeadDelivery { at: found.at, entry, reason })
}

impl Shared {
    fn put_back(&self, by: Principal, what: &[DeliveryNo], from: AnswerId) {
        let tickets = self.ledger.lock().put_back(by, what, from);
        self.put_all(tickets);
    }

    /// Fetches the messages outside the window that a filter needs, without their bodies.
    async fn heads(&self, reader: Principal, filter: &Filter) -> Result<Heads, StoreError> {
        self.known().await?;
        let unjudged = self.ledger.lock().unjudged(reader, filter);
        if unjudged.is_empty() {
            return Ok(Heads::new());
        }
        let mut found = self.store.messages(unjudged, Bodies::Without).await?;
        let heads = std::mem::take(&mut found.messages);
        self.set_aside(found).await?;
        Ok(heads)
    }

    /// Tries a lease. `None` if unreadable messages had to be set aside first.
    async fn try_lease(&self, take: &Take) -> Result<Option<Lease>, StoreError> {
        let heads = self.heads(take.reader, &take.filter).await?;
        let now = self.clock.now();
        let (found, remaining) = {
            let mut ledger = self.ledger.lock();
            if ledger.is_stopping() {
                return Err(StoreError::Closed);
            }
            ledger.lease(take, now, &heads)
        };
        // From here on the deliveries are leased: dropping `held` gives them back.
        let held = Unread { shared: self, by: take.reader, answer: take.answer, found };
        let mut texts = self.texts(&held.found).await?;
        if !(texts.unreadable.is_empty() && texts.damaged.is_empty()) {
            // Only queued deliveries can be set aside.
            drop(held);
            texts.messages.clear();
            self.set_aside(texts).await?;
            return Ok(None);
        }
        let (found, texts) = (held.keep(), texts.messages);

        let ledger = self.ledger.lock();
        let mail = found.into_iter().filter_map(|sought| {
            let message = sought.message.or_else(|| texts.get(&sought.seq).cloned())?;
            let from = &message.from;
            Some(Leased {
                delivery: sought.delivery,
                mailbox: sought.mailbox,
                redelivered: sought.redelivered,
                doubted: sought.doubted,
                relation: ledger.relation(take.reader, from.instance, from.kind),
                message,
            })
        });
        let Remaining { all: remaining, shared } = remaining;
        Ok(Some(Lease { mail: mail.collect(), remaining, shared }))
    }

    /// Fetches the texts that are not in the window.
    async fn texts(&self, found: &[Sought]) -> Result<FoundMessages, StoreError> {
        let missing: Vec<Seq> =
            found.iter().filter(|s| s.message.is_none()).map(|s| s.seq).collect();
        match missing.is_empty() {
            true => Ok(FoundMessages::default()),
            false => self.store.messages(missing, Bodies::With).await,
        }
    }

    /// Goes on without these messages. A row that cannot be decoded makes its deliveries
    /// dead, for the operator to repair. In a damaged file, or while the store cannot be
    /// written, nothing is changed: the messages are only kept back until the next start.
    async fn set_aside(&self, found: FoundMessages) -> Result<(), StoreError> {
        if !found.damaged.is_empty() {
            tracing::error!(messages = found.damaged.len(), "damaged messages are kept back");
            self.keep_back(&found.damaged.into_iter().collect());
        }
        let message = |row: &crate::ports::store::UnreadableRow| match row.of {
            RowOf::Message(seq) => Some(seq),
            RowOf::Delivery(..) => None,
        };
        let bad: HashSet<Seq> = found.unreadable.iter().filter_map(message).collect();
        match set_aside::all(self, found.unreadable).await {
            Ok(()) => Ok(()),
            Err(StoreError::Closed) => Err(StoreError::Closed),
            Err(error) => {
                tracing::error!(%error, messages = bad.len(), "messages are kept back");
                self.keep_back(&bad);
                Ok(())
            }
        }
    }

    /// Plans the death of these messages and never commits or undoes it: no reader can
    /// lease them any more.
    fn keep_back(&self, messages: &HashSet<Seq>) {
        let now = self.clock.now();
        self.ledger.lock().plan_unreadable(|seq| messages.contains(&seq), now);
    }
}

/// Leased deliveries that the caller does not have yet. Dropping them gives them back.
struct Unread<'a> {
    shared: &'a Shared,
    by: Principal,
    answer: AnswerId,
    found: Vec<Sought>,
}

impl Unread<'_> {
    fn keep(mut self) -> Vec<Sought> {
        std::mem::take(&mut self.found)
    }
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        if !self.found.is_empty() {
            let what: Vec<DeliveryNo> = self.found.iter().map(|sought| sought.delivery).collect();
            self.shared.put_back(self.by, &what, self.answer);
        }
    }
}
