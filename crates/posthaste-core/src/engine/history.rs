//! Pages of history: candidates from the store, checked one by one; and a read that
//! marks.

use std::collections::HashSet;
use std::sync::Arc;

use super::commands::settle::MarkRead;
use super::commands::upkeep::Barrier;
use super::line::unanswered;
use super::{Engine, Shared};
use crate::address::{InstanceId, Mailbox};
use crate::ledger::{BoxNo, Ledger};
use crate::messaging::delivery::DeliveryNo;
use crate::messaging::message::{MessageRef, Principal, Seq};
use crate::ports::store::{HistoryLook, Source};
use crate::ports::{
    DeliveryRecord, HistoryPage, HistoryQuery, Marked, Record, StoreError, is_sender,
};

/// Number of tries of a marking read whose messages another call settled first.
const TRIES: usize = 8;
/// Maximum number of messages that one query looks at; where it ends, the next page
/// begins.
const MOST_LOOKED_AT: usize = 20_000;
/// Above this number of mailboxes a look at all messages is quicker.
const MANY_BOXES: usize = 200;

impl Engine {
    /// Returns a page of messages, oldest first, without acking any: the last page, or
    /// with `after` the first. `next` is the beginning of the neighbouring page, and
    /// `None` only when there is no more.
    pub async fn history(&self, query: HistoryQuery) -> Result<HistoryPage, StoreError> {
        self.shared.history(&query).await
    }

    /// Returns a page, and acks the messages of it that are addressed to `by` and unread.
    /// Two such calls never return the same unread message.
    pub async fn mark_read(
        &self,
        by: Principal,
        query: HistoryQuery,
    ) -> Result<Marked, StoreError> {
        for _ in 0..TRIES {
            let page = self.shared.history(&query).await?;
            let unread = page.records.iter().filter(|r| r.is_unread_by(by));
            let unread: Vec<DeliveryNo> =
                unread.filter_map(|r| r.delivery_of(by)).map(|d| d.delivery).collect();
            if unread.is_empty() {
                return Ok(Marked { page, marked: Vec::new() });
            }
            let answer = self.shared.line.push(|tx| MarkRead::new(by, unread, tx));
            let marked = answer.await.map_err(unanswered)??;
            if marked.is_empty() {
                // Another call settled all of these messages first.
                continue;
            }
            let seqs = page.records.iter().map(|r| MessageRef::Seq(r.message.seq)).collect();
            let found = self.shared.store.records(seqs, usize::MAX).await?;
            let read = self.shared.stand_all(found).await?.into_iter();
            // A message that another call settled meanwhile was unread for that call.
            let wanted = |r: &Record| query.unread_by.is_none() || marked.contains(&r.message.seq);
            let records = read.filter(wanted).collect();
            return Ok(Marked { page: HistoryPage { records, next: page.next }, marked });
        }
        let page = self.shared.history(&query).await?;
        Ok(Marked { page, marked: Vec::new() })
    }
}

impl Shared {
    async fn history(&self, query: &HistoryQuery) -> Result<HistoryPage, StoreError> {
        self.known().await?;
        if query.unread_by.is_some() {
            // The call that asks may just have acked its earlier mail.
            self.line.push(Barrier::new).await.map_err(unanswered)??;
        }
        let room = query.bytes.unwrap_or(usize::MAX);
        let mut look = HistoryLook {
            sources: self.ask(|ledger| sources(ledger, query)),
            above: query.after.map_or(0, |seq| seq.0),
            below: query.before.map_or(u64::MAX >> 1, |seq| seq.0),
            forward: query.after.is_some(),
            most: (query.last * 2).clamp(50, 500),
            bytes: room,
        };
        let mut found = Vec::new();
        let (mut bytes, mut looked_at) = (0, 0);
        let next = 'parts: loop {
            if looked_at >= MOST_LOOKED_AT {
                break Some(if look.forward { look.above } else { look.below });
            }
            let part = self.store.history(look.clone()).await?;
            let Some(reached) = part.reached else { break None };
            looked_at += look.most;
            for record in self.stand_all(part.records).await? {
                let seq = record.message.seq.0;
                if query.since.is_some_and(|since| record.message.created_at <= since) {
                    if look.forward { continue } else { break 'parts None }
                }
                if !matches(&self.ledger.lock(), query, &record) {
                    continue;
                }
                bytes += record.message.body.len();
                if bytes > room && !found.is_empty() {
                    break 'parts Some(if look.forward { seq - 1 } else { seq + 1 });
                }
                found.push(record);
                if found.len() >= query.last {
                    break 'parts Some(seq);
                }
            }
            // Everything as far as `reached` has been seen.
            *(if look.forward { &mut look.above } else { &mut look.below }) = reached;
        };
        if !look.forward {
            found.reverse();
        }
        Ok(HistoryPage { records: found, next: next.map(Seq) })
    }
}

