//! T11: a million messages that nobody reads must not be in the way.
//!
//! One hub is filled once. In each round an empty hub and the full one get the
//! same load in turn; then the full one is killed and started again. Of two hubs that
//! are compared, each is filled, and the one that is not measured rests.

use std::time::Instant;

use anyhow::ensure;
use tempfile::TempDir;

use super::saturate::{PRODUCERS, READERS};
use crate::agents::{self, Agent};
use crate::answers::Tail;
use crate::http::Conn;
use crate::hub::Hub;
use crate::load::{Crew, backlog, saturate};
use crate::output;
use crate::probe::steady;
use crate::requests::Poll;
use crate::rounds::{Found, Sheet};
use crate::settings::{Build, Settings};

const MAILBOXES: usize = 100;

pub(crate) async fn run(settings: &Settings, sheet: &mut Sheet) -> anyhow::Result<()> {
    let mut hubs = Vec::new();
    for build in [Build::This, Build::Other] {
        if let Some(settings) = settings.of(build) {
            hubs.push((build, Full::fill(&settings).await?, settings));
        }
    }
    for round in 0..settings.rounds {
        for (build, full, settings) in &mut hubs {
            output::note(&format!(
                "round {} of {}: Pending, {build:?}",
                round + 1,
                settings.rounds
            ));
            let found = full.round(settings, round, sheet).await?;
            sheet.keep(round, *build, found);
        }
        hubs.reverse();
    }
    Ok(())
}

/// A hub whose mailboxes nobody reads, and the agents of the load beside them.
struct Full {
    scratch: TempDir,
    hub: Hub,
    /// One of those who do not read.
    absent: Agent,
    crew: Crew,
}

impl Full {
    async fn fill(settings: &Settings) -> anyhow::Result<Self> {
        let scratch = settings.folder()?;
        let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
        let mut elsewhere = agents::create(&hub, "absent", MAILBOXES).await?;
        let crew = Crew::hire(&hub, PRODUCERS, READERS).await?;
        let each = (settings.pending / MAILBOXES).max(1);
        output::note(&format!("filling {MAILBOXES} mailboxes with {each} messages each"));
        let began = Instant::now();
        backlog::fill(&hub, &crew.producers[0], &elsewhere, each).await?;
        output::note(&format!("filled in {:.1} s", began.elapsed().as_secs_f64()));
        Ok(Self { scratch, hub, absent: elsewhere.remove(0), crew })
    }

    /// An empty hub, the full one, and a restart of the full one.
    async fn round(
        &mut self,
        settings: &Settings,
        round: usize,
        sheet: &mut Sheet,
    ) -> anyhow::Result<Found> {
        let empty = steady(settings, async || on_empty(settings).await).await?;
        self.hub.quiet().await?;
        let (warm_up, time) = (settings.warm_up(), settings.seconds);
        let load = async || saturate::run(&self.hub, &self.crew, warm_up, time).await;
        let filled = steady(settings, load).await?;
        let rss = self.hub.rss()? as f64 / 1e6;
        self.hub.kill();
        self.hub = Hub::start(settings, &self.scratch.path().join("data"), 0).await?;
        let ready = self.hub.ready_after().await?;
        self.hands_out().await?;
        sheet.note(round, "Pending, empty", &empty);
        // The full hub's own CPU would count as that of others: it is not reaped.
        sheet.flushes.push(filled.flush_us);
        Ok(vec![
            ("t11.empty_per_s", empty.found),
            ("t11.full_per_s", filled.found.per_second()),
            ("t11.rss_mb", rss),
            ("t11.health_ms", self.hub.answers_after.as_secs_f64() * 1e3),
            ("t11.ready_ms", ready.as_secs_f64() * 1e3),
        ])
    }

    /// Fails unless a hub that calls itself ready answers a poll with mail at once.
    async fn hands_out(&self) -> anyhow::Result<()> {
        let mut conn = Conn::open(self.hub.address).await?;
        let answer = conn.call(Poll::new(&self.absent.token, 0).with(None)).await?;
        ensure!(answer.status == 200, answer.unexpected());
        ensure!(Tail::read(answer.body)?.total > 0, "a ready hub hands out no mail");
        Ok(())
    }
}

async fn on_empty(settings: &Settings) -> anyhow::Result<f64> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let crew = Crew::hire(&hub, PRODUCERS, READERS).await?;
    let found = saturate::run(&hub, &crew, settings.warm_up(), settings.seconds).await?;
    Ok(found.per_second())
}
