//! The limit of HTTP itself: a server that gives back the bytes that it gets.
//!
//! It runs as a child process, like the hub, on the same core as the hub, with
//! one thread, so that it costs what a hub without a post office would cost.

use std::net::SocketAddr;

use anyhow::Context;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::routing::post;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tower::util::ServiceExt;

use crate::child::Child;
use crate::settings::Settings;
use crate::{output, requests};

/// The child's side. Runs until it is killed.
pub(crate) async fn serve() -> anyhow::Result<()> {
    // A bench that is killed cannot end its children.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let app = Router::new().route("/echo", post(|body: Bytes| async { body }));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    output::say(&listener.local_addr()?.to_string());
    loop {
        let (socket, _) = listener.accept().await.context("the echo server cannot go on")?;
        tokio::spawn(connection(socket, app.clone()));
    }
}

/// A connection as `axum::serve` handles it, with its builder and its defaults:
/// what a first version of any hub would stand on.
async fn connection(socket: TcpStream, app: Router) {
    let service = app.map_request(|request: Request<Incoming>| request.map(Body::new));
    let builder = Builder::new(TokioExecutor::new());
    let io = TokioIo::new(socket);
    // A client that hangs up is no failure of an echo.
    let _ = builder.serve_connection_with_upgrades(io, TowerToHyperService::new(service)).await;
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

/// 1 KiB, as much as one message carries. Nobody parses it.
pub(crate) fn request() -> Vec<u8> {
    requests::post("/echo", "none", &"x".repeat(requests::BODY))
}
