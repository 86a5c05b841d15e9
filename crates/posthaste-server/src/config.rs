//! What an operator can turn about the doors.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The `[server]` section of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    pub listen: SocketAddr,
    /// Needed for an address that is not loopback.
    pub allow_remote: bool,
    /// Names, besides loopback and the listening address, that a request's Host
    /// may have.
    pub hosts: Vec<String>,
    /// Largest request body.
    pub request_bytes: usize,
    /// How long a client may take to send the head of a request.
    #[serde(with = "humantime_serde")]
    pub head_timeout: Duration,
    /// How long a client may take to send a body.
    #[serde(with = "humantime_serde")]
    pub body_timeout: Duration,
    /// How long a client may leave an answer unread before its connection is cut.
    #[serde(with = "humantime_serde")]
    pub write_timeout: Duration,
    /// Most connections at a time; more wait to be accepted.
    pub connections: usize,
    /// How long open requests may finish after a shutdown signal.
    #[serde(with = "humantime_serde")]
    pub shutdown_grace: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9889)),
            allow_remote: false,
            hosts: Vec::new(),
            request_bytes: 8 << 20,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            connections: 20_000,
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

/// The `[compat]` section of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompatConfig {
    /// CAO's routes believe a loopback caller without a token. Loopback only.
    pub cao: bool,
}

impl Default for CompatConfig {
    fn default() -> Self {
        Self { cao: true }
    }
}
