//! T13: sends through MCP beside the same sends through REST.
//!
//! One hub, the same senders, mailboxes and readers; the doors take turns of a
//! fraction of a second, because a busy machine changes faster than that. Readers
//! read as in T4 whichever door the mail came through, so what is compared is
//! sending.

use std::sync::Arc;

use super::saturate::{PRODUCERS, READERS};
use crate::hub::Hub;
use crate::load::saturate::{self, Saturated};
use crate::load::{Crew, Door, Tally};
use crate::mcp::Era;
use crate::rounds::Found;
use crate::settings::Settings;

const DOORS: [Door; 3] = [Door::Rest, Door::Mcp(Era::Old), Door::Mcp(Era::New)];
/// Turns of each door; every other time round they go backwards.
const TURNS: u32 = 4;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let crew = Crew::hire(&hub, PRODUCERS, READERS).await?;
    let tally = Arc::new(Tally::default());
    let mut readers = saturate::readers(&hub, &crew, &tally);

    let mut found = [Saturated::default(); DOORS.len()];
    let (warm_up, time) = (settings.warm_up() / 2, settings.seconds / TURNS);
    for turn in 0..TURNS {
        let mut order = [0, 1, 2];
        if turn % 2 == 1 {
            order.reverse();
        }
        for which in order {
            let more = saturate::send(&hub, &crew, DOORS[which], &tally, warm_up, time).await?;
            tally.settle(&mut readers).await?;
            found[which].add(&more);
        }
    }
    let [rest, mcp, new] = found;
    Ok(vec![
        ("t13.rest_per_s", rest.per_second()),
        ("t13.mcp_per_s", mcp.per_second()),
        ("t13.new_per_s", new.per_second()),
        ("t13.rest_us", rest.server_us()),
        ("t13.mcp_us", mcp.server_us()),
        ("t13.new_us", new.server_us()),
        ("t13.rest_client_us", rest.client_us()),
        ("t13.mcp_client_us", mcp.client_us()),
    ])
}
