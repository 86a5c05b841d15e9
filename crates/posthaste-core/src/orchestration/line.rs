//! The line: the workers that may start now, and those that wait.
//!
//! The line is not kept anywhere: it consists of the `starting` workers, in the order of
//! their tasks. Whenever a place may have become free the task that moves the line is
//! notified, and looks for the next worker.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::config::AgentsConfig;
use super::lifecycle::Run;
use super::turns::TurnActivity;
use crate::address::InstanceId;
use crate::messaging::message::Principal;
use crate::ports::{LaunchError, Launcher};
use crate::registry::{Instance, Status};
use crate::time::Timestamp;
use crate::{Hub, Map};

/// The launcher of workers, its settings, and the state of starts and ends.
pub(crate) struct Staff {
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) config: AgentsConfig,
    due: Notify,
    /// Cancelled once the search for the workers of the last run is over.
    pub(super) all_found: CancellationToken,
    /// Workers that are being started, with the reason if they were stopped meanwhile.
    pub(super) starting: Mutex<Map<InstanceId, Option<String>>>,
    /// Workers that were asked to end, with all below them, and the reason.
    pub(super) ending: Mutex<Map<InstanceId, String>>,
    /// The activity of workers whose drivers tell.
    pub(super) activities: Mutex<Map<InstanceId, (TurnActivity, Timestamp)>>,
    /// Times at which agents were last woken.
    pub(super) woken: Mutex<Map<InstanceId, Timestamp>>,
}

/// The places of one session.
#[derive(Debug, Default)]
struct Places {
    taken: usize,
    /// Places held by workers that are blocked on a queued child.
    blocked: usize,
}

impl Staff {
    /// Notifies the line: a place may be free, or a new worker waits for one.
    pub(crate) fn line_moves(&self) {
        self.due.notify_one();
    }

    /// Returns whether a worker that is being started was stopped meanwhile.
    pub(super) fn is_stopped(&self, who: InstanceId) -> bool {
        matches!(self.starting.lock().get(&who), Some(Some(_)))
    }
}

impl Hub {
    /// Enables the hub to start workers, and finds those of the last run again.
    pub async fn employ(self: &Arc<Self>, launcher: Arc<dyn Launcher>, config: AgentsConfig) {
        let staff = Staff {
            launcher,
            config,
            due: Notify::new(),
            all_found: CancellationToken::new(),
            starting: Mutex::default(),
            ending: Mutex::default(),
            activities: Mutex::default(),
            woken: Mutex::default(),
        };
        if self.staff.set(staff).is_err() {
            return;
        }
        self.find_workers().await;
        self.tasks.spawn(Arc::clone(self).serve_the_line());
    }

    pub(crate) fn staff(&self) -> Result<&Staff, LaunchError> {
        self.staff.get().ok_or_else(|| {
            LaunchError::new("this hub starts no agents", "start it with `posthaste up`")
        })
    }

    /// Makes room for the children of a parent that begins to wait for them.
    pub(crate) fn begins_to_wait(&self, who: Principal) {
        if let Some(staff) = self.staff.get()
            && who.instance().is_some()
            && self.is_owed(who)
        {
            staff.line_moves();
        }
    }

    async fn serve_the_line(self: Arc<Self>) {
        let Some(staff) = self.staff.get() else { return };
        let mut next_look = Instant::now();
        loop {
            self.move_line(staff);
            if Instant::now() >= next_look {
                self.look_after_workers(staff).await;
                next_look = Instant::now() + self.limits.sweep;
            }
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = staff.due.notified() => {}
                () = sleep_until(next_look) => {}
            }
        }
    }

    /// Starts the workers that have a place.
    fn move_line(self: &Arc<Self>, staff: &Staff) {
        let line = self.engine.ledger(|l| l.in_line());
        if line.is_empty() || self.stopping.is_cancelled() {
            return;
        }
        let mut running: Map<Principal, Places> = Map::default();
        for worker in self.engine.ledger(|l| l.at_work()) {
            let starts = staff.starting.lock().contains_key(&worker.id);
            if starts || worker.status != Status::Starting && self.takes_a_place(&worker) {
                let places =
                    running.entry(self.engine.ledger(|l| l.session(worker.id))).or_default();
                places.taken += 1;
                places.blocked += usize::from(!starts && self.needs_the_line(&worker));
            }
        }
        let now = self.clock.now();
        for worker in line {
            let places = running.entry(self.engine.ledger(|l| l.session(worker.id))).or_default();
            let stalled =
                places.blocked == places.taken && now.since(worker.created_at) >= self.limits.sweep;
            if places.taken >= staff.config.running && !stalled {
                continue;
            }
            // A worker that is being started keeps its entry: it may have been stopped
            // meanwhile.
            if let Entry::Vacant(new) = staff.starting.lock().entry(worker.id) {
                new.insert(None);
                places.taken += 1;
                self.tasks.spawn(Arc::clone(self).launch(worker, Run::First));
            }
        }
    }

    /// Returns whether the worker gave work to one that is in line. It may poll for the
    /// end of that work instead of waiting: then it shows no wait, and if all workers
    /// with a place do so, the line stands still. A worker that has been in such a line
    /// for a sweep starts.
    fn needs_the_line(&self, worker: &Instance) -> bool {
        let given = self.engine.ledger(|l| l.given(Principal::Instance(worker.id), false));
        given.iter().any(|g| g.status == Some(Status::Starting))
    }

    /// Returns whether the worker takes a place: a parent that waits for its children
    /// does not, nor does a worker that has reported.
    fn takes_a_place(&self, worker: &Instance) -> bool {
        let me = Principal::Instance(worker.id);
        let waits = || self.is_waiting(worker.id) && self.is_owed(me);
        let owes = self.engine.ledger(|l| l.taken_on(worker.id)).iter().any(|a| a.report.is_none());
        owes && !waits()
    }
}
