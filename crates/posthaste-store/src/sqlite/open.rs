//! Opens a store: the lock, the file, the schema, and the state of the last run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Vitals;
use posthaste_core::ports::store::Loaded;
use rusqlite::Connection;

use super::backlog::Extent;
use super::errors::{explain, explain_read};
use super::files::Files;
use super::lock::FolderLock;
use super::log::{grow, log_of};
use super::migrate::migrate;
use super::rows::meta::{self, Marks};
use super::rows::record::Ids;
use super::{keys, load};
use crate::{OpenError, StoreConfig};

pub(crate) const FILE: &str = "hub.db";
pub(crate) const PAGE: u64 = 8192;

pub(crate) struct Opened {
    pub(crate) db: Connection,
    pub(crate) files: Arc<Files>,
    pub(crate) loaded: Loaded,
    /// The rows that were open.
    pub(crate) extent: Extent,
    pub(crate) ids: Ids,
    /// The numbers up to which the indexes reach.
    pub(crate) indexed: Marks,
    /// Keys that are in no run yet, counted up to `keys::RUN`.
    pub(crate) unsorted_keys: u64,
}

pub(crate) fn open(
    folder: &Path,
    config: &StoreConfig,
    vitals: &Vitals,
) -> Result<Opened, OpenError> {
    std::fs::create_dir_all(folder).map_err(|error| unusable(folder, &error))?;
    let (file, lock) = (folder.join(FILE), FolderLock::take(folder)?);
    if !is_there(&file)? {
        create(&file)?;
    }
    let explain = |error: rusqlite::Error| explain(&file, &error);
    let unreadable = |error| explain_read(&file, &error);
    let db = Connection::open(&file).map_err(explain)?;
    prepare(&db, config).map_err(explain)?;
    // A hub whose lock file was removed may be in the middle of a write, and this start
    // must see that write. That hub begins no other one.
    db.execute_batch("BEGIN IMMEDIATE; COMMIT").map_err(explain)?;
    migrate(&db, &file)?;
    let (mut loaded, ids) = load::all(&db).map_err(unreadable)?;
    let extent = Extent::of(&db).map_err(unreadable)?;
    match extent.is_within(&db, config.read_at_start).map_err(unreadable)? {
        true => extent.read_into(&db, &mut loaded).map_err(unreadable)?,
        false => loaded.rest = Some(extent.start()),
    }
    let indexed = meta::marks(&db).map_err(unreadable)?;
    let sorted = keys::sorted(&db).map_err(unreadable)?;
    let unsorted_keys = keys::count(&db, sorted, keys::RUN).map_err(unreadable)?;
    let log = grow(&db, &file, config.wal_bytes)?;
    let files = Files::new(folder, &file, log, lock, vitals.clone());
    let files = Arc::new(files.map_err(|error| unusable(&file, &error))?);
    load::begin(&db, loaded.epoch).map_err(explain)?;
    Ok(Opened { db, files, loaded, extent, ids, indexed, unsorted_keys })
}

/// Returns whether there is a database. A database gets its name only when it is whole
/// ([`create`]), so an empty file was lost, and so was a file that is gone while its log
/// is there: SQLite would take both for a new database and throw the log away.
pub(crate) fn is_there(file: &Path) -> Result<bool, OpenError> {
    let lost = |why: &str| OpenError::Corrupt { file: file.to_owned(), why: why.to_owned() };
    match std::fs::metadata(file) {
        Ok(found) if found.len() == 0 => Err(lost("it is empty")),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match std::fs::metadata(log_of(file)) {
                Ok(log) if log.len() > 0 => Err(lost("it is gone, and its log is still there")),
                _ => Ok(false),
            }
        }
        Err(error) => Err(unusable(file, &error)),
    }
}

/// Makes a database under another name, and renames it when it is on disk.
fn create(file: &Path) -> Result<(), OpenError> {
    let draft = beside(file, ".new");
    // An interrupted first start leaves its draft behind.
    let _ = std::fs::remove_file(&draft);
    let explain = |error: rusqlite::Error| explain(file, &error);
    let db = Connection::open(&draft).map_err(explain)?;
    db.pragma_update(None, "page_size", PAGE.cast_signed()).map_err(explain)?;
    // The file is flushed at once below.
    db.pragma_update(None, "synchronous", "OFF").map_err(explain)?;
    db.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(())).map_err(explain)?;
    migrate(&db, &draft)?;
    db.close().map_err(|(_, error)| explain(error))?;
    let named = File::open(&draft)
        .and_then(|whole| whole.sync_all())
        .and_then(|()| std::fs::rename(&draft, file))
        .and_then(|()| match file.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        });
    named.map_err(|error| unusable(file, &error))
}

/// The file through which the connections of a database agree about its log.
pub(crate) fn shared_memory_of(file: &Path) -> PathBuf {
    beside(file, "-shm")
}

pub(crate) fn beside(file: &Path, end: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(end);
    path.into()
}

pub(crate) fn unusable(path: &Path, error: &std::io::Error) -> OpenError {
    OpenError::Unusable { path: path.to_owned(), why: error.to_string() }
}

fn prepare(db: &Connection, config: &StoreConfig) -> rusqlite::Result<()> {
    db.pragma_update(None, "page_size", PAGE.cast_signed())?;
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    // Checkpoints are run in the background, off the path of a send.
    db.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    let kib = i64::try_from(config.cache_bytes / 1024).unwrap_or(16_384);
    db.pragma_update(None, "cache_size", -kib)?;
    if config.max_bytes > 0 {
        let pages = i64::try_from(config.max_bytes / PAGE).unwrap_or(i64::MAX).max(1);
        db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    db.set_prepared_statement_cache_capacity(64);
    db.busy_timeout(Duration::from_secs(5))
}
