//! Off the path of a send: checkpoints, indexes, and the sweep.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste_core::address::Mailbox;
use posthaste_core::messaging::message::Principal;
use posthaste_core::ports::{StoreError, Swept};
use posthaste_core::time::Timestamp;
use rusqlite::Connection;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::dates::Old;
use super::files::Files;
use super::ops::upkeep::{Chore, Expire, Forget, FreeMailboxes, Index, Prune, Signs};
use super::rows::Marks;
use super::writer::unanswered;
use super::{Shared, journal, open};

/// How often the background looks.
const TICK: Duration = Duration::from_millis(250);
/// Quiet for this long: the indexes are brought up to date.
const QUIET: Duration = Duration::from_secs(2);
/// Never further behind than this many deliveries.
const FAR_BEHIND: u64 = 100_000;
/// Rows indexed, or messages pruned, in one transaction.
const STEP: u64 = 5_000;
const PRUNE_STEP: usize = 1_000;

/// Checkpoints and indexes until the store stops.
pub(crate) async fn run(
    shared: Arc<Shared>,
    files: Arc<Files>,
    mut marks: Marks,
    stopping: CancellationToken,
) {
    let _vital = shared.vitals.guard("the store's background work", stopping.clone());
    let mut checkpoints = Checkpoints { files: Arc::clone(&files), db: None };
    let mut checkpointed = Marks::default();
    let mut last = numbers(&shared);
    let mut quiet_since = Instant::now();
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = sleep(TICK) => {}
        }
        if files.look().is_err() {
            continue;
        }
        let now = numbers(&shared);
        if now != last {
            last = now;
            quiet_since = Instant::now();
        }
        if now != checkpointed {
            checkpoints.run(&shared).await;
            checkpointed = now;
        }
        let quiet = quiet_since.elapsed() >= QUIET;
        while now.delivery - marks.delivery >= FAR_BEHIND || quiet && marks != now {
            let to = Marks {
                seq: now.seq.min(marks.seq + STEP),
                delivery: now.delivery.min(marks.delivery + STEP),
            };
            let step = Index { from: marks, to };
            let done = shared.commands.push(|tx| Chore::new(step, tx)).await;
            if !matches!(done, Ok(Ok(()))) {
                break;
            }
            marks = to;
        }
    }
}

fn numbers(shared: &Shared) -> Marks {
    let (seq, delivery) = shared.ledger.lock().last_numbers();
    Marks { seq, delivery }
}

/// Copies what the log holds into the database, on a connection of its own.
/// Passive: it waits for nobody and nobody waits for it. A busy writer stays ahead
/// of it, so the log would grow for ever: once it is long, the writer is asked to
/// copy the short rest between two groups, and starts the log anew.
struct Checkpoints {
    files: Arc<Files>,
    db: Option<Connection>,
}

impl Checkpoints {
    async fn run(&mut self, shared: &Shared) {
        let (files, known) = (Arc::clone(&self.files), self.db.take());
        let work = tokio::task::spawn_blocking(move || -> rusqlite::Result<_> {
            let db = known.map_or_else(|| Connection::open(files.database()), Ok)?;
            let pages = checkpoint(&db)?;
            Ok((db, pages))
        });
        match work.await {
            Ok(Ok((db, pages))) => {
                self.db = Some(db);
                shared.meters.log_is(pages);
                let long = pages * open::PAGE > shared.config.wal_bytes / 2;
                shared.log_is_long.store(long, Ordering::Relaxed);
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a checkpoint failed; it is tried again");
                shared.readers.explain(&error);
            }
            Err(panic) => tracing::warn!(%panic, "a checkpoint failed; it is tried again"),
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.db.iter().for_each(|db| self.files.leave_log(db));
    }
}

/// Returns how many pages the log holds.
pub(crate) fn checkpoint(db: &Connection) -> rusqlite::Result<u64> {
    let pages: i64 = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))?;
    Ok(pages.max(0).cast_unsigned())
}

/// Whatever is due: expiry, the lost, signs of life, pruning, forgotten tickets.
pub(crate) async fn sweep(shared: &Shared) -> Result<Swept, StoreError> {
    let now = shared.clock.now();
    let expired = shared.commands.push(Expire::new).await.map_err(unanswered)??;

    let (lost, mut tickets) = {
        let mut ledger = shared.ledger.lock();
        ledger.forget_rates(now);
        ledger.fade(now);
        ledger.keep_alive(now);
        let (lost, tickets) = ledger.lose(now - shared.limits.lost_after);
        (lost.len(), tickets)
    };
    let waited_for = |m: &Mailbox| shared.queue.waiting(m, Principal::Operator) > 0;
    tickets.extend(shared.ledger.lock().waiting_tickets(waited_for));
    for ticket in tickets {
        shared.queue.put(ticket);
    }

    shared.commands.push(|tx| Chore::new(Signs::default(), tx)).await.map_err(unanswered)??;
    let pruned = if is_time_to_prune(shared, now) { prune(shared, now).await? } else { 0 };
    Ok(Swept { expired, pruned, lost })
}

fn is_time_to_prune(shared: &Shared, now: Timestamp) -> bool {
    let last = Timestamp(shared.pruned_at.load(Ordering::Relaxed));
    let due = now.since(last) >= shared.limits.prune;
    if due {
        shared.pruned_at.store(now.0, Ordering::Relaxed);
    }
    due
}

/// Removes what is old enough; how many messages.
async fn prune(shared: &Shared, now: Timestamp) -> Result<usize, StoreError> {
    let old = |kept| Old::new(now, shared.started_at, kept);
    let events = old(shared.limits.event_retention);
    let (dead, settled) = (old(shared.limits.dead_retention), old(shared.limits.settled_retention));
    let forget = Forget {
        has_events: shared.readers.query(move |db| journal::has_old(db, events)).await?,
        events,
        keys: old(shared.limits.key_retention),
        ended: dead,
        settled,
    };
    shared.commands.push(|tx| Chore::new(forget, tx)).await.map_err(unanswered)??;
    let mut pruned = 0;
    loop {
        let old = move |db: &Connection| super::rows::prunable(db, settled, dead, PRUNE_STEP);
        let seqs = shared.readers.query(old).await?;
        let found = seqs.len();
        if found > 0 {
            let answer = shared.commands.push(|tx| Chore::new(Prune(seqs), tx));
            answer.await.map_err(unanswered)??;
        }
        pruned += found;
        if found < PRUNE_STEP {
            break;
        }
    }
    free_mailboxes(shared).await?;
    Ok(pruned)
}

/// What is settled and kept names its mailbox by number, and so does its owner.
async fn free_mailboxes(shared: &Shared) -> Result<(), StoreError> {
    let abandoned = shared.ledger.lock().abandoned();
    if abandoned.is_empty() {
        return Ok(());
    }
    let free = shared.readers.query(move |db| super::rows::unnamed(db, &abandoned)).await?;
    if free.is_empty() {
        return Ok(());
    }
    shared.commands.push(|tx| FreeMailboxes::new(free, tx)).await.map_err(unanswered)?
}
