//! The journal as its followers read it: each event with the present state of its
//! subject.

use std::collections::HashMap;

use tokio::sync::watch;

use super::{Engine, Shared};
use crate::events::{About, Event, EventPage, Trace};
use crate::messaging::message::{MessageRef, Seq};
use crate::needs::{Need, NeedId};
use crate::ports::store::{NeedsLook, StoredEvent, StoredRecord};
use crate::ports::{Record, StoreError};

impl Engine {
    /// Returns at most so many events after this number, in order: none is left out, none
    /// comes twice. Events get their numbers in the group whose changes they tell of.
    pub async fn events(&self, after: u64, most: usize) -> Result<EventPage, StoreError> {
        self.shared.known().await?;
        // No number is that large.
        let after = after.min(i64::MAX as u64 - 1);
        let mut found = self.shared.store.events(after, most).await?;
        let mut seqs: Vec<Seq> = Vec::new();
        for event in &found.events {
            if let Some((_, Trace::Message { seq, .. })) = &event.told
                && !seqs.contains(seq)
            {
                seqs.push(*seq);
            }
        }
        let needs = self.shared.needs_in(&found.events).await?;
        let (records, cut) = self.shared.records_within(&seqs).await?;
        let is_cut = |event: &StoredEvent| match (&event.told, cut) {
            (Some((_, Trace::Message { seq, .. })), Some(cut)) => *seq == cut,
            _ => false,
        };
        let end = found.events.iter().position(is_cut);
        found.events.truncate(end.unwrap_or(found.events.len()));
        let records = self.shared.stand_all(records).await?;
        let records: HashMap<Seq, Record> =
            records.into_iter().map(|record| (record.message.seq, record)).collect();
        let upto = found.events.last().map_or(after, |event| event.no);
        let events = self.ledger(|ledger| {
            let tell = |event: StoredEvent| {
                let (kind, trace) = event.told?;
                let about = match trace {
                    Trace::Message { seq, delivery } => match records.get(&seq) {
                        Some(record) => {
                            let delivery = (delivery.0 > 0).then_some(delivery);
                            About::Message(Box::new(record.clone()), delivery)
                        }
                        None => About::Pruned(seq),
                    },
                    Trace::Instance(id) => match ledger.instance(id) {
                        Some(view) => About::Instance(Box::new(view.instance)),
                        None => About::Forgotten(id),
                    },
                    Trace::Need(id) => About::Need(id, needs.get(&id).cloned().map(Box::new)),
                    Trace::Team(name) => About::Team(name),
                    Trace::Profile(name) => About::Profile(name),
                };
                Some(Event { no: event.no, at: event.at, kind, about })
            };
            found.events.into_iter().filter_map(tell).collect()
        });
        Ok(EventPage { events, oldest: found.oldest, last: found.last, upto })
    }

    /// Returns a receiver for the number of the last event.
    pub fn last_event(&self) -> watch::Receiver<u64> {
        self.shared.news.subscribe()
    }
}

impl Shared {
    /// Returns the needs that these events are about, as they are now.
    async fn needs_in(&self, events: &[StoredEvent]) -> Result<HashMap<NeedId, Need>, StoreError> {
        let about = |event: &StoredEvent| match event.told {
            Some((_, Trace::Need(id))) => Some(id),
            _ => None,
        };
        let ids: Vec<NeedId> = events.iter().filter_map(about).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.store.needs(NeedsLook::These(ids)).await?;
        Ok(found.into_iter().map(|need| (need.id, need)).collect())
    }

    /// Returns the messages whose bodies fit into an answer, and the first that does not
    /// fit.
    async fn records_within(
        &self,
        seqs: &[Seq],
    ) -> Result<(Vec<StoredRecord>, Option<Seq>), StoreError> {
        let asked = |seqs: &[Seq]| seqs.iter().map(|seq| MessageRef::Seq(*seq)).collect();
        let found = self.store.records(asked(seqs), self.limits.answer_bytes).await?;
        let last = found.last().map(|record| record.message.seq);
        let left = seqs.iter().position(|seq| Some(*seq) == last).map_or(0, |at| at + 1);
        if left == seqs.len() {
            return Ok((found, None));
        }
        // The rest did not fit, or was pruned.
        let next = self.store.records(asked(&seqs[left..]), 0).await?;
        Ok((found, next.first().map(|record| record.message.seq)))
    }
}
