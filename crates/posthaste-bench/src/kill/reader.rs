//! A reader that proves what it read, in every way that REST has, or not at all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use posthaste_api::inbox::{Acked, Inbox};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use super::record::Record;
use crate::agents::Agent;
use crate::http::Conn;
use crate::requests::{self, Poll};

const PAUSE: Duration = Duration::from_millis(3);
/// Short, so that the end of the test is noticed.
const POLL_S: u32 = 1;

pub(super) struct Reader {
    mailbox: usize,
    agent: Agent,
    hub: SocketAddr,
    rng: StdRng,
}

/// How an answer is proven.
enum Proof {
    /// With the next call.
    NextCall(String),
    /// With a call of its own, whose answer counts.
    Own(String),
    /// Not: it must come again, marked.
    None,
}

impl Reader {
    pub(super) fn new(mailbox: usize, agent: Agent, hub: SocketAddr, seed: u64) -> Self {
        Self { mailbox, agent, hub, rng: StdRng::seed_from_u64(seed) }
    }

    pub(super) async fn run(
        mut self,
        record: Arc<Record>,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let Ok(conn) = Conn::open(self.hub).await else {
                sleep(PAUSE).await;
                continue;
            };
            self.read(conn, &record, &stop).await?;
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Until the connection breaks.
    async fn read(
        &mut self,
        mut conn: Conn,
        record: &Record,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let mut poll = Poll::new(&self.agent.token, POLL_S);
        let mut receipt = None;
        while !stop.load(Ordering::Relaxed) {
            let Ok(answer) = conn.call(poll.with(receipt.as_deref())).await else { return Ok(()) };
            ensure!(answer.status == 200, answer.unexpected());
            let inbox: Inbox<'_> = serde_json::from_slice(answer.body).context("an inbox")?;
            let seqs: Vec<u64> = inbox.messages.iter().map(|entry| entry.id).collect();
            for entry in &inbox.messages {
                record.read(self.mailbox, entry);
            }
            let proof = self.proof(inbox.receipt.map(Into::into));
            receipt = None;
            match proof {
                Proof::NextCall(told) => receipt = Some(told),
                Proof::Own(told) => {
                    let Ok(acked) = ack(&mut conn, &self.agent, &told).await? else {
                        return Ok(());
                    };
                    // Anything less, and we cannot know which ones.
                    if acked == seqs.len() {
                        record.proved(&seqs);
                    }
                }
                Proof::None => {}
            }
        }
        Ok(())
    }

    fn proof(&mut self, receipt: Option<String>) -> Proof {
        match (receipt, self.rng.random_range(0..20)) {
            (None, _) | (_, 0) => Proof::None,
            (Some(receipt), 1..=6) => Proof::Own(receipt),
            (Some(receipt), _) => Proof::NextCall(receipt),
        }
    }

    /// Reads and proves until nothing is left. No hub is killed meanwhile.
    pub(super) async fn drain(self, record: &Record) -> anyhow::Result<()> {
        let mut conn = Conn::open(self.hub).await?;
        let mut poll = Poll::new(&self.agent.token, 0);
        loop {
            let answer = conn.call(poll.with(None)).await?;
            ensure!(answer.status == 200, answer.unexpected());
            let inbox: Inbox<'_> = serde_json::from_slice(answer.body).context("an inbox")?;
            for entry in &inbox.messages {
                record.read(self.mailbox, entry);
            }
            let seqs: Vec<u64> = inbox.messages.iter().map(|entry| entry.id).collect();
            let Some(receipt) = inbox.receipt.map(String::from) else { return Ok(()) };
            let acked = ack(&mut conn, &self.agent, &receipt).await??;
            ensure!(acked == seqs.len(), "{acked} of {} were acked at the end", seqs.len());
            record.proved(&seqs);
        }
    }
}

/// How many were acked; the inner error is a broken connection.
async fn ack(
    conn: &mut Conn,
    agent: &Agent,
    receipt: &str,
) -> anyhow::Result<std::io::Result<usize>> {
    let body = serde_json::json!({ "receipt": receipt }).to_string();
    let answer = match conn.call(&requests::post("/v1/inbox/ack", &agent.token, &body)).await {
        Ok(answer) => answer,
        Err(error) => return Ok(Err(error)),
    };
    ensure!(answer.status == 200, answer.unexpected());
    let acked: Acked = serde_json::from_slice(answer.body).context("an ack's answer")?;
    Ok(Ok(acked.acked))
}
