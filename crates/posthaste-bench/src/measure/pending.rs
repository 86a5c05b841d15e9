//! T11: a million messages that nobody reads must not be in the way.
//!
//! One hub is filled once. In each round an empty hub and the full one get the
//! same load in turn; then the full one is killed and started again.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::saturate::{PRODUCERS, READERS};
use crate::http::Conn;
use crate::hub::Hub;
use crate::load::{Crew, backlog, saturate};
use crate::probe::steady;
use crate::rounds::Sheet;
use crate::settings::Settings;
use crate::{agents, output, requests};

const MAILBOXES: usize = 100;

pub(crate) async fn run(settings: &Settings, sheet: &mut Sheet) -> anyhow::Result<()> {
    let scratch = settings.folder()?;
    let folder = scratch.path().join("data");
    let mut full = Hub::start(settings, &folder, 0).await?;
    let elsewhere = agents::create(&full, "absent", MAILBOXES).await?;
    let crew = Crew::hire(&full, PRODUCERS, READERS).await?;
    let each = (settings.pending / MAILBOXES).max(1);
    output::note(&format!("filling {MAILBOXES} mailboxes with {each} messages each"));
    let began = Instant::now();
    backlog::fill(&full, &crew.producers[0], &elsewhere, each).await?;
    output::note(&format!("filled in {:.1} s", began.elapsed().as_secs_f64()));

    for round in 0..settings.rounds {
        output::note(&format!("round {} of {}: Pending", round + 1, settings.rounds));
        let empty = steady(settings, async || on_empty(settings).await).await?;
        full.quiet().await?;
        let (warm_up, time) = (settings.warm_up(), settings.seconds);
        let filled =
            steady(settings, async || saturate::run(&full, &crew, warm_up, time).await).await?;
        let rss = full.rss()? as f64 / 1e6;
        full.kill();
        full = Hub::start(settings, &folder, 0).await?;
        let known = known(&full).await?;
        sheet.note(round, "Pending, empty", &empty);
        // The hub's own work counts as that of others here: it lives on.
        sheet.flushes.push(filled.flush_us);
        sheet.rounds[round].extend([
            ("t11.empty_per_s", empty.found),
            ("t11.full_per_s", filled.found.per_second()),
            ("t11.rss_mb", rss),
            ("t11.ready_ms", full.ready_after.as_secs_f64() * 1e3),
            ("t11.known_ms", known.as_secs_f64() * 1e3),
        ]);
    }
    Ok(())
}

/// From spawn until the hub hands out mail again.
async fn known(hub: &Hub) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut conn = Conn::open(hub.address).await?;
    while conn.call(&requests::get("/ready", "none")).await?.status != 200 {
        ensure!(began.elapsed() < Duration::from_secs(60), "the hub is never ready");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(hub.ready_after + began.elapsed())
}

async fn on_empty(settings: &Settings) -> anyhow::Result<f64> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let crew = Crew::hire(&hub, PRODUCERS, READERS).await?;
    let found = saturate::run(&hub, &crew, settings.warm_up(), settings.seconds).await?;
    Ok(found.per_second())
}
