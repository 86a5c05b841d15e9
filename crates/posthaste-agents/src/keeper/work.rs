//! One worker, from its start to its end.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::fs::fchown;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::fs::Mode;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, getpgid, getpid, getrlimit,
    kill_process_group, setrlimit, setsid, umask, waitid, waitpid,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::feed::Feed;
use super::pipe::Pipe;
use super::{Keep, MARK, Manners, Owner};
use crate::folder::{self, Exit, Folder, Started};
use crate::process;
use crate::settings::Stdin;

/// The longest wait, which every clock can represent.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Keeps the worker, and records how it ended.
pub(super) async fn work(keep: &Keep) -> io::Result<()> {
    // Leaves the hub's terminal: Ctrl-C is for the hub, and a program that asks its
    // terminal for a password fails instead of waiting for ever. The call fails if this
    // process leads a group already, which then is its own.
    let _ = setsid();
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let mut signals = Signals::new()?;
    // The hub starts a keeper in the folder of its worker.
    let folder = Folder::new(".".into());
    let started_at = now();

    let exit = match start(keep, &folder) {
        Ok(mut worker) => {
            let (ask, exit) = worker.watch(keep, &mut signals).await?;
            let strays = worker.clear_away(&mut signals).await;
            let Worker { pid, out, err, feed } = worker;
            let heard = feed.map(|feed| feed.heard());
            let (out_dropped, err_dropped) = tokio::join!(out.finish(), err.finish());
            // Not earlier: the pid is also the number of the process group.
            let _ = waitpid(Some(pid), WaitOptions::empty());
            let (asked, overdue) = (ask == Some(Ask::Asked), ask == Some(Ask::Overdue));
            Exit { asked, overdue, strays, out_dropped, err_dropped, heard, ..exit }
        }
        Err(error) => Exit { error: Some(error), ..Exit::default() },
    };
    folder.note_exit(&Exit { started_at, ended_at: now(), ..exit })
}

/// The reason why a worker is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Asked,
    Overdue,
}

/// The worker's process. It stays unreaped until all its processes are gone, so that the
/// system does not reuse its pid.
pub(super) struct Worker {
    pub(super) pid: Pid,
    pub(super) out: Pipe,
    pub(super) err: Pipe,
    /// The worker's mail, if its stdin carries more than its task.
    feed: Option<Feed>,
}

/// An event that a keeper waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened {
    /// A child changed its state.
    Child,
    /// A signal asks for the worker's end.
    Asked,
    /// The worker wrote output, which has been copied.
    Output,
    /// The deadline has passed.
    Time,
}

impl Worker {
    /// Waits until the worker ends, by itself or because it must.
    async fn watch(
        &mut self,
        keep: &Keep,
        signals: &mut Signals,
    ) -> io::Result<(Option<Ask>, Exit)> {
        let mut ask = None;
        let mut next = Instant::now() + keep.most.min(LONGEST);
        let mut happened = Happened::Child;
        loop {
            match (happened, ask) {
                (Happened::Child, _) => {
                    self.reap_strays();
                    if let Some(exit) = self.ended()? {
                        return Ok((ask, exit));
                    }
                }
                (Happened::Asked | Happened::Time, None) => {
                    let overdue = happened == Happened::Time;
                    ask = Some(if overdue { Ask::Overdue } else { Ask::Asked });
                    self.signal(Signal::TERM);
                    // A stopped process handles no other signal.
                    self.signal(Signal::CONT);
                    next = Instant::now() + keep.grace.min(LONGEST);
                }
                (Happened::Time, Some(_)) => {
                    self.signal(Signal::KILL);
                    next = Instant::now() + LONGEST;
                }
                (Happened::Asked, Some(_)) | (Happened::Output, _) => (),
            }
            happened = self.next(signals, next).await;
        }
    }

    pub(super) async fn next(&mut self, signals: &mut Signals, until: Instant) -> Happened {
        tokio::select! {
            happened = signals.next() => happened,
            () = sleep_until(until) => Happened::Time,
            () = self.out.ready() => {
                self.out.copy();
                Happened::Output
            }
            () = self.err.ready() => {
                self.err.copy();
                Happened::Output
            }
            () = feed(&mut self.feed) => Happened::Output,
        }
    }

    /// Sends a signal to the worker's group, and to the worker itself if it left the
    /// group.
    pub(super) fn signal(&self, signal: Signal) {
        // An empty group is an error that does no harm.
        let _ = kill_process_group(self.pid, signal);
        if getpgid(Some(self.pid)) != Ok(self.pid) {
            process::signal(self.pid, signal);
        }
    }

    /// Returns how the worker ended, if it has. The worker stays unreaped.
    fn ended(&self) -> io::Result<Option<Exit>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid), options)?;
        Ok(status.map(|status| Exit {
            code: status.exit_status(),
            signal: status.terminating_signal(),
            ..Exit::default()
        }))
    }

    /// Reaps orphans of the worker, which are the keeper's children, so that they leave
    /// no zombies.
    pub(super) fn reap_strays(&self) {
        for child in process::children(getpid()) {
            if child != self.pid {
                let _ = waitpid(Some(child), WaitOptions::NOHANG);
            }
        }
    }
}

