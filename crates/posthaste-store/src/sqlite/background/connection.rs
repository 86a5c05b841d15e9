//! The connection of the background.

use std::sync::Arc;

use rusqlite::Connection;

use crate::sqlite::Shared;
use crate::sqlite::errors::{Damage, ReadError, ReadResult};
use crate::sqlite::files::Files;
use crate::sqlite::thread::on_a_thread;

/// Memory for pages: each is needed once.
const CACHE_KIB: i64 = 1024;

/// A connection that is opened when it is first needed, and used on a thread.
pub(super) struct OwnConnection {
    files: Arc<Files>,
    damage: Arc<Damage>,
    db: Option<Connection>,
}

impl OwnConnection {
    pub(super) fn new(shared: &Shared) -> Self {
        let (files, damage) = (Arc::clone(&shared.files), Arc::clone(&shared.damage));
        Self { files, damage, db: None }
    }

    /// Asks something; `None` if that failed, which is logged and tried again later.
    pub(super) async fn ask<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&Connection) -> ReadResult<T> + Send + 'static,
    ) -> Option<T> {
        let (files, known) = (Arc::clone(&self.files), self.db.take());
        let work = on_a_thread(move || -> ReadResult<_> {
            let db = known.map_or_else(|| connect(&files), Ok)?;
            let answer = ask(&db)?;
            Ok((db, answer))
        });
        match work.await {
            Ok(Ok((db, answer))) => {
                self.db = Some(db);
                return Some(answer);
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the store's background work failed; it is tried again");
                if let ReadError::Sqlite(error) = &error {
                    self.damage.explain(error);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the store's background work failed; it is tried again");
            }
        }
        None
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        self.db.iter().for_each(|db| self.files.leave_log(db));
    }
}

fn connect(files: &Files) -> rusqlite::Result<Connection> {
    let db = Connection::open(files.database())?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(db)
}
