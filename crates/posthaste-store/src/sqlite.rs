//! One hub's memory in one SQLite file.
//!
//! ```text
//! callers ──▶ commands ──▶ plan (ledger) ──▶ one transaction ──▶ commit (ledger) ──▶ tickets ──▶ answers
//!                          on the loop       on a thread, or     on the loop
//!                                            there if quick
//! ```
//!
//! Everything that must survive goes through [`writer`]; leases live in the
//! ledger alone, since every start returns them. Queries have connections of
//! their own ([`reader`]) and never wait for a writer.

mod background;
mod counts;
mod dates;
mod faults;
mod files;
mod history;
mod inspect;
mod journal;
mod keys;
mod load;
mod lock;
mod meters;
mod open;
mod ops;
mod profiles;
mod reader;
mod rows;
mod working;
mod writer;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use posthaste_core::address::{InstanceId, Mailbox, Name};
use posthaste_core::events::Page;
use posthaste_core::figures::Figures;
use posthaste_core::ledger::{Heads, Ledger, Remaining, Sought};
use posthaste_core::messaging::delivery::{AnswerId, DeliveryNo, Proof};
use posthaste_core::messaging::message::{Draft, MessageRef, Principal, Recipient, Sender, Seq};
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{
    Acked, ActError, Appended, Clock, Ending, Filter, Journal, Lease, Leased, Mail, Nacked,
    OpenCall, Queue, Record, Registry, Started, StoreError, Survey, Swept, Take, Ticket, Upkeep,
    What,
};
use posthaste_core::registry::{
    Instance, InstanceFilter, InstanceView, JoinKey, Joined, NewInstance, RegistryError, Relation,
    Team, TokenHash,
};
use posthaste_core::time::Timestamp;
use posthaste_core::{Limits, Vitals};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::faults::{Fault, Of};
use self::files::Files;
pub use self::inspect::{Inspection, inspect};
use self::load::Known;
pub use self::lock::FolderLock;
use self::meters::Meters;
use self::ops::append::Accepted;
use self::ops::set_aside;
use self::ops::upkeep::Probe;
use self::reader::Readers;
use self::rows::Unreadable;
use self::writer::{Commands, unanswered};
use crate::{OpenError, Place, StoreConfig};

/// The embedded store.
pub struct SqliteStore {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// What the writer, the readers and the callers have in common.
pub(crate) struct Shared {
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) commands: Commands,
    pub(crate) readers: Readers,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) config: StoreConfig,
    pub(crate) healthy: AtomicBool,
    /// The writer should copy the rest of the log before it goes on.
    pub(crate) log_is_long: AtomicBool,
    pub(crate) meters: Meters,
    pub(crate) pruned_at: AtomicI64,
    pub(crate) started_at: Timestamp,
    /// `None` for a store in memory.
    pub(crate) files: Option<Arc<Files>>,
    pub(crate) vitals: Vitals,
    pub(crate) known: watch::Sender<Known>,
    /// The number of the last event that is on disk.
    pub(crate) last_event: AtomicU64,
    pub(crate) news: watch::Sender<u64>,
    taken: HashMap<Principal, Vec<Seq>>,
}

impl Shared {
    /// The ledger, which knows who is alive at this moment.
    pub(crate) fn now(&self) -> MutexGuard<'_, Ledger> {
        let mut ledger = self.ledger.lock();
        ledger.fade(self.clock.now());
        ledger
    }

    async fn figures(&self) -> Result<Figures, StoreError> {
        let (tally, (open, oldest)) = {
            let ledger = self.ledger.lock();
            (ledger.tally().clone(), ledger.open())
        };
        let oldest = match oldest {
            Some(seq) => self.readers.query(move |db| rows::accepted_at(db, seq)).await?,
            None => None,
        };
        Ok(Figures { tally, open, oldest, ..self.meters.figures() })
    }
}

