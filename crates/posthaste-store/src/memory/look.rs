//! Answers about messages: history, records, counts, and which of them are old.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use posthaste_core::events::EventList;
use posthaste_core::ledger::BoxNo;
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{Message, MessageRef, Seq, ThreadId};
use posthaste_core::needs::{Need, NeedId};
use posthaste_core::ports::change::Old;
use posthaste_core::ports::store::{
    Aged, Ages, Bodies, CountsOf, FoundMessages, HistoryLook, HistoryPart, NeedsLook, RowOf,
    Source, StoredCounts, StoredDelivery, StoredEvents, StoredRecord, UnreadableRow,
};
use posthaste_core::ports::{Note, RecordState, ThreadSummary};

use super::kept::{Delivery, Entry, Kept};

impl Kept {
    pub(super) fn find(&self, seqs: &[Seq], bodies: Bodies) -> FoundMessages {
        let mut found = FoundMessages::default();
        for seq in seqs {
            match self.messages.get(seq) {
                Some(entry) => {
                    let message = match bodies {
                        Bodies::With => Arc::clone(&entry.message),
                        Bodies::Without => without_body(&entry.message),
                    };
                    found.messages.insert(*seq, message);
                }
                None => {
                    let what = format!("messages, row {seq}: it is missing");
                    found.unreadable.push(UnreadableRow { of: RowOf::Message(*seq), what });
                }
            }
        }
        found
    }

    pub(super) fn records(&self, which: &[MessageRef], bytes: usize) -> Vec<StoredRecord> {
        let (mut found, mut room) = (Vec::new(), bytes);
        for which in which {
            let seq = match which {
                MessageRef::Seq(seq) => *seq,
                MessageRef::Id(id) => self.id_key.seq(*id),
            };
            let Some(record) = self.record(seq) else { continue };
            let size = record.message.body.len();
            if size > room && !found.is_empty() {
                break;
            }
            room = room.saturating_sub(size);
            found.push(record);
        }
        found
    }

    fn record(&self, seq: Seq) -> Option<StoredRecord> {
        let entry = self.messages.get(&seq)?;
        let (mut deliveries, mut unreadable) = (Vec::new(), Vec::new());
        for (no, row) in self.deliveries_of(entry) {
            match self.mailboxes.get(&row.at) {
                Some(mailbox) => deliveries.push(StoredDelivery {
                    delivery: *no,
                    at: row.at,
                    mailbox: mailbox.clone(),
                    end: row.end,
                    marked: row.marked,
                    attempts: row.attempts,
                    size: size(&entry.message),
                    leased_at: row.leased_at,
                    settled_at: row.settled_at,
                    by: row.by,
                }),
                None => unreadable.push(format!(
                    "deliveries, row {}, column mailbox: there is no mailbox {}",
                    no.0, row.at
                )),
            }
        }
        Some(StoredRecord { message: Arc::clone(&entry.message), deliveries, unreadable })
    }

    fn deliveries_of(&self, entry: &Entry) -> impl Iterator<Item = (&DeliveryNo, &Delivery)> {
        self.deliveries.range(DeliveryNo(entry.first)..DeliveryNo(entry.first + entry.copies))
    }

    /// Takes at most `look.most` next numbers of each source, merges them, and returns the
    /// records of the first ones.
    pub(super) fn history(&self, look: &HistoryLook) -> HistoryPart {
        let mut seqs: BTreeSet<Seq> = BTreeSet::new();
        for source in look.sources.iter() {
            self.candidates(source, look, &mut seqs);
        }
        let mut part = HistoryPart::default();
        let mut held = 0;
        for seq in ends(seqs.into_iter(), look) {
            part.reached = Some(seq.0);
            if let Some(record) = self.record(seq) {
                held += record.message.body.len();
                part.records.push(record);
                if held >= look.bytes {
                    break;
                }
            }
        }
        part
    }

