//! Inspects a database from outside and changes nothing.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::errors::explain;
use super::log::log_of;
use super::migrate::{check_application, version};
use super::open;
use crate::OpenError;

/// The result of [`inspect`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub schema: i64,
    pub bytes: u64,
    /// True if the whole file was checked within the patience.
    pub whole: bool,
}

/// Checks the database in `folder`, also while a hub uses it; `None` if there is none.
/// Takes little longer than `patience`, however large the database is.
pub fn inspect(folder: &Path, patience: Duration) -> Result<Option<Inspection>, OpenError> {
    let file = folder.join(open::FILE);
    if !open::is_there(&file)? {
        return Ok(None);
    }
    let bytes = std::fs::metadata(&file).map_or(0, |found| found.len());
    let explain = |error: rusqlite::Error| explain(&file, &error);
    let db = connect(&file).map_err(explain)?;
    check_application(&db, &file)?;
    let schema = i64::try_from(version(&db, &file)?).unwrap_or(i64::MAX);
    let whole = match check(&db, patience).map_err(explain)? {
        None => false,
        Some(told) if told == "ok" => true,
        Some(why) => return Err(OpenError::Corrupt { file, why }),
    };
    Ok(Some(Inspection { schema, bytes, whole }))
}

/// Opens the file for reading. Without a log beside it no hub uses the file, and it is
/// opened as immutable: else SQLite would make a log and leave it there.
fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = if log_of(file).exists() {
        Connection::open_with_flags(file, flags)?
    } else {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let path = file.to_string_lossy();
        let encoded: String = path
            .chars()
            .map(|c| match plain(c) {
                true => c.to_string(),
                false => {
                    let mut bytes = [0; 4];
                    c.encode_utf8(&mut bytes).bytes().map(|b| format!("%{b:02X}")).collect()
                }
            })
            .collect();
        let uri = format!("file:{encoded}?immutable=1");
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
    };
    db.busy_timeout(Duration::from_secs(1))?;
    Ok(db)
}

/// Returns SQLite's verdict on its pages, or `None` if the check takes too long.
fn check(db: &Connection, patience: Duration) -> rusqlite::Result<Option<String>> {
    let stop = db.get_interrupt_handle();
    let (done, waits) = mpsc::channel::<()>();
    let told = std::thread::scope(|scope| {
        scope.spawn(move || {
            if waits.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
                stop.interrupt();
            }
        });
        let told = db.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        drop(done);
        told
    });
    match told {
        Ok(told) => Ok(Some(told)),
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(None),
        Err(e) => Err(e),
    }
}
