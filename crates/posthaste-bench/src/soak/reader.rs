//! An agent that reads its mail through REST, and now and then does it badly: it drops
//! the connection while it waits, or does not prove what it got and begins anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use posthaste_api::inbox::Inbox;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::time::sleep;

use super::Shared;
use super::line::{Line, Reply};
use super::orders::Order;
use super::record::{FOR_EACH, Sight, Who};
use crate::requests::{get, post};

/// Seconds of one wait.
const WAIT_S: u32 = 5;
const LONGEST_BEFORE_DROP_MS: u64 = 300;
/// One message in so many is answered.
const ANSWERED: u32 = 10;

pub(super) struct Reader {
    who: Who,
    shared: Arc<Shared>,
    line: Line,
    rng: StdRng,
    /// What proves the answer before.
    receipt: Option<String>,
    /// What the reader held unproven has to come again.
    begins: bool,
}

impl Reader {
    pub(super) fn new(who: Who, shared: Arc<Shared>, seed: u64) -> Self {
        let line = Line::new(shared.hub);
        let rng = StdRng::seed_from_u64(seed);
        Self { who, shared, line, rng, receipt: None, begins: false }
    }

    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            match self.rng.random_range(0..100) {
                0..2 => self.drop_a_call().await?,
                2..4 => self.forget_an_answer().await?,
                4..10 => self.prove_apart().await?,
                _ => self.read().await?,
            }
        }
        // What was read last is proven, so that nothing stays behind.
        self.prove().await
    }

    fn token(&self) -> &str {
        &self.shared.agents[self.who].token
    }

    fn request(&mut self) -> Vec<u8> {
        let window = if self.rng.random_bool(0.5) { "0" } else { "0.05" };
        let mut path = format!("/v1/inbox?timeout={WAIT_S}&batch_window={window}");
        if let Some(receipt) = self.receipt.take() {
            path += &format!("&receipt={receipt}");
        }
        if std::mem::take(&mut self.begins) {
            path += "&begin=true";
        }
        get(&path, self.token())
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        let request = self.request();
        let reply = self.line.expect(&self.shared.record, 200, &request).await?;
        self.receipt = self.take(&reply)?;
        Ok(())
    }

    /// Records what came; its receipt.
    fn take(&mut self, reply: &Reply) -> anyhow::Result<Option<String>> {
        let inbox: Inbox<'_> = reply.read()?;
        for entry in &inbox.messages {
            let sight = Sight {
                seq: entry.id,
                text: &entry.message,
                label: entry.label.as_deref(),
                redelivered: entry.redelivered,
            };
            self.shared.record.read(self.who, sight);
            let plain = entry.in_reply_to.is_none()
                && entry.relation == "peer"
                && !entry.message.starts_with(FOR_EACH);
            if plain && self.rng.random_ratio(1, ANSWERED) {
                let to = entry.sender_id.to_string();
                self.shared.order(Order::Answer { from: self.who, to, seq: entry.id });
            }
        }
        Ok(inbox.receipt.map(Into::into))
    }

    /// With a call of its own instead of the next one.
    async fn prove_apart(&mut self) -> anyhow::Result<()> {
        self.read().await?;
        self.prove().await
    }

    async fn prove(&mut self) -> anyhow::Result<()> {
        let Some(receipt) = self.receipt.take() else { return Ok(()) };
        let body = json!({ "receipt": receipt }).to_string();
        let request = post("/v1/inbox/ack", self.token(), &body);
        self.line.expect(&self.shared.record, 200, &request).await.map(drop)
    }

    async fn forget_an_answer(&mut self) -> anyhow::Result<()> {
        self.read().await?;
        self.begins = self.receipt.take().is_some();
        Ok(())
    }

    /// Goes away while the hub waits for mail, or writes it.
    async fn drop_a_call(&mut self) -> anyhow::Result<()> {
        self.prove().await?;
        let request = self.request();
        self.line.conn().await?.ask(&request).await?;
        let wait = self.rng.random_range(0..LONGEST_BEFORE_DROP_MS);
        sleep(Duration::from_millis(wait)).await;
        self.line.close();
        self.shared.record.count(|counts| counts.dropped += 1);
        self.begins = true;
        Ok(())
    }
}
