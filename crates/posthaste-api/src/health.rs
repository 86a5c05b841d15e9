//! `GET /health` and `GET /ready`: no token needed, so they say nothing but that a
//! hub is here, and that it takes and hands out mail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::openapi::{Who, call_table, get, json, of};

call_table![
    HEALTH = get(
        "/health",
        "Whether a hub is here",
        Who::Nobody,
        &[json(200, "A hub is here.", of::<Health>)],
    ),
    READY = get(
        "/ready",
        "Whether the hub takes and hands out mail",
        Who::Nobody,
        &[json(200, "It does.", of::<Ready>)],
    ),
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`, or `degraded` while the store refuses writes.
    pub status: String,
    /// Always `posthaste`.
    pub service: String,
    /// The hub's version.
    pub version: String,
    /// The number of the hub's process.
    pub pid: u32,
    /// `false` under `--ephemeral`.
    pub durable: bool,
}

/// A hub that is not ready answers 503 with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    /// Always `ready`.
    pub status: String,
    /// So many connections may be open: `server.connections`, or fewer where the system
    /// allows fewer open files.
    pub connections: usize,
}