/// Returns the sources of the messages of a query.
fn sources(ledger: &Ledger, query: &HistoryQuery) -> Arc<[Source]> {
    if let Some(reader) = query.unread_by {
        return [Source::Listed(ledger.unread_by(reader))].into();
    }
    let sources = kept(ledger, query);
    let is_open = matches!(query.status, Some("queued" | "leased"));
    if is_open && query.thread.is_none() {
        let wanted = Wanted::of(&sources);
        return [Source::Listed(ledger.open_of(|no, sender| wanted.has(no, sender)))].into();
    }
    sources.into()
}

/// The open deliveries that a query asks for.
struct Wanted {
    all: bool,
    boxes: HashSet<BoxNo>,
    senders: Vec<InstanceId>,
}

impl Wanted {
    fn of(sources: &[Source]) -> Self {
        let mut wanted = Self { all: false, boxes: HashSet::new(), senders: Vec::new() };
        for source in sources {
            match source {
                Source::All => wanted.all = true,
                Source::Mailboxes(boxes) => wanted.boxes.extend(boxes),
                Source::Sender(id) => wanted.senders.push(*id),
                Source::Thread(_) | Source::Listed(_) => {}
            }
        }
        wanted
    }

    fn has(&self, no: BoxNo, sender: Option<InstanceId>) -> bool {
        self.all || self.boxes.contains(&no) || sender.is_some_and(|id| self.senders.contains(&id))
    }
}

/// Returns the sources of messages in any state.
fn kept(ledger: &Ledger, query: &HistoryQuery) -> Vec<Source> {
    let number = |m: &Mailbox| ledger.mailbox_no(m);
    if let Some(mailbox) = &query.mailbox {
        return vec![Source::Mailboxes(number(mailbox).into_iter().collect())];
    }
    if let Some(thread) = query.thread {
        return vec![Source::Thread(thread)];
    }
    if let Some(team) = &query.team {
        let boxes = ledger.boxes_in(team);
        let many = boxes.len() > MANY_BOXES;
        return vec![if many { Source::All } else { Source::Mailboxes(boxes) }];
    }
    match query.of {
        None => vec![Source::All],
        // Messages that the instance can read, and messages that it sent.
        Some(id) => {
            let keys = ledger.keys_of(Principal::Instance(id));
            let boxes = keys.iter().filter_map(number).collect();
            vec![Source::Mailboxes(boxes), Source::Sender(id)]
        }
    }
}

fn matches(ledger: &Ledger, query: &HistoryQuery, record: &Record) -> bool {
    let m = &record.message;
    let meant = |d: &DeliveryRecord| {
        query.mailbox.as_ref().is_none_or(|m| d.mailbox == *m)
            && query.team.as_ref().is_none_or(|team| ledger.scope(&d.mailbox) == Some(team))
            && query.status.is_none_or(|s| d.state.as_str() == s)
    };
    query.thread.is_none_or(|t| m.thread == t)
        && query.from.as_ref().is_none_or(|who| is_sender(m, who))
        && query.label.as_ref().is_none_or(|label| m.label.as_ref() == Some(label))
        && query.kind.as_ref().is_none_or(|kind| m.kind.as_str() == kind)
        && query.unread_by.is_none_or(|reader| record.is_unread_by(reader))
        && record.deliveries.iter().any(meant)
        && query.of.is_none_or(|id| ledger.may_see(Principal::Instance(id), record))
}
