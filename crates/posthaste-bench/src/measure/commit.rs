//! The limit of the disk with SQLite on it: one row, one commit, flushed.
//!
//! As good as SQLite gets: the log is grown beforehand and no checkpoint runs in a
//! commit. It runs on the server's core, in a thread of its own, where the hub's
//! commits run too.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::limits::micros;
use super::{PER_SECOND, percentiles};
use crate::pin;
use crate::requests::BODY;
use crate::rounds::Found;
use crate::settings::Settings;

const PAGE: u32 = 8192;
const LOG_BYTES: u64 = 32 << 20;
/// The log restarts after so many commits, out of the count: it must not grow.
const PER_LOG: u32 = 500;

/// Commits one after another.
pub(crate) async fn closed(settings: &Settings) -> anyhow::Result<Found> {
    let took = on_server_core(settings, None).await?;
    percentiles(&took, "commit.p50_us", "commit.p99_us")
}

/// 300 commits per second.
pub(crate) async fn paced(settings: &Settings) -> anyhow::Result<Found> {
    let gap = Duration::from_secs(1) / PER_SECOND;
    let took = on_server_core(settings, Some(gap)).await?;
    percentiles(&took, "commit_paced.p50_us", "commit_paced.p99_us")
}

async fn on_server_core(settings: &Settings, gap: Option<Duration>) -> anyhow::Result<Vec<f64>> {
    let scratch = settings.folder()?;
    let (core, seconds) = (settings.pins.map(|pins| pins.server), settings.seconds);
    let file = scratch.path().join("commit.db");
    let (tell, told) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        let took = pin::this_process(core).and_then(|()| commits(&file, gap, seconds));
        // Nobody listens when the bench was interrupted.
        let _ = tell.send(took);
    });
    let took = told.await.context("the commits were interrupted")?;
    thread.join().map_err(|_| anyhow::anyhow!("the commits failed"))?;
    took
}

fn commits(file: &Path, gap: Option<Duration>, time: Duration) -> anyhow::Result<Vec<f64>> {
    let db = open(file)?;
    let mut insert = db.prepare(
        "INSERT INTO messages (id, thread, created_at, sender, recipient, kind, urgent, via, \
         idempotency_key, body) VALUES (?1, 7, ?2, ?3, ?4, 'text', 0, 'rest', ?5, ?6)",
    )?;
    let body = "x".repeat(BODY);
    let (mut took, mut number) = (Vec::new(), 0_u32);
    let began = Instant::now();
    let mut due = began;
    while began.elapsed() < time {
        if let Some(gap) = gap {
            due += gap;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let key = format!("00007-{number:020}");
        let start = Instant::now();
        let row = params![number, 1, "producer7.a3f7b2c1@main", "a3f7b2c1", key, body];
        insert.execute(row)?;
        took.push(micros(start.elapsed()));
        number += 1;
        if number.is_multiple_of(PER_LOG) {
            db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        }
    }
    Ok(took)
}

fn open(file: &Path) -> anyhow::Result<Connection> {
    let db = Connection::open(file)?;
    db.pragma_update(None, "page_size", PAGE)?;
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    db.execute_batch(
        "CREATE TABLE messages (seq INTEGER PRIMARY KEY, id INTEGER NOT NULL, \
         thread INTEGER NOT NULL, created_at INTEGER NOT NULL, sender TEXT NOT NULL, \
         recipient TEXT NOT NULL, kind TEXT NOT NULL, urgent INTEGER NOT NULL, via TEXT NOT NULL, \
         idempotency_key TEXT, metadata TEXT, body TEXT NOT NULL) STRICT",
    )?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let log = file.with_extension("db-wal");
    let mut log = OpenOptions::new().append(true).create(true).open(log)?;
    log.write_all(&vec![0; usize::try_from(LOG_BYTES)?])?;
    log.sync_all()?;
    Ok(db)
}
