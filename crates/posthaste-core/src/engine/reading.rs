//! Records in their present state: the store's rows, and the leases of the ledger.

use std::sync::Arc;

use super::{Engine, Shared};
use crate::address::Mailbox;
use crate::ledger::Ledger;
use crate::messaging::message::{MessageRef, Principal, Seq, ThreadId};
use crate::ports::store::{Bodies, CountsOf, StoredDelivery, StoredRecord};
use crate::ports::{
    DeliveryRecord, Kept, Note, OpenBox, Record, RecordState, StoreError, ThreadSummary,
};

impl Engine {
    /// Returns the messages that name this one in `in_reply_to`, oldest first.
    pub async fn replies(&self, to: Seq, most: usize) -> Result<Vec<Record>, StoreError> {
        self.shared.known().await?;
        let found = self.shared.store.replies(to, most).await?;
        self.shared.stand_all(found).await
    }

    /// Returns the notes about the deliveries of a message, in order: refusals and
    /// requeues, which the deliveries themselves forget.
    pub async fn notes(&self, of: &Record) -> Result<Vec<Note>, StoreError> {
        let deliveries = of.deliveries.first().zip(of.deliveries.last());
        let Some((first, last)) = deliveries else { return Ok(Vec::new()) };
        self.shared.store.notes(first.delivery..=last.delivery).await
    }

    /// Lists the open mail of these mailboxes, or of all, without a scan of the store.
    pub async fn open_mail(&self, of: Option<Arc<[Mailbox]>>) -> Result<Vec<OpenBox>, StoreError> {
        self.shared.known().await?;
        let mut open = self.ledger(|ledger| ledger.open_mail(of.as_deref()));
        // Texts outside the window are in the store, and so are their times.
        let ages = open.iter().flat_map(|b| [b.oldest, b.oldest_queued]).flatten();
        let mut seqs: Vec<Seq> = ages.filter(|o| o.at.is_none()).map(|o| o.seq).collect();
        if seqs.is_empty() {
            return Ok(open);
        }
        seqs.sort_unstable();
        seqs.dedup();
        let found = self.shared.store.messages(seqs, Bodies::Without).await?;
        for open in &mut open {
            for oldest in [&mut open.oldest, &mut open.oldest_queued].into_iter().flatten() {
                let head = found.messages.get(&oldest.seq);
                oldest.at = oldest.at.or_else(|| head.map(|message| message.created_at));
            }
        }
        Ok(open)
    }

    /// Counts the messages that are kept in these mailboxes, or in all, and by sender.
    pub async fn kept(&self, of: Option<Arc<[Mailbox]>>) -> Result<Kept, StoreError> {
        let of = of.map(|boxes| {
            let mailboxes =
                self.ledger(|ledger| boxes.iter().filter_map(|m| ledger.mailbox_no(m)).collect());
            let sender = boxes.iter().find_map(|m| match m {
                Mailbox::Instance(id) => Some(*id),
                _ => None,
            });
            CountsOf { mailboxes, sender }
        });
        let counts = self.shared.store.counts(of).await?;
        let received = self.ledger(|ledger| {
            let named = |(no, n): (u32, u64)| ledger.mailbox(no).map(|m| (m.clone(), n));
            counts.received.into_iter().filter_map(named).collect()
        });
        Ok(Kept { since: counts.since, received, sent: counts.sent })
    }

    /// Counts the messages of a thread, and those that are addressed to `reader` and
    /// unread. Reads no text: a caller may ask every few seconds.
    pub async fn thread_summary(
        &self,
        thread: ThreadId,
        reader: Principal,
    ) -> Result<ThreadSummary, StoreError> {
        self.shared.known().await?;
        let unread = self.ledger(|ledger| ledger.unread_by(reader));
        self.shared.store.thread(thread, unread).await
    }
}

impl Shared {
    /// Returns one message with all its deliveries.
    pub(super) async fn record(&self, which: MessageRef) -> Result<Option<Record>, StoreError> {
        self.known().await?;
        let found = self.store.records(vec![which], usize::MAX).await?;
        Ok(self.stand_all(found).await?.into_iter().next())
    }

    /// Brings records to their present state. A delivery may be settled between the look
    /// into the store and the look into the ledger; then the store knows its end by now.
    pub(super) async fn stand_all(
        &self,
        mut found: Vec<StoredRecord>,
    ) -> Result<Vec<Record>, StoreError> {
        let stale: Vec<MessageRef> = {
            let ledger = self.ledger.lock();
            let is_stale = |r: &&StoredRecord| {
                let mut open = r.deliveries.iter().filter(|d| d.end.is_none());
                open.any(|d| ledger.open_delivery(&d.mailbox, d.delivery).is_none())
            };
            found.iter().filter(is_stale).map(|r| MessageRef::Seq(r.message.seq)).collect()
        };
        if !stale.is_empty() {
            for fresh in self.store.records(stale, usize::MAX).await? {
                let seq = fresh.message.seq;
                if let Some(old) = found.iter_mut().find(|r| r.message.seq == seq) {
                    *old = fresh;
                }
            }
        }
        Ok(self.ask(|ledger| found.into_iter().map(|record| stand(ledger, record)).collect()))
    }
}

/// Adds the state that only the ledger knows: the holders of open deliveries.
fn stand(ledger: &Ledger, found: StoredRecord) -> Record {
    let StoredRecord { message, deliveries, unreadable } = found;
    let deliveries = deliveries.into_iter().map(|d| {
        let open_delivery = ledger.open_delivery(&d.mailbox, d.delivery);
        let StoredDelivery { delivery, mailbox, end, .. } = d;
        let (state, by, leased_at) = match (end, &open_delivery) {
            (Some(end), _) => (end, d.by, d.leased_at),
            (None, Some(s)) if s.by.is_some() => (RecordState::Leased, s.by, s.since),
            (None, _) => (RecordState::Queued, None, None),
        };
        let open = open_delivery.filter(|_| end.is_none());
        let queued = state == RecordState::Queued && mailbox.is_one_of();
        let sender = message.from.instance;
        let only = queued.then(|| ledger.only_taker(&mailbox, sender)).flatten();
        DeliveryRecord {
            delivery,
            mailbox,
            state,
            marked: open.map_or(d.marked, |s| s.marked),
            attempts: open.map_or(d.attempts, |s| s.attempts),
            doubted: open.is_some_and(|s| s.doubted),
            leased_at,
            settled_at: d.settled_at,
            by,
            only,
        }
    });
    Record { deliveries: deliveries.collect(), message, unreadable }
}
