//! What is known of agent programs: one table, measured with the real ones.
//!
//! A program that is not in it is treated by the most careful rules: it may be told
//! something twice, marked, and is never told wrong.

use std::time::Duration;

/// One program.
#[derive(Debug, PartialEq, Eq)]
pub struct Client {
    /// A part of what it calls itself; empty for a program that is not known.
    pub name: &'static str,
    /// Characters of a result that reach its model whole; counted as bytes, which is
    /// what Codex counts.
    pub chars: usize,
    /// How long it waits without a word.
    pub silent: Duration,
    /// How long it waits while it hears of progress.
    pub patient: Duration,
    /// When it gives up, whatever it hears.
    pub limit: Option<Duration>,
    /// It cancels every finished call, so a cancel after the answer means nothing.
    pub cancels_finished: bool,
    /// Its tools that start a sub-agent whose hooks look like the agent's own.
    pub sub_agents: &'static [&'static str],
}

const fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// A program that nobody has measured.
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

/// So close to its limit a client may have given up.
const CLOSE: Duration = seconds(5);

impl Client {
    /// The program that calls itself so.
    pub fn called(name: &str) -> &'static Self {
        let name = name.to_ascii_lowercase();
        TABLE.iter().find(|client| name.contains(client.name)).unwrap_or(&UNKNOWN)
    }

    pub fn is_known(&self) -> bool {
        !self.name.is_empty()
    }

    /// Whether an answer after so long may have been dropped.
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
