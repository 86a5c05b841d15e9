//! What clients endure: one table, measured with the real programs.

use std::time::Duration;

use crate::config::McpConfig;

/// One row. `name` is a part of what the client calls itself.
struct Row {
    name: &'static str,
    /// Characters of a result that reach its model whole; counted as bytes, which is
    /// what Codex counts.
    chars: usize,
    /// Seconds that it waits without a word.
    silent: u64,
    /// Seconds that it waits while it hears of progress.
    patient: u64,
    /// Seconds after which it gives up, whatever it hears.
    limit: Option<u64>,
}

/// Qwen and others are built upon Gemini and may say so: the special name first.
const TABLE: &[Row] = &[
    Row { name: "qwen", chars: 10_000, silent: 120, patient: 120, limit: None },
    Row { name: "claude", chars: 35_000, silent: 120, patient: 290, limit: None },
    Row { name: "codex", chars: 10_000, silent: 290, patient: 290, limit: Some(300) },
    Row { name: "gemini", chars: 35_000, silent: 120, patient: 290, limit: None },
    Row { name: "opencode", chars: 35_000, silent: 50, patient: 290, limit: None },
    Row { name: "copilot", chars: 15_000, silent: 120, patient: 285, limit: None },
];

/// So close to its limit a client may have given up.
const CLOSE: Duration = Duration::from_secs(5);

/// What one client endures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) chars: usize,
    silent: Duration,
    patient: Duration,
    limit: Option<Duration>,
}

impl Client {
    pub(crate) fn new(name: Option<&str>, config: &McpConfig) -> Self {
        let name = name.unwrap_or_default().to_ascii_lowercase();
        let row = TABLE.iter().find(|row| name.contains(row.name));
        let most = config.patience_most;
        let seconds = |s: u64| Duration::from_secs(s).min(most);
        match row {
            Some(row) => Self {
                chars: row.chars,
                silent: seconds(row.silent),
                patient: seconds(row.patient),
                limit: row.limit.map(Duration::from_secs),
            },
            None => Self {
                chars: config.answer_chars,
                silent: config.patience.min(most),
                patient: config.patience.min(most),
                limit: None,
            },
        }
    }

    pub(crate) fn patience(&self, hears_progress: bool) -> Duration {
        if hears_progress { self.patient } else { self.silent }
    }

    /// An answer after so long may have been dropped.
    pub(crate) fn may_have_given_up(&self, waited: Duration) -> bool {
        self.limit.is_some_and(|limit| waited + CLOSE > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Client {
        Client::new(Some(name), &McpConfig::default())
    }

    #[test]
    fn known_clients_get_what_they_endure_and_others_the_default() {
        assert_eq!(client("claude-code").chars, 35_000);
        assert_eq!(client("claudecode").patience(true), Duration::from_secs(290));
        assert_eq!(client("codex-mcp-client").chars, 10_000);
        assert_eq!(client("opencode").patience(false), Duration::from_secs(50));
        let unknown = client("my-own-script");
        assert_eq!((unknown.chars, unknown.patience(true)), (10_000, Duration::from_secs(50)));
        assert_eq!(unknown, Client::new(None, &McpConfig::default()));
    }

    #[test]
    fn no_wait_comes_near_a_hard_limit() {
        for row in TABLE {
            let limit = row.limit.unwrap_or(300);
            assert!(row.patient.max(row.silent) + 10 <= limit, "{}", row.name);
        }
        let codex = client("codex");
        assert!(!codex.may_have_given_up(Duration::from_secs(290)));
        assert!(codex.may_have_given_up(Duration::from_secs(296)));
    }
}