    fn candidates(&self, source: &Source, look: &HistoryLook, seqs: &mut BTreeSet<Seq>) {
        let Some((low, high)) = inside(look) else { return };
        match source {
            Source::All => {
                seqs.extend(ends(self.messages.range(low..=high).map(|(seq, _)| *seq), look));
            }
            Source::Thread(thread) => {
                let range = self.of_thread.range((*thread, low)..=(*thread, high));
                seqs.extend(ends(range.map(|(_, seq)| *seq), look));
            }
            Source::Sender(id) => {
                let range = self.of_sender.range((*id, low)..=(*id, high));
                seqs.extend(ends(range.map(|(_, seq)| *seq), look));
            }
            Source::Mailboxes(boxes) => {
                for no in boxes {
                    let range = self.of_mailbox.range((*no, low)..=(*no, high));
                    seqs.extend(ends(range.map(|(_, seq)| *seq), look));
                }
            }
            Source::Listed(listed) => {
                let range = listed.iter().copied().filter(|seq| (low..=high).contains(seq));
                seqs.extend(ends(range, look));
            }
        }
    }

    pub(super) fn replies_to(&self, to: Seq, most: usize) -> Vec<StoredRecord> {
        let replies = self.replies.range((to, Seq(0))..=(to, Seq(u64::MAX))).take(most);
        replies.filter_map(|(_, seq)| self.record(*seq)).collect()
    }

    pub(super) fn notes_of(&self, of: RangeInclusive<DeliveryNo>) -> Vec<Note> {
        if of.is_empty() {
            return Vec::new();
        }
        let mut found: Vec<_> = self.notes.range(of).flat_map(|(_, notes)| notes).collect();
        found.sort_by_key(|(no, _)| *no);
        found.into_iter().map(|(_, note)| note.clone()).collect()
    }

    pub(super) fn events_after(&self, after: u64, most: usize) -> StoredEvents {
        let begin = self.events.partition_point(|row| row.last <= after);
        let rows = self.events.range(begin..);
        let events = rows.flat_map(|row| EventList::read(row.first, row.at, &row.list));
        StoredEvents {
            events: events.filter(|event| event.no > after).take(most).collect(),
            oldest: self.events.front().map_or(self.last_event + 1, |row| row.first),
            last: self.last_event,
        }
    }

    /// Counts the mail of each mailbox and sender in `of`; without `of`, of all that have
    /// mail.
    pub(super) fn counts(&self, of: Option<CountsOf>) -> StoredCounts {
        let since = self.messages.values().next().map(|entry| entry.message.created_at);
        let mut counts = StoredCounts { since, ..StoredCounts::default() };
        match of {
            None => {
                for (no, _) in &self.of_mailbox {
                    *counts.received.entry(*no).or_default() += 1;
                }
                for (id, _) in &self.of_sender {
                    *counts.sent.entry(*id).or_default() += 1;
                }
            }
            Some(CountsOf { mailboxes, sender }) => {
                counts.received = mailboxes.into_iter().map(|no| (no, self.received(no))).collect();
                counts.sent =
                    sender.into_iter().map(|id| (id, count(&self.of_sender, id))).collect();
            }
        }
        counts
    }

    fn received(&self, no: BoxNo) -> u64 {
        count(&self.of_mailbox, no)
    }

    pub(super) fn thread(&self, thread: ThreadId, unread: &[Seq]) -> ThreadSummary {
        let mut all = self.of_thread.range((thread, Seq(0))..=(thread, Seq(u64::MAX)));
        let last = all.next_back().and_then(|(_, seq)| self.messages.get(seq));
        let is_in_it = |seq: &&Seq| self.of_thread.contains(&(thread, **seq));
        ThreadSummary {
            total: count(&self.of_thread, thread),
            unread: unread.iter().filter(is_in_it).count() as u64,
            last_at: last.map(|entry| entry.message.created_at),
        }
    }