impl SqliteStore {
    /// Opens the memory of a hub, creating it if there is none, and returns all
    /// leases of the last run to their queues. Must be called within a runtime.
    pub fn open(
        place: &Place,
        config: StoreConfig,
        limits: Limits,
        queue: Arc<dyn Queue>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        let vitals = Vitals::default();
        let now = clock.now();
        let opened = open::open(place, &config, &limits, now, &vitals)?;
        let files = opened.files.map(Arc::new);
        let stopping = CancellationToken::new();
        let tasks = TaskTracker::new();
        let commands = Commands::new(config.waiting);
        let shared = Arc::new(Shared {
            ledger: Mutex::new(opened.ledger),
            readers: Readers::new(files.clone(), &config, commands.clone())?,
            commands,
            queue,
            clock,
            limits,
            files: files.clone(),
            vitals,
            config,
            healthy: AtomicBool::new(true),
            log_is_long: AtomicBool::new(false),
            meters: Meters::default(),
            pruned_at: AtomicI64::new(0),
            started_at: now,
            known: watch::Sender::new(if opened.rest.is_some() {
                Known::NotYet
            } else {
                Known::All
            }),
            last_event: AtomicU64::new(opened.last_event),
            news: watch::Sender::new(opened.last_event),
            taken: opened.taken,
        });
        if let (Some(rest), Place::File(folder)) = (opened.rest, place) {
            shared.commands.hold_back();
            tasks.spawn(load::run(Arc::clone(&shared), folder.clone(), rest));
        }
        let (theirs, faults) = (Arc::clone(&shared), opened.faults);
        // What is not set aside now is found again at the next start.
        tasks.spawn(async move { set_aside::all(&theirs, faults).await });
        tasks.spawn(writer::run(Arc::clone(&shared), opened.db, stopping.clone()));
        if let Some(files) = files {
            let work = background::run(Arc::clone(&shared), files, opened.marks, stopping.clone());
            tasks.spawn(work);
        }
        Ok(Arc::new(Self { shared, tasks, stopping }))
    }

    fn put_all(&self, tickets: Vec<Ticket>) {
        for ticket in tickets {
            self.shared.queue.put(ticket);
        }
    }

    /// What a filter asks about messages outside the window: all but their bodies.
    async fn heads(&self, reader: Principal, filter: &Filter) -> Result<Heads, StoreError> {
        load::known(&self.shared.known).await?;
        let unjudged = self.shared.ledger.lock().unjudged(reader, filter);
        if unjudged.is_empty() {
            return Ok(Heads::new());
        }
        let found = self.shared.readers.query(move |db| rows::heads(db, &unjudged)).await?;
        self.set_aside(found.unreadable).await?;
        Ok(found.messages)
    }

    async fn lease_now(&self, take: Take) -> Result<Lease, StoreError> {
        for _ in 0..TRIES {
            if let Some(lease) = self.try_lease(&take).await? {
                return Ok(lease);
            }
        }
        Err(StoreError::Unavailable("a message's text cannot be read".into()))
    }

    /// `None` if something that cannot be read was set aside first.
    async fn try_lease(&self, take: &Take) -> Result<Option<Lease>, StoreError> {
        let heads = self.heads(take.reader, &take.filter).await?;
        let now = self.shared.clock.now();
        let (found, remaining) = {
            let mut ledger = self.shared.ledger.lock();
            if ledger.is_stopping() {
                return Err(StoreError::Closed);
            }
            ledger.lease(take, now, &heads)
        };
        // From here on the mail is out: a caller that goes away gives it back.
        let held = Unread { store: self, by: take.reader, answer: take.answer, found };
        let rows::Found { messages: texts, unreadable } = self.texts(&held.found).await?;
        if !unreadable.is_empty() {
            // Only what is queued can be set aside.
            drop(held);
            self.set_aside(unreadable).await?;
            return Ok(None);
        }
        let found = held.keep();

        let ledger = self.shared.ledger.lock();
        let mail = found.into_iter().filter_map(|sought| {
            let message = sought.message.or_else(|| texts.get(&sought.seq).cloned())?;
            let from = &message.from;
            Some(Leased {
                delivery: sought.delivery,
                mailbox: sought.mailbox,
                redelivered: sought.redelivered,
                doubted: sought.doubted,
                relation: ledger.relation(take.reader, from.instance, from.kind),
                message,
            })
        });
        let Remaining { all: remaining, shared } = remaining;
        Ok(Some(Lease { mail: mail.collect(), remaining, shared }))
    }

