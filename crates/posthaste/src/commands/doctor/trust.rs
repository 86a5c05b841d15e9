//! Who could reach what: the folders above the data folder, the files in it, the network,
//! and the user as whom workers run. `docs/security.md` says what each means.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use posthaste_api::ApiError;
use posthaste_core::orchestration::AgentsConfig;
use rustix::process::geteuid;

use super::{Check, Status};
use crate::identity::{DataFolder, Running};
use crate::{ports, wiring};

const ABOVE: &str = "folders above";
const FILES: &str = "files";
const NETWORK: &str = "network";
const WORKERS: &str = "workers";

/// Set on a folder in which everybody may write and nobody may move another's files.
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;
const ROOT: u32 = 0;

/// Whoever may write to a folder above the data folder can put another one in its place.
pub(super) fn folders_above(data: &Path) -> Check {
    // A link may lead there: its own folders count, and those where it leads.
    let real = fs::canonicalize(data).ok();
    let paths = [Some(data), real.as_deref()];
    for folder in paths.into_iter().flatten().flat_map(|path| path.ancestors().skip(1)) {
        let Ok(found) = fs::metadata(folder) else { continue };
        let (mode, shown) = (found.mode(), folder.display());
        if found.uid() != ROOT && found.uid() != geteuid().as_raw() {
            let told = format!(
                "{shown} belongs to another user ({}), who could replace the data folder",
                found.uid()
            );
            return Check::warn(
                ABOVE,
                told,
                "move the data folder, and name the new place with --data",
            );
        }
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            let mode = mode & 0o7777;
            let told = format!(
                "{shown} has mode {mode:04o}: others may write to it, and could replace the data folder"
            );
            return Check::warn(
                ABOVE,
                told,
                format!("chmod go-w {shown}, or name another data folder with --data"),
            );
        }
    }
    Check::ok(ABOVE, "only you and root can replace the data folder")
}

/// Everything in the data folder that holds mail or says who somebody is.
pub(super) fn files(data: &DataFolder) -> Check {
    let entries = fs::read_dir(data.path()).into_iter().flatten().flatten();
    let is_database = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("hub."))
    };
    let own = entries.map(|entry| entry.path()).filter(is_database);
    let folders = ["identities", "agents"].map(|name| data.path().join(name));
    for path in own.chain(folders) {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let (shown, mode) = (path.display(), found.permissions().mode() & 0o7777);
        if found.uid() != geteuid().as_raw() {
            let told = format!("{shown} belongs to another user ({})", found.uid());
            return Check::fail(FILES, told, "run as that user, or give it back with chown");
        }
        if mode & 0o077 != 0 {
            let told = format!("{shown} has mode {mode:04o}, so others can look into it");
            return Check::warn(FILES, told, format!("chmod go= {shown}"));
        }
    }
    Check::ok(FILES, "database, identities and workers are yours alone")
}

/// Whether other machines reach the hub, by its configuration or as it runs.
pub(super) fn network(listen: SocketAddr, data: &DataFolder) -> Check {
    let wide = match listen.ip().is_loopback() {
        false => Some(listen.to_string()),
        true => runs_open(data),
    };
    match wide {
        None => Check::ok(NETWORK, "the hub listens to this machine only"),
        Some(address) => Check::warn(
            NETWORK,
            format!("{address} can be reached from other machines, and traffic is not encrypted"),
            "let it listen to 127.0.0.1, with a proxy before it that speaks TLS (docs/security.md)",
        ),
    }
}

/// Where the hub of this folder listens, if that is more than loopback.
fn runs_open(data: &DataFolder) -> Option<String> {
    if !data.has_hub() {
        return None;
    }
    // Read as it lies: whoever looks for faults must not mend them in passing.
    let said = fs::read_to_string(data.path().join("hub.json")).ok()?;
    let hub: Running = serde_json::from_str(&said).ok()?;
    let address: SocketAddr = hub.url.strip_prefix("http://")?.parse().ok()?;
    match address.ip().is_loopback() {
        true => ports::is_open(address.port()).then(|| format!("port {}", address.port())),
        false => Some(address.to_string()),
    }
}

/// As whom workers run, and whether they can.
pub(super) fn workers(agents: &AgentsConfig, data: &DataFolder) -> Check {
    let usable = || -> Result<Option<String>, ApiError> {
        let Some(user) = wiring::worker_user(agents)? else { return Ok(None) };
        let root = wiring::worker_root(agents, data);
        if root.exists() {
            user.check_root(&root).map_err(wiring::cannot_switch)?;
        }
        Ok(Some(format!("they run as {} ({})", user.name, user.uid)))
    };
    match usable() {
        Ok(Some(told)) => Check::ok(WORKERS, told),
        Ok(None) => {
            let me = geteuid().as_raw();
            let told = format!(
                "they run as the hub's own user ({me}), and can read what it can, its tokens too"
            );
            let hint = "agents.user names another user for them";
            Check::new(WORKERS, Status::Ok, told, Some(hint.to_owned()))
        }
        Err(error) => Check::failed(WORKERS, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_may_write_to_is_named_unless_it_is_sticky() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let above = scratch.path().join("above");
        let data = above.join("data");
        fs::create_dir_all(&data).expect("made");
        let says = |mode: u32| {
            fs::set_permissions(&above, fs::Permissions::from_mode(mode)).expect("ours");
            folders_above(&data)
        };
        assert_eq!(says(0o755).status, Status::Ok);
        assert_eq!(says(0o1777).status, Status::Ok);
        for mode in [0o775, 0o757, 0o777] {
            let check = says(mode);
            assert_eq!(check.status, Status::Warn, "{}", check.message);
            assert!(check.message.contains("above has mode"), "{}", check.message);
        }
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&data, &link).expect("linked");
        assert_eq!(folders_above(&link).status, Status::Warn, "where it leads counts");
    }
}
