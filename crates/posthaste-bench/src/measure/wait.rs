//! T9: ten thousand readers that wait, and how soon one of them wakes.
//!
//! The same hub is measured twice, with ten of its agents waiting and with all:
//! only the number of open waits differs.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::limits::micros;
use crate::agents::{self, Agent};
use crate::answers::{Tail, stamps};
use crate::http::Conn;
use crate::hub::Hub;
use crate::load::{first_key, watch};
use crate::requests::{Poll, Send};
use crate::rounds::Found;
use crate::settings::Settings;
use crate::stats;

const FEW: usize = 10;
/// The longest wait that the hub allows: nobody comes back on its own.
const PATIENCE_S: u32 = 600;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    let sender = agents::create(&hub, "sender", 1).await?.remove(0);
    let all = agents::create(&hub, "waiter", settings.waiting).await?;
    let mut room = Room::new(&hub, &sender);

    room.admit(&all[..FEW]).await?;
    hub.quiet().await?;
    let few = room.wake(&all[..FEW], settings).await?;
    hub.quiet().await?;
    let before = hub.rss()?;
    room.admit(&all[FEW..]).await?;
    hub.quiet().await?;
    let after = hub.rss()?;
    let many = room.wake(&all, settings).await?;

    let each = after.saturating_sub(before) as f64 / (all.len() - FEW) as f64;
    let p99 = |took: &[f64]| stats::percentile(took, 0.99).context("nobody woke");
    Ok(vec![
        ("t9.kib", each / 1024.0),
        ("t9.few_p99_us", p99(&few)?),
        ("t9.many_p99_us", p99(&many)?),
    ])
}

/// Everybody who waits, and one who wakes them.
struct Room {
    hub: SocketAddr,
    clock: Instant,
    send: Send,
    key: u64,
    tasks: JoinSet<anyhow::Result<()>>,
    woken: UnboundedSender<f64>,
    wakes: UnboundedReceiver<f64>,
    rng: StdRng,
}

impl Room {
    fn new(hub: &Hub, sender: &Agent) -> Self {
        let (woken, wakes) = unbounded_channel();
        Self {
            hub: hub.address,
            clock: Instant::now(),
            send: Send::new(&sender.token, 0),
            key: first_key(),
            tasks: JoinSet::new(),
            woken,
            wakes,
            rng: StdRng::seed_from_u64(9),
        }
    }

    async fn admit(&mut self, agents: &[Agent]) -> anyhow::Result<()> {
        for agent in agents {
            // One by one: the kernel's queue of new connections is short.
            let conn = Conn::open_as(self.hub, self.tasks.len()).await?;
            let poll = Poll::new(&agent.token, PATIENCE_S);
            self.tasks.spawn(wait(conn, poll, self.clock, self.woken.clone()));
        }
        watch(&mut self.tasks, Duration::from_millis(1)).await
    }

    /// Microseconds from a send to the return of its reader's call, one at a time.
    async fn wake(&mut self, among: &[Agent], settings: &Settings) -> anyhow::Result<Vec<f64>> {
        // A new one each time: the hub closes connections that lie idle.
        let mut conn = Conn::open(self.hub).await?;
        let mut took = Vec::new();
        let first = Instant::now() + settings.warm_up();
        while first.elapsed() < settings.seconds {
            let target = &among[self.rng.random_range(0..among.len())];
            let stamp = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.key += 1;
            let request = self.send.to(&target.id).key(self.key).stamp(stamp).bytes();
            let answer = conn.call(request).await?;
            ensure!(answer.status == 201, answer.unexpected());
            let woke = timeout(Duration::from_secs(5), self.wakes.recv()).await;
            let woke = woke.context("a reader slept on")?.context("all readers are gone")?;
            if Instant::now() >= first {
                took.push(woke);
            }
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
