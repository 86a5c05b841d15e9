//! Checks which users could reach what: the folders above the data folder, the files in
//! it, the network, and the user as whom workers run. `docs/security.md` explains each
//! check.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use posthaste_api::ApiError;
use posthaste_core::orchestration::AgentsConfig;
use rustix::process::geteuid;

use super::{Check, Status};
use crate::identity::{DataFolder, Running};
use crate::{listening, wiring};

const ABOVE: &str = "folders above";
const FILES: &str = "files";
const NETWORK: &str = "network";
const WORKERS: &str = "workers";

/// The bit of a folder in which everybody may write and nobody may move the files of
/// others.
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const ROOT: u32 = 0;

/// Checks the folders above the data folder: a user who may write to one can replace the
/// data folder.
pub(super) fn folders_above(data: &Path) -> Check {
    look_above(data, &Accounts::of_the_system())
}

fn look_above(data: &Path, accounts: &Accounts) -> Check {
    // The path may be a link: the folders above the link count, and those above its
    // target.
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
        let group_writes = mode & GROUP_WRITES != 0 && !accounts.is_alone(found.uid(), found.gid());
        if (group_writes || mode & OTHERS_WRITE != 0) && mode & STICKY == 0 {
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

/// The users and groups that this machine's own files list.
struct Accounts {
    users: String,
    groups: String,
}

impl Accounts {
    fn of_the_system() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self { users: read("/etc/passwd"), groups: read("/etc/group") }
    }

    /// Returns whether the group is the user's private one, as many systems create for
    /// each user: the user's first group, of the same name, with no other member. An
    /// unlisted group is not private.
    fn is_alone(&self, uid: u32, gid: u32) -> bool {
        let (uid, gid) = (uid.to_string(), gid.to_string());
        // name:password:uid:gid:and so on
        let Some(user) = only(&self.users, |user| user.get(3) == Some(&&*gid)) else {
            return false;
        };
        // name:password:gid:members
        let Some(group) = only(&self.groups, |group| group.get(2) == Some(&&*gid)) else {
            return false;
        };
        let name = user[0];
        let mut members = group.get(3).into_iter().flat_map(|members| members.split(','));
        user[2] == uid && group[0] == name && members.all(|member| ["", name].contains(&member))
    }
}

/// Returns the fields of the only line for which this holds.
fn only(list: &str, holds: impl Fn(&[&str]) -> bool) -> Option<Vec<&str>> {
    let rows = list.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut found = rows.filter(|row| holds(row));
    found.next().filter(|_| found.next().is_none())
}

/// Checks every file in the data folder that holds messages or identities.
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

/// Checks whether other machines can reach the hub, by its configuration or as it runs.
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

/// Returns the address on which the hub of this folder listens, if it is not loopback
/// only.
fn runs_open(data: &DataFolder) -> Option<String> {
    if !data.has_hub() {
        return None;
    }
    // Reads the file directly: a check must not repair a fault in passing.
    let said = fs::read_to_string(data.path().join("hub.json")).ok()?;
    let hub: Running = serde_json::from_str(&said).ok()?;
    let address: SocketAddr = hub.url.strip_prefix("http://")?.parse().ok()?;
    match address.ip().is_loopback() {
        true => listening::is_open(address.port()).then(|| format!("port {}", address.port())),
        false => Some(address.to_string()),
    }
}

/// Checks the user as whom workers run, and that the hub can switch to that user.
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
        let nobody = Accounts { users: String::new(), groups: String::new() };
        let ours = fs::metadata(&above).expect("there");
        let (uid, gid) = (ours.uid(), ours.gid());
        let alone = Accounts {
            users: format!("me:x:{uid}:{gid}::/:/bin/sh\n"),
            groups: format!("me:x:{gid}:\n"),
        };
        // The folders above the scratch folder belong to the machine, and may be reported as
        // well.
        let named = |data: &Path, mode: u32, accounts: &Accounts| {
            fs::set_permissions(&above, fs::Permissions::from_mode(mode)).expect("ours");
            let check = look_above(data, accounts);
            check.status == Status::Warn && check.message.contains("above has mode")
        };
        for mode in [0o755, 0o1777] {
            assert!(!named(&data, mode, &nobody), "{mode:o}");
        }
        for mode in [0o775, 0o757, 0o777] {
            assert!(named(&data, mode, &nobody), "{mode:o}");
        }
        for (mode, warns) in [(0o775, false), (0o757, true), (0o777, true)] {
            assert_eq!(named(&data, mode, &alone), warns, "{mode:o}");
        }
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&data, &link).expect("linked");
        assert_eq!(look_above(&link, &alone).status, Status::Warn, "where it leads counts");
    }

    #[test]
    fn a_group_is_private_if_nobody_but_its_user_is_in_it() {
        let is_alone = |users: &str, groups: &str| {
            Accounts { users: users.to_owned(), groups: groups.to_owned() }.is_alone(1000, 1000)
        };
        let ann = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert!(is_alone(ann, "root:x:0:\nann:x:1000:\n"));
        assert!(is_alone(ann, "ann:x:1000:ann"));
        assert!(!is_alone(ann, "ann:x:1000:ann,bob"), "another member");
        assert!(!is_alone(ann, "staff:x:1000:"), "a group of many");
        assert!(!is_alone(ann, ""), "a group that is not listed");
        assert!(!is_alone("", "ann:x:1000:"), "a user that is not listed");
        assert!(!is_alone(&ann.replace(":1000::", ":100::"), "ann:x:1000:"), "not its first");
        let bob = "bob:x:1001:1000::/home/bob:/bin/sh\n";
        assert!(!is_alone(&format!("{ann}{bob}"), "ann:x:1000:"), "the first of another");
        assert!(!is_alone("bob:x:1001:1000::/:/bin/sh", "bob:x:1000:"), "of another alone");
    }
}
