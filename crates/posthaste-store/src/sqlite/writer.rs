//! The one connection that writes.
//!
//! A group is one transaction: on the event loop itself where the disk is quick and the
//! group is light, else on a thread. The store's own work in the background writes with the
//! same connection, between two groups.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use posthaste_core::Vitals;
use posthaste_core::ports::StoreError;
use posthaste_core::ports::change::Change;
use posthaste_core::ports::store::{CommitError, Committed, Epoch, Group};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;

use super::errors::Damage;
use super::files::Files;
use super::rows::meta::Marks;
use super::{changes, log};

/// Commits that take less than this, on average, are done on the event loop itself:
/// two changes of threads cost more than the others wait. A slow disk gets a thread
/// of its own.
const QUICK: Duration = Duration::from_millis(1);
/// What is assumed of a disk that nobody has tried yet.
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

/// What the writer works with.
pub(crate) struct Desk {
    /// `None` when the store is closed, or a panic took it away.
    db: Option<Connection>,
    /// How long a commit takes, as a moving average.
    pace: Duration,
}

/// How much was written, for the work behind.
#[derive(Default)]
pub(crate) struct Written {
    seq: AtomicU64,
    delivery: AtomicU64,
    /// Keys that are in no run yet.
    pub(crate) unsorted_keys: AtomicU64,
    transactions: AtomicU64,
    /// How often messages were removed.
    prunes: AtomicU64,
}

impl Written {
    pub(crate) fn new(last: Marks, unsorted_keys: u64) -> Self {
        Self {
            seq: AtomicU64::new(last.seq),
            delivery: AtomicU64::new(last.delivery),
            unsorted_keys: AtomicU64::new(unsorted_keys),
            transactions: AtomicU64::new(0),
            prunes: AtomicU64::new(0),
        }
    }

    /// The highest numbers.
    pub(crate) fn last(&self) -> Marks {
        Marks {
            seq: self.seq.load(Ordering::Relaxed),
            delivery: self.delivery.load(Ordering::Relaxed),
        }
    }

    /// How many transactions there were.
    pub(crate) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// How often messages were removed.
    pub(crate) fn prunes(&self) -> u64 {
        self.prunes.load(Ordering::Relaxed)
    }

    fn note(&self, changes: &[Change]) {
        let (mut seq, mut delivery, mut keys) = (0, 0, 0);
        for change in changes {
            match change {
                Change::MessageAdded { message, copies, key } => {
                    seq = seq.max(message.seq.0);
                    delivery = copies.last().map_or(delivery, |(_, last)| delivery.max(last.0));
                    keys += u64::from(key.is_some());
                }
                Change::MessagesPruned(_) => drop(self.prunes.fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
        }
        self.seq.fetch_max(seq, Ordering::Relaxed);
        self.delivery.fetch_max(delivery, Ordering::Relaxed);
        self.unsorted_keys.fetch_add(keys, Ordering::Relaxed);
    }
}

/// Whether a transaction is on disk when it is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    Now,
    /// With the next one that is: what can be made again.
    Later,
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

    /// Writes a group. A dropped future does not stop it.
    pub(crate) async fn commit(self: Arc<Self>, group: Group) -> Result<Committed, CommitError> {
        if let Ok(desk) = Arc::clone(&self.desk).try_lock_owned() {
            return self.commit_at(desk, group).await;
        }
        // The work behind is at it. A task waits for it, so that nobody must.
        let task = async move {
            let desk = Arc::clone(&self.desk).lock_owned().await;
            self.commit_at(desk, group).await
        };
        tokio::spawn(task).await.unwrap_or_else(|error| Err(lost(error.to_string())))
    }

    async fn commit_at(
        self: Arc<Self>,
        mut desk: OwnedMutexGuard<Desk>,
        group: Group,
    ) -> Result<Committed, CommitError> {
        if desk.pace < QUICK && changes::are_light(&group.changes) {
            return self.commit_now(&mut desk, &group);
        }
        on_a_thread(move || self.commit_now(&mut desk, &group)).await?
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

    /// Writes something of the store's own, on a thread, between two groups; and how long a
    /// group had to wait for it.
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
        on_a_thread(work).await?
    }

    /// Uses the connection for something that is no transaction, on a thread, between two
    /// groups.
    pub(crate) async fn with<T: Send + 'static>(
        self: Arc<Self>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let desk = Arc::clone(&self.desk).lock_owned().await;
        let done = on_a_thread(move || match &desk.db {
            Some(db) => work(db).map_err(|error| self.damage.explain(&error)),
            None => Err(StoreError::Closed),
        });
        done.await.map_err(CommitError::into_inner)?
    }

