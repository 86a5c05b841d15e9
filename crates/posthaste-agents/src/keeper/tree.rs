//! The keeper of a command that ends with the hub: a tool of an assistant.
//!
//! The keeper starts the command, mirrors its exit code, and ends every process that the
//! command left behind. It ends the command and all its descendants when the hub asks with
//! SIGTERM, and when the hub itself ends, also by SIGKILL. It writes no files.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getppid, kill_process_group, setsid,
    umask, waitid, waitpid,
};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use super::Manners;
use super::work::adopt;
use crate::process;

/// The word after `keep` that begins the words of such a keeper.
pub(super) const TREE: &str = "tree";

/// Number of words before the command.
const FIRST: usize = 4;
/// The time that processes have to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// After this the keeper gives up: some processes cannot be killed by it.
const GIVE_UP: Duration = Duration::from_secs(10);
/// The time between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// The use of the stdin that the hub gives the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeStdin {
    /// The command reads it.
    Command,
    /// It is a socket to which the keeper writes a [`TreeEnd`]; the command reads nothing.
    Report,
}

/// The instructions for the keeper of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeWords {
    /// The process whose end is the command's end.
    pub(crate) hub: Pid,
    pub(crate) stdin: TreeStdin,
    pub(crate) manners: Manners,
    pub(crate) command: Vec<OsString>,
}

/// The end of a command, as its keeper reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TreeEnd {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Number of processes that the command left running, and that were ended.
    pub(crate) left: usize,
    /// The reason why the command could not be started.
    pub(crate) error: Option<String>,
}

impl TreeWords {
    /// Returns the words after `keep`.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let stdin = match self.stdin {
            TreeStdin::Command => "command",
            TreeStdin::Report => "report",
        };
        let mut words = vec![TREE.into(), self.hub.to_string().into(), stdin.into()];
        words.extend(self.manners.words());
        words.extend(self.command.iter().cloned());
        words
    }

    /// Reads the words after `keep tree`.
    fn read(words: &[OsString]) -> Result<Self, String> {
        if words.len() <= FIRST {
            return Err("this command is for the hub, which starts it for each command".into());
        }
        let text = |at: usize| words[at].to_str().unwrap_or_default();
        let hub = text(0).parse().ok().and_then(process::numbered);
        Ok(Self {
            hub: hub.ok_or_else(|| format!("`{}` is no process", text(0)))?,
            stdin: match text(1) {
                "command" => TreeStdin::Command,
                "report" => TreeStdin::Report,
                other => return Err(format!("`{other}` is neither command nor report")),
            },
            manners: Manners::read(text(2), text(3))?,
            command: words[FIRST..].to_vec(),
        })
    }
}

/// Keeps one command. Returns its exit code, as a shell tells it.
pub(super) fn keep(words: &[OsString]) -> Result<u8, String> {
    let words = TreeWords::read(words)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("no runtime: {e}"))?;
    let kept = runtime.block_on(work(&words)).map_err(|e| format!("cannot keep it: {e}"))?;
    if words.stdin == TreeStdin::Report {
        report(&kept).map_err(|e| format!("cannot report: {e}"))?;
    } else if let Some(why) = &kept.error {
        return Err(why.clone());
    }
    let code = kept.code.or(kept.signal.map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

fn report(end: &TreeEnd) -> io::Result<()> {
    let text = serde_json::to_vec(end).map_err(io::Error::other)?;
    control()?.write_all(&text)
}

/// Returns the socket to the hub.
fn control() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

async fn work(words: &TreeWords) -> io::Result<TreeEnd> {
    // Leaves the hub's terminal and its group: Ctrl-C is for the hub.
    let _ = setsid();
    let mut child = signal(SignalKind::child())?;
    let mut ends = Ends {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hangup: signal(SignalKind::hangup())?,
        control: match words.stdin {
            TreeStdin::Command => None,
            TreeStdin::Report => {
                let control = control()?;
                control.set_nonblocking(true)?;
                Some(tokio::net::UnixStream::from_std(control)?)
            }
        },
        hub: words.hub,
    };
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_child_subreaper(Some(getpid()))?;
        // The signal comes when the thread of the hub that started the keeper ends; the
        // keeper then looks whether the hub has ended with it.
        rustix::process::set_parent_process_death_signal(Some(Signal::HUP))?;
    }
    if ends.is_hub_gone() {
        return Err(io::Error::other("the hub has ended"));
    }
    let main = match start(words) {
        Ok(main) => main,
        Err(error) => return Ok(TreeEnd { error: Some(error), ..TreeEnd::default() }),
    };
    loop {
        reap_strays(main);
        if ended(main)?.is_some() {
            break;
        }
        tokio::select! {
            _ = child.recv() => {}
            () = ends.asked() => break,
        }
    }
    let left = clear_away(main).await;
    let end = ended(main)?.unwrap_or_default();
    let _ = waitpid(Some(main), WaitOptions::NOHANG);
    // The socket is blocking again for the report.
    if let Some(control) = ends.control {
        control.into_std()?.set_nonblocking(false)?;
    }
    Ok(TreeEnd { left, ..end })
}

