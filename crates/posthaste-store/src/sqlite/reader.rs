//! Runs queries on connections of their own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_core::ports::StoreError;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::errors::{Damage, ReadError, ReadResult, explain};
use super::files::Files;
use super::thread::on_a_thread;
use crate::{OpenError, StoreConfig};

/// A pool of a few read-only connections.
pub(crate) struct Readers {
    files: Arc<Files>,
    damage: Arc<Damage>,
    cache_bytes: usize,
    idle: Arc<Mutex<Vec<Connection>>>,
    most: u32,
    free: Arc<Semaphore>,
}

impl Readers {
    /// Opens one connection at once: when the folder was moved or deleted, no other one
    /// can be opened, and queries are still answered.
    pub(crate) fn new(
        files: Arc<Files>,
        damage: Arc<Damage>,
        config: &StoreConfig,
    ) -> Result<Self, OpenError> {
        let (file, cache_bytes) = (files.database(), config.cache_bytes);
        let first = connect(file, cache_bytes).map_err(|error| explain(file, &error))?;
        let most = u32::try_from(config.readers.max(1)).unwrap_or(u32::MAX);
        Ok(Self {
            idle: Arc::new(Mutex::new(vec![first])),
            most,
            free: Arc::new(Semaphore::new(most as usize)),
            files,
            damage,
            cache_bytes,
        })
    }

    pub(crate) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> ReadResult<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        // Without the folder no connection can be opened: queries share the open ones, one
        // query at a time.
        let permits = if self.files.are_in_place() { 1 } else { self.most };
        let permit = Arc::clone(&self.free).acquire_many_owned(permits).await;
        let permit = permit.map_err(|_| StoreError::Closed)?;
        let (files, idle) = (Arc::clone(&self.files), Arc::clone(&self.idle));
        let cache = self.cache_bytes;
        let work = on_a_thread(move || {
            let known = idle.lock().pop();
            if known.is_none() {
                // The database of another hub may stand at the path by now.
                files.look()?;
            }
            let db = known.map_or_else(|| connect(files.database(), cache), Ok);
            let result = db.map_err(ReadError::from).and_then(|db| {
                let result = query(&db);
                match &result {
                    Err(ReadError::Sqlite(_)) if files.are_in_place() => files.leave_log(&db),
                    Ok(_) | Err(_) => idle.lock().push(db),
                }
                result
            });
            drop(permit);
            Ok(result)
        });
        match work.await {
            Ok(result) => result?.map_err(|error| self.failed(&error)),
            Err(lost) => Err(StoreError::Unavailable(lost.to_string().into())),
        }
    }

    fn failed(&self, error: &ReadError) -> StoreError {
        tracing::error!(%error, "a query failed");
        match error {
            ReadError::Sqlite(error) => self.damage.explain(error),
            ReadError::Row(what) => StoreError::Unavailable(what.as_str().into()),
        }
    }

    pub(crate) fn close(&self) {
        self.free.close();
        for db in self.idle.lock().drain(..) {
            self.files.leave_log(&db);
        }
    }
}

/// Asks several things of one moment.
pub(crate) fn at_one_moment<T>(
    db: &Connection,
    ask: impl FnOnce() -> ReadResult<T>,
) -> ReadResult<T> {
    db.prepare_cached("SAVEPOINT look")?.execute([])?;
    let answer = ask();
    db.prepare_cached("RELEASE look")?.execute([])?;
    answer
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close();
    }
}

pub(crate) fn connect(file: &Path, cache_bytes: usize) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags)?;
    db.pragma_update(None, "query_only", true)?;
    db.pragma_update(None, "cache_size", -(i64::try_from(cache_bytes / 1024).unwrap_or(2000)))?;
    db.busy_timeout(Duration::from_secs(5))?;
    // SQLite opens the log with the first read.
    db.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}
