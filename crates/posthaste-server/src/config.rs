//! The configuration of the doors.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use posthaste_core::settings;

settings! {
    /// The `[server]` section of the configuration.
    pub struct ServerConfig {
        /// Where to listen.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 9889));
        /// Needed for an address that is not loopback.
        allow_remote: bool = false;
        /// Names, besides loopback and the listening address, that a request's Host
        /// may have.
        hosts: Vec<String> = Vec::new();
        /// Largest request body.
        request_bytes: usize = 8 << 20;
        /// Most values in the JSON of one body: each costs far more memory once it is read
        /// than it has bytes.
        request_values: usize = 10_000;
        /// What the bodies of all requests in flight hold together. More are refused for
        /// the moment. A quarter of it is kept for small ones.
        bodies_bytes: usize = 64 << 20;
        /// A body that is no larger is small.
        small_bytes: usize = 64 << 10;
        /// How much of a body that nobody wants, for one because it is too large, is read
        /// and thrown away, so that a client that is still sending hears why.
        discard_bytes: usize = 64 << 20;
        /// How long a connection may lie idle between two requests.
        idle_timeout: Duration = Duration::from_secs(120), "humantime_serde";
        /// How long a client may take to send the head of a request.
        head_timeout: Duration = Duration::from_secs(10), "humantime_serde";
        /// How long a client may take to send a body.
        body_timeout: Duration = Duration::from_secs(30), "humantime_serde";
        /// How long a client may leave an answer unread before its connection is cut.
        write_timeout: Duration = Duration::from_secs(30), "humantime_serde";
        /// Most connections at a time; more are refused for the moment. Fewer where the
        /// system allows fewer open files.
        connections: usize = 20_000;
        /// Beyond them, connections on which only the operator is served, and whoever
        /// asks how the hub is.
        spare_connections: usize = 8;
        /// How long a client may take to send its head on one of those. They are few:
        /// whoever says nothing makes room for the operator.
        spare_head_timeout: Duration = Duration::from_secs(1), "humantime_serde";
        /// Open files that connections leave to the database, the log and workers.
        spare_files: usize = 256;
        /// How long open requests may finish after a shutdown signal.
        shutdown_grace: Duration = Duration::from_secs(5), "humantime_serde";
    }
}

impl ServerConfig {
    /// Returns the number of connections for this limit of open files. Even under a very
    /// low limit, a quarter of the files are for connections.
    pub fn connections_within(&self, files: Option<u64>) -> usize {
        let Some(files) = files.and_then(|files| usize::try_from(files).ok()) else {
            return self.connections;
        };
        let others = self.spare_files + self.spare_connections;
        self.connections.min(files.saturating_sub(others).max(files / 4).max(1))
    }
}

settings! {
    /// The `[compat]` section of the configuration.
    pub struct CompatConfig {
        /// CAO's routes are there; false: they answer 404.
        cao: bool = true;
    }
}

settings! {
    /// The `[mcp]` section of the configuration.
    pub struct McpConfig {
        /// How long a call waits for mail where nothing is known of its client.
        patience: Duration = Duration::from_secs(50), "humantime_serde";
        /// How long any call waits at most, whatever its client endures.
        patience_most: Duration = Duration::from_secs(290), "humantime_serde";
        /// How often a waiting call tells of progress.
        progress_every: Duration = Duration::from_secs(10), "humantime_serde";
        /// Characters of an answer to a client that nothing is known of.
        answer_chars: usize = 10_000;
        /// Characters of mail that another tool's answer carries along.
        piggyback_chars: usize = 4_000;
        /// How often an open stream is pinged.
        ping: Duration = Duration::from_secs(25), "humantime_serde";
        /// The longest id of a request.
        id_bytes: usize = 1_024;
        /// What a request says beside the arguments of a tool: of itself, its client and
        /// its call.
        meta_bytes: usize = 16 << 10;
        /// Most open streams of one agent.
        streams_each: usize = 64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_connections_than_open_files() {
        let server = ServerConfig::default();
        let within = |files| server.connections_within(files);
        assert_eq!(within(None), 20_000);
        assert_eq!(within(Some(1_048_576)), 20_000);
        assert_eq!(within(Some(u64::MAX)), 20_000);
        assert_eq!(within(Some(1_024)), 1_024 - 256 - 8);
        assert_eq!(within(Some(64)), 16);
        assert_eq!(within(Some(0)), 1);
    }
}
