//! The connection that writes.
//!
//! A group is one transaction: on the event loop where the disk is quick and the group is
//! light, else on a thread. The store's background writes with the same connection,
//! between two groups.

#[cfg(test)]
mod tests;
mod transaction;
mod written;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use posthaste_core::Vitals;
use posthaste_core::ports::StoreError;
use posthaste_core::ports::store::{CommitError, Committed, Epoch, Group};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::OwnedMutexGuard;

pub(crate) use self::transaction::Flush;
use self::transaction::{Cause, Done, Failed, transaction};
pub(crate) use self::written::Written;
use super::changes;
use super::errors::Damage;
use super::files::Files;
use super::thread::on_a_thread;

/// Commits that take less than this, on average, run on the event loop: two changes of
/// threads cost more than the other tasks wait. A slow disk gets a thread.
const QUICK: Duration = Duration::from_millis(1);
/// The pace that is assumed before the first commit.
const SLOW: Duration = Duration::from_millis(4);

pub(crate) struct Writer {
    desk: Arc<tokio::sync::Mutex<Desk>>,
    files: Arc<Files>,
    damage: Arc<Damage>,
    vitals: Vitals,
    epoch: Epoch,
    first_made_id: u64,
    pub(crate) written: Written,
}

/// The state of the writer, under its lock.
pub(crate) struct Desk {
    /// `None` when the store is closed, or after a panic.
    db: Option<Connection>,
    /// Average time of a commit, as a moving average.
    pace: Duration,
}

impl Writer {
    pub(crate) fn new(
        db: Connection,
        files: Arc<Files>,
        damage: Arc<Damage>,
        vitals: Vitals,
        epoch: Epoch,
        first_made_id: u64,
        written: Written,
    ) -> Self {
        let desk = Arc::new(tokio::sync::Mutex::new(Desk { db: Some(db), pace: SLOW }));
        Self { desk, files, damage, vitals, epoch, first_made_id, written }
    }

    /// Writes a group. Dropping the future does not stop the write.
    pub(crate) async fn commit(self: Arc<Self>, group: Group) -> Result<Committed, CommitError> {
        let mut desk = Box::pin(Arc::clone(&self.desk).lock_owned());
        // The first poll takes a place in the line of the lock: no later group comes
        // first.
        if let Some(desk) = desk.as_mut().now_or_never() {
            return self.commit_at(desk, group).await;
        }
        // The background holds the lock. A task waits for it, so the caller need not.
        let task = async move { self.commit_at(desk.await, group).await };
        tokio::spawn(task).await.unwrap_or_else(|error| Err(lost(error)))
    }

    async fn commit_at(
        self: Arc<Self>,
        mut desk: OwnedMutexGuard<Desk>,
        group: Group,
    ) -> Result<Committed, CommitError> {
        if desk.pace < QUICK && changes::are_light(&group.changes) {
            return self.commit_now(&mut desk, &group);
        }
        let vitals = self.vitals.clone();
        let done = on_a_thread(move || self.commit_now(&mut desk, &group)).await;
        if done.is_err() {
            vitals.fail("the writer of the store has ended by itself");
        }
        done.map_err(lost)?
    }

    fn commit_now(&self, desk: &mut Desk, group: &Group) -> Result<Committed, CommitError> {
        if group.epoch != self.epoch {
            let why = format!("the store is at epoch {}, not {}", self.epoch.0, group.epoch.0);
            return Err(CommitError::Nothing(StoreError::Unavailable(why.into())));
        }
        let write = |db: &Connection| changes::write(db, group, self.first_made_id);
        let ((), done) = self.transact(desk, Flush::Now, write)?;
        desk.pace = (desk.pace * 7 + done.took) / 8;
        self.written.note(&group.changes);
        Ok(Committed { took: done.took, doubt: done.doubt })
    }

    /// Writes something of the store's own on a thread, between two groups. Also returns
    /// how long a group may have waited for it.
    pub(crate) async fn write<T: Send + 'static>(
        self: Arc<Self>,
        flush: Flush,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<(T, Duration), CommitError> {
        let mut desk = Arc::clone(&self.desk).lock_owned().await;
        let work = move || {
            let began = Instant::now();
            self.transact(&mut desk, flush, write).map(|(value, _)| (value, began.elapsed()))
        };
        on_a_thread(work).await.map_err(lost)?
    }

    /// Uses the connection without a transaction, on a thread, between two groups.
    pub(crate) async fn with<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let desk = Arc::clone(&self.desk).lock_owned().await;
        let done = on_a_thread(move || match &desk.db {
            Some(db) => work(db).map_err(|error| self.damage.explain(&error)),
            None => Err(StoreError::Closed),
        });
        done.await.map_err(lost).map_err(CommitError::into_inner)?
    }

    /// Closes the connection, without a thread: the hub ends also where the system grants
    /// none.
    pub(crate) async fn close(&self) {
        let Some(db) = self.desk.lock().await.db.take() else { return };
        self.files.leave_log(&db);
        if let Err((_, error)) = db.close() {
            tracing::warn!(%error, "the database did not close cleanly");
        }
    }

    /// Runs one transaction. After a panic the connection is dropped, because its state is
    /// unknown.
    fn transact<T>(
        &self,
        desk: &mut Desk,
        flush: Flush,
        write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<(T, Done), CommitError> {
        let Some(db) = desk.db.take() else { return Err(CommitError::Nothing(StoreError::Closed)) };
        let work = || {
            let done = transaction(&db, &self.files, flush, write);
            (db, done)
        };
        let Ok((db, done)) = catch_unwind(AssertUnwindSafe(work)) else {
            self.vitals.fail("the writer of the store has ended by itself");
            return Err(lost("the writer failed in the middle of it"));
        };
        desk.db = Some(db);
        self.written.transactions.fetch_add(1, Ordering::Relaxed);
        done.map_err(|failed| self.explain(failed))
    }

    fn explain(&self, Failed { cause, lingers }: Failed) -> CommitError {
        match cause {
            // This was logged when it was noticed.
            Cause::Misplaced(error) => CommitError::Nothing(error),
            Cause::Sqlite(error) => {
                let explained = self.damage.explain(&error);
                if lingers {
                    tracing::error!(%error, "the store cannot write, and may have written");
                    CommitError::Unknown(StoreError::Unknown(error.to_string().into()))
                } else if is_of_one_change(&error) {
                    CommitError::OneChange(explained)
                } else {
                    tracing::error!(%error, "the store cannot write");
                    CommitError::Nothing(explained)
                }
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Ok(desk) = self.desk.try_lock() {
            desk.db.iter().for_each(|db| self.files.leave_log(db));
        }
    }
}

/// Returns whether one change may be to blame, so that the others could be written without
/// it. On a full disk none can.
fn is_of_one_change(error: &rusqlite::Error) -> bool {
    !matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::OutOfMemory
        )
    )
}

fn lost(why: impl std::fmt::Display) -> CommitError {
    CommitError::Unknown(StoreError::Unknown(why.to_string().into()))
}
