//! T16: what one more agent costs that is connected through MCP and does nothing.
//!
//! Agents join first, which costs memory of its own, and are counted apart. What is
//! then counted is what their clients do: they introduce themselves, keep a stream
//! open, and keep the connection of their calls. Each kind has a hub of its own,
//! because memory that was used once is not given back.

use anyhow::{Context, ensure};

use crate::agents::{self, Agent};
use crate::http::Conn;
use crate::hub::Hub;
use crate::mcp::{Client, Era};
use crate::rounds::Found;
use crate::settings::Settings;

/// By default a connection that lies idle is closed after ten seconds. Here it has
/// to live until it is counted.
const IDLE: (&str, &str) = ("POSTHASTE_SERVER__HEAD_TIMEOUT", "10m");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A stream, and an idle connection for calls.
    Agent(Era),
    /// Nothing but the stream.
    Stream,
    /// Nothing but a call that waits.
    Waiting,
}

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<Found> {
    let settings = settings.with(IDLE.0, IDLE.1);
    let agent = cost(&settings, Kind::Agent(Era::Old)).await?;
    let new = cost(&settings, Kind::Agent(Era::New)).await?;
    let stream = cost(&settings, Kind::Stream).await?;
    let waiting = cost(&settings, Kind::Waiting).await?;
    Ok(vec![
        ("t16.kib", agent.connected),
        ("t16.new_kib", new.connected),
        ("t16.stream_kib", stream.connected),
        ("t16.waiting_kib", waiting.connected),
        ("t16.joined_kib", agent.joined),
    ])
}

/// In KiB for each agent.
struct Cost {
    joined: f64,
    connected: f64,
}

async fn cost(settings: &Settings, kind: Kind) -> anyhow::Result<Cost> {
    let scratch = settings.folder()?;
    let hub = Hub::start(settings, &scratch.path().join("data"), 0).await?;
    hub.quiet().await?;
    let empty = hub.rss()?;
    let agents = agents::create(&hub, "agent", settings.agents).await?;
    hub.quiet().await?;
    let joined = hub.rss()?;
    let mut lines = Vec::with_capacity(agents.len());
    for agent in &agents {
        lines.push(Line::open(&hub, agent, kind).await?);
    }
    hub.quiet().await?;
    let connected = hub.rss()?;
    for (number, line) in lines.iter_mut().enumerate() {
        line.check().with_context(|| format!("agent {number} of {}, {kind:?}", agents.len()))?;
    }
    let each = |more: u64, less: u64| more.saturating_sub(less) as f64 / 1024.0;
    let count = agents.len() as f64;
    Ok(Cost { joined: each(joined, empty) / count, connected: each(connected, joined) / count })
}

/// The connections of one agent.
struct Line {
    calls: Option<Conn>,
    stream: Option<Conn>,
}

impl Line {
    async fn open(hub: &Hub, agent: &Agent, kind: Kind) -> anyhow::Result<Self> {
        let mut conn = Conn::open(hub.address).await?;
        match kind {
            Kind::Agent(era) => {
                let client = Client::start(&mut conn, agent, era).await?;
                let mut stream = Conn::open(hub.address).await?;
                client.listen(&mut stream).await?;
                Ok(Self { calls: Some(conn), stream: Some(stream) })
            }
            Kind::Stream => {
                Client::known(agent).listen(&mut conn).await?;
                Ok(Self { calls: None, stream: Some(conn) })
            }
            Kind::Waiting => {
                let client = Client::start(&mut conn, agent, Era::Old).await?;
                conn.ask(&client.wait()).await?;
                Ok(Self { calls: Some(conn), stream: None })
            }
        }
    }

    /// What was counted was there: nothing was closed, and no wait has ended.
    fn check(&mut self) -> anyhow::Result<()> {
        if let Some(stream) = &mut self.stream {
            ensure!(stream.came().is_some(), "its stream was closed");
        }
        if let Some(calls) = &mut self.calls {
            match calls.came() {
                None => anyhow::bail!("its connection was closed"),
                Some(came) => ensure!(came == 0, "its call was answered too early"),
            }
        }
        Ok(())
    }
}