async fn feed(feed: &mut Option<Feed>) {
    match feed {
        Some(feed) => feed.run().await,
        None => std::future::pending().await,
    }
}

/// Starts the worker, which inherits the keeper's environment and nothing else.
fn start(keep: &Keep, folder: &Folder) -> Result<Worker, String> {
    let me = getpid();
    let began = process::began(me);
    let run = format!("{me}-{}", began.unwrap_or_else(now));
    let mut note = Started {
        run,
        keeper: me.as_raw_nonzero().get(),
        keeper_began: began,
        worker: None,
        worker_began: None,
    };
    let file = |path| folder::create(path).map_err(|e| format!("cannot write its output: {e}"));
    let (out, err) = (file(&folder.out())?, file(&folder.err())?);
    let (stdin, hears) = match keep.stdin {
        Stdin::Task => {
            let task = File::open(folder.task());
            (Stdio::from(task.map_err(|e| format!("cannot read its task: {e}"))?), None)
        }
        Stdin::Mail => {
            // Opened before the worker runs, which may replace its files.
            let mail = folder::open(&folder.mail());
            let mail = mail.map_err(|e| format!("cannot read its mail: {e}"))?;
            let (from, to) = pipe(keep.owner)?;
            (Stdio::from(from), Some((mail, OwnedFd::from(to))))
        }
    };
    let (stdout, says) = pipe(keep.owner)?;
    let (stderr, warns) = pipe(keep.owner)?;
    let noted = |done: io::Result<()>| done.map_err(|e| format!("cannot note the start: {e}"));
    noted(folder.reserve_exit())?;
    noted(folder.note_start(&note))?;

    let mut command = command(keep, folder);
    command.env(MARK, &note.run).stdin(stdin).stdout(says).stderr(warns);
    let back = adopt(keep.manners);
    let spawned = command.spawn();
    umask(back);
    // The command holds the worker's ends of the pipes; a pipe closes when all its ends
    // are.
    drop(command);
    let mut child = spawned.map_err(|e| {
        let program = keep.command[0].to_string_lossy();
        let directory = fs::read_link(folder.directory()).unwrap_or_default();
        format!("cannot run {program} in {}: {e}", directory.display())
    })?;
    let pid = Pid::from_child(&child);
    let stdout = Pipe::new(stdout.into(), out, keep.output_bytes);
    let stderr = Pipe::new(stderr.into(), err, keep.output_bytes);
    let feed = hears.map(|(mail, end)| Feed::new(mail, end)).transpose();
    let (out, err, feed) = match (stdout, stderr, feed) {
        (Ok(out), Ok(err), Ok(feed)) => (out, err, feed),
        (Err(e), _, _) | (_, Err(e), _) | (_, _, Err(e)) => {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = child.wait();
            return Err(format!("cannot speak with it: {e}"));
        }
    };
    note.worker = Some(pid.as_raw_nonzero().get());
    note.worker_began = process::began(pid);
    // The worker runs; without this note it can be found by its mark.
    let _ = folder.note_start(&note);
    Ok(Worker { pid, out, err, feed })
}

#[expect(clippy::disallowed_methods, reason = "this is what a keeper is for")]
fn command(keep: &Keep, folder: &Folder) -> Command {
    let mut command = Command::new(&keep.command[0]);
    command.args(&keep.command[1..]).current_dir(folder.directory()).process_group(0);
    command
}

/// Makes a pipe that belongs to the worker, which may open it again by a name like
/// `/dev/stderr`.
fn pipe(owner: Option<Owner>) -> Result<(PipeReader, PipeWriter), String> {
    let made = io::pipe().and_then(|(from, to)| {
        if let Some(Owner { uid, gid }) = owner {
            fchown(&from, Some(uid), Some(gid))?;
        }
        Ok((from, to))
    });
    made.map_err(|e| format!("cannot make a pipe: {e}"))
}

/// Applies the manners that the worker is to inherit. Returns the earlier umask, which is
/// for the keeper's own files.
fn adopt(manners: Manners) -> Mode {
    if let Some(files) = manners.open_files {
        let now = getrlimit(Resource::Nofile);
        let files = now.maximum.map_or(files, |most| files.min(most));
        // If the limit cannot be changed, it stays as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..now });
    }
    umask(Mode::from_raw_mode(manners.umask))
}

/// The signals that a keeper receives.
pub(super) struct Signals {
    child: tokio::signal::unix::Signal,
    end: [tokio::signal::unix::Signal; 3],
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            end: [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
            ],
        })
    }

    async fn next(&mut self) -> Happened {
        let [terminate, interrupt, hangup] = &mut self.end;
        tokio::select! {
            _ = self.child.recv() => Happened::Child,
            _ = terminate.recv() => Happened::Asked,
            _ = interrupt.recv() => Happened::Asked,
            _ = hangup.recv() => Happened::Asked,
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
