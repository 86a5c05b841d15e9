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

/// Far enough for a clock.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Keeps the worker, and notes how it ended.
pub(super) async fn work(keep: &Keep) -> io::Result<()> {
    // Away from the hub's terminal: Ctrl-C is for the hub, and a program that asks
    // its terminal for a password fails instead of waiting for ever. Whoever leads a
    // group already has one of its own.
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
            // Not before now: its number is also its group's.
            let _ = waitpid(Some(pid), WaitOptions::empty());
            let (asked, overdue) = (ask == Some(Ask::Asked), ask == Some(Ask::Overdue));
            Exit { asked, overdue, strays, out_dropped, err_dropped, heard, ..exit }
        }
        Err(error) => Exit { error: Some(error), ..Exit::default() },
    };
    folder.note_exit(&Exit { started_at, ended_at: now(), ..exit })
}

/// Why a worker is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Asked,
    Overdue,
}

/// The worker's process. It stays unreaped until everything of it is gone, so that
/// nobody else can get its number.
pub(super) struct Worker {
    pub(super) pid: Pid,
    pub(super) out: Pipe,
    pub(super) err: Pipe,
    /// What it hears, if it was to hear more than its task.
    feed: Option<Feed>,
}

/// What a keeper waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened {
    /// A child changed.
    Child,
    /// Somebody wants the worker to end.
    Asked,
    /// It wrote something, which is copied.
    Output,
    /// The time came.
    Time,
}

impl Worker {
    /// Until it ends, by itself or because it must.
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
                    // Whoever is stopped hears nothing else.
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

    /// To its group, and to itself if it left that.
    pub(super) fn signal(&self, signal: Signal) {
        // A group that is empty is an error, and no harm.
        let _ = kill_process_group(self.pid, signal);
        if getpgid(Some(self.pid)) != Ok(self.pid) {
            process::signal(self.pid, signal);
        }
    }

    /// How it ended, if it has. It is left unreaped.
    fn ended(&self) -> io::Result<Option<Exit>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid), options)?;
        Ok(status.map(|status| Exit {
            code: status.exit_status(),
            signal: status.terminating_signal(),
            ..Exit::default()
        }))
    }

    /// Orphans of the worker are the keeper's children, and leave no zombies.
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

/// Starts the worker. It has the keeper's environment and nothing else of it.
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
            // Before it runs: a worker may put anything in the place of its files.
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
    // It has the worker's ends of the pipes, and they are closed when all of them are.
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
    // It runs; without this note it is found by its mark.
    let _ = folder.note_start(&note);
    Ok(Worker { pid, out, err, feed })
}

#[expect(clippy::disallowed_methods, reason = "this is what a keeper is for")]
fn command(keep: &Keep, folder: &Folder) -> Command {
    let mut command = Command::new(&keep.command[0]);
    command.args(&keep.command[1..]).current_dir(folder.directory()).process_group(0);
    command
}

/// A pipe that belongs to the worker: it may open it again by a name like `/dev/stderr`.
fn pipe(owner: Option<Owner>) -> Result<(PipeReader, PipeWriter), String> {
    let made = io::pipe().and_then(|(from, to)| {
        if let Some(Owner { uid, gid }) = owner {
            fchown(&from, Some(uid), Some(gid))?;
        }
        Ok((from, to))
    });
    made.map_err(|e| format!("cannot make a pipe: {e}"))
}

/// Takes the manners that the worker is to inherit. Gives the mask back that was
/// before, which is for the keeper's own files.
fn adopt(manners: Manners) -> Mode {
    if let Some(files) = manners.open_files {
        let now = getrlimit(Resource::Nofile);
        let files = now.maximum.map_or(files, |most| files.min(most));
        // As it was, if it cannot be changed.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..now });
    }
    umask(Mode::from_raw_mode(manners.umask))
}

/// What comes from outside.
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
