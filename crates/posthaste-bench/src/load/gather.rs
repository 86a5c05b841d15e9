//! Workers who send at the same moment, and one who waits for all of them.
//!
//! Everything is ready before the start: connections are open, messages are made,
//! the reader waits. A [`Team`] plays one burst after another; who its workers and
//! its reader are ([`hub`], [`broker`]), it does not know.

mod broker;
mod hub;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::{Tally, watch as let_work};
pub(crate) use broker::through_rabbit;
pub(crate) use hub::{through_mcp, through_rest};

pub(crate) const WORKERS: usize = 50;
/// Before a burst: what proved the last one is settled, and the reader waits.
const PAUSE: Duration = Duration::from_millis(5);
/// A burst takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// One who sends.
pub(crate) trait Worker: Send + 'static {
    /// Returns when the message was acknowledged, which means: is on disk.
    fn send(&mut self, stamp: u64) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The one who waits.
pub(crate) trait Reader {
    /// Begins to wait.
    async fn wait(&mut self) -> anyhow::Result<()>;
    /// Returns when it holds what all have sent.
    async fn hold_all(&mut self) -> anyhow::Result<()>;
    /// The stamps of what it holds, which it proves at the latest when it waits again.
    async fn settle(&mut self) -> anyhow::Result<Vec<u64>>;
}

pub(crate) struct Team<R> {
    reader: R,
    workers: JoinSet<anyhow::Result<()>>,
    go: watch::Sender<u64>,
    bursts: u64,
    tally: Arc<Tally>,
}

impl<R: Reader> Team<R> {
    fn new(reader: R, workers: Vec<impl Worker>) -> Self {
        let (go, _) = watch::channel(0);
        let tally = Arc::new(Tally::default());
        let mut tasks = JoinSet::new();
        for (number, worker) in workers.into_iter().enumerate() {
            tasks.spawn(work(worker, number, go.subscribe(), Arc::clone(&tally)));
        }
        Self { reader, workers: tasks, go, bursts: 0, tally }
    }

    /// Bursts for a while; milliseconds from the start of each until the reader held
    /// all of it.
    pub(crate) async fn play(&mut self, time: Duration) -> anyhow::Result<Vec<f64>> {
        let began = Instant::now();
        let mut took = Vec::new();
        while began.elapsed() < time {
            took.push(self.burst().await?.as_secs_f64() * 1e3);
        }
        self.tally.settle(&mut self.workers).await?;
        Ok(took)
    }

    async fn burst(&mut self) -> anyhow::Result<Duration> {
        self.reader.wait().await?;
        sleep(PAUSE).await;
        self.bursts += 1;

        let began = Instant::now();
        self.go.send_replace(self.bursts);
        tokio::select! {
            biased;
            held = timeout(PATIENCE, self.reader.hold_all()) => {
                held.context("the reader waits in vain")??;
            }
            Some(ended) = self.workers.join_next() => {
                ended??;
                bail!("a worker went away");
            }
        }
        let took = began.elapsed();

        let mut came = self.reader.settle().await?;
        came.sort_unstable();
        let sent: Vec<u64> = (0..WORKERS).map(|number| stamp(self.bursts, number)).collect();
        ensure!(came == sent, "{} came of burst {}, or others", came.len(), self.bursts);
        self.tally.receive(came.len());
        let deadline = Instant::now() + PATIENCE;
        while self.tally.acknowledged() < self.tally.received() {
            ensure!(Instant::now() < deadline, "a message was received and not acknowledged");
            let_work(&mut self.workers, Duration::from_millis(1)).await?;
        }
        Ok(took)
    }
}

async fn work(
    mut worker: impl Worker,
    number: usize,
    mut go: watch::Receiver<u64>,
    tally: Arc<Tally>,
) -> anyhow::Result<()> {
    while go.changed().await.is_ok() {
        let burst = *go.borrow_and_update();
        worker.send(stamp(burst, number)).await?;
        tally.acknowledge(1);
    }
    Ok(())
}

/// Which burst, and whose.
fn stamp(burst: u64, number: usize) -> u64 {
    burst * 1_000 + number as u64
}
