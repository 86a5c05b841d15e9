//! A fixed rate, whatever the answers do: open loop, for latency.
//!
//! Time counts from the moment at which a message was due, not from the moment at
//! which a late sender got round to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Crew, Tally, first_key, read, watch};
use crate::answers::stamps;
use crate::http::Conn;
use crate::hub::Hub;
use crate::pace::Pace;
use crate::requests::Send;

/// Microseconds from due to received, of each message after the warm-up.
pub(crate) async fn run(
    hub: &Hub,
    crew: &Crew,
    per_second: u32,
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<Vec<f64>> {
    let clock = Instant::now();
    let tally = Arc::new(Tally::default());
    let (arrived, mut arrivals) = unbounded_channel();
    let mut tasks = JoinSet::new();
    for reader in &crew.readers {
        let (tally, arrived) = (Arc::clone(&tally), arrived.clone());
        tasks.spawn(read(hub.address, reader.clone(), move |tail, body| {
            let now = clock.elapsed();
            tally.receive(tail.total);
            for due in stamps(body).map(Duration::from_nanos) {
                // Nobody listens any more when the run is over.
                let _ = arrived.send((due, now.saturating_sub(due)));
            }
        }));
    }
    let mut lines: Vec<UnboundedSender<Duration>> = Vec::new();
    for (number, producer) in crew.producers.iter().enumerate() {
        let (line, due) = unbounded_channel();
        lines.push(line);
        let send = Send::new(&producer.token, number);
        let to = crew.readers[number % crew.readers.len()].id.clone();
        tasks.spawn(produce(hub.address, send, to, due, Arc::clone(&tally)));
    }
    // Connections stand before the first message is due.
    watch(&mut tasks, Duration::from_millis(100)).await?;

    let first = clock.elapsed() + warm_up;
    let mut pace = Pace::new(per_second);
    for line in lines.iter().cycle() {
        let due = pace.next().await.saturating_duration_since(clock);
        if due > first + time {
            break;
        }
        ensure!(line.send(due).is_ok(), "a producer gave up");
    }
    drop(lines);
    tally.settle(&mut tasks).await?;
    drop(arrived);
    tasks.shutdown().await;
    let mut took = Vec::new();
    while let Some((due, late)) = arrivals.recv().await {
        if due >= first {
            took.push(late.as_secs_f64() * 1e6);
        }
    }
    Ok(took)
}

async fn produce(
    hub: SocketAddr,
    mut send: Send,
    to: String,
    mut due: UnboundedReceiver<Duration>,
    tally: Arc<Tally>,
) -> anyhow::Result<()> {
    let mut conn = Conn::open(hub).await?;
    let mut key = first_key();
    while let Some(due) = due.recv().await {
        let stamp = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX);
        let answer = conn.call(send.to(&to).key(key).stamp(stamp).bytes()).await?;
        ensure!(answer.status == 201, answer.unexpected());
        tally.acknowledge(1);
        key += 1;
    }
    Ok(())
}
