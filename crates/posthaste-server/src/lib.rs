//! The doors: every way in from outside.
//!
//! A handler translates words into one call of the [`Hub`] and words back. Who is
//! calling is decided in `auth`, by token alone; what a failure looks like in
//! `posthaste-api`'s one table. `accept` is the loop that all sockets run on,
//! `written` is how the hub knows that an answer left the house.
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
    /// Those who follow the events.
    pub(crate) followers: Arc<rest::Followers>,
    pub(crate) meters: Arc<Meters>,
    /// The memory that request bodies may hold.
    pub(crate) bodies: Arc<Bodies>,
    /// Bodies that are thrown away just now.
    pub(crate) unread: TaskTracker,
    pub(crate) mcp: Arc<mcp::Mcp>,
    /// CAO's routes are there.
    pub(crate) cao: bool,
}

/// The tools of each dialect, as `tools/list` shows them: for the reference.
pub fn mcp_reference() -> Vec<(&'static str, Vec<serde_json::Value>)> {
    mcp::reference()
}

/// The instructions for every model that connects.
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
    };
    accept::run(listener, app, shutdown).await
}
