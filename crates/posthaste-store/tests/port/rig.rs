//! An empty store, the way to open it again, and plain rows to put into it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use posthaste_core::address::{InstanceId, Mailbox, Name};
use posthaste_core::events::EventList;
use posthaste_core::ledger::{BoxNo, End, KeyDigest, Queued, Settled};
use posthaste_core::messaging::delivery::{DeliveryNo, Proof, Reason};
use posthaste_core::messaging::id_key::IdKey;
use posthaste_core::messaging::message::{
    Message, MessageRef, Principal, Sender, SenderKind, Seq, ThreadId, Via,
};
use posthaste_core::ports::change::Change;
use posthaste_core::ports::store::{
    BacklogPart, CommitError, Committed, Epoch, Group, HistoryLook, Loaded, Source, Store,
    StoredEvent, StoredRecord,
};
use posthaste_core::registry::{AgentKind, Instance, Origin, Status};
use posthaste_core::time::Timestamp;

/// When the first group is written.
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);
pub(crate) const MINUTE: i64 = 60_000;

/// What is special about one kind of store.
pub(crate) trait Backend: Send {
    /// Lets go of the store without a clean stop, and opens it again.
    fn reopen(&mut self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>>;

    /// Where its files are, if it has any.
    fn folder(&self) -> Option<PathBuf> {
        None
    }
}

/// A store as an engine would use it: it counts messages, deliveries and events.
pub(crate) struct Rig {
    backend: Box<dyn Backend>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) epoch: Epoch,
    pub(crate) id_key: IdKey,
    pub(crate) now: Timestamp,
    pub(crate) seq: u64,
    pub(crate) delivery: u64,
    pub(crate) event: u64,
}

/// What a start found, with all parts of its backlog put together.
pub(crate) struct Start {
    pub(crate) loaded: Loaded,
    pub(crate) deliveries: Vec<(BoxNo, Queued)>,
    pub(crate) keys: Vec<(KeyDigest, Seq, Timestamp)>,
}

impl Start {
    pub(crate) async fn of(store: &dyn Store) -> Self {
        let mut loaded = store.load().await.expect("it is loaded");
        let mut start =
            Self { loaded: Loaded::default(), deliveries: Vec::new(), keys: Vec::new() };
        let mut parts = std::mem::take(&mut loaded.backlog);
        let mut rest = loaded.rest.take();
        while let Some(from) = rest {
            let next = store.backlog(from).await.expect("a part of the backlog");
            assert!(next.unreadable.is_empty());
            parts.push(next.part);
            assert_ne!(next.rest, Some(from), "the backlog goes on");
            rest = next.rest;
        }
        assert!(loaded.unreadable.is_empty());
        for part in parts {
            match part {
                BacklogPart::Deliveries(list) => start.deliveries.extend(list),
                BacklogPart::Keys(list) => start.keys.extend(list),
            }
        }
        start.loaded = loaded;
        start
    }

    pub(crate) fn instance(&self, id: InstanceId) -> &Instance {
        self.loaded.instances.iter().find(|i| i.id == id).expect("it is known")
    }

    pub(crate) fn open(&self) -> Vec<DeliveryNo> {
        self.deliveries.iter().map(|(_, queued)| queued.delivery).collect()
    }

    pub(crate) fn weakly_acked(&self, by: Principal) -> Vec<Seq> {
        self.loaded.weakly_acked.get(&by).cloned().unwrap_or_default()
    }
}

