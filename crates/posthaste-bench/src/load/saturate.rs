//! As many sends as the hub answers: closed loop, for throughput only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Crew, Door, Tally, first_key, read, watch};
use crate::agents::Agent;
use crate::http::Conn;
use crate::hub::Hub;
use crate::procfs;

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Saturated {
    sent: u64,
    took: Duration,
    /// CPU: the hub's, and the load's own.
    server: Duration,
    client: Duration,
}

impl Saturated {
    pub(crate) fn per_second(&self) -> f64 {
        self.sent as f64 / self.took.as_secs_f64()
    }

    /// CPU per message, in microseconds.
    pub(crate) fn server_us(&self) -> f64 {
        self.server.as_secs_f64() * 1e6 / self.sent as f64
    }

    pub(crate) fn client_us(&self) -> f64 {
        self.client.as_secs_f64() * 1e6 / self.sent as f64
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.sent += more.sent;
        self.took += more.took;
        self.server += more.server;
        self.client += more.client;
    }
}

/// The counts of one moment; a [`Saturated`] is the difference of two.
pub(super) struct Mark {
    at: Instant,
    acknowledged: u64,
    server: Duration,
    client: Duration,
}

impl Mark {
    pub(super) fn now(hub: &Hub, tally: &Tally) -> anyhow::Result<Self> {
        Ok(Self {
            at: Instant::now(),
            acknowledged: tally.acknowledged(),
            server: hub.cpu()?,
            client: procfs::cpu(std::process::id())?,
        })
    }

    pub(super) fn until(&self, later: &Self) -> Saturated {
        Saturated {
            sent: later.acknowledged - self.acknowledged,
            took: later.at - self.at,
            server: later.server - self.server,
            client: later.client - self.client,
        }
    }
}

/// Every producer sends to all mailboxes in turn; every mailbox has one reader.
pub(crate) async fn run(
    hub: &Hub,
    crew: &Crew,
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<Saturated> {
    let tally = Arc::new(Tally::default());
    let mut tasks = readers(hub, crew, &tally);
    let found = send(hub, crew, Door::Rest, &tally, warm_up, time).await?;
    tally.settle(&mut tasks).await?;
    Ok(found)
}

/// One reader for each mailbox, who never ends.
pub(crate) fn readers(hub: &Hub, crew: &Crew, tally: &Arc<Tally>) -> JoinSet<anyhow::Result<()>> {
    let mut tasks = JoinSet::new();
    for reader in &crew.readers {
        let tally = Arc::clone(tally);
        tasks.spawn(read(hub.address, reader.clone(), move |tail, _| tally.receive(tail.total)));
    }
    tasks
}

/// The same without readers: what a send alone costs.
pub(crate) async fn unread(
    hub: &Hub,
    crew: &Crew,
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<Saturated> {
    send(hub, crew, Door::Rest, &Arc::new(Tally::default()), warm_up, time).await
}

/// Every producer sends through `door`, over a connection of its own.
pub(crate) async fn send(
    hub: &Hub,
    crew: &Crew,
    door: Door,
    tally: &Arc<Tally>,
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<Saturated> {
    let stop = Arc::new(AtomicBool::new(false));
    let to: Arc<[Agent]> = crew.readers.clone().into();
    let mut producers = JoinSet::new();
    for (number, producer) in crew.producers.iter().enumerate() {
        let producer = Producer { hub: hub.address, agent: producer.clone(), number, door };
        let (tally, stop, to) = (Arc::clone(tally), Arc::clone(&stop), Arc::clone(&to));
        producers.spawn(producer.run(to, tally, stop));
    }

    watch(&mut producers, warm_up).await?;
    let began = Mark::now(hub, tally)?;
    watch(&mut producers, time).await?;
    let found = began.until(&Mark::now(hub, tally)?);

    stop.store(true, Ordering::Relaxed);
    while let Some(done) = producers.join_next().await {
        done??;
    }
    ensure!(found.sent > 0, "nothing was sent");
    Ok(found)
}

struct Producer {
    hub: SocketAddr,
    agent: Agent,
    number: usize,
    door: Door,
}

impl Producer {
    async fn run(
        self,
        to: Arc<[Agent]>,
        tally: Arc<Tally>,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<()> {
        let mut conn = Conn::open(self.hub).await?;
        let mut send = self.door.enter(&mut conn, &self.agent, self.number).await?;
        let turns = to.iter().cycle().skip(self.number);
        let turns = turns.take_while(|_| !stop.load(Ordering::Relaxed));
        for (key, reader) in (first_key()..).zip(turns) {
            let answer = conn.call(send.to(&reader.id).key(key).bytes()).await?;
            ensure!(self.door.has_taken(&answer), answer.unexpected());
            tally.acknowledge(1);
        }
        Ok(())
    }
}
