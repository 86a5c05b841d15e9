//! The ledger, the writer loop, and the store behind them.
//!
//! ```text
//! callers ──▶ commands ──▶ plan (ledger) ──▶ Store::commit(changes) ──▶ commit (ledger) ──▶ tickets ──▶ answers
//! ```
//!
//! Every durable change goes through the writer loop (`writer.rs`): it takes the commands
//! that wait, plans them under the ledger's lock, hands their changes to the store as one
//! group, and answers after the commit. Leases need no store, since every start returns
//! them. Questions go to the ledger ([`Engine::ledger`]), to the store, or to both.

mod commands;
mod history;
mod journal;
mod line;
mod loading;
mod mail;
mod meters;
mod needs;
mod people;
mod profiles;
mod reading;
mod sweep;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::line::{CommandLine, unanswered};
use self::loading::Known;
use self::meters::Meters;
pub use self::needs::Permission;
use self::writer::Writer;
use crate::figures::Figures;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::messaging::message::{Principal, Seq};
use crate::ports::store::{Bodies, Epoch, Store};
use crate::ports::{Clock, Queue, StoreError, Ticket};
use crate::time::Timestamp;
use crate::vitals::Vitals;

/// The result of work that is under way when the call returns. Dropping the future does
/// not stop the work.
pub type Started<T, E = StoreError> = BoxFuture<'static, Result<T, E>>;

/// The settings of the writer loop; part of the `[store]` section.
#[derive(Debug, Clone, Copy)]
pub struct EngineConfig {
    /// Most commands in one group.
    pub batch: usize,
    /// Most commands that wait for the store. While there are more, sends are refused.
    pub waiting: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { batch: 512, waiting: 10_000 }
    }
}

