//! The commands of tools, each with every process that it starts.
//!
//! A [`Tree`] runs under a keeper of its own (`keeper/tree.rs`), which ends all of it when
//! the tree is dropped, when the hub stops, and when the hub is killed.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Signal, getpid};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::environment::Environment;
use crate::keeper::{COMMAND, MARK, Manners, TreeEnd, TreeStdin, TreeWords};
use crate::process::{self, Mark};

/// The time that a keeper may take to end its command; it gives up earlier by itself.
const PATIENCE: Duration = Duration::from_secs(15);
/// Number of bytes of a keeper's report.
const REPORT: u64 = 64 * 1024;
/// How often the processes of a killed keeper are looked for.
const SWEEPS: usize = 5;

/// Starts the commands of tools.
pub(crate) struct Trees {
    keeper: PathBuf,
    manners: Manners,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// A running command. Dropping it ends the command with everything that it started.
pub(crate) struct Tree {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    stop: CancellationToken,
    _stop: DropGuard,
    end: oneshot::Receiver<TreeEnd>,
}

impl Trees {
    pub(crate) fn new(keeper: PathBuf, manners: Manners) -> Self {
        Self { keeper, manners, tasks: TaskTracker::new(), closing: CancellationToken::new() }
    }

    pub(crate) fn start(
        &self,
        words: Vec<OsString>,
        directory: &Path,
        environment: &Environment,
        stdin: TreeStdin,
    ) -> io::Result<Tree> {
        let words = TreeWords { hub: getpid(), stdin, manners: self.manners, command: words };
        let mark = format!("tool-{:016x}", rand::random::<u64>());
        #[expect(clippy::disallowed_methods, reason = "a keeper, which ends with its tree")]
        let mut command = Command::new(&self.keeper);
        command
            .arg0("posthaste")
            .arg(COMMAND)
            .args(words.words())
            .env_clear()
            .envs(environment.all())
            .env(MARK, &mark)
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let control = match stdin {
            TreeStdin::Command => {
                command.stdin(Stdio::piped());
                None
            }
            TreeStdin::Report => {
                let (ours, keepers) = UnixStream::pair()?;
                ours.set_nonblocking(true)?;
                command.stdin(Stdio::from(OwnedFd::from(keepers)));
                Some(tokio::net::UnixStream::from_std(ours)?)
            }
        };
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (tell, end) = oneshot::channel();
        let stop = self.closing.child_token();
        let mark = Mark::new(MARK, mark.as_ref());
        let minding = mind(child, control, stop.clone(), mark);
        // If nobody asks how it ended, the answer is dropped.
        self.tasks.spawn(async move { drop(tell.send(minding.await)) });
        let _stop = stop.clone().drop_guard();
        Ok(Tree { stdin, stdout, stderr, stop, _stop, end })
    }

    /// Ends all commands, and waits until they have ended.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Tree {
    /// Returns the way to end the command while somebody waits for its end.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Waits until the command and everything that it started have ended.
    pub(crate) async fn end(&mut self) -> TreeEnd {
        (&mut self.end).await.unwrap_or_default()
    }
}

/// Waits for the end of a keeper, and ends it when it is to stop.
async fn mind(
    mut child: Child,
    control: Option<tokio::net::UnixStream>,
    stop: CancellationToken,
    mark: Mark,
) -> TreeEnd {
    let ended = tokio::select! {
        ended = child.wait() => ended,
        () = stop.cancelled() => {
            // Not reaped yet, so the number is still the keeper's.
            if let Some(pid) = child.id().and_then(|id| process::numbered(id.try_into().ok()?)) {
                process::signal(pid, Signal::TERM);
            }
            match timeout(PATIENCE, child.wait()).await {
                Ok(ended) => ended,
                Err(_) => {
                    let _ = child.start_kill();
                    child.wait().await
                }
            }
        }
    };
    if !ended.as_ref().is_ok_and(|status| status.code().is_some()) {
        // The keeper was killed, and could not clear away.
        sweep(mark).await;
    }
    let mut report = Vec::new();
    if let Some(control) = control {
        let _ = control.take(REPORT).read_to_end(&mut report).await;
    }
    serde_json::from_slice(&report).unwrap_or_else(|_| end_of(ended))
}

fn end_of(ended: io::Result<ExitStatus>) -> TreeEnd {
    match ended {
        Ok(status) => {
            TreeEnd { code: status.code(), signal: status.signal(), ..TreeEnd::default() }
        }
        Err(error) => TreeEnd { error: Some(error.to_string()), ..TreeEnd::default() },
    }
}

/// Kills every process with this mark, also those that start meanwhile.
async fn sweep(mark: Mark) {
    let kill_all = move || {
        let marks = [mark];
        for _ in 0..SWEEPS {
            let found = process::marked(&marks);
            if found.is_empty() {
                break;
            }
            found.into_iter().for_each(|pid| process::signal(pid, Signal::KILL));
        }
    };
    let _ = tokio::task::spawn_blocking(kill_all).await;
}
