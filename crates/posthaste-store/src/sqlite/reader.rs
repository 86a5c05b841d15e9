//! Queries, on connections of their own.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_core::messaging::message::{MessageRef, Seq};
use posthaste_core::ports::{DeliveryRecord, Record, RecordState, StoreError, Ticket};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Semaphore, oneshot};

use super::files::Files;
use super::rows::{self, RawRecord};
use super::writer::{Commands, Db, Op, unanswered};
use super::{Shared, faults, open};
use crate::{OpenError, StoreConfig};

/// A few read-only connections. A store in memory has only the writer's, so its
/// queries stand in line with the writes.
pub(crate) struct Readers {
    files: Option<Arc<Files>>,
    cache_bytes: usize,
    idle: Arc<Mutex<Vec<Connection>>>,
    most: u32,
    free: Arc<Semaphore>,
    commands: Commands,
    /// What of the file cannot be read. Nothing mends it before the next start.
    damage: OnceLock<StoreError>,
}

impl Readers {
    /// One connection is open from the start: what the hub knows is still read when its
    /// folder was moved or deleted, where no other can be opened.
    pub(crate) fn new(
        files: Option<Arc<Files>>,
        config: &StoreConfig,
        commands: Commands,
    ) -> Result<Self, OpenError> {
        let cache_bytes = config.cache_bytes;
        let first = files.as_ref().map(|files| {
            let file = files.database();
            connect(file, cache_bytes).map_err(|error| open::explain(file, &error))
        });
        let most = u32::try_from(config.readers.max(1)).unwrap_or(u32::MAX);
        Ok(Self {
            files,
            cache_bytes,
            idle: Arc::new(Mutex::new(first.transpose()?.into_iter().collect())),
            most,
            free: Arc::new(Semaphore::new(most as usize)),
            commands,
            damage: OnceLock::new(),
        })
    }

    pub(crate) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(files) = self.files.clone() else {
            let answer = self.commands.push(|tx| Ask { query: Some(query), result: None, tx });
            let result = answer.await.map_err(unanswered)??;
            return result.map_err(|error| self.failed(&error));
        };
        // Without the folder there are only the connections that are open: one at a time.
        let permits = if files.are_in_place() { 1 } else { self.most };
        let permit = Arc::clone(&self.free).acquire_many_owned(permits).await;
        let permit = permit.map_err(|_| StoreError::Closed)?;
        let (idle, cache) = (Arc::clone(&self.idle), self.cache_bytes);
        let work = tokio::task::spawn_blocking(move || {
            let known = idle.lock().pop();
            if known.is_none() {
                // The database of another hub may stand there by now.
                files.look()?;
            }
            let db = known.map_or_else(|| connect(files.database(), cache), Ok);
            let result = db.and_then(|db| {
                let result = query(&db);
                match &result {
                    Err(_) if files.are_in_place() => files.leave_log(&db),
                    Ok(_) | Err(_) => idle.lock().push(db),
                }
                result
            });
            drop(permit);
            Ok(result)
        });
        match work.await {
            Ok(result) => result?.map_err(|error| self.failed(&error)),
            Err(panic) => Err(StoreError::Unavailable(panic.to_string().into())),
        }
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        tracing::error!(%error, "a query failed");
        self.explain(error)
    }

    /// What a caller is told of this, and whoever asks how the store is.
    pub(crate) fn explain(&self, error: &rusqlite::Error) -> StoreError {
        match &self.files {
            Some(files) if faults::is_damage(error) => {
                let first = || {
                    tracing::error!(%error, "the database is damaged: no new mail is accepted");
                    open::damaged(files.database(), error.to_string())
                };
                self.damage.get_or_init(first).clone()
            }
            _ => StoreError::Unavailable(error.to_string().into()),
        }
    }

    pub(crate) fn damage(&self) -> Option<StoreError> {
        self.damage.get().cloned()
    }

    pub(crate) fn close(&self) {
        self.free.close();
        for db in self.idle.lock().drain(..) {
            self.files.iter().for_each(|files| files.leave_log(&db));
        }
    }
}

fn connect(file: &Path, cache_bytes: usize) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags)?;
    db.pragma_update(None, "query_only", true)?;
    db.pragma_update(None, "cache_size", -(i64::try_from(cache_bytes / 1024).unwrap_or(2000)))?;
    db.busy_timeout(Duration::from_secs(5))?;
    // SQLite opens the log when it reads for the first time.
    db.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(db)
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

/// Records as they stand now. A delivery may be settled between the look at the
/// disk and the look into the ledger; then the disk knows its end by now.
pub(crate) async fn stand_all(
    shared: &Shared,
    mut raw: Vec<RawRecord>,
) -> Result<Vec<Record>, StoreError> {
    let stale: Vec<usize> = {
        let ledger = shared.ledger.lock();
        let gone = |r: &RawRecord| {
            let open = r.deliveries.iter().filter(|d| d.end.is_none());
            open.into_iter().any(|d| ledger.standing(&d.mailbox, d.delivery).is_none())
        };
        (0..raw.len()).filter(|i| gone(&raw[*i])).collect()
    };
    if !stale.is_empty() {
        let seqs: Vec<Seq> = stale.iter().map(|i| raw[*i].message.seq).collect();
        let again = move |db: &Connection| {
            seqs.iter().map(|seq| rows::record(db, MessageRef::Seq(*seq))).collect()
        };
        let fresh: Vec<Option<RawRecord>> = shared.readers.query(again).await?;
        for (i, record) in stale.into_iter().zip(fresh) {
            if let Some(record) = record {
                raw[i] = record;
            }
        }
    }
    Ok(raw.into_iter().map(|r| stand(shared, r)).collect())
}

/// Adds what only the ledger knows: who holds what is open.
fn stand(shared: &Shared, raw: RawRecord) -> Record {
    let ledger = shared.now();
    let deliveries = raw.deliveries.into_iter().map(|d| {
        let standing = ledger.standing(&d.mailbox, d.delivery);
        let (state, by, leased_at) = match (d.end, &standing) {
            (Some(end), _) => (end, d.by, d.leased_at),
            (None, Some(s)) if s.by.is_some() => (RecordState::Leased, s.by, s.since),
            (None, _) => (RecordState::Queued, None, None),
        };
        let open = standing.filter(|_| d.end.is_none());
        let queued = state == RecordState::Queued && d.mailbox.is_one_of();
        let sender = raw.message.from.instance;
        let only = queued.then(|| ledger.only_taker(&d.mailbox, sender)).flatten();
        DeliveryRecord {
            delivery: d.delivery,
            mailbox: d.mailbox,
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
    Record { deliveries: deliveries.collect(), message: raw.message }
}
