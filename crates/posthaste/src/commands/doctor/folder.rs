//! Checks the data folder: its owner, its permissions, and the database.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;

use super::Check;
use crate::identity::DataFolder;

/// The longest time for which a large database is checked.
const PATIENCE: Duration = Duration::from_secs(5);

const FOLDER: &str = "data folder";
const SECRETS: &str = "tokens";
const DATABASE: &str = "database";

pub(super) fn folder(data: &DataFolder) -> Check {
    let path = data.path();
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Check::ok(FOLDER, format!("{shown} is not there yet; `posthaste up` makes it"));
        }
        Err(e) => {
            return Check::fail(
                FOLDER,
                format!("{shown} cannot be looked at: {e}"),
                "choose another with --data",
            );
        }
    };
    if !found.is_dir() {
        return Check::fail(
            FOLDER,
            format!("{shown} is not a folder"),
            "choose another with --data",
        );
    }
    if !is_ours(&found) {
        let told = format!("{shown} belongs to another user ({})", found.uid());
        return Check::fail(FOLDER, told, "run as that user, or choose another with --data");
    }
    match open_to_others(&found) {
        Some(mode) => Check::warn(
            FOLDER,
            format!("{shown} has mode {mode:04o}, so others can look into it"),
            format!("chmod 700 {shown}"),
        ),
        None => Check::ok(FOLDER, format!("{shown} is yours alone")),
    }
}

/// Checks the tokens of the hub and of agents that joined from here.
pub(super) fn secrets(data: &DataFolder) -> Check {
    let mut found = 0;
    for path in secret_files(data.path()) {
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => {
                let told = format!("{} cannot be looked at: {e}", path.display());
                return Check::fail(SECRETS, told, "open the folder for its owner");
            }
        };
        let shown = path.display();
        if !is_ours(&metadata) {
            let told = format!("{shown} belongs to another user ({})", metadata.uid());
            return Check::fail(SECRETS, told, "run as that user, or remove the file");
        }
        if let Some(mode) = open_to_others(&metadata) {
            let told = format!("{shown} has mode {mode:04o}: others can act as its owner");
            return Check::fail(
                SECRETS,
                told,
                format!("chmod 600 {shown}, then `posthaste token --new`"),
            );
        }
        found += 1;
    }
    match found {
        0 => Check::ok(SECRETS, "there are none yet"),
        n => Check::ok(SECRETS, format!("{n} files, for their owner alone")),
    }
}

fn secret_files(folder: &Path) -> Vec<PathBuf> {
    let own = ["operator.token", "join.token"].map(|name| folder.join(name));
    let identities = fs::read_dir(folder.join("identities"));
    let joined = identities.into_iter().flatten().flatten().map(|entry| entry.path());
    let joined = joined.filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    own.into_iter().chain(joined).collect()
}

pub(super) fn database(folder: &Path) -> Check {
    match posthaste_store::inspect(folder, PATIENCE) {
        Ok(None) => Check::ok(DATABASE, "there is none yet"),
        Ok(Some(found)) => {
            let size = super::disk::size(found.bytes);
            let told = format!("sound, schema {}, {size}", found.schema);
            match found.whole {
                true => Check::ok(DATABASE, told),
                false => {
                    let seconds = PATIENCE.as_secs();
                    Check::ok(
                        DATABASE,
                        format!("{told}; only what {seconds} s allow was looked at"),
                    )
                }
            }
        }
        Err(error) => Check::fail(DATABASE, error.to_string(), error.hint()),
    }
}

fn is_ours(found: &Metadata) -> bool {
    found.uid() == geteuid().as_raw()
}

fn open_to_others(found: &Metadata) -> Option<u32> {
    let mode = found.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}
