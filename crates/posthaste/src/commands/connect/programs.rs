//! Programs on this machine: those of agents, and our own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config;
use crate::failure::{Failure, internal};

/// Returns the path at which a shell would find this command.
pub(crate) fn find(command: &str) -> Option<PathBuf> {
    let path = config::of_others("PATH")?;
    let places = std::env::split_paths(&path).map(|folder| folder.join(command));
    places.filter_map(|file| std::path::absolute(file).ok()).find(|file| runs(file))
}

/// Returns whether a shell finds programs in this folder.
pub(crate) fn is_on_path(folder: &Path) -> bool {
    let path = config::of_others("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place == folder)
}

/// Returns the path of this program.
pub(crate) fn own() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()
        .map_err(|e| internal(format!("this program does not know where it lies: {e}")))?;
    if !own.exists() {
        let told = format!("{} was replaced or removed since it started", own.display());
        return Err(internal(told).hint("start it again").into());
    }
    Ok(own)
}

/// Returns whether this file lies where cargo built it.
pub(crate) fn is_built(program: &Path) -> bool {
    let beside = |name: &str| program.with_file_name(name).exists();
    beside(".fingerprint") || beside(".cargo-lock")
}

fn runs(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
