//! Upkeep of workers: ends idle ones, wakes sleeping agents, and removes the files of
//! forgotten ones.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::watch;

use super::line::Staff;
use super::turns::TurnActivity;
use crate::Hub;
use crate::address::{InstanceId, Mailbox};
use crate::messaging::message::Principal;
use crate::ports::{Output, Stream, Terminal, TranscriptPage, WakeRequest};
use crate::registry::{Instance, InstanceFilter, Status};

impl Hub {
    pub(super) async fn look_after_workers(self: &Arc<Self>, staff: &Staff) {
        self.end_idle(staff);
        self.wake_sleepers(staff).await;
        let all = InstanceFilter { limit: usize::MAX, ..InstanceFilter::default() };
        let known: Vec<InstanceId> = self
            .engine
            .ledger(|l| l.instances(&all))
            .into_iter()
            .map(|view| view.instance.id)
            .collect();
        staff.woken.lock().retain(|id, _| known.contains(id));
        staff.ending.lock().retain(|id, _| known.contains(id));
        staff.launcher.forget_all_but(&known).await;
    }

    /// Ends workers that have reported and show no sign of life, except those that a door
    /// keeps a record of: its users end them.
    fn end_idle(&self, staff: &Staff) {
        let now = self.clock.now();
        let idle = |worker: &Instance| {
            let taken = self.engine.ledger(|l| l.taken_on(worker.id));
            let reported = taken.iter().map(|a| a.report.as_ref().map(|r| r.at)).max().flatten();
            let settled = taken.iter().all(|a| a.report.is_some());
            settled
                && reported.is_some_and(|at| now.since(at) >= staff.config.keep)
                && now.since(worker.last_seen) >= staff.config.keep
                && !self.is_waiting(worker.id)
                && self.turn_activity(worker.id).is_none_or(|now| now == TurnActivity::Idle)
        };
        for worker in self.engine.ledger(|l| l.at_work()) {
            let stays = worker.work.as_deref().is_some_and(|work| work.record().is_some());
            if worker.status == Status::Running && !stays && idle(&worker) {
                let kept = humantime(staff.config.keep);
                let why = format!("it had reported and was idle for {kept} (agents.keep)");
                staff.launcher.stop(worker.id, &why);
            }
        }
    }

    /// Wakes external agents that have mail and do not poll. Of the agents that could
    /// take the mail of a shared mailbox, the one that has been quiet the longest is
    /// woken.
    async fn wake_sleepers(self: &Arc<Self>, staff: &Staff) {
        let here = vec![Status::Running, Status::Away, Status::Lost];
        let all = InstanceFilter { statuses: here, limit: usize::MAX, ..InstanceFilter::default() };
        let now = self.clock.now();
        let mut views = self.engine.ledger(|l| l.instances(&all));
        views.sort_by_key(|view| view.instance.last_seen);
        let was_woken = |id: &InstanceId| {
            let woken = staff.woken.lock().get(id).copied();
            woken.is_some_and(|at| now.since(at) < staff.config.wake_again)
        };
        // Agents that were woken before may be about to read the mail of these mailboxes.
        let woken = views.iter().filter(|view| was_woken(&view.instance.id));
        let mut offered: HashSet<Mailbox> =
            woken.flat_map(|view| view.instance.keys.iter().cloned()).collect();
        for view in views {
            let (unread, shared) = (view.unread, view.unread_shared);
            let who = view.instance;
            let quiet = now.since(who.last_seen) >= staff.config.wake_after;
            let napping = who.work.is_none() && unread + shared > 0 && quiet;
            let busy = self.is_waiting(who.id) || self.is_asking(Principal::Instance(who.id));
            if !napping || busy || was_woken(&who.id) {
                continue;
            }
            if unread == 0 && !self.has_mail_but_in(&who.keys, &offered).await {
                continue;
            }
            let Ok(Some(profile)) = self.engine.profile(who.agent.clone()).await else { continue };
            let (id, keys, unread) = (who.id, Arc::clone(&who.keys), unread + shared);
            match staff.launcher.wake(self, WakeRequest { who, profile, unread }).await {
                Ok(true) => {
                    staff.woken.lock().insert(id, now);
                    offered.extend(keys.iter().cloned());
                }
                Ok(false) => {}
                Err(error) => {
                    staff.woken.lock().insert(id, now);
                    tracing::warn!(%id, %error, "an agent with mail could not be woken");
                }
            }
        }
    }

    /// Returns whether mail is queued in one of these mailboxes that is not among
    /// `others`.
    async fn has_mail_but_in(&self, keys: &Arc<[Mailbox]>, others: &HashSet<Mailbox>) -> bool {
        let open = self.engine.open_mail(Some(Arc::clone(keys))).await.unwrap_or_default();
        open.iter().any(|open| open.queued > 0 && !others.contains(&open.mailbox))
    }

    /// Returns entries of a worker's transcript after this number; `None` if it has no
    /// conversation with the hub.
    pub async fn transcript(
        &self,
        who: InstanceId,
        after: u64,
        most: usize,
    ) -> std::io::Result<Option<TranscriptPage>> {
        match self.staff.get() {
            Some(staff) => staff.launcher.transcript(who, after, most).await,
            None => Ok(None),
        }
    }

    /// Returns a receiver for the number of the last entry of a running worker's
    /// transcript.
    pub fn transcript_news(&self, who: InstanceId) -> Option<watch::Receiver<u64>> {
        self.staff.get()?.launcher.transcript_news(who)
    }

    /// Returns the terminal of a running worker, if it has one.
    pub fn terminal(&self, who: InstanceId) -> Option<Terminal> {
        self.staff.get()?.launcher.terminal(who)
    }

    /// Returns the output of a worker from this byte on; `None` if none is kept.
    pub async fn output(
        &self,
        who: InstanceId,
        stream: Stream,
        from: u64,
        most: usize,
    ) -> std::io::Result<Option<Output>> {
        match self.staff.get() {
            Some(staff) => staff.launcher.output(who, stream, from, most).await,
            None => Ok(None),
        }
    }
}

fn humantime(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    if seconds > 0 && seconds.is_multiple_of(60) {
        format!("{} min", seconds / 60)
    } else {
        format!("{seconds} s")
    }
}
