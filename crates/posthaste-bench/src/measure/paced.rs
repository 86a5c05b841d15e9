//! T6: from the moment a message was due to the return of its reader's call.

use super::{PER_SECOND, percentiles};
use crate::hub::Hub;
use crate::load::{Crew, paced};
use crate::rounds::Found;
use crate::settings::Settings;

const PRODUCERS: usize = 16;
const READERS: usize = 16;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let crew = Crew::hire(&hub, PRODUCERS, READERS).await?;
    let (warm_up, time) = (settings.warm_up(), settings.seconds);
    let took = paced::run(&hub, &crew, PER_SECOND, warm_up, time).await?;
    percentiles(&took, "t6.p50_us", "t6.p99_us")
}
