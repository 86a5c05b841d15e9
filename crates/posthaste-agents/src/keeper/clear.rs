//! What a worker left behind.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid};
use tokio::time::Instant;

use super::work::{Happened, Signals, Worker};
use crate::process;

/// What is left of a worker has this long to end well.
const GRACE: Duration = Duration::from_secs(2);
/// After this nothing more can be done: some processes are not ours to kill.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

impl Worker {
    /// Ends everything that the worker left behind, also what went into a session of
    /// its own. Tells how many that were.
    pub(super) async fn clear_away(&mut self, signals: &mut Signals) -> usize {
        let begin = Instant::now();
        let mut told: HashSet<Pid> = HashSet::new();
        if !cfg!(target_os = "linux") {
            // Nobody tells who they are: all at once.
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

    /// Where the system knows who is whose, all are among the strays.
    #[cfg(target_os = "linux")]
    fn is_left(&self, strays: &[Pid]) -> bool {
        !strays.is_empty()
    }

    #[cfg(not(target_os = "linux"))]
    fn is_left(&self, _: &[Pid]) -> bool {
        rustix::process::test_kill_process_group(self.pid).is_ok()
    }
}

/// Once each: for some, to be asked twice is to be killed.
fn ask(strays: &[Pid], told: &mut HashSet<Pid>) {
    for pid in strays {
        if told.insert(*pid) {
            process::signal(*pid, Signal::TERM);
            process::signal(*pid, Signal::CONT);
        }
    }
}
