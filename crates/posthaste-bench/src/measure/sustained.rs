//! T4s and T17: a million keyed messages on one hub, each settled.
//!
//! T4 lasts two seconds on a fresh hub, which has no indexes to fill and few keys to
//! remember. Here the load of T4 goes on, and its second half is what counts. Memory is
//! read twice, after a thousand messages and after all, when the hub has come to rest.

use std::sync::Arc;

use anyhow::Context;

use super::percentiles;
use super::saturate::{PRODUCERS, READERS};
use crate::hub::Hub;
use crate::load::{Crew, Tally, saturate, sustained};
use crate::rounds::Found;
use crate::settings::Settings;
use crate::stats;

/// Messages before memory is read for the first time.
const FEW: u64 = 1_000;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let crew = Crew::hire(&hub, PRODUCERS, READERS).await?;
    let tally = Arc::new(Tally::default());
    let mut readers = saturate::readers(&hub, &crew, &tally);

    sustained::run(&hub, &crew, &tally, FEW).await?;
    tally.settle(&mut readers).await?;
    hub.quiet().await?;
    let after_few = hub.rss()?;

    let count = settings.messages - FEW;
    let found = sustained::run(&hub, &crew, &tally, count).await?;
    let cpu = hub.cpu()?;
    tally.settle(&mut readers).await?;
    hub.quiet().await?;
    // Work that the hub put off while it was busy is not free.
    let put_off = hub.cpu()? - cpu;
    let after_all = hub.rss()?;

    let (_, longest) = stats::span(&found.ack_ms).context("no ack was timed")?;
    let mut all = percentiles(&found.ack_ms, "t4s.p50_ms", "t4s.p99_ms")?;
    all.extend([
        ("t4s.sends_per_s", found.second_half.per_second()),
        ("t4s.first_us", found.first_half.server_us()),
        ("t4s.server_us", found.second_half.server_us()),
        ("t4s.put_off_us", put_off.as_secs_f64() * 1e6 / count as f64),
        ("t4s.longest_ms", longest),
        ("t17.few_mb", after_few as f64 / 1e6),
        ("t17.all_mb", after_all as f64 / 1e6),
    ]);
    Ok(all)
}
