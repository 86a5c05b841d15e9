//! Off the path of a send: checkpoints, lists of numbers, and keys that are sorted.

mod connection;
mod indexing;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::connection::OwnConnection;
use self::indexing::Indexing;
use super::keys::{self, Run};
use super::rows::meta::Marks;
use super::writer::Flush;
use super::{Shared, open};

/// How often the background looks.
const TICK: Duration = Duration::from_millis(250);
/// How often it looks while there are many transactions: it copies little at a time, so
/// that no flush of a sender waits long for the disk.
const BUSY_TICK: Duration = Duration::from_millis(80);
/// Transactions since the last look that make it look soon again.
const BUSY: u64 = 10;
/// Quiet for this long: the lists are brought up to date.
const QUIET: Duration = Duration::from_secs(2);

/// How often a long log is copied before the writing connection may copy the rest.
const CATCH_UP: usize = 8;

/// Works until the store stops.
pub(crate) async fn run(shared: Arc<Shared>, indexed: Marks, stopping: CancellationToken) {
    let _vital = shared.vitals.guard("the store's background work", stopping.clone());
    let last = shared.writer.written.last();
    let mut background = Background {
        connection: OwnConnection::new(&shared),
        indexing: Indexing::new(indexed),
        checkpointed: 0,
        last,
        quiet_since: Instant::now(),
        shared,
    };
    // No work is left in the middle: its connection must be closed before the folder is
    // anybody else's.
    let mut pause = TICK;
    while stopping.run_until_cancelled(sleep(pause)).await.is_some() {
        let before = background.checkpointed;
        background.work(&stopping).await;
        pause = if background.checkpointed - before >= BUSY { BUSY_TICK } else { TICK };
    }
}

struct Background {
    shared: Arc<Shared>,
    connection: OwnConnection,
    indexing: Indexing,
    /// How many transactions there were at the last checkpoint.
    checkpointed: u64,
    /// The highest numbers, and since when.
    last: Marks,
    quiet_since: Instant,
}

impl Background {
    async fn work(&mut self, stopping: &CancellationToken) {
        if self.shared.files.look().is_err() {
            return;
        }
        let transactions = self.shared.writer.written.transactions();
        if transactions != self.checkpointed {
            self.checkpoint().await;
            self.checkpointed = transactions;
        }
        let now = self.shared.writer.written.last();
        if now != self.last {
            (self.last, self.quiet_since) = (now, Instant::now());
        }
        let quiet = self.quiet_since.elapsed() >= QUIET;
        while !stopping.is_cancelled()
            && self.indexing.is_due(now, quiet)
            && let ControlFlow::Continue(()) =
                self.indexing.step(&self.shared, &mut self.connection, now).await
        {}
        while !stopping.is_cancelled()
            && let ControlFlow::Continue(()) = self.sort_keys().await
        {}
    }

    /// Copies what the log holds into the database. Passive: it waits for nobody and nobody
    /// waits for it. The log starts anew if no group came while its last pages were
    /// copied; so a long log is copied again at once, and each time there is less to copy.
    /// Under a heavy load that may never happen: then the writing connection copies the
    /// rest between two groups, before the log outgrows its file.
    async fn checkpoint(&mut self) {
        let most = self.shared.config.wal_bytes;
        let mut bytes = 0;
        for _ in 0..CATCH_UP {
            let Some(pages) = self.connection.ask(|db| Ok(checkpoint(db)?)).await else { return };
            self.shared.log_pages.store(pages, Ordering::Relaxed);
            bytes = pages * open::PAGE;
            if bytes <= most / 2 {
                return;
            }
        }
        if bytes > most / 4 * 3
            && let Err(error) = Arc::clone(&self.shared.writer).with(checkpoint).await
        {
            tracing::warn!(%error, "a checkpoint failed; it is tried again");
        }
    }

    /// Sorts the keys of one run, if there are enough.
    async fn sort_keys(&mut self) -> ControlFlow<()> {
        let unsorted = &self.shared.writer.written.unsorted_keys;
        if unsorted.load(Ordering::Relaxed) < keys::RUN {
            return ControlFlow::Break(());
        }
        let Some(Some(run)) = self.connection.ask(Run::gather).await else {
            // They are fewer than was counted.
            unsorted.store(0, Ordering::Relaxed);
            return ControlFlow::Break(());
        };
        let count = run.keys;
        let writer = Arc::clone(&self.shared.writer);
        match writer.write(Flush::Later, move |db| run.write(db)).await {
            Ok(_) => {
                unsorted.fetch_sub(count.min(unsorted.load(Ordering::Relaxed)), Ordering::Relaxed);
                ControlFlow::Continue(())
            }
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// Returns how many pages the log holds.
fn checkpoint(db: &Connection) -> rusqlite::Result<u64> {
    let pages: i64 = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))?;
    Ok(pages.max(0).cast_unsigned())
}
