//! SQLite's write-ahead log: grown before use, and free of what was not committed.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::errors::explain;
use super::open::{beside, unusable};
use crate::OpenError;

/// What a log that is grown beforehand leaves free at least.
const SPARE: usize = 1 << 20;
/// Bytes before the first frame, and before the page of each frame.
const HEAD: u64 = 32;
const FRAME_HEAD: usize = 24;

pub(crate) fn log_of(file: &Path) -> PathBuf {
    beside(file, "-wal")
}

/// Appends zeros to the log while nobody else has it open. SQLite then overwrites from the
/// start, which is quicker than growing, and steadier. After a kill the log is there
/// already, and is left as it is.
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
        // A little more, which is given back: others need room as well.
        log.write_all(&zeros)?;
        log.set_len(bytes)?;
        log.sync_all()
    };
    if let Err(error) = append() {
        // A small disk is no reason not to start: the log then grows as it must.
        tracing::warn!(%error, "the log could not be grown beforehand");
        log.set_len(before).map_err(unusable)?;
    }
    Ok(log)
}

/// Makes sure that no start finds the transaction that this connection could not commit,
/// and has rolled back.
///
/// A commit that fails may be in the log all the same, as when the log has room and its
/// index has none, or when the flush failed. SQLite writes its next transaction over it, and
/// then it is gone: checksums go from frame to frame. So a small one is written at once.
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

/// Whether the log holds a commit behind the last one that SQLite knows of, as the format of
/// the log says (<https://sqlite.org/fileformat2.html#walformat>): a start reads on while
/// frames have the salts of the log's head, and a frame with a size of the database is the
/// end of a transaction.
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