    /// Lists old messages. A message cannot have been settled before it was accepted, so
    /// the search ends at the first one that is too young to be old in any state.
    pub(super) fn aged(&self, ages: &Ages, most: usize) -> Aged {
        let young_from = ages.acked.before.max(ages.dead.before);
        let may_be_old = |entry: &&Entry| {
            let at = entry.message.created_at;
            at < young_from || at > ages.acked.now
        };
        let is_old = |row: &Delivery| {
            let old = match row.end {
                Some(RecordState::Acked(_)) => ages.acked,
                Some(RecordState::Dead { .. }) => ages.dead,
                Some(RecordState::Queued | RecordState::Leased) | None => return false,
            };
            row.settled_at.is_some_and(|at| old.has(at))
        };
        let all_old = |entry: &&Entry| {
            entry.copies > 0 && self.deliveries_of(entry).all(|(_, row)| is_old(row))
        };
        let old = self.messages.values().take_while(may_be_old).filter(all_old).take(most);
        let messages = old.map(|entry| entry.message.seq).collect();
        let mut closed = self.needs.values().filter_map(|need| need.closed.as_ref());
        let has_needs = closed.any(|closed| ages.needs.has(closed.at));
        Aged { messages, has_events: self.has_old_events(ages.events), has_needs }
    }

    pub(super) fn needs(&self, look: &NeedsLook) -> Vec<Need> {
        match look {
            NeedsLook::These(ids) => {
                let ids: BTreeSet<NeedId> = ids.iter().copied().collect();
                ids.iter().filter_map(|id| self.needs.get(id)).cloned().collect()
            }
            NeedsLook::After { after, kind, open_only, most } => {
                let later = self.needs.range(NeedId(after.0.saturating_add(1))..);
                let is_meant = |need: &&Need| {
                    kind.is_none_or(|kind| need.kind == kind)
                        && (!open_only || need.closed.is_none())
                };
                later.map(|(_, need)| need).filter(is_meant).take(*most).cloned().collect()
            }
        }
    }

    /// Returns whether the oldest events are old. Events of the future are skipped.
    fn has_old_events(&self, old: Old) -> bool {
        let oldest = self.events.iter().find(|row| row.at <= old.now || row.at > old.beyond);
        oldest.is_some_and(|row| old.has(row.at))
    }

    pub(super) fn unnamed(&self, mut mailboxes: Vec<BoxNo>) -> Vec<BoxNo> {
        mailboxes.retain(|no| self.received(*no) == 0);
        mailboxes
    }
}

/// Returns the lowest and the highest number of the stretch, if it holds any.
fn inside(look: &HistoryLook) -> Option<(Seq, Seq)> {
    let (low, high) = (look.above.checked_add(1)?, look.below.checked_sub(1)?);
    (low <= high).then_some((Seq(low), Seq(high)))
}

/// Returns the first numbers of an ascending list, from the end where the look begins.
fn ends(
    ascending: impl DoubleEndedIterator<Item = Seq>,
    look: &HistoryLook,
) -> impl Iterator<Item = Seq> {
    let (forward, backward) = match look.forward {
        true => (Some(ascending.take(look.most)), None),
        false => (None, Some(ascending.rev().take(look.most))),
    };
    forward.into_iter().flatten().chain(backward.into_iter().flatten())
}

fn count<K: Copy + Ord>(index: &BTreeSet<(K, Seq)>, of: K) -> u64 {
    index.range((of, Seq(0))..=(of, Seq(u64::MAX))).count() as u64
}

pub(super) fn size(message: &Message) -> u32 {
    u32::try_from(message.body.len()).unwrap_or(u32::MAX)
}

/// Copies a message without its body. A clone shares the body, so copying is cheap.
fn without_body(message: &Message) -> Arc<Message> {
    let mut head = message.clone();
    head.body = "".into();
    Arc::new(head)
}
