//! The one façade of the rules. Doors translate requests and call it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::address::{InstanceId, Name};
use crate::chat::Chats;
use crate::engine::Engine;
use crate::events::{About, Belongs, Event, EventFilter, EventPage};
use crate::figures::Figures;
use crate::history::Reminders;
use crate::limits::Limits;
use crate::messaging::desk::Desk;
use crate::messaging::message::{Principal, Seq};
use crate::messaging::proof::Proofs;
use crate::messaging::refused_answers::RefusedAnswers;
use crate::orchestration::Staff;
use crate::ports::{Clock, Queue, StoreError};
use crate::presence::Staying;
use crate::profiles::FileFault;
use crate::registry::{
    Instance, InstanceFilter, InstanceView, JoinKey, Joined, NewInstance, RegistryError, Team,
    TokenHash,
};
use crate::road::Road;
use crate::time::Timestamp;
use crate::vitals::Vitals;

/// Time before a failed sweep is tried again.
const RETRY: std::time::Duration = std::time::Duration::from_secs(1);

pub struct Hub {
    pub(crate) engine: Arc<Engine>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) desk: Arc<Mutex<Desk>>,
    pub(crate) stopping: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// Wakes the upkeep when a proof or an expiry may be due sooner than it knows.
    pub(crate) soon: Arc<Notify>,
    pub(crate) profile_faults: Arc<Mutex<Vec<FileFault>>>,
    /// For the trails of the messages that they would have answered.
    pub(crate) refused_answers: Arc<Mutex<RefusedAnswers>>,
    pub(crate) reminders: Mutex<Reminders>,
    /// Number of calls that wait for mail.
    pub(crate) waiting: AtomicUsize,
    /// Callers that wait for an answer of the operator.
    asking: Counts,
    /// The tools that the doors offer to assistants.
    pub(crate) own_tools: tokio::sync::watch::Sender<Option<Arc<dyn crate::ports::OwnTools>>>,
    /// Changes whenever an instance has ended.
    pub(crate) endings: watch::Sender<()>,
    /// The follower of messages on their road, if there is one.
    pub(crate) road: OnceLock<Arc<dyn Road>>,
    /// The launcher of workers and its state, if there is one.
    pub(crate) staff: OnceLock<Staff>,
    /// The state of the operator's conversations that no message keeps.
    pub(crate) chats: Chats,
    vitals: Vitals,
}

