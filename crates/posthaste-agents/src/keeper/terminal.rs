//! A keeper inside a pane of tmux: its worker has the pane's terminal.
//!
//! The keeper leads the session of the terminal, and its worker is the foreground group:
//! keys such as Ctrl-C are for the worker alone. When the pane is closed, the system tells
//! the keeper by SIGHUP.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::fchown;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_process_group, waitid};
use rustix::termios::{tcgetattr, tcgetpgrp, tcsetpgrp};
use tokio::time::timeout;

use super::bounded::Bounded;
use super::{COMMAND, Keep, become_program};
use crate::folder::{self, Folder};
use crate::ticket::{Pane, Ticket};

/// The word after `keep` with which a keeper starts its worker in a terminal.
pub(super) const FOREGROUND: &str = "foreground";
/// The time between two looks whether this process is in the foreground.
const SOON: Duration = Duration::from_millis(1);
/// The longest time that tmux may take to give the text of the pane.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Terminal {
    ticket: Ticket,
    pane: Pane,
    /// Held for as long as the keeper lives.
    _lock: File,
}

impl Terminal {
    /// Takes the lock and the ticket, and notes the pane. `None`: the ticket was revoked,
    /// and nothing is to be done.
    pub(super) fn take(folder: &Folder) -> io::Result<Option<Self>> {
        let Some((ticket, lock)) = Ticket::take(folder)? else { return Ok(None) };
        let pane = match (variable("TMUX"), variable("TMUX_PANE")) {
            (Some(tmux), Some(pane)) => Pane::of(&tmux, &pane),
            _ => None,
        };
        let pane = pane.ok_or_else(|| io::Error::other("this is no pane of tmux"))?;
        pane.note(folder)?;
        Ok(Some(Self { ticket, pane, _lock: lock }))
    }

    /// Gives a worker the terminal, and the environment of its ticket. Of the keeper's own
    /// environment it gets what names the kind of the terminal; it is not told of tmux, in
    /// which some programs open windows of their own.
    pub(super) fn equip(&self, command: &mut Command, keep: &Keep) -> io::Result<()> {
        command.env_clear();
        for (name, value) in &self.ticket.environment {
            command.env(name, value);
        }
        for name in ["TERM", "COLORTERM"] {
            match variable(name) {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        if let Some(owner) = keep.owner {
            // The worker may open its terminal again by a name like /dev/stderr.
            fchown(io::stdin(), Some(owner.uid), Some(owner.gid))?;
        }
        Ok(())
    }

    /// Returns the words that run a worker: this program, which becomes the worker's once
    /// it is in the foreground.
    pub(super) fn words(command: &[OsString]) -> Vec<OsString> {
        let me: Vec<OsString> = vec![this_program(), COMMAND.into(), FOREGROUND.into()];
        me.into_iter().chain(command.iter().cloned()).collect()
    }

    /// Makes the worker's group the foreground of the terminal.
    pub(super) fn give_to(&self, worker: Pid) {
        // An error is that of a closed terminal, which shows soon.
        let _ = tcsetpgrp(io::stdin(), worker);
        let _ = kill_process_group(worker, Signal::CONT);
    }

    /// Lets a halted worker go on: no shell is there in which a person could do that.
    pub(super) fn goes_on(&self, worker: Pid) {
        let halted = waitid(WaitId::Pid(worker), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
        if matches!(halted, Ok(Some(_))) {
            let _ = kill_process_group(worker, Signal::CONT);
        }
    }

    /// Returns whether the terminal has been closed.
    pub(super) fn is_closed(&self) -> bool {
        tcgetattr(io::stdin()).is_err()
    }

    /// Keeps the text of the pane, bounded.
    pub(super) async fn keep_text(&self, folder: &Folder, bytes: u64) {
        let Ok(out) = folder::create(&folder.terminal()) else { return };
        let text = match timeout(PATIENCE, self.text()).await {
            Ok(Ok(text)) => text,
            // The pane is closed, or tmux hangs.
            _ => return,
        };
        let mut out = Bounded::new(out, bytes);
        out.take(text.trim_ascii_end());
        out.take(b"\n");
        out.finish();
    }

    #[expect(clippy::disallowed_methods, reason = "it is waited for, and does next to nothing")]
    async fn text(&self) -> io::Result<Vec<u8>> {
        let mut command = tokio::process::Command::new(&self.ticket.tmux);
        command.arg("-u").arg("-S").arg(&self.pane.socket);
        command.args(["capture-pane", "-p", "-J", "-S", "-", "-t", &self.pane.pane]);
        command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let ran = command.output().await?;
        match ran.status.success() {
            true => Ok(ran.stdout),
            false => Err(io::Error::other("tmux gives no text")),
        }
    }
}

/// Waits until this process is in the foreground of its terminal, and becomes a program.
///
/// tmux lets its panes ignore the signal by which the system halts whoever reads the
/// terminal from the background, so a program that is too quick would read an error, and
/// take it for the end of its input.
pub(super) fn become_one(program: &[OsString]) -> Result<(), String> {
    while tcgetpgrp(io::stdin()).is_ok_and(|group| group != getpgrp()) {
        sleep(SOON);
    }
    become_program(program)
}

/// Returns this very program, also where its file was replaced.
fn this_program() -> OsString {
    let same = Path::new("/proc/self/exe");
    match same.exists() {
        true => same.into(),
        false => std::env::current_exe().map_or_else(|_| "posthaste".into(), Into::into),
    }
}

#[expect(clippy::disallowed_methods, reason = "tmux names the pane and its kind by variables")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
