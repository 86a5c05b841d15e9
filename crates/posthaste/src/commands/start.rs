//! Starts a hub that outlives the program that asked for it.
//!
//! The hub is nobody's child: a shell puts it into the background and ends, and the
//! processes of that shell are in a separate process group. So a client that ends its
//! servers, with all their processes, does not end the hub of others. Two concurrent
//! starts result in one hub: the second finds the folder locked and gives up.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use posthaste_api::{ApiError, Client, ErrorCode};
use tokio::time::{Instant, sleep};

use crate::failure::machine;
use crate::identity::{DataFolder, Running};

/// The size beyond which a log is rotated before the next start.
const LONGEST_LOG: u64 = 1 << 20;

/// The time that a hub may take until it accepts messages. It first loads the backlog.
const READY: Duration = Duration::from_secs(60);
/// The time between two checks.
const AGAIN: Duration = Duration::from_millis(50);

/// Variables for the caller alone, which a hub does not need.
const NOT_FOR_THE_HUB: [&str; 2] = ["POSTHASTE_TOKEN", "POSTHASTE_JOIN_TOKEN"];

/// The options of a start.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Start {
    pub(in crate::commands) folder: DataFolder,
    pub(in crate::commands) config: Option<PathBuf>,
    /// More flags of `posthaste up`.
    pub(in crate::commands) flags: Vec<String>,
}

/// A hub that was started; only a call shows whether it came up.
#[derive(Debug)]
pub(in crate::commands) struct Started {
    log: PathBuf,
    /// The offset at which its own part of the log begins.
    from: u64,
}

impl Start {
    pub(in crate::commands) fn log(&self) -> PathBuf {
        log(&self.folder)
    }

    pub(in crate::commands) fn start(&self) -> Result<Started, ApiError> {
        self.folder.make()?;
        let folder = self.folder.path();
        let log = self.log();
        let (file, from) = open(&log).map_err(|e| machine("write", &log, e))?;
        let shell = self.shell(folder).and_then(|mut shell| {
            shell.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
            shell.status()
        });
        match shell {
            Ok(status) if status.success() => Ok(Started { log, from }),
            Ok(status) => Err(machine("start a hub on", folder, status)),
            Err(e) => Err(machine("start a hub on", folder, e)),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the shell is waited for, the hub is nobody's")]
    fn shell(&self, folder: &Path) -> io::Result<Command> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "\"$0\" \"$@\" &"]).arg(std::env::current_exe()?);
        // The output is read here, also by [`Started::failure`].
        shell.args(["up", "--color", "never", "--data"]).arg(folder);
        if let Some(config) = &self.config {
            shell.arg("--config").arg(std::path::absolute(config)?);
        }
        shell.args(&self.flags);
        for variable in NOT_FOR_THE_HUB {
            shell.env_remove(variable);
        }
        // The hub must not keep the caller's folder from being removed.
        shell.current_dir(folder).process_group(0);
        Ok(shell)
    }
}

impl Started {
    /// Returns the error with which the hub gave up, if it did.
    pub(in crate::commands) fn failure(&self) -> Option<ApiError> {
        let mut said = String::new();
        let mut log = File::open(&self.log).ok()?;
        log.seek(SeekFrom::Start(self.from)).ok()?;
        log.take(LONGEST_LOG).read_to_string(&mut said).ok()?;
        let told = |start: &str| said.lines().find_map(|line| line.strip_prefix(start));
        let error = told("error: ")?;
        let log = format!("its log is {}", self.log.display());
        let hint = told("hint: ").map_or(log.clone(), |hint| format!("{hint}; {log}"));
        let error = format!("a hub was started and gave up: {error}");
        Some(ApiError::new(ErrorCode::Unavailable, error).hint(hint))
    }
}

/// Returns the log of a hub in the background.
pub(in crate::commands) fn log(folder: &DataFolder) -> PathBuf {
    folder.path().join("hub.log")
}

/// Waits until the hub that was started on this folder accepts messages. `log` tells
/// where to look if it does not, `gave_up` returns the error if it has given up.
pub(in crate::commands) async fn ready(
    folder: &DataFolder,
    log: &str,
    gave_up: impl Fn() -> Option<ApiError>,
) -> Result<Running, ApiError> {
    let until = Instant::now() + READY;
    loop {
        let (why, hint) = match folder.running() {
            Some(hub) => match Client::new(&hub.url)?.ready().await {
                Ok(_) => return Ok(hub),
                Err(error) => {
                    let error = ApiError::from(error);
                    (
                        format!("the hub of process {} is not ready: {}", hub.pid, error.message),
                        error.hint,
                    )
                }
            },
            None => match gave_up() {
                Some(error) => return Err(error),
                None => ("a hub was started and does not answer".to_owned(), None),
            },
        };
        if Instant::now() >= until {
            let hint = hint.map_or(log.to_owned(), |hint| format!("{hint}; {log}"));
            return Err(ApiError::new(ErrorCode::Unavailable, why).hint(hint));
        }
        sleep(AGAIN).await;
    }
}

fn open(log: &Path) -> io::Result<(File, u64)> {
    let length = fs::metadata(log).map_or(0, |known| known.len());
    if length > LONGEST_LOG {
        fs::rename(log, log.with_extension("log.old"))?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    let from = file.metadata()?.len();
    Ok((file, from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_that_gave_up_says_why_in_its_own_part_of_the_log() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let log = scratch.path().join("hub.log");
        fs::write(&log, "error: of yesterday\n").expect("written");
        let (_, from) = open(&log).expect("opened");
        let started = Started { log: log.clone(), from };
        assert!(started.failure().is_none());
        let mut text = fs::read_to_string(&log).expect("text");
        text.push_str("INFO all is well\nerror: no room\nhint: make some\n");
        fs::write(&log, text).expect("written");
        let told = started.failure().expect("it gave up");
        assert!(told.message.ends_with("gave up: no room"), "{told:?}");
        assert!(told.hint.expect("advice").starts_with("make some; its log is"), "advice");
    }

    #[test]
    fn a_long_log_is_put_aside() {
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let log = scratch.path().join("hub.log");
        fs::write(&log, vec![b'x'; 1 + LONGEST_LOG as usize]).expect("written");
        assert_eq!(open(&log).expect("opened").1, 0);
        assert!(scratch.path().join("hub.log.old").exists());
        assert_eq!(open(&log).expect("opened").1, 0);
    }
}
