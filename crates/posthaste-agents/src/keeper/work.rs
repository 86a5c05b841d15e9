//! One worker, from its start to its end.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
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
use super::session::Session;
use super::terminal::Terminal;
use super::ways::Ways;
use super::{Keep, MARK, Manners};
use crate::folder::{Exit, Folder, Started};
use crate::process;
use crate::settings::Stdin;

/// The longest wait, which every clock can represent.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Keeps the worker, and records how it ended.
pub(super) async fn work(keep: &Keep) -> io::Result<()> {
    // The hub starts a keeper in the folder of its worker.
    let folder = Folder::new(".".into());
    let terminal = match keep.stdin {
        Stdin::Terminal => match Terminal::take(&folder)? {
            Some(terminal) => Some(terminal),
            None => return Ok(()),
        },
        Stdin::Task | Stdin::Mail | Stdin::Session => None,
    };
    // Leaves the hub's terminal: Ctrl-C is for the hub, and a program that asks its
    // terminal for a password fails instead of waiting for ever. The call fails if this
    // process leads a group already, which then is its own.
    let _ = setsid();
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let mut signals = Signals::new()?;
    let started_at = now();

    let exit = match start(keep, &folder, terminal.as_ref()) {
        Ok(mut worker) => {
            let (ask, exit) = worker.watch(keep, &mut signals).await?;
            let strays = worker.clear_away(&mut signals).await;
            let Worker { pid, ways: Ways { out, err, feed, session }, terminal } = worker;
            let heard = feed.map(|feed| feed.heard());
            let (out_dropped, err_dropped) =
                tokio::join!(end_of(out, session, &folder), end_of(err, None, &folder));
            if let Some(terminal) = terminal {
                terminal.keep_text(&folder, keep.output_bytes).await;
            }
            // Not earlier: the pid is also the number of the process group.
            let _ = waitpid(Some(pid), WaitOptions::empty());
            let (asked, overdue) = (ask == Some(Ask::Asked), ask == Some(Ask::Overdue));
            // A worker that reads the end of its input may have ended before the signal.
            let closed = ask == Some(Ask::Closed) || terminal.is_some_and(Terminal::is_closed);
            Exit { asked, overdue, closed, strays, out_dropped, err_dropped, heard, ..exit }
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
    /// Its terminal was closed.
    Closed,
}

/// The worker's process. It stays unreaped until all its processes are gone, so that the
/// system does not reuse its pid.
pub(super) struct Worker<'a> {
    pub(super) pid: Pid,
    ways: Ways,
    /// The worker's terminal, if it has one.
    terminal: Option<&'a Terminal>,
}

/// An event that a keeper waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened {
    /// A child changed its state.
    Child,
    /// A signal asks for the worker's end.
    Asked,
    /// The keeper's terminal was closed, or somebody sends the signal of that.
    HungUp,
    /// The worker wrote output, which has been copied.
    Output,
    /// The deadline has passed.
    Time,
}

impl Worker<'_> {
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
                    if let Some(terminal) = self.terminal {
                        terminal.goes_on(self.pid);
                    }
                }
                (Happened::Asked | Happened::HungUp | Happened::Time, None) => {
                    ask = Some(match (happened, self.terminal) {
                        (Happened::Time, _) => Ask::Overdue,
                        (Happened::HungUp, Some(_)) => Ask::Closed,
                        _ => Ask::Asked,
                    });
                    self.signal(Signal::TERM);
                    // A stopped process handles no other signal.
                    self.signal(Signal::CONT);
                    next = Instant::now() + keep.grace.min(LONGEST);
                }
                (Happened::Time, Some(_)) => {
                    self.signal(Signal::KILL);
                    next = Instant::now() + LONGEST;
                }
                (Happened::Asked | Happened::HungUp, Some(_)) | (Happened::Output, _) => (),
            }
            happened = self.next(signals, next).await;
        }
    }

    pub(super) async fn next(&mut self, signals: &mut Signals, until: Instant) -> Happened {
        tokio::select! {
            happened = signals.next() => happened,
            () = sleep_until(until) => Happened::Time,
            () = output(&mut self.ways.out) => Happened::Output,
            () = output(&mut self.ways.err) => Happened::Output,
            () = feed(&mut self.ways.feed) => Happened::Output,
            () = session(&mut self.ways.session) => Happened::Output,
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

/// Ends the copy of a worker's output, or keeps the rest of the conversation. Returns
/// the number of dropped bytes.
async fn end_of(out: Option<Pipe>, session: Option<Session>, folder: &Folder) -> u64 {
    let dropped = match out {
        Some(out) => out.finish().await,
        None => 0,
    };
    let Some(session) = session else { return dropped };
    let (from, rest) = session.finish().await;
    match folder.keep_rest(from, &rest) {
        Ok(()) => dropped,
        Err(_) => dropped + rest.len() as u64,
    }
}

async fn output(out: &mut Option<Pipe>) {
    match out {
        Some(out) => {
            out.ready().await;
            out.copy();
        }
        None => std::future::pending().await,
    }
}

async fn session(session: &mut Option<Session>) {
    match session {
        Some(session) => session.run().await,
        None => std::future::pending().await,
    }
}

async fn feed(feed: &mut Option<Feed>) {
    match feed {
        Some(feed) => feed.run().await,
        None => std::future::pending().await,
    }
}

/// Starts the worker, which inherits the keeper's environment and nothing else.
fn start<'a>(
    keep: &Keep,
    folder: &Folder,
    terminal: Option<&'a Terminal>,
) -> Result<Worker<'a>, String> {
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
    let mut command = match terminal {
        Some(_) => command(&Terminal::words(&keep.command), folder),
        None => command(&keep.command, folder),
    };
    let ways = Ways::of(keep, folder, terminal, &mut command)?;
    let noted = |done: io::Result<()>| done.map_err(|e| format!("cannot note the start: {e}"));
    noted(folder.reserve_exit())?;
    noted(folder.note_start(&note))?;
    command.env(MARK, &note.run);
    let back = adopt(keep.manners);
    let spawned = command.spawn();
    umask(back);
    drop(command);
    let child = spawned.map_err(|e| {
        let program = keep.command[0].to_string_lossy();
        let directory = fs::read_link(folder.directory()).unwrap_or_default();
        format!("cannot run {program} in {}: {e}", directory.display())
    })?;
    let pid = Pid::from_child(&child);
    if let Some(terminal) = terminal {
        terminal.give_to(pid);
    }
    note.worker = Some(pid.as_raw_nonzero().get());
    note.worker_began = process::began(pid);
    // The worker runs; without this note it can be found by its mark.
    let _ = folder.note_start(&note);
    Ok(Worker { pid, ways, terminal })
}

#[expect(clippy::disallowed_methods, reason = "this is what a keeper is for")]
fn command(words: &[OsString], folder: &Folder) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(folder.directory()).process_group(0);
    command
}

/// Applies the manners that the worker is to inherit. Returns the earlier umask, which is
/// for the keeper's own files.
pub(super) fn adopt(manners: Manners) -> Mode {
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
            _ = hangup.recv() => Happened::HungUp,
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
