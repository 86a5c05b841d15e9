//! One hub per folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::OpenError;

/// Held by the operating system as long as the process lives, so that no kill
/// leaves it behind.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    pub(crate) fn take(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join("hub.lock");
        let unusable =
            |e: std::io::Error| OpenError::Unusable { path: path.clone(), why: e.to_string() };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(unusable)?;
        match file.try_lock() {
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
        Ok(Self { _file: file })
    }
}
