//! The journal as its followers read it: each event with what it is about, as that is
//! now.

use std::collections::HashMap;

use tokio::sync::watch;

use super::Engine;
use crate::events::{About, Event, Page, Trace};
use crate::messaging::message::{MessageRef, Seq};
use crate::ports::{Record, StoreError};

impl Engine {
    /// The events after this number, in order, at most so many: none is left out, none
    /// comes twice. They are numbered in the group that made them true.
    pub async fn events(&self, after: u64, most: usize) -> Result<Page, StoreError> {
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
        let bytes = self.shared.limits.answer_bytes;
        let asked = seqs.iter().map(|seq| MessageRef::Seq(*seq)).collect();
        let records = self.shared.store.records(asked, bytes).await?;
        // The page ends before the first message that has no room in it.
        let last = records.last().map(|r| r.message.seq);
        let size: usize = records.iter().map(|r| r.message.body.len()).sum();
        let cut = seqs.iter().position(|seq| Some(*seq) == last).filter(|_| size >= bytes);
        if let Some(cut) = cut {
            let left_out = &seqs[cut + 1..];
            let fits = |told: &Option<_>| match told {
                Some((_, Trace::Message { seq, .. })) => !left_out.contains(seq),
                _ => true,
            };
            let end = found.events.iter().position(|event| !fits(&event.told));
            found.events.truncate(end.unwrap_or(found.events.len()));
        }
        let records = self.shared.stand_all(records).await?;
        let records: HashMap<Seq, Record> =
            records.into_iter().map(|record| (record.message.seq, record)).collect();
        let upto = found.events.last().map_or(after, |event| event.no);
        let events = self.ledger(|ledger| {
            let tell = |event: crate::ports::store::StoredEvent| {
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
                    Trace::Team(name) => About::Team(name),
                    Trace::Profile(name) => About::Profile(name),
                };
                Some(Event { no: event.no, at: event.at, kind, about })
            };
            found.events.into_iter().filter_map(tell).collect()
        });
        Ok(Page { events, oldest: found.oldest, last: found.last, upto })
    }

    /// The number of the last event, and the news of each further one.
    pub fn last_event(&self) -> watch::Receiver<u64> {
        self.shared.news.subscribe()
    }
}
