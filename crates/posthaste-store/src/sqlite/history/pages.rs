//! Pages of history: candidates from the indexes, judged one by one.

use std::collections::HashSet;
use std::sync::Arc;

use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::ledger::Ledger;
use posthaste_core::messaging::message::{MessageRef, Principal, Seq, ThreadId};
use posthaste_core::ports::{DeliveryRecord, HistoryQuery, Page, Record, StoreError, is_sender};
use rusqlite::{Connection, ToSql, params};

use crate::sqlite::reader::stand_all;
use crate::sqlite::rows::{self, RawRecord};
use crate::sqlite::{Shared, load};

/// Most messages that one query looks at; where it ends, the next page begins.
const MOST_LOOKED_AT: usize = 20_000;
/// Above so many mailboxes it is quicker to look at everything.
const MANY_BOXES: usize = 200;

/// Where candidates come from.
#[derive(Debug, Clone)]
enum Source {
    All,
    Thread(ThreadId),
    Mailboxes(HashSet<u32>),
    Sender(InstanceId),
    /// These, in order: what is open is known without a search.
    Listed(Vec<Seq>),
}

impl Source {
    /// Whether it has the mail in this mailbox, or of this sender.
    fn has(&self, no: u32, sender: Option<InstanceId>) -> bool {
        match self {
            Self::All => true,
            Self::Mailboxes(boxes) => boxes.contains(&no),
            Self::Sender(id) => sender == Some(*id),
            Self::Thread(_) | Self::Listed(_) => false,
        }
    }
}

/// What is left to be looked at: the numbers between, from one end.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    above: u64,
    below: u64,
    forward: bool,
}

impl Stretch {
    /// As far as `seq` everything has been seen.
    fn seen(&mut self, seq: u64) {
        if self.forward { self.above = seq } else { self.below = seq }
    }
}

pub(super) async fn history(shared: &Shared, query: HistoryQuery) -> Result<Page, StoreError> {
    load::known(&shared.known).await?;
    let sources = Arc::new(sources(shared, &query));
    let mut stretch = Stretch {
        above: query.after.map_or(0, |seq| seq.0),
        below: query.before.map_or(u64::MAX >> 1, |seq| seq.0),
        forward: query.after.is_some(),
    };
    let room = query.bytes.unwrap_or(usize::MAX);
    let mut found = Vec::new();
    let (mut bytes, mut looked_at) = (0, 0);
    let next = 'pages: loop {
        if looked_at >= MOST_LOOKED_AT {
            break Some(if stretch.forward { stretch.above } else { stretch.below });
        }
        let most = (query.last * 2).clamp(50, 500);
        let from = Arc::clone(&sources);
        let look = move |db: &Connection| page(db, &from, stretch, most, room);
        let (raw, reached) = shared.readers.query(look).await?;
        let Some(reached) = reached else { break None };
        looked_at += most;
        for record in stand_all(shared, raw).await? {
            let seq = record.message.seq.0;
            if query.since.is_some_and(|since| record.message.created_at <= since) {
                if stretch.forward { continue } else { break 'pages None }
            }
            if !matches(&shared.ledger.lock(), &query, &record) {
                continue;
            }
            bytes += record.message.body.len();
            if bytes > room && !found.is_empty() {
                break 'pages Some(if stretch.forward { seq - 1 } else { seq + 1 });
            }
            found.push(record);
            if found.len() >= query.last {
                break 'pages Some(seq);
            }
        }
        stretch.seen(reached);
    };
    if !stretch.forward {
        found.reverse();
    }
    Ok(Page { records: found, next: next.map(Seq) })
}

fn sources(shared: &Shared, query: &HistoryQuery) -> Vec<Source> {
    let ledger = shared.now();
    if let Some(reader) = query.unread_by {
        return vec![Source::Listed(ledger.unread_by(reader))];
    }
    let sources = kept(&ledger, query);
    let is_open = matches!(query.status, Some("queued" | "leased"));
    if is_open && query.thread.is_none() {
        let asked_for = |no, sender| sources.iter().any(|source| source.has(no, sender));
        return vec![Source::Listed(ledger.open_of(asked_for))];
    }
    sources
}

