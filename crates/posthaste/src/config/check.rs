//! What the values of a configuration must be, beyond their types.

use std::time::Duration;

use posthaste_api::ApiError;

use super::Config;
use crate::failure::invalid;

/// More files than any machine lets one process open.
const MOST_CONNECTIONS: usize = 1_000_000;
/// The shortest time between two signs of life to a waiting client.
const SHORTEST_NEWS: Duration = Duration::from_millis(100);
/// The smallest answer that has room for a message.
const FEWEST_CHARS: usize = 1_000;
/// A request of so many characters is a line that the hub reads from a runner.
const MOST_CONTEXT: usize = 500_000;
/// The highest number of threads, pages and followers.
const MOST_OF_A_KIND: usize = 10_000;
/// Each reader takes a blocking thread, of which a hub has few, and some must stay free
/// for the writer and for files.
const MOST_READERS: usize = crate::BLOCKING_THREADS / 2;
/// Room for the origin of a line, and some words.
const SHORTEST_LINE: usize = 256;
/// No duration is longer.
pub(super) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
const SHORTEST_RESCAN: Duration = Duration::from_millis(10);

impl Config {
    /// Checks the values. Requires loopback, unless `server.allow_remote` is set.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        if !(1..=MOST_CONNECTIONS).contains(&self.server.connections) {
            let told = format!("server.connections lies between 1 and {MOST_CONNECTIONS}");
            return Err(invalid(told).hint("leave it out for the default, 20000"));
        }
        let limits = &self.limits;
        for (key, value) in [
            ("limits.event_page", limits.event_page),
            ("limits.event_readers", limits.event_readers),
            ("limits.event_readers_each", limits.event_readers_each),
            ("store.readers", self.store.readers),
            ("mcp.streams_each", self.mcp.streams_each),
        ] {
            let most = if key == "store.readers" { MOST_READERS } else { MOST_OF_A_KIND };
            if !(1..=most).contains(&value) {
                let told = format!("{key} lies between 1 and {most}");
                return Err(invalid(told).hint("leave it out for the default"));
            }
        }
        for (key, time) in [
            ("limits.sweep", limits.sweep),
            ("limits.prune", limits.prune),
            ("limits.wait", limits.wait),
            ("limits.default_window", limits.default_window),
            ("limits.gather_window", limits.gather_window),
            ("limits.batch_window", limits.batch_window),
            ("limits.report_hold", limits.report_hold),
            ("limits.proof_grace", limits.proof_grace),
            ("server.idle_timeout", self.server.idle_timeout),
            ("server.head_timeout", self.server.head_timeout),
            ("server.spare_head_timeout", self.server.spare_head_timeout),
            ("server.shutdown_grace", self.server.shutdown_grace),
            ("mcp.patience", self.mcp.patience),
            ("mcp.patience_most", self.mcp.patience_most),
            ("mcp.progress_every", self.mcp.progress_every),
            ("mcp.ping", self.mcp.ping),
            ("agents.grace", self.agents.grace),
            ("agents.stale", self.agents.stale),
            ("agents.keep", self.agents.keep),
            ("agents.wake_after", self.agents.wake_after),
            ("agents.wake_again", self.agents.wake_again),
            ("agents.wake_timeout", self.agents.wake_timeout),
            ("runner.turn", self.runner.turn),
            ("runner.retry_after", self.runner.retry_after),
            ("runner.retry_most", self.runner.retry_most),
            ("runner.tool_timeout", self.runner.tool_timeout),
            ("runner.server_start", self.runner.server_start),
            ("runner.server_idle", self.runner.server_idle),
            ("hooks.sign_of_life", self.hooks.sign_of_life),
            ("hooks.patience", self.hooks.patience),
        ] {
            if time > LONGEST {
                let told = format!("{key} is longer than anybody lives");
                return Err(invalid(told).hint("leave it out for the default"));
            }
        }
        for (key, time) in
            [("mcp.progress_every", self.mcp.progress_every), ("mcp.ping", self.mcp.ping)]
        {
            if time < SHORTEST_NEWS {
                let told = format!("{key} is too short: the hub would do nothing else");
                return Err(invalid(told).hint("leave it out for the default"));
            }
        }
        if self.mcp.answer_chars < FEWEST_CHARS {
            let told = format!("mcp.answer_chars is at least {FEWEST_CHARS}");
            return Err(invalid(told).hint("leave it out for the default, 10000"));
        }
        if self.log.line_bytes < SHORTEST_LINE {
            let told = format!("log.line_bytes is at least {SHORTEST_LINE}");
            return Err(invalid(told).hint("leave it out for the default, 4096"));
        }
        let large = self.server.bodies_bytes - self.server.bodies_bytes / 4;
        if large < self.server.request_bytes {
            let told = "server.bodies_bytes is too small: three quarters of it hold the largest \
                        request (server.request_bytes)";
            return Err(invalid(told).hint("leave it out for the default, 64 MiB"));
        }
        if self.profiles.rescan < SHORTEST_RESCAN {
            let told = "profiles.rescan is too short: the hub would do nothing else";
            return Err(invalid(told).hint("leave it out for the default, 30s"));
        }
        for (name, model) in &self.models {
            let fits = |c: char| c.is_alphanumeric() || "-_.:/".contains(c);
            if name.is_empty() || !name.chars().all(fits) {
                return Err(invalid("models: a name has letters, digits and - _ . : / alone")
                    .hint("for example [models.large]"));
            }
            if let Some((key, why)) = model.fault() {
                return Err(invalid(format!("models.{name}.{key}: {why}"))
                    .hint("docs/guide/models.md has an example for each provider"));
            }
        }
        if !(FEWEST_CHARS..=MOST_CONTEXT).contains(&self.runner.context_chars) {
            let told =
                format!("runner.context_chars lies between {FEWEST_CHARS} and {MOST_CONTEXT}");
            return Err(invalid(told).hint("leave it out for the default, 300000"));
        }
        if self.runner.message_chars < FEWEST_CHARS {
            let told = format!("runner.message_chars is at least {FEWEST_CHARS}");
            return Err(invalid(told).hint("leave it out for the default, 120000"));
        }
        if self.runner.answer_bytes < FEWEST_CHARS {
            let told = format!("runner.answer_bytes is at least {FEWEST_CHARS}");
            return Err(invalid(told).hint("leave it out for the default, 64 MiB"));
        }
        for (key, usd) in [
            ("runner.cost_usd", self.runner.cost_usd),
            ("runner.session_cost_usd", self.runner.session_cost_usd),
        ] {
            if !usd.is_finite() || usd < 0.0 {
                return Err(invalid(format!("{key} is a number that is not below zero"))
                    .hint("leave it out for no limit"));
            }
        }
        let folder = &self.agents.folder;
        if !folder.as_os_str().is_empty() && !folder.is_absolute() {
            return Err(invalid("agents.folder is a path that begins with /")
                .hint("leave it out for a folder beside the data folder"));
        }
        // The address is shown to everybody who asks; secrets have a separate key.
        let authority = self.telemetry.otlp.split_once("://").map_or("", |(_, rest)| rest);
        if authority.split('/').next().is_some_and(|host| host.contains('@')) {
            return Err(invalid("telemetry.otlp: a password does not belong into the address")
                .hint("put it into telemetry.headers"));
        }
        let listen = self.server.listen;
        if listen.ip().is_loopback() || self.server.allow_remote {
            return Ok(());
        }
        let told =
            format!("{listen} can be reached from other machines, and traffic is not encrypted");
        Err(invalid(told).hint("if you mean it, add --allow-remote or set server.allow_remote"))
    }
}
