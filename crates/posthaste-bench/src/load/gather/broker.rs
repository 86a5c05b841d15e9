//! RabbitMQ's side: fifty publishers with confirms, one consumer of a quorum queue.

use anyhow::{Context, ensure};

use super::{Reader, Team, WORKERS, Worker};
use crate::peers::amqp::{Channel, Publish};
use crate::peers::rabbit::Broker;
use crate::requests::stamp_of;

const QUEUE: &str = "results";

/// The consumer takes what comes as it comes, and acknowledges all of it at once.
pub(crate) async fn through_rabbit(broker: &Broker) -> anyhow::Result<Team<Consumer>> {
    let mut channel = Channel::open(broker.address).await?;
    channel.declare_quorum(QUEUE).await?;
    channel.consume(QUEUE).await?;
    let mut workers = Vec::with_capacity(WORKERS);
    for _ in 0..WORKERS {
        let mut channel = Channel::open(broker.address).await?;
        channel.confirm().await?;
        workers.push(Publisher { channel, publish: Publish::to(QUEUE)? });
    }
    Ok(Team::new(Consumer { channel, held: Vec::with_capacity(WORKERS), last: 0 }, workers))
}

struct Publisher {
    channel: Channel,
    publish: Publish,
}

impl Worker for Publisher {
    async fn send(&mut self, stamp: u64) -> anyhow::Result<()> {
        self.channel.publish(self.publish.stamp(stamp)).await
    }
}

pub(crate) struct Consumer {
    channel: Channel,
    held: Vec<Vec<u8>>,
    /// The tag of the last delivery.
    last: u64,
}

impl Reader for Consumer {
    /// It waits all the time.
    async fn wait(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn hold_all(&mut self) -> anyhow::Result<()> {
        self.held.clear();
        while self.held.len() < WORKERS {
            let (tag, text) = self.channel.delivery().await?;
            self.held.push(text);
            self.last = tag;
        }
        Ok(())
    }

    async fn settle(&mut self) -> anyhow::Result<Vec<u64>> {
        ensure!(self.held.len() == WORKERS, "the consumer holds {}", self.held.len());
        self.channel.ack_up_to(self.last).await?;
        let stamp = |text: &Vec<u8>| stamp_of(std::str::from_utf8(text).ok()?);
        self.held.iter().map(|text| stamp(text).context("a message of nobody")).collect()
    }
}
