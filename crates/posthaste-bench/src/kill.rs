//! R1, R2: the hub is killed at random instants under load, again and again.
//!
//! Senders repeat what was not answered, under the same key. Readers prove what
//! they read, in several ways and sometimes not at all. The hub comes back on the
//! same folder and port, some of the time to be killed before it is ready. At the
//! end everything is read out, and the [`record`] of what the clients were told is
//! held against what they got.

mod reader;
mod record;
mod sender;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::{Connection, OpenFlags};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::agents;
use crate::cli::KillArgs;
use crate::hub::Hub;
use crate::load::watch;
use crate::output;
use crate::settings::Settings;

use self::reader::Reader;
use self::record::Record;
use self::sender::Sender;

const SENDERS: usize = 8;
const MAILBOXES: usize = 4;
/// Two readers race for each mailbox.
const READERS_EACH: usize = 2;
/// One start in so many is killed before it can answer.
const EARLY: u32 = 10;
const EARLY_MS: u64 = 40;

pub(crate) async fn run(settings: &Settings, args: &KillArgs) -> anyhow::Result<ExitCode> {
    let seed = args.seed.unwrap_or_else(rand::random);
    output::note(&format!("seed {seed}"));
    let mut rng = StdRng::seed_from_u64(seed);
    let scratch = settings.folder()?;
    let folder = scratch.path().join("data");
    let mut hub = Hub::start(settings, &folder, 0).await?;
    let port = hub.address.port();
    let boxes: Arc<[_]> = agents::create(&hub, "reader", MAILBOXES).await?.into();
    let record = Arc::new(Record::default());
    let stop = Arc::new(AtomicBool::new(false));

    let mut senders = JoinSet::new();
    for (number, agent) in agents::create(&hub, "sender", SENDERS).await?.into_iter().enumerate() {
        let sender = Sender::new(number, agent, hub.address, Arc::clone(&boxes), rng.random());
        senders.spawn(sender.run(Arc::clone(&record), Arc::clone(&stop)));
    }
    let mut readers = JoinSet::new();
    for (number, agent) in boxes.iter().enumerate() {
        for _ in 0..READERS_EACH {
            let reader = Reader::new(number, agent.clone(), hub.address, rng.random());
            readers.spawn(reader.run(Arc::clone(&record), Arc::clone(&stop)));
        }
    }

    let began = Instant::now();
    let mut starts = Vec::new();
    for kill in 1..=args.kills {
        let wait = Duration::from_micros(rng.random_range(0..args.longest.max(1) * 1000));
        watch(&mut senders, wait).await?;
        watch(&mut readers, Duration::ZERO).await?;
        hub.kill();
        drop(hub);
        if rng.random_ratio(1, EARLY) {
            start_and_kill(settings, &folder, port, rng.random_range(0..EARLY_MS)).await?;
        }
        hub = Hub::start(settings, &folder, port).await?;
        starts.push(hub.answers_after.as_secs_f64() * 1e3);
        if kill.is_multiple_of(50) {
            output::note(&format!("{kill} kills; {}", record.progress()));
        }
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;

    // Senders finish what they began. Then one more kill returns every lease, and
    // whoever left mail unproven reads it again.
    stop.store(true, Ordering::Relaxed);
    for tasks in [&mut senders, &mut readers] {
        while let Some(done) = tasks.join_next().await {
            done??;
        }
    }
    hub.kill();
    drop(hub);
    let mut hub = Hub::start(settings, &folder, port).await?;
    for (number, agent) in boxes.iter().enumerate() {
        Reader::new(number, agent.clone(), hub.address, rng.random()).drain(&record).await?;
    }
    let clean = hub.stop().await?;
    let sound = is_sound(&folder)?;
    let per_minute = args.kills as f64 / minutes;
    let good = record.tell(args.kills, per_minute, &starts, clean, &sound);
    if !good {
        output::say(&format!("not good; seed {seed}"));
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A start that does not live to answer.
async fn start_and_kill(
    settings: &Settings,
    folder: &Path,
    port: u16,
    after_ms: u64,
) -> anyhow::Result<()> {
    tokio::select! {
        started = Hub::start(settings, folder, port) => started.map(drop),
        () = sleep(Duration::from_millis(after_ms)) => Ok(()),
    }
}

/// What SQLite says about the file after all this.
fn is_sound(folder: &Path) -> anyhow::Result<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let db = Connection::open_with_flags(folder.join("hub.db"), flags)?;
    let told = db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    let told = told.context("the database cannot be checked")?;
    ensure!(!told.is_empty(), "the database says nothing");
    Ok(told)
}
