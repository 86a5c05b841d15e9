//! T8: fifty workers send at once, and one call holds all their results.
//!
//! The hub and RabbitMQ stand side by side and take turns of a fraction of a second,
//! because a busy machine changes faster than a round. On both sides a message is on
//! disk before the reader sees it. A hub that is compared with another hub needs no
//! RabbitMQ beside it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::percentiles;
use crate::hub::Hub;
use crate::load::gather::{self, Reader, Team, WORKERS};
use crate::peers::rabbit::Broker;
use crate::procfs;
use crate::rounds::Found;
use crate::settings::Settings;

/// Turns of each side; the first is the warm-up, and every other goes backwards.
const TURNS: u32 = 5;
/// Fifty results of 1 KiB are more than a client that nobody knows gets at once by default.
const ROOM: (&str, &str) = ("POSTHASTE_MCP__ANSWER_CHARS", "200000");
/// Connections lie idle while others have their turn.
const IDLE: (&str, &str) = ("POSTHASTE_SERVER__HEAD_TIMEOUT", "10m");

pub(crate) async fn run(
    settings: &Settings,
    peers: &mut BTreeSet<String>,
) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let data = scratch.path().join("data");
    let with = settings.with(ROOM.0, ROOM.1).with(IDLE.0, IDLE.1);
    let hub = Hub::start(&with, &data, 0).await?;
    let mut rest = gather::through_rest(&hub).await?;
    let mut mcp = gather::through_mcp(&hub).await?;
    let mut rabbit = None;
    if settings.against.is_none() {
        let broker = Broker::start(settings, &scratch.path().join("rabbit")).await?;
        peers.insert(broker.words.clone());
        rabbit = Some((gather::through_rabbit(&broker).await?, broker));
    }

    let turn = settings.seconds / (TURNS - 1);
    let mut found: [Side; 3] = Default::default();
    for number in 0..TURNS {
        let mut order = [0, 1, 2];
        if number % 2 == 1 {
            order.reverse();
        }
        for which in order {
            let more = match which {
                0 => Side::of(&mut rest, || hub.cpu(), turn).await?,
                1 => Side::of(&mut mcp, || hub.cpu(), turn).await?,
                _ => match &mut rabbit {
                    Some((team, broker)) => Side::of(team, || broker.cpu(), turn).await?,
                    None => continue,
                },
            };
            if number > 0 {
                found[which].add(more);
            }
        }
    }
    let [rest, mcp, peer] = found;
    let mut all = percentiles(&rest.took, "t8.p50_ms", "t8.p99_ms")?;
    all.extend(percentiles(&mcp.took, "t8.mcp_p50_ms", "t8.mcp_p99_ms")?);
    all.extend([
        ("t8.server_us", rest.per_message(rest.server)),
        ("t8.mcp_server_us", mcp.per_message(mcp.server)),
        ("t8.client_us", rest.per_message(rest.client)),
    ]);
    if rabbit.is_some() {
        all.extend(percentiles(&peer.took, "t8.rabbit_p50_ms", "t8.rabbit_p99_ms")?);
        all.push(("t8.rabbit_server_us", peer.per_message(peer.server)));
        all.push(("t8.rabbit_client_us", peer.per_message(peer.client)));
    }
    Ok(all)
}

/// What one side did in all its turns.
#[derive(Default)]
struct Side {
    /// Milliseconds of each burst.
    took: Vec<f64>,
    /// CPU, pauses between bursts included: the server's, and the load's own.
    server: Duration,
    client: Duration,
}

impl Side {
    async fn of<R: Reader>(
        team: &mut Team<R>,
        cpu: impl Fn() -> anyhow::Result<Duration>,
        time: Duration,
    ) -> anyhow::Result<Self> {
        let (server, client) = (cpu()?, procfs::cpu(std::process::id())?);
        let took = team.play(time).await?;
        let client = procfs::cpu(std::process::id())? - client;
        Ok(Self { took, server: cpu()? - server, client })
    }

    fn add(&mut self, more: Self) {
        self.took.extend(more.took);
        self.server += more.server;
        self.client += more.client;
    }

    /// In microseconds.
    fn per_message(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / (self.took.len() * WORKERS) as f64
    }
}
