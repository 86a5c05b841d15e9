//! The limit of HTTP itself: a server that gives back the JSON that it gets.
//!
//! It runs as a child process, like the hub, on the same core as the hub, with
//! one thread, so that it costs what a hub without a post office would cost.

use std::net::SocketAddr;

use anyhow::Context;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::child::Child;
use crate::settings::Settings;
use crate::{output, requests};

/// The child's side. Runs until it is killed.
pub(crate) async fn serve() -> anyhow::Result<()> {
    // A bench that is killed cannot end its children.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let app = Router::new().route("/echo", post(|Json(value): Json<Value>| async { Json(value) }));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    output::say(&listener.local_addr()?.to_string());
    axum::serve(listener, app).await.context("the echo server cannot go on")
}

/// The parent's side.
pub(crate) struct EchoServer {
    pub(crate) address: SocketAddr,
    child: Child,
    _scratch: tempfile::TempDir,
}

impl EchoServer {
    pub(crate) async fn start(settings: &Settings) -> anyhow::Result<Self> {
        let scratch = settings.folder()?;
        let log = scratch.path().join("echo.log");
        let mut child = Child::spawn(settings, &settings.own_bin, &["echo-server"], &[], &log)?;
        let line = child.first_line().await.context("the echo server did not start")?;
        Ok(Self { address: line.trim().parse()?, child, _scratch: scratch })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// A request of the same size as a send.
pub(crate) fn request() -> Vec<u8> {
    let text = "x".repeat(requests::BODY);
    requests::post("/echo", "none", &format!(r#"{{"message":"{text}"}}"#))
}
