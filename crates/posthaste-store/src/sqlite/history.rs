//! Looking through what is kept: pages of history, replies, and a read that marks.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use posthaste_core::address::{InstanceId, Mailbox, Name};
use posthaste_core::ledger::Ledger;
use posthaste_core::messaging::delivery::{DeliveryNo, Reason};
use posthaste_core::messaging::message::{MessageRef, Principal, Seq, ThreadId};
use posthaste_core::ports::{
    DeliveryRecord, HistoryQuery, Kept, Marked, Note, Noted, OpenBox, Page, Reading, Record,
    StoreError, is_sender,
};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, ToSql, params};

use super::ops::read::MarkRead;
use super::reader::stand;
use super::rows::{self, RawRecord};
use super::{Shared, SqliteStore, counts, load};

/// Most messages that one query looks at; where it ends, the next page begins.
const MOST_LOOKED_AT: usize = 20_000;
/// Above so many mailboxes it is quicker to look at everything.
const MANY_BOXES: usize = 200;
/// How often a marking read looks again when another was quicker.
const TRIES: usize = 8;

impl Reading for SqliteStore {
    fn history(&self, query: HistoryQuery) -> BoxFuture<'_, Result<Page, StoreError>> {
        history(&self.shared, query).boxed()
    }

    fn mark_read(
        &self,
        by: Principal,
        query: HistoryQuery,
    ) -> BoxFuture<'_, Result<Marked, StoreError>> {
        mark_read(&self.shared, by, query).boxed()
    }

    fn replies(&self, to: Seq, most: usize) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        async move {
            load::known(&self.shared.known).await?;
            let raw = self.shared.readers.query(move |db| replies(db, to, most)).await?;
            Ok(raw.into_iter().map(|r| stand(&self.shared, r)).collect())
        }
        .boxed()
    }

    fn notes(&self, of: &Record) -> BoxFuture<'_, Result<Vec<Note>, StoreError>> {
        let deliveries = of.deliveries.first().zip(of.deliveries.last());
        let range = deliveries.map(|(first, last)| (first.delivery, last.delivery));
        async move {
            let Some((first, last)) = range else { return Ok(Vec::new()) };
            self.shared.readers.query(move |db| notes(db, first, last)).await
        }
        .boxed()
    }

    fn may_see(&self, who: Principal, record: &Record) -> bool {
        self.shared.ledger.lock().may_see(who, record)
    }

    fn leads(&self, who: Principal, team: &Name) -> bool {
        self.shared.ledger.lock().leads(who, team)
    }

    fn active(&self, mailbox: &Mailbox) -> u32 {
        self.shared.ledger.lock().active(mailbox, Principal::Operator)
    }

    fn open_mail(
        &self,
        of: Option<Arc<[Mailbox]>>,
    ) -> BoxFuture<'_, Result<Vec<OpenBox>, StoreError>> {
        async move {
            load::known(&self.shared.known).await?;
            let mut open = self.shared.ledger.lock().open_mail(of.as_deref());
            // Texts outside the window are on disk, and so are their times.
            let ages = open.iter().flat_map(|b| [b.oldest, b.oldest_queued]).flatten();
            let mut seqs: Vec<Seq> = ages.filter(|o| o.at.is_none()).map(|o| o.seq).collect();
            if seqs.is_empty() {
                return Ok(open);
            }
            seqs.sort_unstable();
            seqs.dedup();
            let times = self.shared.readers.query(move |db| counts::times(db, &seqs)).await?;
            for open in &mut open {
                for oldest in [&mut open.oldest, &mut open.oldest_queued].into_iter().flatten() {
                    oldest.at = oldest.at.or_else(|| times.get(&oldest.seq).copied());
                }
            }
            Ok(open)
        }
        .boxed()
    }

    fn kept(&self, of: Option<Arc<[Mailbox]>>) -> BoxFuture<'_, Result<Kept, StoreError>> {
        async move {
            let only = of.map(|boxes| {
                let ledger = self.shared.ledger.lock();
                let numbers = boxes.iter().filter_map(|m| ledger.mailbox_no(m)).collect();
                let sender = boxes.iter().find_map(|m| match m {
                    Mailbox::Instance(id) => Some(id.0),
                    _ => None,
                });
                (numbers, sender)
            });
            let counts = self.shared.readers.query(move |db| counts::kept(db, only)).await?;
            let ledger = self.shared.ledger.lock();
            let named = |(no, n): (u32, u64)| ledger.mailbox(no).map(|m| (m.clone(), n));
            Ok(Kept {
                since: counts.since,
                received: counts.received.into_iter().filter_map(named).collect(),
                sent: counts.sent.into_iter().map(|(id, n)| (InstanceId(id), n)).collect(),
            })
        }
        .boxed()
    }
}

