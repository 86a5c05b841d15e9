//! Checks whether the files that the store has open still stand at their paths.
//!
//! A folder that is moved or deleted takes nothing from an open file: SQLite goes on
//! writing, and the next start does not find what was written. So the writer compares
//! device and inode of the log and of the lock file when it has begun a transaction and
//! before it answers. This notices every move of the folder and every other hub that has
//! taken it. The background compares those of all files a few times in a second.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;
use posthaste_core::Vitals;
use posthaste_core::ports::StoreError;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::lock::FolderLock;
use super::log::log_of;
use super::open::shared_memory_of;
use crate::OpenError;

/// The identity of a file on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }

    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|found| Self::of(&found))
    }
}

/// The files of an open database.
pub(crate) struct Files {
    folder: PathBuf,
    /// The database, its log, and the memory that its connections share.
    opened: [(PathBuf, FileId); 3],
    /// The open log, which also shows whether the log was deleted.
    log: File,
    /// Released when the store has closed.
    lock: Mutex<Option<FolderLock>>,
    /// Set when another hub has had the folder: this hub writes nothing any more.
    lost: OnceLock<StoreError>,
    /// The reason why nothing can be written now.
    misplaced: Mutex<Option<StoreError>>,
    vitals: Vitals,
}

impl Files {
    /// Notes the files of an open database; `log` is its open log.
    pub(crate) fn new(
        folder: &Path,
        file: &Path,
        log: File,
        lock: FolderLock,
        vitals: Vitals,
    ) -> io::Result<Self> {
        let known = |path: PathBuf| FileId::at(&path).map(|id| (path, id));
        let (log_path, log_id) = (log_of(file), FileId::of(&log.metadata()?));
        let opened = [known(file.to_owned())?, (log_path, log_id), known(shared_memory_of(file))?];
        let (lock, lost, misplaced) = (Mutex::new(Some(lock)), OnceLock::new(), Mutex::default());
        Ok(Self { folder: folder.to_owned(), opened, log, lock, lost, misplaced, vitals })
    }

    pub(crate) fn database(&self) -> &Path {
        &self.opened[0].0
    }

    pub(crate) fn log(&self) -> &File {
        &self.log
    }

    /// Checks all files, and makes a removed lock file again.
    pub(crate) fn look(&self) -> Result<(), StoreError> {
        let looked = self.compare(&self.opened).and_then(|()| self.keep_lock());
        let mut known = self.misplaced.lock();
        match (&looked, known.is_some()) {
            (Err(error), false) => {
                tracing::error!(%error, "the data folder is not in its place: nothing is written");
            }
            (Ok(()), true) => {
                tracing::info!(folder = %self.folder.display(), "the data folder is back");
            }
            (Ok(()), false) | (Err(_), true) => {}
        }
        *known = looked.as_ref().err().cloned();
        looked
    }

    /// Checks the two files that the writer needs; all files if anything is wrong.
    pub(crate) fn glance(&self) -> Result<(), StoreError> {
        let [_, log, _] = &self.opened;
        let is_ours = || self.lock.lock().as_ref().is_none_or(FolderLock::stands);
        let all_is_well =
            self.are_in_place() && self.compare(std::slice::from_ref(log)).is_ok() && is_ours();
        match all_is_well {
            true => Ok(()),
            false => self.look(),
        }
    }

    /// Returns whether the last look found every file.
    pub(crate) fn are_in_place(&self) -> bool {
        self.misplaced.lock().is_none()
    }

    /// Returns the error of the last look.
    pub(crate) fn missed(&self) -> Option<StoreError> {
        self.misplaced.lock().clone()
    }

    /// Keeps SQLite from removing a log that is not ours. SQLite removes the log by its
    /// path when the last connection closes, and another hub's log may stand there now.
    pub(crate) fn leave_log(&self, db: &Connection) {
        if self.compare(&self.opened).is_err()
            && let Err(error) = db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        {
            tracing::warn!(%error, "the log of the moved database may be removed");
        }
    }

    pub(crate) fn release_lock(&self) {
        self.lock.lock().take();
    }

    fn compare(&self, files: &[(PathBuf, FileId)]) -> Result<(), StoreError> {
        for (path, id) in files {
            match FileId::at(path) {
                Ok(found) if found == *id => {}
                Ok(_) => return Err(self.misplaced(path, "is another file than the hub has open")),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Err(self.misplaced(path, "is not there any more"));
                }
                Err(error) => return Err(self.misplaced(path, &format!("cannot be seen: {error}"))),
            }
        }
        Ok(())
    }

    fn misplaced(&self, path: &Path, what: &str) -> StoreError {
        let (folder, path) = (self.folder.display(), path.display());
        let deleted = self.log.metadata().is_ok_and(|log| log.nlink() == 0);
        let hint = match deleted {
            true => format!(
                "nothing was changed. Files of the hub in {folder} were deleted: save what it \
                 still knows with `posthaste export --hub URL --token TOKEN --out FILE` (the \
                 token's file may have gone too), then stop it and restore a backup"
            ),
            false => format!(
                "nothing was changed. Move everything back to {folder} and the hub goes on, or \
                 stop it and start it with --data at the new place"
            ),
        };
        let verb = if deleted { "deleted" } else { "moved" };
        let what = format!("the hub's data folder was {verb}: {path} {what}");
        StoreError::Misplaced { what: what.into(), hint: hint.into() }
    }

    fn keep_lock(&self) -> Result<(), StoreError> {
        if let Some(lost) = self.lost.get() {
            return Err(lost.clone());
        }
        let mut lock = self.lock.lock();
        // The store has closed.
        let Some(held) = lock.as_ref() else { return Ok(()) };
        if held.stands() {
            return Ok(());
        }
        match FolderLock::take(&self.folder) {
            Ok(taken) => {
                tracing::warn!(folder = %self.folder.display(), "the lock file was removed; it is there again");
                *lock = Some(taken);
                Ok(())
            }
            Err(error @ OpenError::Locked { .. }) => {
                // This hub cannot know what the other one writes, so it cannot go on.
                self.vitals.fail(error.to_string());
                let hint = "nothing was changed; this hub stops, the other one goes on";
                let what = error.to_string().into();
                let lost = StoreError::Misplaced { what, hint: hint.into() };
                Err(self.lost.get_or_init(|| lost).clone())
            }
            Err(error) => {
                let (what, hint) = (error.to_string().into(), error.hint().into());
                Err(StoreError::Misplaced { what, hint })
            }
        }
    }
}
