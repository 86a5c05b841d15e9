//! The hub's side: fifty agents, and one who gathers their results in one call.

use anyhow::{Context, ensure};
use posthaste_api::inbox::Inbox;
use serde_json::{Value, json};

use super::{Reader, Team, WORKERS, Worker};
use crate::agents::{self, Agent};
use crate::answers::stamps;
use crate::http::Conn;
use crate::hub::Hub;
use crate::load::{Door, POLL_S, first_key};
use crate::mcp::{Client, Era};
use crate::requests::{self, Poll, Send, stamp_of};

/// `GET /v1/inbox?wait_for=all`; every call proves the answer before it.
pub(crate) async fn through_rest(hub: &Hub) -> anyhow::Result<Team<Rest>> {
    let (reader, agents) = hire(hub, "rest").await?;
    let workers = workers(hub, &agents, &reader, Door::Rest).await?;
    let conn = Conn::open(hub.address).await?;
    let poll = Poll::for_all(&reader.token, POLL_S, &ids(&agents));
    Ok(Team::new(Rest { conn, poll, receipt: None, held: Vec::new() }, workers))
}

/// `check_inbox` with `wait_for: "all"`. A client proves by going on, but not within
/// two seconds; a burst takes less, so its ids are named.
pub(crate) async fn through_mcp(hub: &Hub) -> anyhow::Result<Team<Mcp>> {
    let (reader, agents) = hire(hub, "mcp").await?;
    let workers = workers(hub, &agents, &reader, Door::Mcp(Era::Old)).await?;
    let mut conn = Conn::open(hub.address).await?;
    let proof = Conn::open(hub.address).await?;
    // Unknown to the hub, so it gets as much in one answer as the settings say.
    let client = Client::start_as("posthaste-bench", &mut conn, &reader, Era::Old).await?;
    let (token, from) = (reader.token, ids(&agents));
    Ok(Team::new(Mcp { conn, proof, client, token, from, calls: 0, held: Vec::new() }, workers))
}

async fn hire(hub: &Hub, name: &str) -> anyhow::Result<(Agent, Vec<Agent>)> {
    let reader = agents::create(hub, &format!("{name}-reader"), 1).await?.remove(0);
    Ok((reader, agents::create(hub, &format!("{name}-worker"), WORKERS).await?))
}

fn ids(agents: &[Agent]) -> Vec<String> {
    agents.iter().map(|agent| agent.id.clone()).collect()
}

async fn workers(
    hub: &Hub,
    agents: &[Agent],
    reader: &Agent,
    door: Door,
) -> anyhow::Result<Vec<Sender>> {
    let mut workers = Vec::with_capacity(agents.len());
    for (number, agent) in agents.iter().enumerate() {
        let mut conn = Conn::open(hub.address).await?;
        let mut send = door.enter(&mut conn, agent, number).await?;
        send.to(&reader.id);
        workers.push(Sender { conn, send, door, key: first_key() });
    }
    Ok(workers)
}

struct Sender {
    conn: Conn,
    send: Send,
    door: Door,
    key: u64,
}

impl Worker for Sender {
    async fn send(&mut self, stamp: u64) -> anyhow::Result<()> {
        self.key += 1;
        let answer = self.conn.call(self.send.key(self.key).stamp(stamp).bytes()).await?;
        ensure!(self.door.has_taken(&answer), answer.unexpected());
        Ok(())
    }
}

pub(crate) struct Rest {
    conn: Conn,
    poll: Poll,
    receipt: Option<String>,
    held: Vec<u8>,
}

impl Reader for Rest {
    async fn wait(&mut self) -> anyhow::Result<()> {
        Ok(self.conn.ask(self.poll.with(self.receipt.as_deref())).await?)
    }

    async fn hold_all(&mut self) -> anyhow::Result<()> {
        let answer = self.conn.answer().await?;
        ensure!(answer.status == 200, answer.unexpected());
        self.held.clear();
        self.held.extend_from_slice(answer.body);
        Ok(())
    }

    async fn settle(&mut self) -> anyhow::Result<Vec<u64>> {
        let inbox: Inbox<'_> = serde_json::from_slice(&self.held).context("an inbox")?;
        ensure!(inbox.status == "complete", "the gather ended {}", inbox.status);
        self.receipt = inbox.receipt.as_ref().map(ToString::to_string);
        Ok(stamps(&self.held).collect())
    }
}

pub(crate) struct Mcp {
    conn: Conn,
    /// A connection of its own for what proves.
    proof: Conn,
    client: Client,
    token: String,
    from: Vec<String>,
    calls: u64,
    held: Vec<u8>,
}

impl Reader for Mcp {
    async fn wait(&mut self) -> anyhow::Result<()> {
        self.calls += 1;
        Ok(self.conn.ask(&self.client.wait_for_all(self.calls, &self.from)).await?)
    }

    async fn hold_all(&mut self) -> anyhow::Result<()> {
        let answer = self.conn.answer().await?;
        ensure!(answer.status == 200, answer.unexpected());
        self.held.clear();
        self.held.extend_from_slice(answer.body);
        Ok(())
    }

    async fn settle(&mut self) -> anyhow::Result<Vec<u64>> {
        let answer: Value = serde_json::from_slice(&self.held).context("an answer")?;
        let told = answer["result"]["content"][0]["text"].as_str();
        let inbox: Value = serde_json::from_str(told.context("an answer without text")?)?;
        ensure!(inbox["status"] == "complete", "the gather ended {}", inbox["status"]);
        let mail = inbox["messages"].as_array().context("an inbox without messages")?;
        let ids: Vec<&Value> = mail.iter().map(|message| &message["id"]).collect();
        let body = json!({ "ids": ids }).to_string();
        let ack = requests::post("/v1/inbox/ack", &self.token, &body);
        let answer = self.proof.call(&ack).await?;
        ensure!(answer.status == 200, answer.unexpected());
        Ok(mail.iter().filter_map(|m| m["message"].as_str().and_then(stamp_of)).collect())
    }
}
