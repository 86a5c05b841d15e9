//! A program with all that it starts: one group of processes, ended by its id.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::piped::Piped;
use crate::world::Ran;

/// Longer than a program needs for its exit on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that never outlives its test.
pub(super) struct Running {
    child: Child,
    reaped: bool,
    out: Option<Piped>,
    err: Option<Piped>,
}

impl Running {
    pub(super) fn new(mut command: Command) -> Self {
        let mut child = command.process_group(0).spawn().expect("the program starts");
        let out = child.stdout.take().map(Piped::new);
        let err = child.stderr.take().map(Piped::new);
        Self { child, reaped: false, out, err }
    }

    /// Writes a line to its stdin, if it was started for a conversation.
    pub(super) fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        writeln!(stdin, "{line}").expect("it reads");
    }

    /// What it has written to its stdout until now.
    pub(super) fn said(&self) -> String {
        self.out.as_ref().map(Piped::until_now).unwrap_or_default()
    }

    /// What it has written to its stderr until now.
    pub(super) fn complained(&self) -> String {
        self.err.as_ref().map(Piped::until_now).unwrap_or_default()
    }

    /// Nothing more will be told.
    pub(super) fn hang_up(&mut self) {
        self.child.stdin = None;
    }

    /// Pulls the plug: as if the machine had lost it.
    pub(super) fn kill(self) {
        drop(self);
    }

    /// Waits until it has ended by itself.
    pub(super) fn end(mut self) -> Ran {
        let until = Instant::now() + PATIENCE;
        while !self.has_ended() {
            assert!(Instant::now() < until, "process {} does not end", self.child.id());
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.reap();
        let text = |pipe: Option<Piped>| pipe.map(Piped::all).unwrap_or_default();
        Ran {
            code: status.and_then(|status| status.code()),
            out: text(self.out.take()),
            err: text(self.err.take()),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        // Seen and not yet reaped: its id is still its own.
        let seen = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.id()), seen).expect("our own child").is_some()
    }

    /// Ends whoever is left of its group, while its id is surely its own.
    fn reap(&mut self) -> Option<ExitStatus> {
        if !std::mem::replace(&mut self.reaped, true) {
            // All may have ended already; then there is nothing to do.
            let _ = kill_process_group(self.id(), Signal::KILL);
            return self.child.wait().ok();
        }
        None
    }

    fn id(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.reap();
    }
}
