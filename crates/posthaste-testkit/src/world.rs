//! A whole hub in a test: the embedded store, the local queue, and agents that use them in
//! the words of a story.
//!
//! ```ignore
//! let world = World::new();
//! let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
//! alice.sends(&bob, "the build is red").await;
//! assert_eq!(bob.reads().await.texts(), ["the build is red"]);
//! ```

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::{
    Details, Draft, MessageRef, Principal, Receipt, Seq, Via,
};
use posthaste_core::messaging::proof::Door;
use posthaste_core::messaging::receive::{
    Already, Ask, Batch, BatchStatus, Entry, Missing, WaitFor,
};
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{Filter, Record, RecordState};
use posthaste_core::registry::{NewInstance, Origin, Status};
use posthaste_core::time::Timestamp;
use posthaste_core::{Engine, Hub, Limits};
use posthaste_queue::LocalQueue;
use posthaste_store::{Place, StoreConfig};
use tokio::task::JoinHandle;

use crate::clock::TestClock;

/// One hub, to which agents join.
pub struct World {
    pub hub: Arc<Hub>,
    pub engine: Arc<Engine>,
    pub clock: Arc<TestClock>,
}

impl World {
    /// Opens a hub in memory, with the default limits.
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        Self::open(&Place::Memory, limits)
    }

    /// Opens a hub on disk, where a restart finds its data again.
    pub fn at(folder: &Path) -> Self {
        Self::open(&Place::File(folder.to_owned()), Limits::default())
    }

    pub fn open(place: &Place, limits: Limits) -> Self {
        // A small log, because no test measures speed.
        let config = StoreConfig { wal_bytes: 1 << 16, ..StoreConfig::default() };
        let (queue, clock) = (Arc::new(LocalQueue::new()), Arc::new(TestClock::new()));
        let engine = posthaste_store::open(place, config, limits, queue, clock.clone());
        let engine = engine.now_or_never().expect("it loads at once").expect("a store");
        let hub = Hub::start(Arc::clone(&engine));
        Self { hub, engine, clock }
    }

    pub async fn agent(&self, name: &str) -> Agent {
        self.joins(new_instance(name)).await
    }

    pub async fn agent_in(&self, name: &str, team: &str) -> Agent {
        let team = Some(team.parse().expect("a good team"));
        self.joins(NewInstance { team, ..new_instance(name) }).await
    }

    pub async fn joins(&self, new: NewInstance) -> Agent {
        let joined = self.hub.join(new).await.expect("joined");
        let who = Principal::Instance(joined.instance.id);
        Agent { hub: Arc::clone(&self.hub), who, address: joined.instance.address.to_string() }
    }

    /// Returns an agent that joined before a restart.
    pub fn knows(&self, who: Principal) -> Agent {
        let instance = who.instance().and_then(|id| self.hub.instance(id)).expect("known");
        let address = instance.instance.address.to_string();
        Agent { hub: Arc::clone(&self.hub), who, address }
    }

    pub fn operator(&self) -> Agent {
        let hub = Arc::clone(&self.hub);
        Agent { hub, who: Principal::Operator, address: "human".into() }
    }

    pub async fn record(&self, seq: Seq) -> Option<Record> {
        let found = self.hub.message(Principal::Operator, MessageRef::Seq(seq)).await;
        found.expect("a look")
    }

    /// Returns the state of the only delivery of a message.
    pub async fn state(&self, seq: Seq) -> RecordState {
        let record = self.record(seq).await.expect("a message that is kept");
        assert_eq!(record.deliveries.len(), 1, "one delivery: {record:?}");
        record.deliveries[0].state
    }

    /// Waits until all writes that other calls left running are done.
    pub async fn settles(&self) {
        // The writer does this sweep after them, as it keeps the order of commands.
        let nobody = Timestamp(0);
        self.engine.forget_gone(nobody).await.expect("nobody is that old");
    }

    pub fn status(&self, agent: &Agent) -> Status {
        self.hub.instance(agent.id()).expect("known").instance.status
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a request to join with nothing but a name.
pub fn new_instance(name: &str) -> NewInstance {
    NewInstance {
        agent: name.parse().expect("a good name"),
        team: None,
        label: None,
        parent: None,
        kind: None,
        key: None,
        origin: Origin::Operator,
        token: rand::random(),
    }
}

/// An agent, or the operator.
#[derive(Clone)]
pub struct Agent {
    hub: Arc<Hub>,
    pub who: Principal,
    /// The address to which others write.
    pub address: String,
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl Agent {
    pub fn id(&self) -> InstanceId {
        self.who.instance().expect("an agent, not the operator")
    }

    /// Sends a message, which must be accepted.
    pub async fn sends(&self, to: &(impl fmt::Display + ?Sized), body: &str) -> Receipt {
        self.sends_with(to, body, Details::default()).await
    }

    pub async fn sends_with(
        &self,
        to: &(impl fmt::Display + ?Sized),
        body: &str,
        details: Details,
    ) -> Receipt {
        self.tries(to, body, details).await.expect("accepted")
    }

    pub async fn tries(
        &self,
        to: &(impl fmt::Display + ?Sized),
        body: &str,
        details: Details,
    ) -> Result<Receipt, SendError> {
        self.hub.send(self.draft(to, body, details)).await
    }

    pub fn draft(&self, to: &(impl fmt::Display + ?Sized), body: &str, details: Details) -> Draft {
        let to = to.to_string().parse().expect("a good address");
        let draft = Draft::new(self.who, to, body.into(), details, Via::Rest, self.hub.limits());
        draft.expect("within the limits")
    }

    /// Reads the queued messages, without proof.
    pub async fn reads(&self) -> Answer {
        self.asks(self.ask()).await
    }

    /// Reads, and acks by the receipt, so that no message comes again.
    pub async fn takes(&self) -> Answer {
        let answer = self.reads().await;
        self.acks(&answer).await;
        answer
    }

    pub async fn acks(&self, answer: &Answer) {
        self.hub.ack_receipt(self.who, answer.receipt).await.expect("acked");
    }

    /// Reads, and the answer is written.
    pub async fn asks(&self, ask: Ask) -> Answer {
        self.receives(ask).await.written()
    }

    /// Reads; the caller decides whether the answer is written.
    pub async fn receives(&self, ask: Ask) -> Unwritten {
        Unwritten(self.hub.receive(ask).await.expect("an answer"))
    }

    /// Reads in a task of its own, which waits by the time this returns.
    pub async fn waits(&self, ask: Ask) -> JoinHandle<Answer> {
        let me = self.clone();
        let task = tokio::spawn(async move { me.asks(ask).await });
        // A reader needs only a few polls to listen and look.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        task
    }

    /// Returns a read that does not wait.
    pub fn ask(&self) -> Ask {
        Ask::now(self.who)
    }

    /// Returns a read that waits for the first message, without a batch window.
    pub fn ask_within(&self, timeout: Duration) -> Ask {
        Ask { timeout, ..self.ask() }
    }

    /// Returns a gather, as the doors ask for one: from these senders, or from any.
    pub fn gather(&self, timeout: Duration, wait_for: WaitFor, from: &[&str]) -> Ask {
        let from = from.iter().map(|who| (*who).to_owned()).collect();
        let filter = Filter { from, or_ends_wait: true, ..Filter::default() };
        Ask { wait_for, filter, ..self.ask_within(timeout) }
    }

    /// Returns a read over MCP, whose client acks the last answer by its next call.
    pub fn mcp(&self, call: &str) -> Ask {
        Ask { door: Door::Mcp, call: Some(call.into()), ..self.ask() }
    }
}

/// An answer that has not been written yet. If it is dropped, it never is.
pub struct Unwritten(pub Batch);

impl Unwritten {
    pub fn written(self) -> Answer {
        let Batch { mail, status, waited, missing, already, remaining, settled, receipt, handed } =
            self.0;
        handed.written();
        Answer { mail, status, waited, missing, already, remaining, settled, receipt }
    }
}

/// An answer that the client has.
#[derive(Debug)]
pub struct Answer {
    pub mail: Vec<Entry>,
    pub status: BatchStatus,
    pub waited: Duration,
    pub missing: Vec<Missing>,
    pub already: Vec<Already>,
    pub remaining: usize,
    pub settled: Vec<Seq>,
    pub receipt: u64,
}

impl Answer {
    pub fn texts(&self) -> Vec<&str> {
        self.mail.iter().map(Entry::text).collect()
    }

    /// Returns the texts, each with whether it is marked `redelivered`.
    pub fn marked(&self) -> Vec<(&str, bool)> {
        self.mail.iter().map(|e| (e.text(), e.leased.redelivered)).collect()
    }
}
