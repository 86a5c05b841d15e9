//! T9: ten thousand readers that wait, and how soon one of them wakes.
//!
//! Two hubs stand side by side, one with ten waiting and one with all. They are
//! measured in turns of a fraction of a second, because what a busy machine does
//! to the slowest wake-ups is more than what the hub does.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::limits::micros;
use super::percentiles;
use crate::agents::{self, Agent};
use crate::answers::{Tail, stamps};
use crate::http::Conn;
use crate::hub::Hub;
use crate::load::{first_key, watch};
use crate::requests::{Poll, Send};
use crate::rounds::Found;
use crate::settings::Settings;

const FEW: usize = 10;
/// The longest wait that the hub allows: nobody comes back on its own.
const PATIENCE_S: u32 = 600;
/// Turns of each hub; the first is the warm-up.
const TURNS: u32 = 9;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let small = Hub::start(settings, &scratch.path().join("small"), 0).await?;
    let large = Hub::start(settings, &scratch.path().join("large"), 0).await?;
    let mut few = Room::new(&small, FEW).await?;
    let mut many = Room::new(&large, settings.waiting).await?;
    few.admit().await?;
    large.quiet().await?;
    let before = large.rss()?;
    many.admit().await?;
    large.quiet().await?;
    let each = large.rss()?.saturating_sub(before) as f64 / settings.waiting as f64;

    let turn = settings.seconds / (TURNS - 1);
    let (mut with_few, mut with_many) = (Vec::new(), Vec::new());
    for number in 0..TURNS {
        let (of_few, of_many) = (few.wake(turn).await?, many.wake(turn).await?);
        if number > 0 {
            with_few.extend(of_few);
            with_many.extend(of_many);
        }
    }
    let mut found = vec![("t9.kib", each / 1024.0)];
    found.extend(percentiles(&with_few, "t9.few_p50_us", "t9.few_p99_us")?);
    found.extend(percentiles(&with_many, "t9.many_p50_us", "t9.many_p99_us")?);
    Ok(found)
}

/// Everybody who waits at one hub, and one who wakes them.
struct Room {
    hub: SocketAddr,
    clock: Instant,
    waiters: Vec<Agent>,
    send: Send,
    key: u64,
    tasks: JoinSet<anyhow::Result<()>>,
    woken: UnboundedSender<f64>,
    wakes: UnboundedReceiver<f64>,
    rng: StdRng,
}

impl Room {
    async fn new(hub: &Hub, waiters: usize) -> anyhow::Result<Self> {
        let sender = agents::create(hub, "sender", 1).await?.remove(0);
        let (woken, wakes) = unbounded_channel();
        Ok(Self {
            hub: hub.address,
            clock: Instant::now(),
            waiters: agents::create(hub, "waiter", waiters).await?,
            send: Send::new(&sender.token, 0),
            key: first_key(),
            tasks: JoinSet::new(),
            woken,
            wakes,
            rng: StdRng::seed_from_u64(9),
        })
    }

    async fn admit(&mut self) -> anyhow::Result<()> {
        for agent in &self.waiters {
            // One by one: the kernel's queue of new connections is short.
            let conn = Conn::open_as(self.hub, self.tasks.len()).await?;
            let poll = Poll::new(&agent.token, PATIENCE_S);
            self.tasks.spawn(wait(conn, poll, self.clock, self.woken.clone()));
        }
        watch(&mut self.tasks, Duration::from_millis(1)).await
    }

    /// Microseconds from a send to the return of its reader's call, one at a time.
    async fn wake(&mut self, time: Duration) -> anyhow::Result<Vec<f64>> {
        // A new one each time: the hub closes connections that lie idle.
        let mut conn = Conn::open(self.hub).await?;
        let mut took = Vec::new();
        let began = Instant::now();
        while began.elapsed() < time {
            let target = &self.waiters[self.rng.random_range(0..self.waiters.len())];
            let stamp = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.key += 1;
            let request = self.send.to(&target.id).key(self.key).stamp(stamp).bytes();
            let answer = conn.call(request).await?;
            ensure!(answer.status == 201, answer.unexpected());
            let woke = timeout(Duration::from_secs(5), self.wakes.recv()).await;
            took.push(woke.context("a reader slept on")?.context("all readers are gone")?);
        }
        Ok(took)
    }
}

async fn wait(
    mut conn: Conn,
    mut poll: Poll,
    clock: Instant,
    woken: UnboundedSender<f64>,
) -> anyhow::Result<()> {
    let mut receipt = None;
    loop {
        let answer = conn.call(poll.with(receipt.as_deref())).await?;
        let now = clock.elapsed();
        ensure!(answer.status == 200, answer.unexpected());
        for stamp in stamps(answer.body) {
            let _ = woken.send(micros(now.saturating_sub(Duration::from_nanos(stamp))));
        }
        receipt = Tail::read(answer.body)?.receipt.map(str::to_owned);
    }
}