/// The reason why a hub cannot accept or lease mail just now.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotReady {
    #[error("the hub is still reading what is open after its start")]
    Reading,
    #[error("the disk cannot be written: {0}")]
    Disk(#[source] StoreError),
    #[error(transparent)]
    Damaged(StoreError),
    #[error(transparent)]
    Misplaced(StoreError),
    #[error("the hub is stopping")]
    Stopping,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

impl Hub {
    /// Starts the hub and its upkeep.
    pub fn start(engine: Arc<Engine>) -> Arc<Self> {
        let limits = engine.limits().clone();
        let proofs = Proofs::new(&limits, engine.epoch());
        let hub = Arc::new(Self {
            desk: Arc::new(Mutex::new(Desk::new(proofs))),
            queue: Arc::clone(engine.queue()),
            clock: Arc::clone(engine.clock()),
            engine,
            limits,
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            soon: Arc::new(Notify::new()),
            profile_faults: Arc::default(),
            refused_answers: Arc::default(),
            reminders: Mutex::default(),
            waiting: AtomicUsize::new(0),
            asking: Counts::default(),
            own_tools: tokio::sync::watch::Sender::new(None),
            endings: watch::Sender::default(),
            road: OnceLock::new(),
            staff: OnceLock::new(),
            chats: Chats::default(),
            vitals: Vitals::default(),
        });
        hub.tasks.spawn(Arc::clone(&hub).upkeep());
        hub
    }

    /// Ends every wait with an answer, finishes the work under way, and notes that the
    /// shutdown was clean.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.stop_waiting();
        self.tasks.close();
        self.tasks.wait().await;
        self.queue.close();
        self.engine.close().await
    }

    /// Completes when the hub cannot go on without a new start, with the reason. The
    /// caller should then end the process.
    pub async fn failed(&self) -> Arc<str> {
        tokio::select! {
            why = self.engine.failed() => why,
            why = self.vitals.failed() => why,
        }
    }

    /// Does the first half of [`close`](Self::close): waits end, calls are still
    /// answered.
    pub fn stop_waiting(&self) {
        self.stopping.cancel();
    }

    /// Completes when the hub begins to stop.
    pub async fn stopped(&self) {
        self.stopping.cancelled().await;
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn is_durable(&self) -> bool {
        self.engine.is_durable()
    }

    pub fn is_healthy(&self) -> bool {
        self.engine.is_healthy()
    }

    /// Checks whether the hub can accept and lease mail at this moment.
    pub async fn ready(&self) -> Result<(), NotReady> {
        if self.stopping.is_cancelled() {
            return Err(NotReady::Stopping);
        }
        if !self.engine.is_ready() {
            return Err(NotReady::Reading);
        }
        // The last write failed. No caller may write again before this succeeds, so it
        // tries a write itself.
        if !self.engine.is_healthy() {
            self.engine.probe().await.map_err(|error| match error {
                StoreError::Damaged { .. } => NotReady::Damaged(error),
                StoreError::Misplaced { .. } => NotReady::Misplaced(error),
                error => NotReady::Disk(error),
            })?;
        }
        Ok(())
    }

    /// Returns the counts of the store, and its condition.
    pub async fn figures(&self) -> Result<Figures, StoreError> {
        self.engine.figures().await
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sets the follower of every message. Only the first call has an effect.
    pub fn follow(&self, road: Arc<dyn Road>) {
        let _ = self.road.set(road);
    }

    /// Returns whether messages are followed on their road.
    pub fn is_followed(&self) -> bool {
        self.road.get().is_some()
    }

    /// Counts the calls that wait for mail.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    // Instances.

    /// Returns the owner of a token. Doors ask before all else, for any call is a sign of
    /// life.
    pub fn caller(&self, token: &TokenHash) -> Option<Principal> {
        self.engine.caller(token)
    }

    pub async fn join(&self, new: NewInstance) -> Result<Joined, RegistryError> {
        let long = |text: Option<&String>, limit| {
            text.is_some_and(|t| t.is_empty() || t.chars().count() > limit)
        };
        for (field, text, limit) in [
            ("key", new.key.as_ref().map(|key| &key.key), self.limits.key_chars),
            ("label", new.label.as_ref(), self.limits.label_chars),
        ] {
            if long(text, limit) {
                let why = format!("it has 1 to {limit} characters");
                return Err(RegistryError::Invalid { field, why });
            }
        }
        self.engine.join(new).await
    }

    pub fn instance(&self, id: InstanceId) -> Option<InstanceView> {
        self.engine.ledger(|l| l.instance(id))
    }

    /// Returns whether the instance is known and has not ended.
    pub fn lives(&self, id: InstanceId) -> bool {
        self.engine.ledger(|l| l.instance(id)).is_some_and(|view| !view.instance.status.has_ended())
    }

    /// Returns the instance that joined with this key and secret and has not ended.
    pub fn keyed(&self, agent: &Name, team: &Name, key: &JoinKey) -> Option<InstanceId> {
        self.engine.ledger(|l| l.keyed(agent, team, key))
    }

    /// Returns whether `to` had not read an earlier message of `from` when `to` sent the
    /// message `sent`.
    pub fn crossed(&self, from: Principal, to: InstanceId, sent: Seq) -> bool {
        self.engine.ledger(|l| l.unseen(from, to, sent))
    }

    /// Counts a call of an instance that is known without a token of its own.
    pub fn seen(&self, who: Principal) {
        self.engine.seen(who);
    }

    /// Counts a lasting connection of the caller as long as the result is kept.
    pub fn stays(&self, who: Principal) -> Staying {
        Staying::new(&self.engine, who)
    }

    /// Counts the caller as waiting for an answer of the operator as long as the result
    /// is kept.
    pub fn asks(&self, who: Principal) -> Counted {
        self.asking.count(who)
    }

    pub fn is_asking(&self, who: Principal) -> bool {
        self.asking.0.lock().contains_key(&who)
    }

    /// Returns whether a call of this instance waits for mail. Its driver's does not
    /// count.
    pub fn is_waiting(&self, id: InstanceId) -> bool {
        self.queue.waiting(&crate::address::Mailbox::Instance(id), Principal::Operator) > 0
    }

    pub fn instances(&self, filter: &InstanceFilter) -> Vec<InstanceView> {
        self.engine.ledger(|l| l.instances(filter))
    }

    pub async fn put_team(&self, team: Team) -> Result<(), RegistryError> {
        let most = self.limits.team_leaders;
        if team.leaders.len() > most {
            let why = format!("at most {most} (limits.team_leaders)");
            return Err(RegistryError::Invalid { field: "leaders", why });
        }
        self.engine.put_team(team).await
    }

    pub fn team(&self, name: &Name) -> Option<(Team, Vec<Instance>)> {
        self.engine.ledger(|l| l.team(name))
    }

    pub fn teams(&self) -> Vec<Name> {
        self.engine.ledger(|l| l.team_names())
    }

    /// Returns the events after `after` that the caller may know of.
    pub async fn events(
        &self,
        by: Principal,
        after: u64,
        filter: &EventFilter,
    ) -> Result<EventPage, StoreError> {
        let mut page = self.engine.events(after, self.limits.event_page).await?;
        let of = |id| {
            let team = self.engine.ledger(|l| l.instance(id))?.instance.team;
            Some(Belongs { team, session: self.engine.ledger(|l| l.session(id)) })
        };
        page.events.retain(|event| filter.fits(event, &of) && self.may_know(by, event));
        Ok(page)
    }

    /// Returns the number before the last `count` events that fit and that the caller may
    /// know of; if fewer are kept, the number before the oldest event.
    pub async fn before_last_events(
        &self,
        by: Principal,
        count: usize,
        filter: &EventFilter,
    ) -> Result<u64, StoreError> {
        let last = *self.last_event().borrow();
        if count == 0 {
            return Ok(last);
        }
        let mut reach = count as u64;
        loop {
            let from = last.saturating_sub(reach);
            let (mut fitting, mut after, mut oldest) = (Vec::new(), from, 0);
            while after < last {
                let page = self.events(by, after, filter).await?;
                fitting.extend(page.events.iter().map(|event| event.no).filter(|no| *no <= last));
                oldest = page.oldest;
                if page.upto <= after {
                    break;
                }
                after = page.upto;
            }
            if let Some(at) = fitting.len().checked_sub(count) {
                return Ok(fitting[at] - 1);
            }
            if from < oldest || from == 0 {
                return Ok(oldest.saturating_sub(1));
            }
            // Few events fit: look further back, and further each time.
            reach = reach.saturating_mul(4);
        }
    }

    /// Returns a receiver for the number of the last event.
    pub fn last_event(&self) -> watch::Receiver<u64> {
        self.engine.last_event()
    }

    /// Returns whether the caller may know of an event: an agent, of the mail that it may
    /// read and of itself.
    fn may_know(&self, by: Principal, event: &Event) -> bool {
        let Principal::Instance(id) = by else { return true };
        match &event.about {
            About::Message(record, _) => self.may_read(by, record),
            About::Instance(instance) => instance.id == id,
            // The names of profiles are no secret.
            About::Profile(_) => true,
            About::Pruned(_) | About::Forgotten(_) | About::Team(_) | About::Need(..) => false,
        }
    }

    /// Does the upkeep: sweeps now and then, and acts when a proof or an expiry is due.
    async fn upkeep(self: Arc<Self>) {
        let _vital = self.vitals.guard("the hub's upkeep", self.stopping.clone());
        let mut next_sweep = Instant::now() + self.limits.sweep;
        let mut not_before = Instant::now();
        loop {
            let due = self.desk.lock().next_due();
            let expiry = self.engine.ledger(|l| l.next_expiry()).map(|at| {
                // At its expiry a message is no longer alive: wake one tick later.
                let left = at.since(self.clock.now()) + std::time::Duration::from_millis(1);
                Instant::now() + left
            });
            let expiry = expiry.map(|at| at.max(not_before));
            let until = [due, expiry].into_iter().flatten().fold(next_sweep, Instant::min);
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.soon.notified() => {}
                () = sleep_until(until) => {}
            }
            self.at_desk(|desk, books| desk.pass(books, Instant::now()));
            let expired = Instant::now() >= not_before
                && self.engine.ledger(|l| l.next_expiry()).is_some_and(|at| at <= self.clock.now());
            if Instant::now() >= next_sweep || expired {
                if let Err(error) = self.engine.sweep().await {
                    tracing::warn!(%error, "the sweep failed; it is tried again");
                    not_before = Instant::now() + RETRY;
                }
                let before = self.clock.now() - self.limits.forget_after;
                if let Err(error) = self.forget_gone(before).await {
                    tracing::warn!(%error, "nobody was forgotten; it is tried again");
                }
                if let Err(error) = self.expire_permissions().await {
                    tracing::warn!(%error, "no request was denied; it is tried again");
                }
                next_sweep = Instant::now() + self.limits.sweep;
            }
        }
    }
}

/// Numbers of the actions that each caller has under way.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<crate::Map<Principal, usize>>>);

impl Counts {
    fn count(&self, who: Principal) -> Counted {
        *self.0.lock().entry(who).or_default() += 1;
        Counted { among: self.clone(), who }
    }
}

/// One counted action, until it is dropped.
pub struct Counted {
    among: Counts,
    who: Principal,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counted({})", self.who)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut among = self.among.0.lock();
        if let Some(count) = among.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                among.remove(&self.who);
            }
        }
    }
}