/// Decides with the ledger and remembers with the store.
pub struct Engine {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// The state that the writer loop and the callers share.
struct Shared {
    ledger: Mutex<Ledger>,
    line: CommandLine,
    store: Arc<dyn Store>,
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    config: EngineConfig,
    epoch: Epoch,
    /// Set if a restart keeps what was committed.
    durable: bool,
    /// Set if the last commit succeeded.
    healthy: AtomicBool,
    meters: Meters,
    pruned_at: AtomicI64,
    started_at: Timestamp,
    vitals: Vitals,
    known: watch::Sender<Known>,
    /// The number of the last event that is committed.
    last_event: AtomicU64,
    news: watch::Sender<u64>,
    /// The ledger's revision of closed needs, as of the last commit.
    closed_needs: watch::Sender<u64>,
    /// Ids acked by weak proof before the start, by reader.
    weakly_acked: HashMap<Principal, Vec<Seq>>,
}

impl Engine {
    /// Loads the ledger from the store, returns all leases of the last run, and starts
    /// the writer loop. Must be called within a runtime.
    pub async fn open(
        store: Arc<dyn Store>,
        config: EngineConfig,
        limits: Limits,
        queue: Arc<dyn Queue>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, StoreError> {
        let mut loaded = store.load().await?;
        let durable = store.condition().durable;
        let now = clock.now();
        let ledger = loading::ledger(&limits, &mut loaded, now)?;
        let known = if loaded.rest.is_some() { Known::NotYet } else { Known::All };
        let shared = Arc::new(Shared {
            ledger: Mutex::new(ledger),
            line: CommandLine::new(config.waiting),
            store,
            queue,
            clock,
            limits,
            config,
            epoch: loaded.epoch,
            durable,
            healthy: AtomicBool::new(true),
            meters: Meters::default(),
            pruned_at: AtomicI64::new(0),
            started_at: now,
            vitals: Vitals::default(),
            known: watch::Sender::new(known),
            last_event: AtomicU64::new(loaded.last_event),
            news: watch::Sender::new(loaded.last_event),
            closed_needs: watch::Sender::new(0),
            weakly_acked: std::mem::take(&mut loaded.weakly_acked),
        });
        let engine = Self {
            shared: Arc::clone(&shared),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        };
        if let Some(rest) = loaded.rest {
            shared.line.hold_back();
            engine.tasks.spawn(loading::run(Arc::clone(&shared), rest, loaded.clean));
        }
        if !loaded.unreadable.is_empty() {
            let (theirs, unreadable) = (Arc::clone(&shared), loaded.unreadable);
            // The next start finds again a row that is not set aside now.
            engine.tasks.spawn(async move { commands::set_aside::all(&theirs, unreadable).await });
        }
        engine.tasks.spawn(Writer::new(&shared, engine.stopping.clone()).run());
        Ok(Arc::new(engine))
    }

    /// Asks the ledger, or makes a change that needs no store. The ledger knows which
    /// instances are alive at this moment. `ask` runs under the lock, so it must be
    /// short.
    pub fn ledger<R>(&self, ask: impl FnOnce(&mut Ledger) -> R) -> R {
        self.shared.ask(ask)
    }

    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.shared.queue
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Returns the epoch of this start. Answers of an earlier epoch are from before it.
    pub fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    /// Returns whether a restart keeps accepted messages.
    pub fn is_durable(&self) -> bool {
        self.shared.durable
    }

    /// Returns whether the last commit succeeded and the store is not in trouble.
    pub fn is_healthy(&self) -> bool {
        self.shared.healthy.load(Ordering::Relaxed)
            && self.shared.store.condition().trouble.is_none()
    }

    /// Returns whether the whole backlog of the last run is loaded. Until then reads
    /// wait.
    pub fn is_ready(&self) -> bool {
        matches!(&*self.shared.known.borrow(), Known::All)
    }

    /// Tests whether the store can be written.
    pub async fn probe(&self) -> Result<(), StoreError> {
        if let Some(damage) = self.shared.damage() {
            return Err(damage);
        }
        let probed = self.shared.store.probe().await;
        self.shared.healthy.store(probed.is_ok(), Ordering::Relaxed);
        probed
    }

    /// Returns the counts since the start, and the condition of the store.
    pub async fn figures(&self) -> Result<Figures, StoreError> {
        let (tally, (open, oldest)) = self.ledger(|l| (l.tally().clone(), l.open()));
        let oldest = match oldest {
            Some(seq) => {
                let found = self.shared.store.messages(vec![seq], Bodies::Without).await?;
                found.messages.get(&seq).map(|message| message.created_at)
            }
            None => None,
        };
        let log_pages = self.shared.store.condition().log_pages;
        Ok(Figures { tally, open, oldest, log_pages, ..self.shared.meters.figures() })
    }

    /// Completes when the hub cannot go on without a new start, with the reason. Never
    /// after `close`.
    pub async fn failed(&self) -> Arc<str> {
        tokio::select! {
            why = self.shared.vitals.failed() => why,
            why = self.shared.store.failed() => why,
        }
    }

    /// Finishes the commands under way and notes that the shutdown was clean.
    pub async fn close(&self) -> Result<(), StoreError> {
        if self.stopping.is_cancelled() {
            return Ok(());
        }
        let answer = self.shared.line.push(commands::upkeep::CleanStop::new);
        let closed = answer.await.map_err(unanswered)?;
        self.shared.line.close();
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let store = self.shared.store.close().await;
        closed.and(store)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // An engine that was not closed ends like a hub that was killed.
        self.stopping.cancel();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

impl Shared {
    fn ask<R>(&self, ask: impl FnOnce(&mut Ledger) -> R) -> R {
        let now = self.clock.now();
        let mut ledger = self.ledger.lock();
        ledger.fade(now);
        ask(&mut ledger)
    }

    /// Returns the damage if part of the store cannot be read any more: nothing new is
    /// accepted then.
    fn damage(&self) -> Option<StoreError> {
        self.store.condition().trouble.filter(|why| matches!(why, StoreError::Damaged { .. }))
    }

    fn put_all(&self, tickets: Vec<Ticket>) {
        tickets.into_iter().for_each(|ticket| self.queue.put(ticket));
    }
}
