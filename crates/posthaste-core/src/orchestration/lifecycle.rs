//! The life of a worker, from its place in line to its end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use tokio::time::Instant;

use super::line::Staff;
use super::stop::STOPPED_BY_OPERATOR;
use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::message::{Principal, Seq};
use crate::messaging::proof::{Call, Door, Proves};
use crate::messaging::receive::{Ask, Handed};
use crate::ports::{
    Ended, Ending, Filter, Found, LaunchError, Outcome, Start, StoreError, Task, Token, Workplace,
};
use crate::registry::{Instance, RegistryError, Status, TokenHash, Work};

/// Time before a failed write of the store is tried again.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// The reason for the end of workers that the hub ends when it is stopped.
pub const HUB_STOPPED: &str = "the hub was stopped";

/// The reason for the end of a worker that would go on for nobody.
const GIVER_ENDED: &str = "the hub was stopped, and the agent that it works for has ended";

/// A worker's first start, or one after which it goes on where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    First,
    Again,
}

/// The reason why a worker does not run.
enum NoStart {
    /// The worker cannot start.
    Failed(LaunchError),
    /// The worker was stopped.
    Stopped(String),
    /// The hub stops, or its disk is full: the worker stays in line.
    Later,
}

impl From<LaunchError> for NoStart {
    fn from(error: LaunchError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for NoStart {
    fn from(_: StoreError) -> Self {
        Self::Later
    }
}

impl Hub {
    /// Starts a worker that has a place.
    pub(super) async fn launch(self: Arc<Self>, worker: Instance, run: Run) {
        let Some(staff) = self.staff.get() else { return };
        let id = worker.id;
        let (began, mut told) = (Instant::now(), None);
        let started = loop {
            let stopping = || self.stopping.is_cancelled();
            match (self.try_launch(staff, worker.clone(), run).await, run) {
                (Err(NoStart::Failed(_)), _) if stopping() => break Err(NoStart::Later),
                // After a start of the machine something may not be there yet.
                (Err(NoStart::Failed(error)), Run::Again)
                    if began.elapsed() < staff.config.resuming && !staff.is_stopped(id) =>
                {
                    if told.as_deref() != Some(&*error.why) {
                        tracing::warn!(%id, why = error.why, "a worker cannot go on yet; it is tried again");
                        told = Some(error.why);
                    }
                    tokio::time::sleep(RETRY).await;
                }
                // It is not in line, where it would be tried again.
                (Err(NoStart::Later), Run::Again) if !stopping() && !staff.is_stopped(id) => {
                    tokio::time::sleep(RETRY).await;
                }
                (started, _) => break started,
            }
        };
        let mut kept_branch = None;
        if matches!(started, Err(NoStart::Failed(_) | NoStart::Stopped(_))) {
            kept_branch = staff.launcher.discard(&worker).await;
        }
        let stopped = staff.starting.lock().remove(&id).flatten();
        match (started, stopped) {
            (Ok(()), None) => {}
            // The worker was stopped at the last moment.
            (Ok(()), Some(why)) => {
                staff.launcher.stop(id, &why);
            }
            (Err(NoStart::Failed(error)), None) => {
                let hint = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                let why = format!("it could not be started: {}{hint}", error.why);
                self.conclude(id, Outcome { why, kept_branch, ..Outcome::default() }).await;
            }
            (Err(NoStart::Stopped(why)), _)
            | (Err(NoStart::Failed(_) | NoStart::Later), Some(why)) => {
                let end = Ended::Stopped;
                self.conclude(id, Outcome { end, why, kept_branch, ..Outcome::default() }).await;
            }
            (Err(NoStart::Later), None) => {}
        }
    }

    async fn try_launch(
        self: &Arc<Self>,
        staff: &Staff,
        worker: Instance,
        run: Run,
    ) -> Result<(), NoStart> {
        let launcher = &staff.launcher;
        let Some(job) = self.job_of(&worker).await? else {
            let gone = format!("the profile {} has been removed", worker.agent);
            return Err(LaunchError::new(gone, None).into());
        };
        let known = worker.work.as_deref().cloned().unwrap_or_default();
        let place = launcher.prepare(&worker, &job).await?;
        let taken = match run {
            Run::First => self.take_task(&worker).await?,
            // The launcher has kept its task.
            Run::Again => None,
        };
        let (task, handed) = taken.unzip();
        let (token, hash) = new_token();
        let Workplace { directory, branch } = place.clone();
        let directory = Some(directory.to_string_lossy().into_owned());
        let work = Work { directory, branch, ..known };
        // The token must be valid before the worker uses it.
        let worker = match self.engine.begin_work(worker.id, hash, work).await {
            Ok(worker) => worker,
            Err(error @ (RegistryError::Ended(_) | RegistryError::NotFound { .. })) => {
                return Err(NoStart::Stopped(error.to_string()));
            }
            Err(_) => return Err(NoStart::Later),
        };
        if let Some(Some(why)) = staff.starting.lock().get(&worker.id) {
            return Err(NoStart::Stopped(why.clone()));
        }
        let parent = self.giver(&worker);
        let who = worker.id;
        launcher.start(self, Start { worker, parent, job, place, task, token }).await?;
        if let Some(handed) = handed {
            handed.written();
        }
        self.feed_if_it_hears(staff, who);
        Ok(())
    }

    /// Gives a worker that is being started a new token: a hub that starts anew does not
    /// know the one before. `None`: it has ended, or the hub stops.
    pub async fn renew_token(&self, who: InstanceId) -> Option<Token> {
        let worker = self.engine.ledger(|l| l.instance(who))?.instance;
        let work = worker.work.as_deref()?.clone();
        let (token, hash) = new_token();
        self.engine.begin_work(who, hash, work).await.ok().map(|_| token)
    }

    fn giver(&self, worker: &Instance) -> String {
        let parent = worker.parent.and_then(|id| self.engine.ledger(|l| l.instance(id)));
        parent.map_or_else(|| "human".to_owned(), |view| view.instance.address.to_string())
    }

    /// Leases the task for its worker; `None` if the worker waits for its first mail. The
    /// worker's end decides about the proof.
    async fn take_task(
        self: &Arc<Self>,
        worker: &Instance,
    ) -> Result<Option<(Task, Handed)>, NoStart> {
        let cancelled = || NoStart::Stopped("its task was taken back".to_owned());
        let first = self.engine.ledger(|l| l.taken_on(worker.id)).first().map(|a| a.task);
        let task: Seq = match first {
            Some(task) => task,
            None if worker.work.as_deref().is_some_and(|work| work.record().is_some()) => {
                return Ok(None);
            }
            None => return Err(cancelled()),
        };
        let me = Principal::Instance(worker.id);
        let filter = Filter { among: [task].into(), own: true, ..Filter::default() };
        let ask = Ask { door: Door::Driver, filter, ..Ask::now(me) };
        let open = self.open(me, &Call::through(Door::Driver));
        let batch = self.receive_on(open, ask).await?;
        let text = batch.mail.into_iter().next().map(|entry| entry.leased.message.body.to_string());
        let text = text.ok_or_else(cancelled)?;
        Ok(Some((Task { id: task, text }, batch.handed)))
    }

    /// Notes the end of a worker: result, status and report in one transaction. Terminal
    /// states of workers are entered here and nowhere else.
    pub async fn conclude(self: &Arc<Self>, id: InstanceId, outcome: Outcome) {
        let proves = match (outcome.end, outcome.unheard) {
            (Ended::Finished, false) => Proves::All,
            (Ended::Finished, true) => Proves::Task,
            (Ended::Failed | Ended::Stopped, _) => Proves::Nothing,
        };
        let Some(view) = self.engine.ledger(|l| l.instance(id)) else { return };
        let ending = last_words(&view.instance, outcome, self.limits.body_bytes);
        loop {
            match self.end_so(id, ending.clone(), proves).await {
                Ok(_) | Err(RegistryError::Ended(_) | RegistryError::NotFound { .. }) => break,
                // The worker has ended whether or not the disk takes it: try again.
                Err(error) if !self.tasks.is_closed() => {
                    tracing::warn!(%id, %error, "the end of a worker was not kept; it is tried again");
                    tokio::time::sleep(RETRY).await;
                }
                Err(_) => break,
            }
        }
        self.stop_the_rest(id);
        if let Some(staff) = self.staff.get() {
            staff.line_moves();
        }
    }

    /// After a hub start: finds running workers again, or reports their ends.
    pub(super) async fn find_workers(self: &Arc<Self>) {
        let Some(staff) = self.staff.get() else { return };
        let (mut resumable, mut ended) = (Vec::new(), HashSet::new());
        for worker in self.engine.ledger(|l| l.at_work()) {
            if worker.status == Status::Starting {
                continue;
            }
            // The backlog may still be loading behind the doors: the loop does not wait
            // for it.
            let hub = Arc::clone(self);
            match staff.launcher.find(self, &worker).await {
                Found::Running => {
                    self.tasks.spawn(hub.goes_on_with(worker));
                }
                Found::Ended(outcome) => {
                    if outcome.end != Ended::Finished {
                        ended.insert(worker.id);
                    }
                    self.tasks.spawn(async move { hub.conclude(worker.id, outcome).await });
                }
                Found::NeverRan => {
                    staff.starting.lock().insert(worker.id, None);
                    self.tasks.spawn(hub.launch(worker, Run::First));
                }
                Found::Resumable => resumable.push(worker),
            }
        }
        self.resume(staff, resumable, ended);
        staff.all_found.cancel();
    }

    /// Starts workers again, but ends those whose giver is among the `ended` or was ended
    /// with an earlier hub, and those for whom such a one is the giver. A worker outlives a
    /// giver that ended by itself.
    fn resume(
        self: &Arc<Self>,
        staff: &Staff,
        mut workers: Vec<Instance>,
        mut ended: HashSet<InstanceId>,
    ) {
        let is_gone = |giver: InstanceId, ended: &HashSet<InstanceId>| {
            let view = self.engine.ledger(|l| l.instance(giver));
            ended.contains(&giver) || view.is_some_and(|view| was_ended_with_hub(&view.instance))
        };
        let mut go_on = true;
        while go_on {
            let of_nobody = |w: &mut Instance| w.parent.is_some_and(|giver| is_gone(giver, &ended));
            let orphans: Vec<Instance> = workers.extract_if(.., of_nobody).collect();
            go_on = !orphans.is_empty();
            ended.extend(orphans.iter().map(|worker| worker.id));
            for worker in orphans {
                self.tasks.spawn(Arc::clone(self).end_orphan(worker));
            }
        }
        for worker in workers {
            staff.starting.lock().insert(worker.id, None);
            self.tasks.spawn(Arc::clone(self).launch(worker, Run::Again));
        }
    }

    async fn end_orphan(self: Arc<Self>, worker: Instance) {
        let Some(staff) = self.staff.get() else { return };
        let kept_branch = staff.launcher.discard(&worker).await;
        let (end, why) = (Ended::Stopped, GIVER_ENDED.to_owned());
        self.conclude(worker.id, Outcome { end, why, kept_branch, ..Outcome::default() }).await;
    }

    /// Leases the task again for a worker that was found again.
    async fn goes_on_with(self: Arc<Self>, worker: Instance) {
        if let Ok(Some((_, handed))) = self.take_task(&worker).await {
            handed.written();
        }
        if let Some(staff) = self.staff.get() {
            self.feed_if_it_hears(staff, worker.id);
        }
    }

    /// Stops the workers or leaves them, as configured, when the hub stops; every end is
    /// told.
    pub async fn dismiss(&self) {
        if let Some(staff) = self.staff.get() {
            staff.launcher.close().await;
        }
    }
}

fn was_ended_with_hub(worker: &Instance) -> bool {
    let why = worker.work.as_deref().and_then(|work| work.why.as_deref());
    matches!(why, Some(HUB_STOPPED | GIVER_ENDED))
}

/// Makes a token, and the hash by which the hub knows it.
fn new_token() -> (Token, TokenHash) {
    let random: [u8; 32] = rand::random();
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = Sha256::digest(&token).into();
    (Token(token), hash)
}

/// Makes the ending of a worker from the result of its run.
fn last_words(worker: &Instance, outcome: Outcome, most: usize) -> Ending {
    let Outcome { end, code, answer, why, tail, kept_branch, .. } = outcome;
    let left = kept_branch.map(|name| format!("\n[its work is on the branch {name}]"));
    let left = left.unwrap_or_default();
    let answer = (end == Ended::Finished).then(|| {
        let text = answer.filter(|text| !text.is_empty());
        let text = text.unwrap_or_else(|| super::SAID_NOTHING.to_owned());
        clip(text, most.saturating_sub(left.len())) + &left
    });
    let verb = match end {
        Ended::Finished => "finished",
        Ended::Failed => "failed",
        Ended::Stopped => "was stopped",
    };
    let mut obituary = format!("{} {verb}: {why}{left}", worker.address);
    if !tail.is_empty() {
        obituary.push_str("\nThe end of its output:\n");
        obituary.push_str(&tail);
    }
    let obituary = clip(obituary, most);
    let by_operator = end == Ended::Stopped && why == STOPPED_BY_OPERATOR;
    let (status, acked, why) = (end.into(), Vec::new(), Some(why));
    Ending { status, acked, answer, why, code, obituary, by_operator }
}

/// Cuts a text to at most so many bytes, at a character, with a note of what is missing.
pub(super) fn clip(mut text: String, most: usize) -> String {
    if text.len() > most {
        let note = |left: usize| format!("\n[posthaste] clipped: {left} more bytes");
        let end = text.floor_char_boundary(most.saturating_sub(note(text.len()).len()));
        let note = note(text.len() - end);
        text.truncate(end);
        text.push_str(&note);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_cut_says_how_much_is_missing() {
        assert_eq!(clip("short".to_owned(), 5), "short");
        let cut = clip("ä".repeat(100), 100);
        assert!(cut.len() <= 100, "{cut}");
        let (kept, note) = cut.split_once('\n').expect("a note");
        assert_eq!(note, format!("[posthaste] clipped: {} more bytes", 200 - kept.len()));
    }
}
