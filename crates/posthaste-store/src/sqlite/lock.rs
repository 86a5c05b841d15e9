//! The lock that gives a folder to one hub.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::FileId;
use crate::OpenError;

const FILE: &str = "hub.lock";
/// [`FolderLock::is_held`] of another process holds the lock for a moment, so a refused
/// lock is tried again: so often, and so long apart.
const TRIES: u32 = 10;
const APART: Duration = Duration::from_millis(20);

/// The lock on a data folder. The operating system holds it as long as the process lives,
/// so a kill does not leave it behind.
#[derive(Debug)]
pub struct FolderLock {
    path: PathBuf,
    id: FileId,
    /// Holds the lock until the file is closed.
    _file: File,
}

impl FolderLock {
    /// Takes the folder for this process alone.
    pub fn take(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join(FILE);
        let unusable =
            |e: std::io::Error| OpenError::Unusable { path: path.clone(), why: e.to_string() };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(unusable)?;
        let mut tries = 1;
        let taken = loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) if tries < TRIES => std::thread::sleep(APART),
                taken => break taken,
            }
            tries += 1;
        };
        match taken {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = match holder.trim() {
                    "" => "a process that is just starting".to_owned(),
                    pid => format!("process {pid}"),
                };
                return Err(OpenError::Locked { folder: folder.to_owned(), holder });
            }
            Err(TryLockError::Error(e)) => return Err(unusable(e)),
        }
        file.set_len(0).map_err(unusable)?;
        file.rewind().map_err(unusable)?;
        write!(file, "{}", std::process::id()).map_err(unusable)?;
        file.flush().map_err(unusable)?;
        let id = FileId::of(&file.metadata().map_err(unusable)?);
        Ok(Self { path, id, _file: file })
    }

    /// Returns whether the file at the path is still the locked one.
    pub(crate) fn stands(&self) -> bool {
        FileId::at(&self.path).is_ok_and(|there| there == self.id)
    }

    /// Returns the process that took the folder last; `None` if that cannot be told.
    pub fn holder(folder: &Path) -> Option<u32> {
        std::fs::read_to_string(folder.join(FILE)).ok()?.trim().parse().ok()
    }

    /// Returns whether a living process has the folder; true if that cannot be told.
    pub fn is_held(folder: &Path) -> bool {
        match File::open(folder.join(FILE)) {
            Ok(file) => file.try_lock_shared().is_err(),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }
}
