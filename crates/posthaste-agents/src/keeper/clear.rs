//! Ends the processes that a worker left behind.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid};
use tokio::time::Instant;

use super::work::{Happened, Signals, Worker};
use crate::process;

/// The time that processes left by a worker have to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// After this the keeper gives up: some processes cannot be killed by it.
const GIVE_UP: Duration = Duration::from_secs(10);
/// The time between two checks.
const LOOK: Duration = Duration::from_millis(20);

impl Worker<'_> {
    /// Ends every process that the worker left behind, also those in a session of their
    /// own. Returns their number.
    pub(super) async fn clear_away(&mut self, signals: &mut Signals) -> usize {
        let begin = Instant::now();
        let mut told: HashSet<Pid> = HashSet::new();
        if !cfg!(target_os = "linux") {
            // The system does not list descendants here, so the whole group gets the signal.
            self.signal(Signal::TERM);
        }
        loop {
            self.reap_strays();
            let strays = self.strays();
            if !self.is_left(&strays) || begin.elapsed() > GIVE_UP {
                return told.len();
            }
            match begin.elapsed() < GRACE {
                true => ask(&strays, &mut told),
                false => self.kill(&strays),
            }
            let look = Instant::now() + LOOK;
            while self.next(signals, look).await == Happened::Output {}
        }
    }

    fn strays(&self) -> Vec<Pid> {
        let mut all = process::descendants(getpid());
        all.retain(|pid| *pid != self.pid);
        all
    }

    fn kill(&self, strays: &[Pid]) {
        self.signal(Signal::KILL);
        for pid in strays {
            process::signal(*pid, Signal::KILL);
        }
    }

    /// On Linux the system knows all descendants, so the strays are all that is left.
    #[cfg(target_os = "linux")]
    fn is_left(&self, strays: &[Pid]) -> bool {
        !strays.is_empty()
    }

    #[cfg(not(target_os = "linux"))]
    fn is_left(&self, _: &[Pid]) -> bool {
        rustix::process::test_kill_process_group(self.pid).is_ok()
    }
}

/// Asks each process once: some programs take a second SIGTERM as a kill.
fn ask(strays: &[Pid], told: &mut HashSet<Pid>) {
    for pid in strays {
        if told.insert(*pid) {
            process::signal(*pid, Signal::TERM);
            process::signal(*pid, Signal::CONT);
        }
    }
}
