//! The real hub: the program itself, started as a user starts it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::child::Child;
use crate::http::Conn;
use crate::settings::Settings;
use crate::{procfs, requests};

/// The load needs more room than an agent's mailbox has by default, and sends more
/// often than an agent may. The limits are raised, not switched off: auth,
/// idempotency, rates, events and history are as users have them.
const RAISED: [(&str, &str); 4] = [
    ("POSTHASTE_LIMITS__SENDER_PER_MINUTE", "1000000000"),
    ("POSTHASTE_LIMITS__PAIR_PER_MINUTE", "1000000000"),
    ("POSTHASTE_LIMITS__MAILBOX_MESSAGES", "10000000"),
    ("POSTHASTE_LIMITS__MAILBOX_BYTES", "17179869184"),
];

pub(crate) struct Hub {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The operator's token.
    pub(crate) operator: String,
    spawned: Instant,
    /// From spawn to the first 200 of `/health`. Mail may still be unread from disk.
    pub(crate) answers_after: Duration,
}

impl Hub {
    /// Starts a hub on `folder`; port 0 takes any.
    pub(crate) async fn start(
        settings: &Settings,
        folder: &Path,
        port: u16,
    ) -> anyhow::Result<Self> {
        let log = folder.with_extension("log");
        Self::try_start(settings, folder, port, &log).await.with_context(|| {
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            let last: Vec<&str> = told.lines().rev().take(5).collect();
            format!("the hub did not start; its last words: {last:?}")
        })
    }

    async fn try_start(
        settings: &Settings,
        folder: &Path,
        port: u16,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let data = folder.to_str().context("a folder whose name is no text")?;
        let listen = format!("127.0.0.1:{port}");
        let args = ["up", "--listen", &listen, "--data", data, "--json"];
        let raised = RAISED.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env: Vec<_> = raised.into_iter().chain(settings.hub_env.iter().cloned()).collect();

        let spawned = Instant::now();
        let mut child = Child::spawn(settings, &settings.hub_bin, &args, &env, log)?;
        let line = child.first_line().await?;
        let said: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        let url = said["url"].as_str().with_context(|| format!("no url in {line}"))?;
        let address = url.trim_start_matches("http://").parse()?;
        let mut conn = Conn::open(address).await?;
        let answer = conn.call(&requests::get("/health", "none")).await?;
        ensure!(answer.status == 200, answer.unexpected());
        let answers_after = spawned.elapsed();

        let operator = std::fs::read_to_string(folder.join("operator.token"))?;
        let operator = operator.trim().to_owned();
        Ok(Self { child, address, operator, spawned, answers_after })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        procfs::cpu(self.pid())
    }

    pub(crate) fn rss(&self) -> anyhow::Result<u64> {
        procfs::rss(self.pid())
    }

    /// From spawn to the first 200 of `/ready`, when the hub hands out mail.
    pub(crate) async fn ready_after(&self) -> anyhow::Result<Duration> {
        let mut conn = Conn::open(self.address).await?;
        while conn.call(&requests::get("/ready", "none")).await?.status != 200 {
            ensure!(self.spawned.elapsed() < Duration::from_secs(60), "the hub is never ready");
            sleep(Duration::from_millis(1)).await;
        }
        Ok(self.spawned.elapsed())
    }

    /// Waits until the hub has nothing left to do behind the scenes.
    pub(crate) async fn quiet(&self) -> anyhow::Result<()> {
        const LOOK: Duration = Duration::from_millis(300);
        let deadline = Instant::now() + Duration::from_secs(120);
        let (mut calm, mut before) = (0, self.cpu()?);
        // Longer than any pause that the hub itself takes before it tidies up.
        while calm < 10 {
            ensure!(Instant::now() < deadline, "the hub does not come to rest");
            sleep(LOOK).await;
            let now = self.cpu()?;
            calm = if now - before <= Duration::from_millis(10) { calm + 1 } else { 0 };
            before = now;
        }
        Ok(())
    }

    /// `kill -9`, and gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill();
    }

    /// Asks for an orderly stop; `false` when it was none.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<bool> {
        self.child.stop(Duration::from_secs(20)).await
    }
}
