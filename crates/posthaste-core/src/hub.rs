//! The one façade of the rules. Doors translate words and call it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::address::{InstanceId, Name};
use crate::engine::Engine;
use crate::events::{About, Belongs, Event, EventFilter, Page};
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

/// How long a failed sweep waits before it is tried again.
const RETRY: std::time::Duration = std::time::Duration::from_secs(1);

pub struct Hub {
    pub(crate) engine: Arc<Engine>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) desk: Arc<Mutex<Desk>>,
    pub(crate) stopping: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// A proof or an expiry may be due sooner than the upkeep knows.
    pub(crate) soon: Arc<Notify>,
    pub(crate) profile_faults: Arc<Mutex<Vec<FileFault>>>,
    /// For the trails of what they would have answered.
    pub(crate) refused_answers: Arc<Mutex<RefusedAnswers>>,
    pub(crate) reminders: Mutex<Reminders>,
    /// Calls that wait for mail.
    pub(crate) waiting: AtomicUsize,
    /// Who waits for an answer of the operator.
    asking: Counts,
    /// Changes whenever an instance has ended.
    pub(crate) endings: watch::Sender<()>,
    /// Who follows messages on their road, if anybody does.
    pub(crate) road: OnceLock<Arc<dyn Road>>,
    /// Who starts workers, if anybody does.
    pub(crate) staff: OnceLock<Staff>,
    vitals: Vitals,
}

/// Why a hub cannot take or hand out mail just now.
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
    /// Starts the upkeep and opens for business.
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
            endings: watch::Sender::default(),
            road: OnceLock::new(),
            staff: OnceLock::new(),
            vitals: Vitals::default(),
        });
        hub.tasks.spawn(Arc::clone(&hub).upkeep());
        hub
    }

    /// Ends every wait politely, finishes what is under way, and notes that the
    /// stop was clean.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.stop_waiting();
        self.tasks.close();
        self.tasks.wait().await;
        self.queue.close();
        self.engine.close().await
    }

    /// Completes when the hub cannot go on without a new start, and tells why. Whoever
    /// runs it should then end the process.
    pub async fn failed(&self) -> Arc<str> {
        tokio::select! {
            why = self.engine.failed() => why,
            why = self.vitals.failed() => why,
        }
    }

    /// The first half of [`close`](Self::close): waits end, calls are still answered.
    pub fn stop_waiting(&self) {
        self.stopping.cancel();
    }

    /// Returns when the hub begins to stop.
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

    /// Whether the hub can take and hand out mail at this moment.
    pub async fn ready(&self) -> Result<(), NotReady> {
        if self.stopping.is_cancelled() {
            return Err(NotReady::Stopping);
        }
        if !self.engine.is_ready() {
            return Err(NotReady::Reading);
        }
        // The last write failed. Nobody may write again before this says yes, so it
        // tries by itself.
        if !self.engine.is_healthy() {
            self.engine.probe().await.map_err(|error| match error {
                StoreError::Damaged { .. } => NotReady::Damaged(error),
                StoreError::Misplaced { .. } => NotReady::Misplaced(error),
                error => NotReady::Disk(error),
            })?;
        }
        Ok(())
    }

    /// What the store counted, and how it stands.
    pub async fn figures(&self) -> Result<Figures, StoreError> {
        self.engine.figures().await
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// From now on somebody follows every message. The first who asks is heard.
    pub fn follow(&self, road: Arc<dyn Road>) {
        let _ = self.road.set(road);
    }

    /// Whether anybody follows messages on their road.
    pub fn is_followed(&self) -> bool {
        self.road.get().is_some()
    }

    /// How many calls wait for mail.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    // Who is here.

    /// Whose token this is. Doors ask before all else, for any call is a sign of life.
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

    /// Whether it is here and has not ended.
    pub fn lives(&self, id: InstanceId) -> bool {
        self.engine.ledger(|l| l.instance(id)).is_some_and(|view| !view.instance.status.has_ended())
    }

    /// Who joined with this key and secret and has not ended.
    pub fn keyed(&self, agent: &Name, team: &Name, key: &JoinKey) -> Option<InstanceId> {
        self.engine.ledger(|l| l.keyed(agent, team, key))
    }

    /// Whether `from` wrote something to `to` that it had not read when it sent
    /// this.
    pub fn crossed(&self, from: Principal, to: InstanceId, sent: Seq) -> bool {
        self.engine.ledger(|l| l.unseen(from, to, sent))
    }

    /// A call of one who is known without a token of its own.
    pub fn seen(&self, who: Principal) {
        self.engine.seen(who);
    }

    /// The caller has a lasting connection as long as this is kept, and is alive.
    pub fn stays(&self, who: Principal) -> Staying {
        Staying::new(&self.engine, who)
    }

    /// The caller waits for an answer of the operator as long as this is kept.
    pub fn asks(&self, who: Principal) -> Counted {
        self.asking.count(who)
    }

    pub fn is_asking(&self, who: Principal) -> bool {
        self.asking.0.lock().contains_key(&who)
    }

    /// Whether a call of this instance waits for mail. Its driver's does not count.
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

    /// What happened after event `after`, as far as the caller may know of it.
    pub async fn events(
        &self,
        by: Principal,
        after: u64,
        filter: &EventFilter,
    ) -> Result<Page, StoreError> {
        let mut page = self.engine.events(after, self.limits.event_page).await?;
        let of = |id| {
            let team = self.engine.ledger(|l| l.instance(id))?.instance.team;
            Some(Belongs { team, session: self.engine.ledger(|l| l.session(id)) })
        };
        page.events.retain(|event| filter.fits(event, &of) && self.may_know(by, event));
        Ok(page)
    }

    /// The number after which the last `count` events come that fit and that the caller may
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
            // Few fit: look further back, and further each time.
            reach = reach.saturating_mul(4);
        }
    }

    /// The number of the last event; changes with each.
    pub fn last_event(&self) -> watch::Receiver<u64> {
        self.engine.last_event()
    }

    /// An agent hears of the mail that it may read and of itself.
    fn may_know(&self, by: Principal, event: &Event) -> bool {
        let Principal::Instance(id) = by else { return true };
        match &event.about {
            About::Message(record, _) => self.may_read(by, record),
            About::Instance(instance) => instance.id == id,
            // Who could be here is no secret.
            About::Profile(_) => true,
            About::Pruned(_) | About::Forgotten(_) | About::Team(_) => false,
        }
    }

    /// Looks again, every now and then, for what nobody rings a bell for.
    async fn upkeep(self: Arc<Self>) {
        let _vital = self.vitals.guard("the hub's upkeep", self.stopping.clone());
        let mut next_sweep = Instant::now() + self.limits.sweep;
        let mut not_before = Instant::now();
        loop {
            let due = self.desk.lock().next_due();
            let expiry = self.engine.ledger(|l| l.next_expiry()).map(|at| {
                // The expiry itself is no longer alive: one tick later.
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
                next_sweep = Instant::now() + self.limits.sweep;
            }
        }
    }
}

/// Who does something just now, and how often at a time.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<crate::Map<Principal, usize>>>);

impl Counts {
    fn count(&self, who: Principal) -> Counted {
        *self.0.lock().entry(who).or_default() += 1;
        Counted { among: self.clone(), who }
    }
}

/// One of them, until it is dropped.
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
