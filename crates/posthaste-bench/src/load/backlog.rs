//! Filling mailboxes that nobody reads, and reading them out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use posthaste_api::messages::{SendMany, SendOutcome, SendRequest, To};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::first_key;
use crate::agents::Agent;
use crate::answers::Tail;
use crate::http::Conn;
use crate::hub::Hub;
use crate::requests::{self, BODY, Poll};

/// Most addresses in one list, and connections that fill at the same time.
const LIST: usize = 100;
const CONNECTIONS: usize = 16;

/// Puts `each` messages into the mailbox of every one of `to`. Lists are the
/// quickest way in; every message of a list is a message of its own.
pub(crate) async fn fill(hub: &Hub, from: &Agent, to: &[Agent], each: usize) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for list in to.chunks(LIST) {
        let ids: Arc<[String]> = list.iter().map(|agent| agent.id.clone()).collect();
        for line in 0..CONNECTIONS {
            let times = each / CONNECTIONS + usize::from(line < each % CONNECTIONS);
            tasks.spawn(fill_line(hub.address, from.token.clone(), Arc::clone(&ids), line, times));
        }
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn fill_line(
    hub: SocketAddr,
    token: String,
    ids: Arc<[String]>,
    line: usize,
    times: usize,
) -> anyhow::Result<()> {
    let mut conn = Conn::open(hub).await?;
    let mut request = SendRequest::new("", "x".repeat(BODY));
    request.to = To::Many(ids.to_vec());
    let first = first_key();
    for number in 0..times {
        request.idempotency_key = Some(format!("fill-{first}-{line}-{number}"));
        let body = serde_json::to_string(&request)?;
        let answer = conn.call(&requests::post("/v1/messages", &token, &body)).await?;
        ensure!(answer.status == 207, answer.unexpected());
        let sent: SendMany = serde_json::from_slice(answer.body).context("a list's answer")?;
        for one in &sent.results {
            ensure!(matches!(one.outcome, SendOutcome::Accepted(_)), "refused: {one:?}");
        }
    }
    Ok(())
}

/// Reads `each` messages out of every mailbox, to the last ack; how long it took.
pub(crate) async fn drain(hub: &Hub, readers: &[Agent], each: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for reader in readers {
        tasks.spawn(drain_one(hub.address, reader.clone(), each));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(began.elapsed())
}

async fn drain_one(hub: SocketAddr, reader: Agent, each: usize) -> anyhow::Result<()> {
    let mut conn = Conn::open(hub).await?;
    let mut poll = Poll::new(&reader.token, 5);
    let mut receipt = None;
    let mut came = 0;
    while came < each {
        let answer = conn.call(poll.with(receipt.as_deref())).await?;
        ensure!(answer.status == 200, answer.unexpected());
        let tail = Tail::read(answer.body)?;
        ensure!(tail.total > 0, "a mailbox ran dry after {came} of {each}");
        came += tail.total;
        receipt = tail.receipt.map(str::to_owned);
    }
    ensure!(came == each, "{came} came and {each} were sent");
    // The last one has no next call that could prove it.
    let body = serde_json::json!({ "receipt": receipt }).to_string();
    let answer = conn.call(&requests::post("/v1/inbox/ack", &reader.token, &body)).await?;
    ensure!(answer.status == 200, answer.unexpected());
    Ok(())
}
