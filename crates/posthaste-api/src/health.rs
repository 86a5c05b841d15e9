//! `GET /health`: no token needed, so it says nothing but that a hub is here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`, or `degraded` while the store refuses writes.
    pub status: String,
    /// Always `posthaste`.
    pub service: String,
    pub version: String,
    pub pid: u32,
    /// `false` under `--ephemeral`.
    pub durable: bool,
}
