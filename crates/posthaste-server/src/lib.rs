//! The doors: every way into the hub from outside.
//!
//! A handler translates a request into one call of the [`Hub`], and its result into an
//! answer. `auth` identifies the caller, by token alone; `posthaste-api` has the one table
//! of failures. `accept` is the loop that all sockets run on, and `written` tells the hub
//! that an answer was written.
//!
//! Start with `rest`: the route table.

mod accept;
mod auth;
mod bodies;
mod cao;
mod config;
mod extract;
mod failure;
mod guard;
mod mcp;
mod meters;
mod request;
mod rest;
mod routes;
mod silence;
mod slots;
mod unread;
mod words;
mod written;

use std::io;
use std::sync::Arc;

use auth::KnownKeys;
use bodies::Bodies;
use meters::Meters;
use posthaste_core::Hub;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use auth::{KeyFiles, Keys};
pub use config::{CompatConfig, McpConfig, ServerConfig};

/// The state that every handler can reach.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) hub: Arc<Hub>,
    pub(crate) keys: Arc<KnownKeys>,
    pub(crate) config: Arc<ServerConfig>,
    /// The open streams of events.
    pub(crate) followers: Arc<rest::Followers>,
    pub(crate) meters: Arc<Meters>,
    /// The memory that request bodies may hold.
    pub(crate) bodies: Arc<Bodies>,
    /// Tasks that discard the rest of unread bodies.
    pub(crate) unread: TaskTracker,
    pub(crate) mcp: Arc<mcp::Mcp>,
    /// True if CAO's routes are served.
    pub(crate) cao: bool,
    /// Held while a terminal of CAO's is made, so that names and keys are given once.
    pub(crate) making: Arc<tokio::sync::Mutex<()>>,
    /// Steps of CAO's, which go on if their callers hang up.
    pub(crate) steps: TaskTracker,
}

/// Returns the tools of each dialect, as `tools/list` shows them: for the reference.
pub fn mcp_reference() -> Vec<(&'static str, Vec<serde_json::Value>)> {
    mcp::reference()
}

/// Returns the instructions for every model that connects.
pub fn mcp_instructions() -> &'static str {
    mcp::INSTRUCTIONS
}

/// Serves until `shutdown`, then ends long polls politely and lets open requests
/// finish for [`ServerConfig::shutdown_grace`].
pub async fn serve(
    listener: TcpListener,
    hub: Arc<Hub>,
    config: ServerConfig,
    compat: CompatConfig,
    mcp: McpConfig,
    keys: impl KeyFiles + 'static,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let app = App {
        followers: Arc::default(),
        hub,
        keys: Arc::new(KnownKeys::new(keys).map_err(io::Error::other)?),
        bodies: Arc::new(Bodies::new(&config)),
        config: Arc::new(config),
        meters: Arc::new(Meters::default()),
        unread: TaskTracker::new(),
        mcp: Arc::new(mcp::Mcp::new(mcp, shutdown.clone())),
        cao: compat.cao,
        making: Arc::default(),
        steps: TaskTracker::new(),
    };
    let _offered = mcp::offer(&app);
    accept::run(listener, app, shutdown).await
}
