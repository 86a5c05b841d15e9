//! What limits the work: HTTP itself, and the disk itself.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::Instant;

use super::{PER_SECOND, percentiles};
use crate::echo::{self, EchoServer};
use crate::http::Conn;
use crate::load::hammer;
use crate::pace::Pace;
use crate::rounds::Found;
use crate::settings::Settings;
use crate::{probe, stats};

const CONNECTIONS: usize = 64;
const FLUSHES: usize = 300;

/// Echoes per second at 64 connections, closed loop.
pub(crate) async fn echo(settings: &Settings) -> anyhow::Result<Found> {
    let server = EchoServer::start(settings).await?;
    let calls = vec![echo::request(); CONNECTIONS];
    let (warm_up, time) = (settings.warm_up(), settings.seconds);
    let found = hammer::run(server.address, server.pid(), calls, warm_up, time).await?;
    Ok(vec![
        ("echo.per_s", found.per_second),
        ("echo.server_us", found.server_us),
        ("echo.longest_ms", found.longest.as_secs_f64() * 1e3),
    ])
}

/// One connection, 300 echoes per second.
pub(crate) async fn echo_paced(settings: &Settings) -> anyhow::Result<Found> {
    let server = EchoServer::start(settings).await?;
    let mut conn = Conn::open(server.address).await?;
    let request = echo::request();
    let mut pace = Pace::new(PER_SECOND);
    let mut took = Vec::new();
    let first = Instant::now() + settings.warm_up();
    while first.elapsed() < settings.seconds {
        let due = pace.next().await;
        let answer = conn.call(&request).await?;
        ensure!(answer.status == 200, answer.unexpected());
        if due >= first {
            took.push(micros(due.elapsed()));
        }
    }
    percentiles(&took, "echo_paced.p50_us", "echo_paced.p99_us")
}

/// 4 KiB written and flushed, one after another.
pub(crate) fn flush(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let took = probe::flushes(scratch.path(), FLUSHES)?;
    Ok(vec![("flush.p50_us", stats::median(&took).context("no flush")?)])
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
