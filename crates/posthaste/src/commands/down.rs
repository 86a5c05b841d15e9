//! `posthaste down`: asks the hub of this data folder to stop, and waits until it has.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use posthaste_api::{ApiError, ErrorCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::Session;
use crate::cli::DownArgs;
use crate::failure::{Failure, internal, invalid};
use crate::identity::{DataFolder, Running};
use crate::output::Output;

/// The time between two checks.
const AGAIN: Duration = Duration::from_millis(20);

pub(super) async fn run(
    args: &DownArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    if session.hub.is_some() {
        let told = invalid("`down` stops the hub of a data folder on this machine");
        return Err(told.hint("leave --hub and POSTHASTE_HUB out; --data names the folder").into());
    }
    let folder = &session.folder;
    if !folder.has_hub() {
        return match output.json() {
            true => output.answer(&json!({ "status": "not_running", "data": folder.path() })),
            false => output.say(&format!("no hub is running on {}", folder.path().display())),
        };
    }
    let hub = stop(folder, args.timeout).await?;
    match output.json() {
        true => output.answer(&json!({ "status": "stopped", "url": hub.url, "pid": hub.pid })),
        false => output.say(&format!("the hub at {} (pid {}) has stopped", hub.url, hub.pid)),
    }
}

async fn stop(folder: &DataFolder, patience: Duration) -> Result<Running, ApiError> {
    let until = Instant::now() + patience;
    // A hub that is just starting holds the folder and has not recorded its address yet.
    let hub = loop {
        match folder.running() {
            Some(hub) => break hub,
            None if Instant::now() >= until => {
                let told = format!("the hub on {} does not say who it is", folder.path().display());
                let hint = "`posthaste doctor` says what is wrong";
                return Err(ApiError::new(ErrorCode::Unavailable, told).hint(hint));
            }
            None => sleep(AGAIN).await,
        }
    };
    let pid = i32::try_from(hub.pid).ok().and_then(Pid::from_raw);
    let pid = pid.filter(|_| is_here(hub.pid, folder.path()) != Some(false)).ok_or_else(|| {
        let told = format!("the hub at {} runs elsewhere, as process {} there", hub.url, hub.pid);
        let hint = "it may be in a container: stop it there";
        ApiError::new(ErrorCode::Unavailable, told).hint(hint)
    })?;
    kill_process(pid, Signal::TERM).map_err(|e| {
        internal(format!("process {} cannot be asked to stop: {e}", hub.pid))
            .hint("it runs as another user: stop it as that one")
    })?;
    while folder.has_hub() {
        if Instant::now() >= until {
            let told = format!("the hub of process {} is still stopping", hub.pid);
            let hint = format!(
                "wait longer with --timeout; `kill -9 {}` loses nothing that was accepted",
                hub.pid
            );
            return Err(ApiError::new(ErrorCode::Unavailable, told).hint(hint));
        }
        sleep(AGAIN).await;
    }
    Ok(hub)
}

/// Returns whether the process of this pid is the hub of this folder: it has a file of
/// the folder open. The pid may be that of a container, where it means another process
/// here. Returns `None` where the system does not tell.
fn is_here(pid: u32, folder: &Path) -> Option<bool> {
    let folder = fs::canonicalize(folder).ok()?;
    if !Path::new("/proc/self/fd").exists() {
        return None;
    }
    let mut open = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(open) => open.flatten(),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => return None,
        Err(_) => return Some(false),
    };
    Some(open.any(|file| fs::read_link(file.path()).is_ok_and(|path| path.starts_with(&folder))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_has_nothing_of_the_folder_open_is_not_its_hub() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let own = std::process::id();
        assert_eq!(is_here(own, folder.path()), Some(false));
        let file = fs::File::create(folder.path().join("hub.lock")).expect("a file");
        assert_eq!(is_here(own, folder.path()), Some(true));
        drop(file);
        assert_eq!(is_here(u32::MAX, folder.path()), Some(false));
    }
}