#[expect(clippy::disallowed_methods, reason = "this is what a keeper is for")]
fn start(words: &TreeWords) -> Result<Pid, String> {
    let (program, arguments) = words.command.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    if words.stdin == TreeStdin::Report {
        command.stdin(Stdio::null());
    }
    let back = adopt(words.manners);
    let spawned = command.spawn();
    umask(back);
    let child =
        spawned.map_err(|error| format!("cannot run {}: {error}", program.to_string_lossy()))?;
    Ok(Pid::from_child(&child))
}

/// The events that end a command early.
struct Ends {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    control: Option<tokio::net::UnixStream>,
    hub: Pid,
}

impl Ends {
    async fn asked(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {}
                () = closed(&mut self.control) => return,
            }
            if self.is_hub_gone() {
                return;
            }
        }
    }

    fn is_hub_gone(&self) -> bool {
        getppid() != Some(self.hub)
    }
}

/// Waits until the hub has closed its end of the socket.
async fn closed(control: &mut Option<tokio::net::UnixStream>) {
    match control {
        Some(control) => while let Ok(1..) = control.read(&mut [0; 64]).await {},
        None => std::future::pending().await,
    }
}

/// Returns how the command ended, if it has. It stays unreaped, so that the system does
/// not reuse its pid, which is also the number of its group.
fn ended(main: Pid) -> io::Result<Option<TreeEnd>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(main), options)?;
    Ok(status.map(|status| TreeEnd {
        code: status.exit_status(),
        signal: status.terminating_signal(),
        ..TreeEnd::default()
    }))
}

fn reap_strays(main: Pid) {
    for child in process::children(getpid()) {
        if child != main {
            let _ = waitpid(Some(child), WaitOptions::NOHANG);
        }
    }
}

/// Ends the command and every process below it. Returns the number of its descendants
/// that were still there.
async fn clear_away(main: Pid) -> usize {
    let begin = Instant::now();
    let mut told: HashSet<Pid> = HashSet::new();
    if !cfg!(target_os = "linux") {
        // The system does not list descendants here, so the whole group gets the signal.
        let _ = kill_process_group(main, Signal::TERM);
    }
    loop {
        reap_strays(main);
        let has_ended = ended(main).is_ok_and(|end| end.is_some());
        let mut left = process::descendants(getpid());
        left.retain(|pid| *pid != main || !has_ended);
        if left.is_empty() && (has_ended || !cfg!(target_os = "linux")) {
            break;
        }
        if begin.elapsed() > GIVE_UP {
            break;
        }
        for pid in left {
            if told.insert(pid) {
                // A stopped process handles no other signal.
                process::signal(pid, Signal::TERM);
                process::signal(pid, Signal::CONT);
            }
            if begin.elapsed() >= GRACE {
                process::signal(pid, Signal::KILL);
            }
        }
        sleep(LOOK).await;
    }
    // Also the processes that the system does not list.
    let _ = kill_process_group(main, Signal::KILL);
    told.remove(&main);
    told.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_hub_writes_the_keeper_of_a_command_reads() {
        let words = TreeWords {
            hub: getpid(),
            stdin: TreeStdin::Report,
            manners: Manners { umask: 0o022, open_files: Some(1024) },
            command: vec!["/bin/sh".into(), "-c".into(), "--help; echo -x".into()],
        };
        assert_eq!(TreeWords::read(&words.words()[1..]), Ok(words.clone()));
        let manners = Manners { umask: 0, open_files: None };
        let other = TreeWords { stdin: TreeStdin::Command, manners, ..words };
        assert_eq!(TreeWords::read(&other.words()[1..]), Ok(other));
    }

    #[test]
    fn whoever_tries_it_by_hand_is_told_that_it_is_for_the_hub() {
        assert!(TreeWords::read(&[]).expect_err("nothing to do").contains("for the hub"));
        for (words, why) in [
            (["0", "report", "022", "-", "true"], "`0`"),
            (["1", "report", "022", "-", "true"], "`1`"),
            (["7", "other", "022", "-", "true"], "`other`"),
            (["7", "report", "9", "-", "true"], "`9`"),
            (["7", "report", "022", "many", "true"], "`many`"),
        ] {
            let error = TreeWords::read(&words.map(OsString::from)).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }
}
