//! SQLite's write-ahead log: grows it before use, and buries failed commits in it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::errors::explain;
use super::open::{beside, unusable};
use crate::OpenError;

/// Bytes that must be left on the disk after the log was grown beforehand.
const SPARE: usize = 1 << 20;
/// Bytes before the first frame, and before the page of each frame.
const HEAD: u64 = 32;
const FRAME_HEAD: usize = 24;

pub(crate) fn log_of(file: &Path) -> PathBuf {
    beside(file, "-wal")
}

/// Appends zeros to the log while no other process has it open. SQLite then overwrites the
/// log from its start, which is quicker and steadier than growing it. A log that a kill
/// left behind stays as it is.
pub(crate) fn grow(db: &Connection, file: &Path, bytes: u64) -> Result<File, OpenError> {
    let path = log_of(file);
    let unusable = |error: io::Error| unusable(&path, &error);
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut log = options.open(&path).map_err(unusable)?;
    if log.metadata().map_err(unusable)?.len() >= bytes {
        return Ok(log);
    }
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(|error| explain(file, &error))?;
    let before = log.metadata().map_err(unusable)?.len();
    let mut append = || -> io::Result<()> {
        log.seek(SeekFrom::Start(before))?;
        let zeros = vec![0_u8; SPARE];
        let mut left = bytes.saturating_sub(before);
        while left > 0 {
            let part = left.min(SPARE as u64);
            log.write_all(&zeros[..usize::try_from(part).unwrap_or(SPARE)])?;
            left -= part;
        }
        // Write a little more and give it back: other programs need room as well.
        log.write_all(&zeros)?;
        log.set_len(bytes)?;
        log.sync_all()
    };
    if let Err(error) = append() {
        // A small disk is no reason not to start: the log then grows while in use.
        tracing::warn!(%error, "the log could not be grown beforehand");
        log.set_len(before).map_err(unusable)?;
    }
    Ok(log)
}

/// Makes sure that no start finds the transaction that this connection failed to commit
/// and has rolled back.
///
/// A commit that fails may be in the log all the same, as when the log has room and its
/// index has none, or when the flush failed. SQLite writes its next transaction over the
/// failed one, which then is gone, because checksums go from frame to frame. So a small
/// transaction is written at once.
pub(crate) fn bury(db: &Connection, log: &File) -> rusqlite::Result<()> {
    if let Ok(false) = may_come_back(db, log) {
        return Ok(());
    }
    let written = db.execute_batch(
        "BEGIN IMMEDIATE; UPDATE meta SET value = value + 1 WHERE key = 'failed_commits'; COMMIT",
    );
    if written.is_err() && !db.is_autocommit() {
        // A failed rollback leaves nothing committed either.
        let _ = db.execute_batch("ROLLBACK");
    }
    written
}