    /// The texts that are not in the window.
    async fn texts(&self, found: &[Sought]) -> Result<rows::Found, StoreError> {
        let missing: Vec<Seq> =
            found.iter().filter(|s| s.message.is_none()).map(|s| s.seq).collect();
        if missing.is_empty() {
            return Ok(rows::Found::default());
        }
        self.shared.readers.query(move |db| rows::messages(db, &missing)).await
    }

    /// Goes on without these messages. A row that cannot be decoded makes its deliveries
    /// dead, for the operator to repair. In a damaged file nothing is changed, and while
    /// nothing can be written nothing can be: then they are only kept back until the next
    /// start.
    async fn set_aside(
        &self,
        Unreadable { faults, damaged, damage }: Unreadable,
    ) -> Result<(), StoreError> {
        if let Some(error) = damage {
            let error = self.shared.readers.explain(&error);
            tracing::error!(%error, messages = damaged.len(), "messages are kept back");
            self.keep_back(&damaged.into_iter().collect());
        }
        let message = |fault: &Fault| match fault.of {
            Of::Message(seq) => Some(seq),
            Of::Delivery(..) => None,
        };
        let bad: HashSet<Seq> = faults.iter().filter_map(message).collect();
        match set_aside::all(&self.shared, faults).await {
            Ok(()) => Ok(()),
            Err(StoreError::Closed) => Err(StoreError::Closed),
            Err(error) => {
                tracing::error!(%error, messages = bad.len(), "messages are kept back");
                self.keep_back(&bad);
                Ok(())
            }
        }
    }

    /// Never committed and never undone: nobody can lease these any more.
    fn keep_back(&self, messages: &HashSet<Seq>) {
        let now = self.shared.clock.now();
        self.shared.ledger.lock().plan_unreadable(|seq| messages.contains(&seq), now);
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // Its tasks may run a little longer; the folder is free for the next store.
        self.shared.files.iter().for_each(|files| files.release_lock());
    }
}

/// How often a lease looks again after something unreadable was set aside. Each look
/// sets aside everything that it finds.
const TRIES: usize = 100;

/// Leased, but not in the caller's hands yet.
struct Unread<'a> {
    store: &'a SqliteStore,
    by: Principal,
    answer: AnswerId,
    found: Vec<Sought>,
}

impl Unread<'_> {
    fn keep(mut self) -> Vec<Sought> {
        std::mem::take(&mut self.found)
    }
}

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        if !self.found.is_empty() {
            let what = self.found.iter().map(|sought| sought.delivery).collect();
            self.store.put_back(self.by, what, self.answer);
        }
    }
}

impl Mail for SqliteStore {
    fn append(&self, draft: Draft) -> Started<Appended, SendError> {
        if let Some(damage) = self.shared.readers.damage() {
            return async { Err(damage.into()) }.boxed();
        }
        let accepted = self.shared.commands.append(draft);
        let shared = Arc::clone(&self.shared);
        async move {
            match accepted.await {
                Ok(Ok(Accepted::New(appended))) => Ok(appended),
                // In a box, for it is rare: every send would have room for it.
                Ok(Ok(Accepted::Before(seq, draft))) => {
                    Box::pin(duplicate(&shared, &draft, seq)).await
                }
                Ok(Err(error)) => Err(error),
                Err(error) => Err(unanswered(error).into()),
            }
        }
        .boxed()
    }

