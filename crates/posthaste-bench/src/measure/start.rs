//! T15: what a hub costs that does nothing, and how soon it answers.

use std::time::Duration;

use anyhow::ensure;

use crate::hub::Hub;
use crate::rounds::Found;
use crate::settings::Settings;

/// After the start, before memory is looked at.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let folder = scratch.path().join("data");
    let mut hub = Hub::start(settings, &folder, 0).await?;
    let fresh = hub.answers_after;
    tokio::time::sleep(SETTLE).await;
    let rss = hub.rss()? as f64;
    ensure!(hub.stop().await?, "the hub did not stop in order");
    let again = Hub::start(settings, &folder, 0).await?.answers_after;
    Ok(vec![
        ("t15.rss_mb", rss / 1e6),
        ("t15.fresh_ms", fresh.as_secs_f64() * 1e3),
        ("t15.again_ms", again.as_secs_f64() * 1e3),
    ])
}
