//! A fixed number of sends, as fast as they are answered, judged by their second half.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::saturate::{Mark, Saturated};
use super::{Crew, Tally, first_key};
use crate::agents::Agent;
use crate::http::Conn;
use crate::hub::Hub;
use crate::requests::Send;

/// How often the load is asked whether half of it is done.
const LOOK: Duration = Duration::from_millis(1);

pub(crate) struct Sustained {
    pub(crate) first_half: Saturated,
    pub(crate) second_half: Saturated,
    /// From a send to its ack, in milliseconds, for each send of the second half.
    pub(crate) ack_ms: Vec<f64>,
}

/// Every producer sends to all mailboxes in turn until `count` sends are acknowledged.
/// The mailboxes have readers, which the caller keeps.
pub(crate) async fn run(
    hub: &Hub,
    crew: &Crew,
    tally: &Arc<Tally>,
    count: u64,
) -> anyhow::Result<Sustained> {
    let tickets = Arc::new(Tickets { next: AtomicU64::new(0), half: count / 2, end: count });
    let to: Arc<[Agent]> = crew.readers.clone().into();
    let began = Mark::now(hub, tally)?;
    let half = tally.acknowledged() + tickets.half;
    let mut producers = JoinSet::new();
    for (number, producer) in crew.producers.iter().enumerate() {
        let send = Send::new(&producer.token, number);
        let (to, tally, tickets) = (Arc::clone(&to), Arc::clone(tally), Arc::clone(&tickets));
        producers.spawn(produce(hub.address, send, number, to, tally, tickets));
    }

    let (mut halfway, mut ack_ms) = (None, Vec::new());
    while !producers.is_empty() {
        tokio::select! {
            Some(ended) = producers.join_next() => ack_ms.extend(ended??),
            () = sleep(LOOK), if halfway.is_none() => {}
        }
        if halfway.is_none() && tally.acknowledged() >= half {
            halfway = Some(Mark::now(hub, tally)?);
        }
    }
    let end = Mark::now(hub, tally)?;
    let halfway = halfway.context("the load has no second half")?;
    Ok(Sustained { first_half: began.until(&halfway), second_half: halfway.until(&end), ack_ms })
}

/// Hands out the right to send one message each.
struct Tickets {
    next: AtomicU64,
    /// From this one on, producers note how long an ack took.
    half: u64,
    end: u64,
}

/// Sends while there are tickets; the ack times of the second half, in milliseconds.
async fn produce(
    hub: SocketAddr,
    mut send: Send,
    number: usize,
    to: Arc<[Agent]>,
    tally: Arc<Tally>,
    tickets: Arc<Tickets>,
) -> anyhow::Result<Vec<f64>> {
    let mut conn = Conn::open(hub).await?;
    let mut ack_ms = Vec::new();
    for (key, reader) in (first_key()..).zip(to.iter().cycle().skip(number)) {
        let ticket = tickets.next.fetch_add(1, Ordering::Relaxed);
        if ticket >= tickets.end {
            break;
        }
        let began = Instant::now();
        let answer = conn.call(send.to(&reader.id).key(key).bytes()).await?;
        let took = began.elapsed();
        ensure!(answer.status == 201, answer.unexpected());
        tally.acknowledge(1);
        if ticket >= tickets.half {
            ack_ms.push(took.as_secs_f64() * 1e3);
        }
    }
    Ok(ack_ms)
}