    fn lease(&self, take: Take) -> BoxFuture<'_, Result<Lease, StoreError>> {
        self.lease_now(take).boxed()
    }

    fn survey(
        &self,
        reader: Principal,
        filter: Filter,
    ) -> BoxFuture<'_, Result<Survey, StoreError>> {
        async move {
            let heads = self.heads(reader, &filter).await?;
            let now = self.shared.clock.now();
            Ok(self.shared.now().survey(reader, &filter, now, &heads))
        }
        .boxed()
    }

    fn ack(&self, by: Principal, what: What, proof: Proof) -> Started<Acked> {
        let answer = self.shared.commands.push(|tx| ops::settle::Ack::new(by, what, proof, tx));
        async move { answer.await.map_err(unanswered)? }.boxed()
    }

    fn give_back(&self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId, doubt: bool) {
        let tickets = self.shared.ledger.lock().give_back(by, &what, Some(from), doubt);
        self.put_all(tickets);
    }

    fn put_back(&self, by: Principal, what: Vec<DeliveryNo>, from: AnswerId) {
        let tickets = self.shared.ledger.lock().put_back(by, &what, from);
        self.put_all(tickets);
    }

    fn nack(&self, by: Principal, what: What) -> Started<Nacked> {
        let answer = self.shared.commands.push(|tx| ops::settle::Nack::new(by, what, tx));
        async move { answer.await.map_err(unanswered)? }.boxed()
    }

    fn cancel(&self, message: Seq) -> BoxFuture<'_, Result<(), ActError>> {
        async move {
            let record = find(&self.shared, MessageRef::Seq(message)).await?;
            let found = record.ok_or(ActError::NotFound)?.deliveries.into_iter();
            let targets = found.map(|d| (d.mailbox, d.delivery)).collect();
            let answer = self.shared.commands.push(|tx| ops::settle::Cancel::new(targets, tx));
            answer.await.map_err(unanswered)?
        }
        .boxed()
    }

    fn requeue(&self, message: Seq) -> BoxFuture<'_, Result<(), ActError>> {
        async move {
            let dead = self.shared.readers.query(move |db| rows::dead_of(db, message)).await?;
            let answer = self.shared.commands.push(|tx| ops::settle::Requeue::new(dead, tx));
            answer.await.map_err(unanswered)?
        }
        .boxed()
    }

    fn message(&self, which: MessageRef) -> BoxFuture<'_, Result<Option<Record>, StoreError>> {
        find(&self.shared, which).boxed()
    }

    fn unseen(&self, from: Principal, to: InstanceId, before: Seq) -> bool {
        self.shared.now().unseen(from, to, before)
    }

    fn taken(&self, reader: Principal) -> Vec<Seq> {
        self.shared.taken.get(&reader).cloned().unwrap_or_default()
    }

    fn is_durable(&self) -> bool {
        self.shared.files.is_some()
    }
}

