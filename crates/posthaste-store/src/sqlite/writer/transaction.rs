//! Runs one transaction, which is written whole, or not at all, or with an unknown result.

use std::fs::File;
use std::time::{Duration, Instant};

use posthaste_core::ports::StoreError;
use rusqlite::Connection;

use crate::sqlite::files::Files;
use crate::sqlite::log;

/// When a transaction is flushed to disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    Now,
    /// With the next transaction that is flushed; for data that can be made again.
    Later,
}

/// The result of a committed transaction.
pub(super) struct Done {
    /// Time of the commit itself, without its statements: they are work that must be done
    /// on some thread.
    pub(super) took: Duration,
    /// Set if the files were moved meanwhile: the next start may not find the transaction.
    pub(super) doubt: Option<StoreError>,
}

/// The result of a transaction that was not committed.
pub(super) struct Failed {
    pub(super) cause: Cause,
    /// The transaction may be in the log, and the next start may find it there.
    pub(super) lingers: bool,
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self { cause: error.into(), lingers: false }
    }
}

pub(super) enum Cause {
    Sqlite(rusqlite::Error),
    /// The files were not at their paths: nothing was tried.
    Misplaced(StoreError),
}

impl From<rusqlite::Error> for Cause {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

pub(super) fn transaction<T>(
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
        // A connection that does not flush must not write a group.
        let flushes = set_flush(db, "FULL", 2);
        assert!(flushes.is_ok(), "the connection flushes what it writes");
    }
    done
}

/// Sets when SQLite flushes, and verifies the setting.
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

/// Runs a transaction. An error comes with whether the commit had begun.
fn attempt<T>(
    db: &Connection,
    files: &Files,
    write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<(T, Done), (Cause, bool)> {
    let before = || -> Result<T, Cause> {
        db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        // Another hub that takes the folder waits for this transaction before it reads
        // ([`open`](super::open)); if that hub was quicker, this look notices it.
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

/// Returns whether a start may find the transaction that failed to commit.
fn lingers(db: &Connection, log: &File) -> bool {
    let buried = log::bury(db, log);
    if let Err(error) = &buried {
        tracing::error!(%error, "what was not committed cannot be taken out of the log");
    }
    buried.is_err()
}