    /// Lets go of the connection.
    pub(crate) async fn close(self: Arc<Self>) {
        let mut desk = Arc::clone(&self.desk).lock_owned().await;
        let Some(db) = desk.db.take() else { return };
        let closed = spawn_blocking(move || {
            self.files.leave_log(&db);
            db.close().map_err(|(_, error)| error)
        });
        if let Ok(Err(error)) = closed.await {
            tracing::warn!(%error, "the database did not close cleanly");
        }
    }

    /// One transaction. After a panic the connection is gone: nobody knows what it did.
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
            return Err(lost("the writer failed in the middle of it".into()));
        };
        desk.db = Some(db);
        self.written.transactions.fetch_add(1, Ordering::Relaxed);
        done.map_err(|failed| self.explain(failed))
    }

    fn explain(&self, Failed { cause, lingers }: Failed) -> CommitError {
        match cause {
            // Logged when it was noticed.
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

/// Whether the others could be written without one of the changes. A full disk takes none.
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

/// What a transaction tells.
struct Done {
    /// How long the disk took. The statements before it are work that must be done
    /// somewhere.
    took: Duration,
    /// The files were moved in the middle of it: nobody knows whether the next start finds
    /// it.
    doubt: Option<StoreError>,
}

/// Why a transaction was not committed.
struct Failed {
    cause: Cause,
    /// It may be in the log, and the next start may find it there.
    lingers: bool,
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self { cause: error.into(), lingers: false }
    }
}

enum Cause {
    Sqlite(rusqlite::Error),
    /// The files were not in their place: nothing was tried.
    Misplaced(StoreError),
}

impl From<rusqlite::Error> for Cause {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn transaction<T>(
    db: &Connection,
    files: &Files,
    flush: Flush,
    write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<(T, Done), Failed> {
    if flush == Flush::Later {
        set_flush(db, "NORMAL", 1)?;
    }
    let done = attempt(db, files, write).map_err(|(cause, committing)| {
        if !db.is_autocommit() {
            // A failed rollback leaves nothing committed either.
            let _ = db.execute_batch("ROLLBACK");
        }
        Failed { cause, lingers: committing && lingers(db, files.log()) }
    });
    if flush == Flush::Later {
        // A connection that does not flush must write no group.
        let flushes = set_flush(db, "FULL", 2);
        assert!(flushes.is_ok(), "the connection flushes what it writes");
    }
    done
}

/// Sets how SQLite flushes, and makes sure that it is so.
fn set_flush(db: &Connection, level: &str, number: i64) -> Result<(), Failed> {
    let set = db
        .pragma_update(None, "synchronous", level)
        .and_then(|()| db.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0)));
    match set {
        Ok(is) if is == number => Ok(()),
        Ok(_) => Err(Failed::from(rusqlite::Error::InvalidQuery)),
        Err(error) => Err(Failed::from(error)),
    }
}

/// Returns with an error whether the commit had begun.
fn attempt<T>(
    db: &Connection,
    files: &Files,
    write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<(T, Done), (Cause, bool)> {
    let before = || -> Result<T, Cause> {
        db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        // Another hub that takes the folder waits for this transaction before it reads
        // ([`open`](super::open)); or it was quicker, and is seen here.
        files.glance().map_err(Cause::Misplaced)?;
        Ok(write(db)?)
    };
    let value = before().map_err(|cause| (cause, false))?;
    let began = Instant::now();
    let commit = || db.prepare_cached("COMMIT")?.execute([]);
    commit().map_err(|error| (error.into(), true))?;
    let took = began.elapsed();
    let doubt = files.glance().err();
    let doubt = doubt.map(|error| StoreError::Unknown(error.to_string().into()));
    Ok((value, Done { took, doubt }))
}

/// Whether a start may find what could not be committed.
fn lingers(db: &Connection, log: &File) -> bool {
    let buried = log::bury(db, log);
    if let Err(error) = &buried {
        tracing::error!(%error, "what was not committed cannot be taken out of the log");
    }
    buried.is_err()
}

/// Runs `work` on a thread of its own; where the system grants none, here.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CommitError> {
    let work = Arc::new(Mutex::new(Some(work)));
    let theirs = Arc::clone(&work);
    let take = move || {
        let work = theirs.lock().take();
        work.map(|work| work())
    };
    // The runtime panics if it gets no thread, and keeps what it was given for later.
    let spawned = catch_unwind(AssertUnwindSafe(|| spawn_blocking(take)));
    let done = match spawned {
        Ok(running) => running.await.map_err(|panic| panic.to_string()),
        Err(_) => {
            let work = work.lock().take();
            Ok(work.map(|work| work()))
        }
    };
    done.map_err(lost)?.ok_or_else(|| lost("it was given up".into()))
}

fn lost(why: String) -> CommitError {
    CommitError::Unknown(StoreError::Unknown(why.into()))
}
