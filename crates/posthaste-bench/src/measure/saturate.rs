//! T4: durable sends per second, and what each costs the server.

use crate::hub::Hub;
use crate::load::{Crew, saturate};
use crate::rounds::Found;
use crate::settings::Settings;

pub(crate) const PRODUCERS: usize = 64;
pub(crate) const READERS: usize = 16;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let crew = Crew::hire(&hub, PRODUCERS, READERS).await?;
    let found = saturate::run(&hub, &crew, settings.warm_up(), settings.seconds).await?;
    Ok(vec![
        ("t4.sends_per_s", found.per_second()),
        ("t4.server_us", found.server_us()),
        ("t4.client_us", found.client_us()),
    ])
}