impl Rig {
    pub(crate) async fn new(store: Arc<dyn Store>, backend: impl Backend + 'static) -> Self {
        let (epoch, id_key) = (Epoch(0), IdKey::default());
        let backend = Box::new(backend);
        let (now, seq, delivery, event) = (START, 0, 0, 0);
        let mut rig = Self { backend, store, epoch, id_key, now, seq, delivery, event };
        rig.start().await;
        rig
    }

    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.backend.folder()
    }

    /// Opens the store again and counts on from what it remembers.
    pub(crate) async fn reopen(&mut self) -> Start {
        self.store = self.backend.reopen(Arc::clone(&self.store)).await;
        self.start().await
    }

    async fn start(&mut self) -> Start {
        let start = Start::of(&*self.store).await;
        let Loaded { epoch, id_key, last_seq, last_delivery, last_event, .. } = start.loaded;
        (self.epoch, self.id_key) = (epoch, id_key);
        (self.seq, self.delivery, self.event) = (last_seq, last_delivery, last_event);
        start
    }

    pub(crate) fn group(&self, changes: Vec<Change>) -> Group {
        let events = EventList::of(&changes, self.event);
        Group { epoch: self.epoch, at: self.now, changes, events }
    }

    pub(crate) async fn try_commit(
        &mut self,
        changes: Vec<Change>,
    ) -> Result<Committed, CommitError> {
        let group = self.group(changes);
        let last = group.events.last();
        let committed = self.store.commit(group).await?;
        self.event = last;
        Ok(committed)
    }

    pub(crate) async fn commit(&mut self, changes: Vec<Change>) {
        let committed = self.try_commit(changes).await.expect("it is written");
        assert!(committed.doubt.is_none());
    }

    pub(crate) fn wait(&mut self, minutes: i64) {
        self.now = minutes_after(self.now, minutes);
    }

    /// Gives the numbers 0, 1, … to mailboxes.
    pub(crate) async fn open_boxes(&mut self, names: &[&str]) {
        let numbered = (0..).zip(names);
        let open = |(no, key): (BoxNo, &&str)| Change::MailboxOpened { no, mailbox: mailbox(key) };
        self.commit(numbered.map(open).collect()).await;
    }

    /// The next message, to these mailboxes. Its numbers are taken even if it is refused.
    pub(crate) fn post(&mut self, to: &[BoxNo], edit: impl FnOnce(&mut Message)) -> Change {
        self.post_with_key(to, None, edit)
    }

    pub(crate) fn post_with_key(
        &mut self,
        to: &[BoxNo],
        key: Option<KeyDigest>,
        edit: impl FnOnce(&mut Message),
    ) -> Change {
        self.seq += 1;
        let seq = Seq(self.seq);
        let (id, from) = (self.id_key.id(seq), Sender::human());
        let body = format!("text {seq}");
        let mut message = Message {
            thread: ThreadId(7),
            ..Message::new(seq, id, from, "mason", body, self.now, Via::Rest)
        };
        edit(&mut message);
        let first = self.delivery + 1;
        self.delivery += to.len() as u64;
        let copies = to.iter().copied().zip((first..).map(DeliveryNo)).collect();
        Change::MessageAdded { message: Arc::new(message), copies, key }
    }

    /// Sends so many messages to one mailbox, each in a group of its own.
    pub(crate) async fn send(&mut self, count: u64, to: BoxNo) {
        for _ in 0..count {
            let change = self.post(&[to], |_| {});
            self.commit(vec![change]).await;
        }
    }

    pub(crate) fn acked(&self, delivery: u64, seq: u64, by: Principal, proof: Proof) -> Change {
        self.settled(delivery, seq, Some(by), End::Acked(proof))
    }

    pub(crate) fn dead(&self, delivery: u64, seq: u64, reason: Reason) -> Change {
        self.settled(delivery, seq, None, End::Dead { reason, maybe_seen: false })
    }

    fn settled(&self, delivery: u64, seq: u64, by: Option<Principal>, end: End) -> Change {
        let (delivery, seq) = (DeliveryNo(delivery), Seq(seq));
        let leased_at = by.map(|_| START);
        Change::DeliverySettled {
            settled: Settled { delivery, seq, by, leased_at, end },
            at: self.now,
        }
    }

    pub(crate) async fn record(&self, seq: u64) -> Option<StoredRecord> {
        let which = vec![MessageRef::Seq(Seq(seq))];
        self.store.records(which, usize::MAX).await.expect("records").into_iter().next()
    }

    /// Every message, oldest first.
    pub(crate) async fn everything(&self) -> Vec<StoredRecord> {
        let mut look = HistoryLook {
            sources: [Source::All].into(),
            above: 0,
            below: u64::MAX >> 1,
            forward: true,
            most: 200,
            bytes: 1 << 20,
        };
        let mut found = Vec::new();
        loop {
            let part = self.store.history(look.clone()).await.expect("a part of history");
            let Some(reached) = part.reached else { return found };
            assert!(reached > look.above, "history goes on");
            look.above = reached;
            found.extend(part.records);
        }
    }

    /// Every event that is kept.
    pub(crate) async fn journal(&self) -> Vec<StoredEvent> {
        self.store.events(0, usize::MAX).await.expect("events").events
    }
}

pub(crate) fn minutes_after(at: Timestamp, minutes: i64) -> Timestamp {
    Timestamp(at.0 + minutes * MINUTE)
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(crate) fn mailbox(key: &str) -> Mailbox {
    key.parse().expect("a mailbox")
}

pub(crate) fn reader(id: u32) -> Principal {
    Principal::Instance(InstanceId(id))
}

pub(crate) fn agent(id: u32) -> Sender {
    let id = InstanceId(id);
    Sender {
        address: format!("mason.{id}@main").into(),
        instance: Some(id),
        kind: SenderKind::Agent,
    }
}

/// A running agent of the team `main`.
pub(crate) fn instance(id: u32, created_at: Timestamp) -> Instance {
    let (id, agent, team) = (InstanceId(id), name("mason"), name("main"));
    Instance {
        id,
        address: format!("{agent}.{id}@{team}").into(),
        keys: Instance::keys(id, &agent, &team, AgentKind::External),
        agent,
        team,
        kind: AgentKind::External,
        origin: Origin::Join,
        label: None,
        parent: None,
        thread: ThreadId(id.0),
        key: None,
        secret: None,
        status: Status::Running,
        created_at,
        last_seen: created_at,
        ended_at: None,
        work: None,
    }
}

/// Values by key, in the order of the keys.
pub(crate) fn sorted<K: Ord + Copy, V: Clone>(map: &HashMap<K, V>) -> Vec<(K, V)> {
    let mut all: Vec<(K, V)> = map.iter().map(|(key, value)| (*key, value.clone())).collect();
    all.sort_by_key(|(key, _)| *key);
    all
}
