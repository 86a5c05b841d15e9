//! Off the path of a send: checkpoints, indexes, and keys that are sorted.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::files::Files;
use super::index::Batch;
use super::keys::{self, Run};
use super::rows::meta::Marks;
use super::writer::Flush;
use super::{Shared, open};

/// How often the background looks.
const TICK: Duration = Duration::from_millis(250);
/// Quiet for this long: the indexes are brought up to date.
const QUIET: Duration = Duration::from_secs(2);
/// Never much further behind than this many messages or deliveries.
const FAR_BEHIND: u64 = 32_768;
/// A step may keep a sender waiting for so long.
const STEP_TIME: Duration = Duration::from_millis(3);
/// Messages of a step: of the first, and the fewest and the most.
const STEP: u64 = 1_024;
const STEPS: RangeInclusive<u64> = 128..=8_192;

/// Works until the store stops.
pub(crate) async fn run(shared: Arc<Shared>, indexed: Marks, stopping: CancellationToken) {
    let _vital = shared.vitals.guard("the store's background work", stopping.clone());
    let mut checkpoints = Checkpoints { files: Arc::clone(&shared.files), db: None };
    let mut checkpointed = 0;
    let mut indexing = Indexing { done: indexed, step: STEP };
    let mut last = shared.writer.written.last();
    let mut quiet_since = Instant::now();
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = sleep(TICK) => {}
        }
        if shared.files.look().is_err() {
            continue;
        }
        let now = shared.writer.written.last();
        if now != last {
            last = now;
            quiet_since = Instant::now();
        }
        let transactions = shared.writer.written.transactions();
        if transactions != checkpointed {
            checkpoints.run(&shared).await;
            checkpointed = transactions;
        }
        let quiet = quiet_since.elapsed() >= QUIET;
        tokio::select! {
            () = stopping.cancelled() => return,
            () = indexing.run(&shared, now, quiet) => {}
        }
        sort_keys(&shared).await;
    }
}

/// Fills the lists of numbers, some thousand messages at a time. They are read beside the
/// senders and written between two groups, in so few rows that nobody waits long.
struct Indexing {
    done: Marks,
    step: u64,
}

impl Indexing {
    async fn run(&mut self, shared: &Shared, now: Marks, quiet: bool) {
        while now.delivery.saturating_sub(self.done.delivery) >= FAR_BEHIND
            || now.seq.saturating_sub(self.done.seq) >= FAR_BEHIND
            || quiet && self.done != now
        {
            match self.next(shared, now).await {
                Some(took) => self.adapt(took),
                None => return,
            }
        }
    }

    /// One step; how long senders had to wait for it.
    async fn next(&mut self, shared: &Shared, now: Marks) -> Option<Duration> {
        let (from, writer) = (self.done, &shared.writer);
        let upto = Marks {
            seq: now.seq.min(from.seq + self.step),
            delivery: now.delivery.min(from.delivery + self.step),
        };
        let prunes = writer.written.prunes();
        let batch = shared.readers.query(move |db| Batch::gather(db, from, upto)).await.ok()?;
        let theirs = Arc::clone(writer);
        let write = move |db: &Connection| match theirs.written.prunes() == prunes {
            true => batch.write(db).map(|()| true),
            // Some of them may be gone.
            false => Ok(false),
        };
        let (written, took) = Arc::clone(writer).write(Flush::Later, write).await.ok()?;
        if written {
            self.done = upto;
        }
        Some(took)
    }

    /// Many threads and mailboxes make many rows: then a step takes fewer messages.
    fn adapt(&mut self, took: Duration) {
        let fits = u128::from(self.step) * STEP_TIME.as_micros() / took.as_micros().max(1);
        let fits = u64::try_from(fits).unwrap_or(*STEPS.end());
        self.step = (self.step + fits).div_ceil(2).clamp(*STEPS.start(), *STEPS.end());
    }
}

/// Sorts keys into runs while there are enough.
async fn sort_keys(shared: &Shared) {
    let unsorted = &shared.writer.written.unsorted_keys;
    while unsorted.load(Ordering::Relaxed) >= keys::RUN {
        let Ok(Some(run)) = shared.readers.query(Run::gather).await else {
            // They are fewer than was counted.
            unsorted.store(0, Ordering::Relaxed);
            return;
        };
        let count = run.keys;
        let written = Arc::clone(&shared.writer).write(Flush::Later, move |db| run.write(db));
        if written.await.is_err() {
            return;
        }
        unsorted.fetch_sub(count.min(unsorted.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}

/// Copies what the log holds into the database, on a connection of its own.
/// Passive: it waits for nobody and nobody waits for it. A busy writer stays ahead
/// of it, so the log would grow for ever: once it is long, the short rest is copied by the
/// writing connection between two groups, and the log starts anew.
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
        let pages = match work.await {
            Ok(Ok((db, pages))) => {
                self.db = Some(db);
                pages
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a checkpoint failed; it is tried again");
                shared.damage.explain(&error);
                return;
            }
            Err(panic) => {
                tracing::warn!(%panic, "a checkpoint failed; it is tried again");
                return;
            }
        };
        shared.log_pages.store(pages, Ordering::Relaxed);
        if pages * open::PAGE > shared.config.wal_bytes / 2
            && let Err(error) = Arc::clone(&shared.writer).with(checkpoint).await
        {
            tracing::warn!(%error, "a checkpoint failed; it is tried again");
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.db.iter().for_each(|db| self.files.leave_log(db));
    }
}

/// Returns how many pages the log holds.
fn checkpoint(db: &Connection) -> rusqlite::Result<u64> {
    let pages: i64 = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))?;
    Ok(pages.max(0).cast_unsigned())
}
