//! A sender that never gives a message up: not answered means asked again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use posthaste_api::messages::{Receipt, SendRequest};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use super::record::{Record, Tag};
use crate::agents::Agent;
use crate::http::Conn;
use crate::requests;

/// Before a hub that does not answer is asked again.
const PAUSE: Duration = Duration::from_millis(3);
const LONGEST_TEXT: usize = 2_000;
/// Pauses keep the database small enough for a thousand restarts.
const LONGEST_PAUSE_MS: u64 = 4;

pub(super) struct Sender {
    number: usize,
    agent: Agent,
    hub: SocketAddr,
    boxes: Arc<[Agent]>,
    rng: StdRng,
}

impl Sender {
    pub(super) fn new(
        number: usize,
        agent: Agent,
        hub: SocketAddr,
        boxes: Arc<[Agent]>,
        seed: u64,
    ) -> Self {
        Self { number, agent, hub, boxes, rng: StdRng::seed_from_u64(seed) }
    }

    pub(super) async fn run(
        mut self,
        record: Arc<Record>,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<()> {
        let mut conn = None;
        let mut next = 0;
        while !stop.load(Ordering::Relaxed) {
            let mailbox = self.rng.random_range(0..self.boxes.len());
            let tag = Tag::new(self.number, next);
            let request = self.request(tag, mailbox)?;
            self.send(&mut conn, &request, tag, mailbox, &record).await?;
            next += 1;
            if self.rng.random_bool(0.5) {
                let pause = self.rng.random_range(0..=LONGEST_PAUSE_MS);
                sleep(Duration::from_millis(pause)).await;
            }
        }
        Ok(())
    }

    fn request(&mut self, tag: Tag, mailbox: usize) -> anyhow::Result<Vec<u8>> {
        let room = self.rng.random_range(0..LONGEST_TEXT);
        let text = format!("{tag} {}", "x".repeat(room));
        let mut request = SendRequest::new(self.boxes[mailbox].id.as_str(), text);
        request.idempotency_key = Some(tag.to_string());
        let body = serde_json::to_string(&request)?;
        Ok(requests::post("/v1/messages", &self.agent.token, &body))
    }

    /// Until the hub says that it has it.
    async fn send(
        &self,
        line: &mut Option<Conn>,
        request: &[u8],
        tag: Tag,
        mailbox: usize,
        record: &Record,
    ) -> anyhow::Result<()> {
        loop {
            let mut conn = match line.take() {
                Some(conn) => conn,
                None => match Conn::open(self.hub).await {
                    Ok(conn) => conn,
                    Err(_) => {
                        sleep(PAUSE).await;
                        continue;
                    }
                },
            };
            match conn.call(request).await {
                Ok(answer) => {
                    ensure!(answer.status == 201, answer.unexpected());
                    let receipt: Receipt =
                        serde_json::from_slice(answer.body).context("a receipt")?;
                    record.accepted(tag, mailbox, receipt.seq, receipt.duplicate);
                    *line = Some(conn);
                    return Ok(());
                }
                Err(_) => {
                    record.unanswered(tag);
                    sleep(PAUSE).await;
                }
            }
        }
    }
}
