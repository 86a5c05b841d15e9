//! As many sends as the hub answers: closed loop, for throughput only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Crew, Tally, first_key, read, watch};
use crate::agents::Agent;
use crate::http::Conn;
use crate::hub::Hub;
use crate::procfs;
use crate::requests::Send;

pub(crate) struct Saturated {
    pub(crate) per_second: f64,
    /// CPU per message, in microseconds: the hub's, and the load's own.
    pub(crate) server_us: f64,
    pub(crate) client_us: f64,
}

/// Every producer sends to all mailboxes in turn; every mailbox has one reader.
pub(crate) async fn run(
    hub: &Hub,
    crew: &Crew,
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<Saturated> {
    let tally = Arc::new(Tally::default());
    let mut tasks = JoinSet::new();
    for reader in &crew.readers {
        let tally = Arc::clone(&tally);
        tasks.spawn(read(hub.address, reader.clone(), move |tail, _| tally.receive(tail.total)));
    }
    let found = send(hub, crew, &tally, warm_up, time).await?;
    tally.settle(&mut tasks).await?;
    Ok(found)
}

/// The same without readers: what a send alone costs.
pub(crate) async fn unread(
    hub: &Hub,
    crew: &Crew,
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<Saturated> {
    send(hub, crew, &Arc::new(Tally::default()), warm_up, time).await
}

async fn send(
    hub: &Hub,
    crew: &Crew,
    tally: &Arc<Tally>,
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<Saturated> {
    let stop = Arc::new(AtomicBool::new(false));
    let to: Arc<[Agent]> = crew.readers.clone().into();
    let mut producers = JoinSet::new();
    for (number, producer) in crew.producers.iter().enumerate() {
        let send = Send::new(&producer.token, number);
        let (tally, stop, to) = (Arc::clone(tally), Arc::clone(&stop), Arc::clone(&to));
        producers.spawn(produce(hub.address, send, number, to, tally, stop));
    }

    watch(&mut producers, warm_up).await?;
    let (began, sent) = (Instant::now(), tally.acknowledged());
    let (server, client) = (hub.cpu()?, procfs::cpu(std::process::id())?);
    watch(&mut producers, time).await?;
    let (took, sent) = (began.elapsed(), tally.acknowledged() - sent);
    let server = hub.cpu()? - server;
    let client = procfs::cpu(std::process::id())? - client;

    stop.store(true, Ordering::Relaxed);
    while let Some(done) = producers.join_next().await {
        done??;
    }
    ensure!(sent > 0, "nothing was sent");
    let sent = sent as f64;
    Ok(Saturated {
        per_second: sent / took.as_secs_f64(),
        server_us: server.as_secs_f64() * 1e6 / sent,
        client_us: client.as_secs_f64() * 1e6 / sent,
    })
}

async fn produce(
    hub: SocketAddr,
    mut send: Send,
    number: usize,
    to: Arc<[Agent]>,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let mut conn = Conn::open(hub).await?;
    let turns = to.iter().cycle().skip(number);
    let turns = turns.take_while(|_| !stop.load(Ordering::Relaxed));
    for (key, reader) in (first_key()..).zip(turns) {
        let answer = conn.call(send.to(&reader.id).key(key).bytes()).await?;
        ensure!(answer.status == 201, answer.unexpected());
        tally.acknowledge(1);
    }
    Ok(())
}
