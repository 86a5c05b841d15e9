//! Queries, on connections of their own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::messaging::message::{MessageRef, Principal, Seq, ThreadId};
use posthaste_core::ports::{
    DeliveryRecord, HistoryQuery, Record, RecordState, StoreError, Ticket,
};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OpenFlags, params};
use tokio::sync::{Semaphore, oneshot};

use super::rows::{self, RawRecord};
use super::writer::{Commands, Db, Op};
use super::{Shared, open};
use crate::{Place, StoreConfig};

/// Most messages that one history query looks at before it gives up on finding
/// more that match.
const MOST_LOOKED_AT: usize = 20_000;

/// A few read-only connections. A store in memory has only the writer's, so its
/// queries stand in line with the writes.
pub(crate) struct Readers {
    file: Option<PathBuf>,
    cache_bytes: usize,
    idle: Arc<Mutex<Vec<Connection>>>,
    free: Arc<Semaphore>,
    commands: Commands,
}

impl Readers {
    pub(crate) fn new(place: &Place, config: &StoreConfig, commands: Commands) -> Self {
        let file = match place {
            Place::File(folder) => Some(folder.join(open::FILE)),
            Place::Memory => None,
        };
        Self {
            file,
            cache_bytes: config.cache_bytes,
            idle: Arc::default(),
            free: Arc::new(Semaphore::new(config.readers.max(1))),
            commands,
        }
    }

    pub(crate) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(file) = self.file.clone() else {
            let answer = self.commands.push(|tx| Ask { query: Some(query), result: None, tx });
            return answer.await.map_err(|_| StoreError::Closed)??.map_err(unavailable);
        };
        let permit = Arc::clone(&self.free).acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::Closed)?;
        let (idle, cache) = (Arc::clone(&self.idle), self.cache_bytes);
        let work = tokio::task::spawn_blocking(move || {
            let known = idle.lock().pop();
            let db = known.map_or_else(|| connect(&file, cache), Ok)?;
            let result = query(&db);
            if result.is_ok() {
                idle.lock().push(db);
            }
            drop(permit);
            result
        });
        match work.await {
            Ok(result) => result.map_err(unavailable),
            Err(panic) => Err(StoreError::Unavailable(panic.to_string().into())),
        }
    }

    pub(crate) fn close(&self) {
        self.free.close();
        self.idle.lock().clear();
    }
}

fn connect(file: &PathBuf, cache_bytes: usize) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags)?;
    db.pragma_update(None, "query_only", true)?;
    db.pragma_update(None, "cache_size", -(i64::try_from(cache_bytes / 1024).unwrap_or(2000)))?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(db)
}

fn unavailable(error: rusqlite::Error) -> StoreError {
    tracing::error!(%error, "a query failed");
    StoreError::Unavailable(error.to_string().into())
}

/// A query that stands in line with the writes.
struct Ask<Q, T> {
    query: Option<Q>,
    result: Option<rusqlite::Result<T>>,
    tx: oneshot::Sender<Result<rusqlite::Result<T>, StoreError>>,
}

impl<T: Send, Q: FnOnce(&Connection) -> rusqlite::Result<T> + Send> Op for Ask<Q, T> {
    fn plan(&mut self, _: &mut posthaste_core::ledger::Ledger, _: Timestamp) -> bool {
        true
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        if let Some(query) = self.query.take() {
            self.result = Some(query(db.connection));
        }
        Ok(())
    }

    fn commit(&mut self, _: &mut posthaste_core::ledger::Ledger, _: &mut Vec<Ticket>) {}

    fn undo(&mut self, _: &mut posthaste_core::ledger::Ledger) {}

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let result = self.result.ok_or(failure.unwrap_or(StoreError::Closed));
        let _ = self.tx.send(result);
    }
}

/// Adds what only the ledger knows: who holds what is open.
pub(crate) fn stand(shared: &Shared, raw: RawRecord) -> Record {
    let ledger = shared.ledger.lock();
    let deliveries = raw.deliveries.into_iter().map(|d| {
        let standing = ledger.standing(&d.mailbox, d.delivery);
        let (state, by, leased_at, marked) = match (d.end, standing) {
            (Some(end), _) => (end, d.by, d.leased_at, d.marked),
            (None, Some(s)) if s.by.is_some() => (RecordState::Leased, s.by, s.since, s.marked),
            (None, Some(s)) => (RecordState::Queued, None, None, s.marked),
            (None, None) => (RecordState::Queued, None, None, d.marked),
        };
        DeliveryRecord {
            delivery: d.delivery,
            mailbox: d.mailbox,
            state,
            marked,
            leased_at,
            settled_at: d.settled_at,
            by,
        }
    });
    Record { deliveries: deliveries.collect(), message: raw.message }
}

/// Where candidates for a history come from.
#[derive(Debug, Clone)]
enum Source {
    All,
    Thread(ThreadId),
    Mailbox(u32),
    Sender(InstanceId),
}

