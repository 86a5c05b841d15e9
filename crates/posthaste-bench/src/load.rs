//! The load: who sends to whom, and how what was sent is counted.
//!
//! [`saturate`] sends as fast as it is answered (closed loop: throughput only),
//! [`sustained`] does so until a number of messages is sent,
//! [`paced`] at a fixed rate whatever the answers do (open loop: latency),
//! [`backlog`] fills mailboxes and reads them out, [`hammer`] repeats one call,
//! [`gather`] has many send at once to one who waits for all.
//! A [`Door`] is what a sender goes through.

pub(crate) mod backlog;
mod door;
pub(crate) mod gather;
pub(crate) mod hammer;
pub(crate) mod paced;
pub(crate) mod saturate;
pub(crate) mod sustained;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{bail, ensure};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::agents::{self, Agent};
use crate::answers::Tail;
use crate::http::Conn;
use crate::hub::Hub;
use crate::requests::Poll;

pub(crate) use self::door::Door;

/// How long a reader waits in one call.
pub(crate) const POLL_S: u32 = 30;

/// Those who send and those who read.
pub(crate) struct Crew {
    pub(crate) producers: Vec<Agent>,
    pub(crate) readers: Vec<Agent>,
}

impl Crew {
    pub(crate) async fn hire(hub: &Hub, producers: usize, readers: usize) -> anyhow::Result<Self> {
        Ok(Self {
            producers: agents::create(hub, "producer", producers).await?,
            readers: agents::create(hub, "reader", readers).await?,
        })
    }
}

/// What both ends have counted so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    acknowledged: AtomicU64,
    received: AtomicU64,
}

impl Tally {
    pub(crate) fn acknowledge(&self, more: u64) {
        self.acknowledged.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn receive(&self, more: usize) {
        self.received.fetch_add(more as u64, Ordering::Relaxed);
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Every acknowledged message arrives, and nothing else does.
    pub(crate) async fn settle(
        &self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.received() < self.acknowledged() && Instant::now() < deadline {
            watch(tasks, Duration::from_millis(10)).await?;
        }
        // Whatever should not be there has a moment to come, too.
        watch(tasks, Duration::from_millis(50)).await?;
        let (sent, came) = (self.acknowledged(), self.received());
        ensure!(sent == came, "{sent} messages were acknowledged and {came} received");
        Ok(())
    }
}

/// Lets the tasks work for a while; the first that fails ends it.
pub(crate) async fn watch(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    time: Duration,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        if tasks.is_empty() {
            sleep(left).await;
            continue;
        }
        match timeout(left, tasks.join_next()).await {
            Ok(Some(Ok(done))) => done?,
            Ok(Some(Err(error))) => bail!("a task of the load failed: {error}"),
            Ok(None) | Err(_) => {}
        }
    }
}

/// Reads a mailbox for ever. Each call proves the answer before it.
pub(crate) async fn read(
    hub: SocketAddr,
    reader: Agent,
    mut on_answer: impl FnMut(&Tail<'_>, &[u8]),
) -> anyhow::Result<()> {
    let mut conn = Conn::open(hub).await?;
    let mut poll = Poll::new(&reader.token, POLL_S);
    let mut receipt = None;
    loop {
        let answer = conn.call(poll.with(receipt.as_deref())).await?;
        ensure!(answer.status == 200, answer.unexpected());
        let tail = Tail::read(answer.body)?;
        on_answer(&tail, answer.body);
        receipt = tail.receipt.map(str::to_owned);
    }
}

/// Where the keys of a run begin: no two runs share one.
pub(crate) fn first_key() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(0)
}
