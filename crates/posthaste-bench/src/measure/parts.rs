//! What the parts of T4 cost the server, one by one.
//!
//! No target: it tells where to look. The door alone is a call that does nothing;
//! a poll of an empty mailbox adds the token and the queue; a send that nobody
//! reads adds the commit; the rest of T4 is handing out and acking.

use super::saturate::{PRODUCERS, READERS};
use crate::hub::Hub;
use crate::load::{Crew, hammer, saturate};
use crate::requests;
use crate::rounds::Found;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let crew = Crew::hire(&hub, PRODUCERS, READERS).await?;
    let (warm_up, time) = (settings.warm_up(), settings.seconds);

    let calls = vec![requests::get("/health", "none"); PRODUCERS];
    let door = hammer::run(hub.address, hub.pid(), calls, warm_up, time).await?;
    let empty = "/v1/inbox?timeout=0&batch_window=0";
    let calls = crew.producers.iter().map(|agent| requests::get(empty, &agent.token)).collect();
    let poll = hammer::run(hub.address, hub.pid(), calls, warm_up, time).await?;
    let unread = saturate::unread(&hub, &crew, warm_up, time).await?;
    Ok(vec![
        ("parts.door_us", door.server_us),
        ("parts.poll_us", poll.server_us),
        ("parts.unread_us", unread.server_us()),
        ("parts.unread_per_s", unread.per_second()),
    ])
}
