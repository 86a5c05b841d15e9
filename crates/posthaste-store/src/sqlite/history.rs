//! Looking through what is kept: history, replies, counts, and a read that marks.

mod pages;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use posthaste_core::address::{InstanceId, Mailbox, Name};
use posthaste_core::messaging::delivery::{DeliveryNo, Reason};
use posthaste_core::messaging::message::{MessageRef, Principal, Seq, ThreadId};
use posthaste_core::ports::{
    HistoryQuery, Kept, Marked, Note, Noted, OpenBox, Page, Reading, Record, StoreError,
    ThreadSummary,
};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};

use self::pages::history;
use super::ops::read::MarkRead;
use super::reader::stand_all;
use super::rows::{self, RawRecord};
use super::writer::unanswered;
use super::{Shared, SqliteStore, counts, load};

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
            stand_all(&self.shared, raw).await
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

    fn active(&self, mailbox: &Mailbox, but: Principal) -> u32 {
        self.shared.now().active(mailbox, but)
    }

    fn open_mail(
        &self,
        of: Option<Arc<[Mailbox]>>,
    ) -> BoxFuture<'_, Result<Vec<OpenBox>, StoreError>> {
        async move {
            load::known(&self.shared.known).await?;
            let mut open = self.shared.now().open_mail(of.as_deref());
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

    fn thread_summary(
        &self,
        thread: ThreadId,
        reader: Principal,
    ) -> BoxFuture<'_, Result<ThreadSummary, StoreError>> {
        async move {
            load::known(&self.shared.known).await?;
            let unread = self.shared.now().unread_by(reader);
            let count = move |db: &Connection| counts::thread(db, thread, &unread);
            self.shared.readers.query(count).await
        }
        .boxed()
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
            "unreadable" => {
                Noted::Unreadable(row.get::<_, Option<String>>(4)?.unwrap_or_default().into())
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
        let Some((raw, marked)) = answer.await.map_err(unanswered)?? else {
            // Another was quicker with all of it.
            continue;
        };
        let read = stand_all(shared, raw).await?.into_iter();
        // What another call has settled meanwhile was unread for that one.
        let wanted = |r: &Record| query.unread_by.is_none() || marked.contains(&r.message.seq);
        let records = read.filter(wanted).collect();
        return Ok(Marked { page: Page { records, next: page.next }, marked });
    }
    let page = history(shared, query).await?;
    Ok(Marked { page, marked: Vec::new() })
}