pub(crate) async fn history(
    shared: &Shared,
    query: HistoryQuery,
) -> Result<Vec<Record>, StoreError> {
    let sources = sources(shared, &query);
    let mut before = query.before.map_or(u64::MAX >> 1, |seq| seq.0);
    let mut found: Vec<Record> = Vec::new();
    let mut looked_at = 0;
    while found.len() < query.last && looked_at < MOST_LOOKED_AT {
        let page = (query.last * 2).clamp(50, 500);
        let from = sources.clone();
        let raw = shared.readers.query(move |db| page_before(db, &from, before, page)).await?;
        let Some(lowest) = raw.last().map(|r| r.message.seq.0) else { break };
        before = lowest;
        looked_at += raw.len();
        let too_old = |r: &Record| query.since.is_some_and(|s| r.message.created_at <= s);
        let records: Vec<Record> = raw.into_iter().map(|r| stand(shared, r)).collect();
        let ended = records.iter().any(too_old);
        found.extend(records.into_iter().filter(|r| !too_old(r) && matches(shared, &query, r)));
        if ended {
            break;
        }
    }
    found.truncate(query.last);
    found.reverse();
    Ok(found)
}

fn sources(shared: &Shared, query: &HistoryQuery) -> Vec<Source> {
    let ledger = shared.ledger.lock();
    let of_box = |m: &Mailbox| ledger.mailbox_no(m).map(Source::Mailbox);
    match (&query.mailbox, query.thread, query.of) {
        (Some(mailbox), ..) => of_box(mailbox).into_iter().collect(),
        (None, Some(thread), _) => vec![Source::Thread(thread)],
        (None, None, None) => vec![Source::All],
        // What it can read, and what it wrote.
        (None, None, Some(id)) => {
            let keys = ledger.keys_of(Principal::Instance(id));
            keys.iter().filter_map(of_box).chain([Source::Sender(id)]).collect()
        }
    }
}

fn matches(shared: &Shared, query: &HistoryQuery, record: &Record) -> bool {
    let at_mailbox = |d: &&DeliveryRecord| query.mailbox.as_ref().is_none_or(|m| d.mailbox == *m);
    let in_state = |d: &DeliveryRecord| query.status.is_none_or(|s| d.state.as_str() == s);
    let visible = query.of.is_none_or(|id| {
        let keys = shared.ledger.lock().keys_of(Principal::Instance(id));
        record.message.from.instance == Some(id)
            || record.deliveries.iter().any(|d| keys.contains(&d.mailbox))
    });
    visible
        && query.thread.is_none_or(|t| record.message.thread == t)
        && record.deliveries.iter().filter(at_mailbox).any(in_state)
}

/// A page of messages, newest first.
fn page_before(
    db: &Connection,
    sources: &[Source],
    before: u64,
    page: usize,
) -> rusqlite::Result<Vec<RawRecord>> {
    let marks = rows::marks(db)?;
    let mut seqs = Vec::new();
    for source in sources {
        let mut add = |sql: &str, params: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<()> {
            let mut select = db.prepare_cached(sql)?;
            let rows = select.query_map(params, |row| row.get::<_, u64>(0))?;
            for seq in rows {
                seqs.push(seq?);
            }
            Ok(())
        };
        match source {
            Source::All => add(
                "SELECT seq FROM messages WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2",
                params![before, page],
            )?,
            Source::Thread(thread) => {
                add(
                    "SELECT seq FROM thread_index WHERE thread = ?1 AND seq < ?2 \
                     ORDER BY seq DESC LIMIT ?3",
                    params![thread.0, before, page],
                )?;
                add(
                    "SELECT seq FROM messages WHERE thread = ?1 AND seq < ?2 AND seq > ?4 \
                     ORDER BY seq DESC LIMIT ?3",
                    params![thread.0, before, page, marks.seq],
                )?;
            }
            Source::Sender(id) => {
                add(
                    "SELECT seq FROM sender_index WHERE sender = ?1 AND seq < ?2 \
                     ORDER BY seq DESC LIMIT ?3",
                    params![id.0, before, page],
                )?;
                add(
                    "SELECT seq FROM messages WHERE sender_instance = ?1 AND seq < ?2 \
                     AND seq > ?4 ORDER BY seq DESC LIMIT ?3",
                    params![id.0, before, page, marks.seq],
                )?;
            }
            Source::Mailbox(no) => {
                add(
                    "SELECT seq FROM mailbox_index WHERE mailbox = ?1 AND seq < ?2 \
                     ORDER BY seq DESC LIMIT ?3",
                    params![no, before, page],
                )?;
                add(
                    "SELECT seq FROM deliveries WHERE mailbox = ?1 AND seq < ?2 AND no > ?4 \
                     ORDER BY no DESC LIMIT ?3",
                    params![no, before, page, marks.delivery],
                )?;
            }
        }
    }
    seqs.sort_unstable_by(|a, b| b.cmp(a));
    seqs.dedup();
    seqs.truncate(page);
    let mut records = Vec::with_capacity(seqs.len());
    for seq in seqs {
        records.extend(rows::record(db, MessageRef::Seq(Seq(seq)))?);
    }
    Ok(records)
}
