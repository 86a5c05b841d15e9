//! An agent that is connected through MCP: it waits for mail, writes, takes calls back
//! and connects again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::Shared;
use super::line::{Line, Reply};
use super::record::{Sight, Who};
use crate::http::Conn;
use crate::mcp::{Client, Era};

/// Seconds of one wait.
const WAIT_S: u32 = 5;
const LONGEST_BEFORE_CANCEL_MS: u64 = 300;
/// How long a call that was taken back may still be answered.
const PATIENCE: Duration = Duration::from_secs(60);
/// Calls until a client connects anew, at most.
const CALLS: u64 = 60;

pub(super) struct McpAgent {
    who: Who,
    era: Era,
    shared: Arc<Shared>,
    rng: StdRng,
    /// Numbers are used once, also by those who come after a reconnect.
    calls: u64,
}

impl McpAgent {
    pub(super) fn new(who: Who, era: Era, shared: Arc<Shared>, seed: u64) -> Self {
        Self { who, era, shared, rng: StdRng::seed_from_u64(seed), calls: 0 }
    }

    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let mut line = Line::new(self.shared.hub);
            let agent = &self.shared.agents[self.who];
            let client = Client::start(line.conn().await?, agent, self.era).await?;
            for _ in 0..self.rng.random_range(1..=CALLS) {
                if self.shared.stop.load(Ordering::Relaxed) {
                    break;
                }
                match self.rng.random_range(0..100) {
                    0..5 => self.cancel(&client, &mut line).await?,
                    5..30 => self.send(&client, &mut line).await?,
                    _ => self.wait(&client, &mut line).await?,
                }
            }
        }
        Ok(())
    }

    fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    async fn wait(&mut self, client: &Client, line: &mut Line) -> anyhow::Result<()> {
        let request = client.tool(self.next_call(), "check_inbox", json!({ "timeout": WAIT_S }));
        let reply = line.expect(&self.shared.record, 200, &request).await?;
        self.take(&reply).map(drop)
    }

    async fn send(&mut self, client: &Client, line: &mut Line) -> anyhow::Result<()> {
        let to = &self.shared.agents[self.rng.random_range(0..self.shared.agents.len())];
        if to.id == self.shared.agents[self.who].id {
            return Ok(());
        }
        let arguments = json!({ "to": to.id, "message": self.shared.text(&mut self.rng) });
        let request = client.tool(self.next_call(), "send_message", arguments);
        let reply = line.expect(&self.shared.record, 200, &request).await?;
        let told = self.take(&reply)?.context("a call that is not answered")?;
        let seq = told["id"].as_u64().with_context(|| format!("no number in {told}"))?;
        self.shared.record.accepted(seq);
        Ok(())
    }

    /// Takes a waiting call back, from another connection as clients do.
    async fn cancel(&mut self, client: &Client, line: &mut Line) -> anyhow::Result<()> {
        let id = self.next_call();
        let conn = line.conn().await?;
        conn.ask(&client.tool(id, "check_inbox", json!({ "timeout": WAIT_S }))).await?;
        let wait = self.rng.random_range(0..LONGEST_BEFORE_CANCEL_MS);
        sleep(Duration::from_millis(wait)).await;
        let mut other = Conn::open(self.shared.hub).await?;
        let answer = other.call(&client.cancel(id)).await?;
        ensure!(answer.status == 202, answer.unexpected());
        self.shared.record.count(|counts| counts.cancelled += 1);
        // It may be answered all the same, or end without an answer.
        match timeout(PATIENCE, conn.answer()).await.context("a cancelled call hangs")? {
            Ok(answer) => {
                let reply = Reply { status: answer.status, body: answer.body.to_vec() };
                self.take(&reply).map(drop)
            }
            Err(_) => {
                line.close();
                Ok(())
            }
        }
    }

    /// Records the mail of an answer and beside it; what the tool itself said, `None` if
    /// the call was taken back.
    fn take(&self, reply: &Reply) -> anyhow::Result<Option<Value>> {
        let answer: Value = reply.read()?;
        let Some(blocks) = answer["result"]["content"].as_array() else { return Ok(None) };
        ensure!(answer["result"]["isError"] != true, "a tool failed: {answer}");
        let mut told = None;
        for block in blocks {
            let text = block["text"].as_str().context("a block without a text")?;
            let block: Value = serde_json::from_str(text).with_context(|| text.to_owned())?;
            for list in ["messages", "_pending_messages"] {
                for message in block[list].as_array().into_iter().flatten() {
                    self.shared.record.read(self.who, sight(message)?);
                }
            }
            told = told.or(Some(block));
        }
        Ok(told)
    }
}

fn sight(message: &Value) -> anyhow::Result<Sight<'_>> {
    Ok(Sight {
        seq: message["id"].as_u64().context("a message without a number")?,
        text: message["message"].as_str().context("a message without a text")?,
        label: message["label"].as_str(),
        redelivered: message["redelivered"] == true,
    })
}