/// Where candidates come from.
#[derive(Debug, Clone)]
enum Source {
    All,
    Thread(ThreadId),
    Mailboxes(HashSet<u32>),
    Sender(InstanceId),
    /// These, in order: what is unread is known without a search.
    Unread(Vec<Seq>),
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

async fn history(shared: &Shared, query: HistoryQuery) -> Result<Page, StoreError> {
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
        for raw in raw {
            let seq = raw.message.seq.0;
            let record = stand(shared, raw);
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
    let ledger = shared.ledger.lock();
    let number = |m: &Mailbox| ledger.mailbox_no(m);
    if let Some(reader) = query.unread_by {
        return vec![Source::Unread(ledger.unread_by(reader))];
    }
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
        Source::Unread(unread) => {
            let inside =
                unread.iter().map(|seq| seq.0).filter(|seq| (above + 1..below).contains(seq));
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

fn replies(db: &Connection, to: Seq, most: usize) -> rusqlite::Result<Vec<RawRecord>> {
    let marks = rows::marks(db)?;
    let mut seqs: Vec<u64> = Vec::new();
    for (sql, above) in [
        ("SELECT seq FROM reply_index WHERE answered = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3", 0),
        (
            "SELECT seq FROM messages WHERE in_reply_to = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
            marks.seq,
        ),
    ] {
        let mut select = db.prepare_cached(sql)?;
        let rows = select.query_map(params![to.0, above, most], |row| row.get(0))?;
        for seq in rows {
            seqs.push(seq?);
        }
    }
    seqs.sort_unstable();
    seqs.dedup();
    seqs.truncate(most);
    let mut records = Vec::with_capacity(seqs.len());
    for seq in seqs {
        records.extend(rows::record(db, MessageRef::Seq(Seq(seq)))?);
    }
    Ok(records)
}

/// The deliveries of a message stand together.
fn notes(db: &Connection, first: DeliveryNo, last: DeliveryNo) -> rusqlite::Result<Vec<Note>> {
    let mut select = db.prepare_cached(
        "SELECT delivery, at, what, by, why FROM delivery_notes \
         WHERE delivery BETWEEN ?1 AND ?2 ORDER BY no",
    )?;
    let mut rows = select.query(params![first.0, last.0])?;
    let mut notes = Vec::new();
    while let Some(row) = rows.next()? {
        let noted = match row.get_ref(2)?.as_str()? {
            "refused" => Noted::Refused(
                row.get::<_, Option<String>>(3)?.as_deref().and_then(rows::principal),
            ),
            "requeued" => {
                let why: Option<String> = row.get(4)?;
                Noted::Requeued(why.as_deref().and_then(Reason::read))
            }
            _ => continue,
        };
        let delivery = DeliveryNo(row.get(0)?);
        notes.push(Note { delivery, at: Timestamp(row.get(1)?), noted });
    }
    Ok(notes)
}

async fn mark_read(
    shared: &Shared,
    by: Principal,
    query: HistoryQuery,
) -> Result<Marked, StoreError> {
    for _ in 0..TRIES {
        let page = history(shared, query.clone()).await?;
        let unread = page.records.iter().filter(|r| r.is_unread_by(by));
        let unread: Vec<DeliveryNo> =
            unread.filter_map(|r| r.delivery_of(by)).map(|d| d.delivery).collect();
        if unread.is_empty() {
            return Ok(Marked { page, marked: Vec::new() });
        }
        let seqs: Vec<Seq> = page.records.iter().map(|r| r.message.seq).collect();
        let answer = shared.commands.push(|tx| MarkRead::new(by, unread, seqs, tx));
        let Some((raw, marked)) = answer.await.map_err(|_| StoreError::Closed)?? else {
            // Another was quicker with all of it.
            continue;
        };
        let read = raw.into_iter().map(|r| stand(shared, r));
        // What another call has settled meanwhile was unread for that one.
        let wanted = |r: &Record| query.unread_by.is_none() || marked.contains(&r.message.seq);
        let records = read.filter(wanted).collect();
        return Ok(Marked { page: Page { records, next: page.next }, marked });
    }
    let page = history(shared, query).await?;
    Ok(Marked { page, marked: Vec::new() })
}