impl Registry for SqliteStore {
    fn join(&self, new: NewInstance) -> Started<Joined, RegistryError> {
        let answer = self.shared.commands.push(|tx| ops::people::Join::new(new, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    fn caller(&self, token: &TokenHash) -> Option<Principal> {
        let mut ledger = self.shared.ledger.lock();
        let who = ledger.caller(token)?;
        ledger.seen(who, self.shared.clock.now());
        Some(who)
    }

    fn seen(&self, who: Principal) {
        self.shared.ledger.lock().seen(who, self.shared.clock.now());
    }

    fn connected(&self, who: Principal) {
        self.shared.ledger.lock().connect(who, self.shared.clock.now());
    }

    fn disconnected(&self, who: Principal) {
        self.shared.ledger.lock().disconnect(who, self.shared.clock.now());
    }

    fn call_opened(&self, who: Principal) -> OpenCall {
        self.shared.ledger.lock().open_call(who, self.shared.clock.now())
    }

    fn call_closed(&self, who: Principal, call: OpenCall) {
        self.shared.ledger.lock().close_call(who, call, self.shared.clock.now());
    }

    fn forget_gone(&self, before: Timestamp) -> Started<Vec<Instance>, RegistryError> {
        let answer = self.shared.commands.push(|tx| ops::people::ForgetGone::new(before, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    fn instance(&self, id: InstanceId) -> Option<InstanceView> {
        self.shared.now().instance(id)
    }

    fn keyed(&self, agent: &Name, team: &Name, key: &JoinKey) -> Option<InstanceId> {
        self.shared.ledger.lock().keyed(agent, team, key)
    }

    fn instances(&self, filter: &InstanceFilter) -> Vec<InstanceView> {
        self.shared.now().instances(filter)
    }

    fn keys(&self, reader: Principal) -> Arc<[Mailbox]> {
        self.shared.ledger.lock().keys_of(reader)
    }

    fn relation(&self, reader: Principal, sender: &Sender) -> Relation {
        self.shared.ledger.lock().relation(reader, sender.instance, sender.kind)
    }

    fn end(&self, who: InstanceId, ending: Ending) -> Started<Instance, RegistryError> {
        let answer = self.shared.commands.push(|tx| ops::people::End::new(who, ending, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    fn put_team(&self, team: Team) -> Started<(), RegistryError> {
        let answer = self.shared.commands.push(|tx| ops::people::PutTeam::new(team, tx));
        async move { answer.await.map_err(|_| stopping())? }.boxed()
    }

    fn team(&self, name: &Name) -> Option<(Team, Vec<Instance>)> {
        self.shared.now().team(name)
    }

    fn teams(&self) -> Vec<Name> {
        self.shared.ledger.lock().team_names()
    }
}

impl Journal for SqliteStore {
    fn events(&self, after: u64, most: usize) -> BoxFuture<'_, Result<Page, StoreError>> {
        journal::page(&self.shared, after, most).boxed()
    }

    fn last_event(&self) -> watch::Receiver<u64> {
        self.shared.news.subscribe()
    }
}

impl Upkeep for SqliteStore {
    fn sweep(&self) -> BoxFuture<'_, Result<Swept, StoreError>> {
        background::sweep(&self.shared).boxed()
    }

    fn next_expiry(&self) -> Option<Timestamp> {
        self.shared.ledger.lock().next_expiry()
    }

    fn is_healthy(&self) -> bool {
        self.shared.healthy.load(Ordering::Relaxed)
            && self.shared.readers.damage().is_none()
            && self.shared.files.as_ref().is_none_or(|files| files.are_in_place())
    }

    fn is_ready(&self) -> bool {
        matches!(&*self.shared.known.borrow(), Known::All)
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        if let Some(damage) = self.shared.readers.damage() {
            return async { Err(damage) }.boxed();
        }
        let answer = self.shared.commands.push(|tx| ops::upkeep::Chore::new(Probe, tx));
        async move { answer.await.map_err(unanswered)? }.boxed()
    }

    fn figures(&self) -> BoxFuture<'_, Result<Figures, StoreError>> {
        self.shared.figures().boxed()
    }

    fn failed(&self) -> BoxFuture<'_, Arc<str>> {
        self.shared.vitals.failed().boxed()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            if self.stopping.is_cancelled() {
                return Ok(());
            }
            let answer = self.shared.commands.push(ops::upkeep::CleanStop::new);
            let closed = answer.await.map_err(unanswered)?;
            self.shared.commands.close();
            self.stopping.cancel();
            self.tasks.close();
            self.tasks.wait().await;
            self.shared.readers.close();
            self.shared.files.iter().for_each(|files| files.release_lock());
            closed
        }
        .boxed()
    }
}

pub(crate) async fn find(shared: &Shared, which: MessageRef) -> Result<Option<Record>, StoreError> {
    load::known(&shared.known).await?;
    let found = shared.readers.query(move |db| rows::record(db, which)).await?;
    let stood = reader::stand_all(shared, found.into_iter().collect()).await?;
    Ok(stood.into_iter().next())
}

/// The receipt of a message that was accepted before, if it has the same text. It is
/// on disk: the writer tells of a key only after the commit of whoever had it first.
async fn duplicate(shared: &Shared, draft: &Draft, seq: Seq) -> Result<Appended, SendError> {
    let record = find(shared, MessageRef::Seq(seq)).await?;
    let record = record.ok_or(StoreError::Unavailable("the first message is gone".into()))?;
    if record.message.body != draft.body() {
        return Err(SendError::KeyReused { seq });
    }
    let (from, ledger) = (draft.from, shared.now());
    let recipients = record.deliveries.into_iter().map(|d| Recipient {
        active: ledger.active(&d.mailbox, from),
        waiting: shared.queue.waiting(&d.mailbox, from),
        mailbox: d.mailbox,
    });
    Ok(Appended {
        seq,
        id: record.message.id,
        thread: record.message.thread,
        recipients: recipients.collect(),
        skipped: Vec::new(),
        duplicate: true,
    })
}

pub(crate) fn stopping() -> RegistryError {
    RegistryError::Unavailable("the hub is stopping".into())
}