/// Returns whether the log holds a commit behind the last one that SQLite knows of, by the
/// format of the log (<https://sqlite.org/fileformat2.html#walformat>): a start reads on
/// while frames have the salts of the log's head, and a frame with a size of the database
/// is the end of a transaction. Checksums are not compared, so a buried commit counts,
/// too.
fn may_come_back(db: &Connection, log: &File) -> io::Result<bool> {
    let told = |sql, column: usize| db.query_row(sql, [], |row| row.get::<_, u64>(column));
    let frames = told("PRAGMA wal_checkpoint(NOOP)", 1).map_err(io::Error::other)?;
    let page = told("PRAGMA page_size", 0).map_err(io::Error::other)?;
    let frame = FRAME_HEAD as u64 + page;
    let mut salts = [0; 8];
    log.read_exact_at(&mut salts, 16)?;
    let mut at = HEAD + frames * frame;
    let mut head = [0; FRAME_HEAD];
    loop {
        match log.read_exact_at(&mut head, at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if head[8..16] != salts {
            return Ok(false);
        }
        if head[4..8] != [0; 4] {
            return Ok(true);
        }
        at += frame;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn connect(folder: &Path) -> Connection {
        let db = Connection::open(folder.join("x.db")).expect("a database");
        db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).expect("a log");
        db.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(())).expect("set");
        db
    }

    /// Returns the texts that a start would find after a kill at this moment.
    fn after_a_kill(folder: &Path) -> Vec<String> {
        let copy = copy_of(folder);
        let db = connect(copy.path());
        let mut select = db.prepare("SELECT text FROM texts ORDER BY rowid").expect("a query");
        let texts = select.query_map([], |row| row.get(0)).expect("rows");
        texts.map(|text| text.expect("a text")).collect()
    }

    /// Copies the database and its log, without the index of the log.
    fn copy_of(folder: &Path) -> tempfile::TempDir {
        let copy = tempfile::tempdir().expect("a scratch folder");
        for name in ["x.db", "x.db-wal"] {
            std::fs::copy(folder.join(name), copy.path().join(name)).expect("copied");
        }
        copy
    }

    /// Returns a connection with one text, and a log that has a second text: the state
    /// after a commit that was written and failed because the index of the log is full.
    fn failed_commit(folder: &Path) -> (Connection, File) {
        let db = connect(folder);
        db.execute_batch(
            "CREATE TABLE meta (key TEXT PRIMARY KEY, value); CREATE TABLE texts (text);
             INSERT INTO meta VALUES ('failed_commits', 0); INSERT INTO texts VALUES ('good')",
        )
        .expect("written");
        let copy = copy_of(folder);
        let other = connect(copy.path());
        let long = "x".repeat(30_000);
        other.execute("INSERT INTO texts VALUES (?1 || 'bad')", [&long]).expect("written");
        let whole = std::fs::read(copy.path().join("x.db-wal")).expect("a log");
        let path = folder.join("x.db-wal");
        let good = std::fs::read(&path).expect("a log");
        assert!(whole.starts_with(&good) && whole.len() > good.len() + 8 * 4096);
        std::fs::write(&path, &whole).expect("the failed commit");
        let log = File::options().read(true).write(true).open(&path).expect("a log");
        (db, log)
    }

    #[test]
    fn what_could_not_be_committed_is_not_found_after_a_kill() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (db, log) = failed_commit(folder.path());
        assert_eq!(after_a_kill(folder.path()).len(), 2, "the log has both");
        assert!(may_come_back(&db, &log).expect("the log is read"));
        bury(&db, &log).expect("overwritten");
        assert_eq!(after_a_kill(folder.path()), ["good"]);

        // The connection goes on, and the next start finds its commits.
        db.execute("INSERT INTO texts VALUES ('next')", []).expect("written");
        assert_eq!(after_a_kill(folder.path()), ["good", "next"]);
        drop(db);
        let counted: i64 = connect(folder.path())
            .query_row("SELECT value FROM meta", [], |row| row.get(0))
            .expect("a count");
        assert_eq!(counted, 1);
    }

    #[test]
    fn where_nothing_was_written_nothing_is_overwritten() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (db, log) = failed_commit(folder.path());
        // Only the first frames were written: none of them ends a transaction.
        let frames: u64 =
            db.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1)).expect("a count");
        log.set_len(HEAD + (frames + 2) * (FRAME_HEAD as u64 + 4096)).expect("cut");
        let before = std::fs::read(folder.path().join("x.db-wal")).expect("a log");
        bury(&db, &log).expect("nothing to do");
        assert_eq!(std::fs::read(folder.path().join("x.db-wal")).expect("a log"), before);
        assert_eq!(after_a_kill(folder.path()), ["good"]);

        // Zeros, or frames from before the log began anew.
        log.write_all_at(&[0; 64], HEAD + frames * (FRAME_HEAD as u64 + 4096)).expect("zeros");
        assert!(!may_come_back(&db, &log).expect("the log is read"));
    }

    #[test]
    fn it_is_said_when_nobody_can_know() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (db, log) = failed_commit(folder.path());
        db.pragma_update(None, "query_only", true).expect("set");
        bury(&db, &log).expect_err("nothing can be written");
        assert!(db.is_autocommit());
        db.pragma_update(None, "query_only", false).expect("set");
        bury(&db, &log).expect("now it can");
        assert_eq!(after_a_kill(folder.path()), ["good"]);
    }

    #[test]
    fn a_log_that_began_anew_is_judged_by_its_own_frames() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (db, log) = failed_commit(folder.path());
        bury(&db, &log).expect("overwritten");
        db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).expect("copied");
        db.execute("INSERT INTO texts VALUES ('anew')", []).expect("written");
        // Frames of the first round follow the last commit, and some of them end
        // transactions.
        assert!(!may_come_back(&db, &log).expect("the log is read"));
    }
}
