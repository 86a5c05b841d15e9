//! The table of agent programs and their limits, measured with the real ones.
//!
//! A program that is not in it is treated by the most careful rules: it may get a message
//! twice, marked, and is never told anything wrong.

use std::time::Duration;

/// An agent program.
#[derive(Debug, PartialEq, Eq)]
pub struct Client {
    /// A part of its own name for itself; empty for an unknown program.
    pub name: &'static str,
    /// Number of characters of a result that reach its model whole; counted as bytes, as
    /// Codex does.
    pub chars: usize,
    /// Time that it waits without any sign of progress.
    pub silent: Duration,
    /// Time that it waits while it gets progress notices.
    pub patient: Duration,
    /// Time after which it gives up in any case.
    pub limit: Option<Duration>,
    /// Set if it cancels every finished call, so that a cancel after the answer means
    /// nothing.
    pub cancels_finished: bool,
    /// Its tools that start a sub-agent whose hooks look like the agent's own.
    pub sub_agents: &'static [&'static str],
}

const fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// The row for programs that nobody has measured.
pub static UNKNOWN: Client = row("", 0, 0, 0);

const fn row(name: &'static str, chars: usize, silent: u64, patient: u64) -> Client {
    Client {
        name,
        chars,
        silent: seconds(silent),
        patient: seconds(patient),
        limit: None,
        cancels_finished: false,
        sub_agents: &[],
    }
}

/// Qwen and others are built upon Gemini and may say so: the special name first.
pub static TABLE: [Client; 6] = [
    Client { sub_agents: &["agent"], ..row("qwen", 10_000, 120, 120) },
    row("claude", 35_000, 120, 290),
    Client { limit: Some(seconds(300)), ..row("codex", 10_000, 290, 290) },
    Client { sub_agents: &["invoke_agent"], ..row("gemini", 35_000, 120, 290) },
    Client { cancels_finished: true, ..row("opencode", 35_000, 50, 290) },
    row("copilot", 15_000, 120, 285),
];

/// An answer this close to its limit may have been dropped by the client.
const CLOSE: Duration = seconds(5);

impl Client {
    /// Finds the program by its own name for itself.
    pub fn called(name: &str) -> &'static Self {
        let name = name.to_ascii_lowercase();
        TABLE.iter().find(|client| name.contains(client.name)).unwrap_or(&UNKNOWN)
    }

    pub fn is_known(&self) -> bool {
        !self.name.is_empty()
    }

    /// Returns whether the client may have dropped an answer that took so long.
    pub fn may_have_given_up(&self, waited: Duration) -> bool {
        self.limit.is_some_and(|limit| waited + CLOSE > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_a_part_of_what_it_calls_itself() {
        assert_eq!(Client::called("claude-code").name, "claude");
        assert_eq!(Client::called("codex-mcp-client").name, "codex");
        assert_eq!(Client::called("qwen-code (gemini-cli)").name, "qwen");
        assert_eq!(Client::called("GitHub Copilot").name, "copilot");
        assert!(!Client::called("my-own-script").is_known());
        assert!(!Client::called("").is_known());
    }

    #[test]
    fn no_wait_comes_near_a_hard_limit() {
        for client in &TABLE {
            let limit = client.limit.unwrap_or(seconds(300));
            assert!(client.patient.max(client.silent) + seconds(10) <= limit, "{}", client.name);
        }
        let codex = Client::called("codex");
        assert!(!codex.may_have_given_up(seconds(290)));
        assert!(codex.may_have_given_up(seconds(296)));
        assert!(!UNKNOWN.may_have_given_up(seconds(10_000)));
    }
}
