//! Agents of the load: each with its own mailbox and its own token.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, ensure};
use posthaste_api::instances::{CreateInstance, Joined};
use tokio::task::JoinSet;

use crate::http::Conn;
use crate::hub::Hub;
use crate::requests;

/// Connections that bring agents in at the same time.
const CONNECTIONS: usize = 32;
/// Names that many agents share: instances of some profiles, as with real teams.
const NAMES: usize = 100;

#[derive(Debug, Clone)]
pub(crate) struct Agent {
    /// Eight hex digits, which is also its address.
    pub(crate) id: String,
    pub(crate) token: String,
}

/// Brings in `count` agents whose names begin with `name`.
pub(crate) async fn create(hub: &Hub, name: &str, count: usize) -> anyhow::Result<Vec<Agent>> {
    let operator: Arc<str> = hub.operator.as_str().into();
    let name: Arc<str> = name.into();
    let lines = CONNECTIONS.min(count);
    let mut tasks = JoinSet::new();
    for line in 0..lines {
        let numbers = (line..count).step_by(lines).collect();
        tasks.spawn(line_of(hub.address, Arc::clone(&operator), Arc::clone(&name), numbers));
    }
    let mut agents = Vec::with_capacity(count);
    while let Some(line) = tasks.join_next().await {
        agents.extend(line??);
    }
    ensure!(agents.len() == count, "{} agents of {count} came", agents.len());
    Ok(agents)
}

async fn line_of(
    hub: SocketAddr,
    operator: Arc<str>,
    name: Arc<str>,
    numbers: Vec<usize>,
) -> anyhow::Result<Vec<Agent>> {
    let mut conn = Conn::open(hub).await?;
    let mut agents = Vec::with_capacity(numbers.len());
    for number in numbers {
        let agent = format!("{name}{}", number % NAMES);
        let new = CreateInstance { agent, ..CreateInstance::default() };
        let body = serde_json::to_string(&new)?;
        let answer = conn.call(&requests::post("/v1/instances", &operator, &body)).await?;
        ensure!(answer.status == 201, answer.unexpected());
        let joined: Joined = serde_json::from_slice(answer.body).context("a new instance")?;
        agents.push(Agent { id: joined.instance, token: joined.token });
    }
    Ok(agents)
}
