//! T12: how quickly a backlog is read out, acks included.

use super::saturate::READERS;
use crate::hub::Hub;
use crate::load::{Crew, backlog};
use crate::rounds::Found;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let crew = Crew::hire(&hub, 1, READERS).await?;
    let each = (settings.backlog / READERS).max(1);
    backlog::fill(&hub, &crew.producers[0], &crew.readers, each).await?;
    let cpu = hub.cpu()?;
    let took = backlog::drain(&hub, &crew.readers, each).await?;
    let cpu = hub.cpu()? - cpu;
    let count = (each * READERS) as f64;
    Ok(vec![
        ("t12.drained_per_s", count / took.as_secs_f64()),
        ("t12.server_us", cpu.as_secs_f64() * 1e6 / count),
    ])
}