/// Where mail of any state comes from.
fn kept(ledger: &Ledger, query: &HistoryQuery) -> Vec<Source> {
    let number = |m: &Mailbox| ledger.mailbox_no(m);
    if let Some(mailbox) = &query.mailbox {
        return vec![Source::Mailboxes(number(mailbox).into_iter().collect())];
    }
    if let Some(thread) = query.thread {
        return vec![Source::Thread(thread)];
    }
    if let Some(team) = &query.team {
        let boxes: HashSet<u32> = ledger.boxes_in(team).into_iter().collect();
        let many = boxes.len() > MANY_BOXES;
        return vec![if many { Source::All } else { Source::Mailboxes(boxes) }];
    }
    match query.of {
        None => vec![Source::All],
        // What it can read, and what it wrote.
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

/// The next messages of a stretch, and how far that is; `None` at its end.
fn page(
    db: &Connection,
    sources: &[Source],
    stretch: Stretch,
    most: usize,
    room: usize,
) -> rusqlite::Result<(Vec<RawRecord>, Option<u64>)> {
    let mut seqs = Vec::new();
    for source in sources {
        candidates(db, source, stretch, most, &mut seqs)?;
    }
    seqs.sort_unstable();
    if !stretch.forward {
        seqs.reverse();
    }
    seqs.dedup();
    seqs.truncate(most);
    let (mut records, mut bytes, mut reached) = (Vec::new(), 0, None);
    for seq in seqs {
        reached = Some(seq);
        if let Some(record) = rows::record(db, MessageRef::Seq(Seq(seq)))? {
            bytes += record.message.body.len();
            records.push(record);
        }
        // No more in memory at a time than the answer may hold.
        if bytes >= room {
            break;
        }
    }
    Ok((records, reached))
}

/// Numbers from the indexes, and from the short tail that is not indexed yet.
fn candidates(
    db: &Connection,
    source: &Source,
    Stretch { above, below, forward }: Stretch,
    most: usize,
    seqs: &mut Vec<u64>,
) -> rusqlite::Result<()> {
    // The mark first: what is indexed meanwhile is found twice, not missed.
    let marks = rows::marks(db)?;
    let order = if forward { "ASC" } else { "DESC" };
    let mut add = |sql: &str, of: &dyn ToSql, above: u64| -> rusqlite::Result<()> {
        let sql = format!("{sql} AND seq > ?2 AND seq < ?3 ORDER BY seq {order} LIMIT ?4");
        let mut select = db.prepare_cached(&sql)?;
        let rows = select.query_map(params![of, above, below, most], |row| row.get(0))?;
        for seq in rows {
            seqs.push(seq?);
        }
        Ok(())
    };
    let tail = above.max(marks.seq);
    match source {
        Source::All => add("SELECT seq FROM messages WHERE ?1", &true, above),
        Source::Thread(thread) => {
            add("SELECT seq FROM thread_index WHERE thread = ?1", &thread.0, above)?;
            add("SELECT seq FROM messages WHERE thread = ?1", &thread.0, tail)
        }
        Source::Sender(id) => {
            add("SELECT seq FROM sender_index WHERE sender = ?1", &id.0, above)?;
            add("SELECT seq FROM messages WHERE sender_instance = ?1", &id.0, tail)
        }
        Source::Listed(listed) => {
            let inside =
                listed.iter().map(|seq| seq.0).filter(|seq| (above + 1..below).contains(seq));
            match forward {
                true => seqs.extend(inside.take(most)),
                false => seqs.extend(inside.rev().take(most)),
            }
            Ok(())
        }
        Source::Mailboxes(boxes) => {
            for no in boxes {
                add("SELECT seq FROM mailbox_index WHERE mailbox = ?1", no, above)?;
            }
            let sql = format!(
                "SELECT seq, mailbox FROM deliveries WHERE no > ?1 AND seq > ?2 AND seq < ?3 \
                 ORDER BY no {order}"
            );
            let mut select = db.prepare_cached(&sql)?;
            let mut rows = select.query(params![marks.delivery, above, below])?;
            let mut left = most;
            while left > 0
                && let Some(row) = rows.next()?
            {
                if boxes.contains(&row.get(1)?) {
                    seqs.push(row.get(0)?);
                    left -= 1;
                }
            }
            Ok(())
        }
    }
}
