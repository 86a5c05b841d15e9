//! The patience and the budget of a client, by the table of programs and the
//! configuration.

use std::time::Duration;

use posthaste_core::messaging::clients::{self, Client as Program};

use crate::config::McpConfig;

/// The limits of a client: how long it waits, and how much of an answer reaches its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endurance {
    pub(crate) program: &'static Program,
    pub(crate) chars: usize,
    silent: Duration,
    patient: Duration,
}

impl Endurance {
    pub(crate) fn new(name: Option<&str>, config: &McpConfig) -> Self {
        let program = name.map_or(&clients::UNKNOWN, Program::called);
        let most = config.patience_most;
        match program.is_known() {
            true => Self {
                program,
                chars: program.chars,
                silent: program.silent.min(most),
                patient: program.patient.min(most),
            },
            false => Self {
                program,
                chars: config.answer_chars,
                silent: config.patience.min(most),
                patient: config.patience.min(most),
            },
        }
    }

    /// Returns the limits of an assistant whose model the hub calls itself: it waits as
    /// long as the hub does.
    pub(crate) fn of_assistant(chars: usize) -> Self {
        Self { program: &clients::UNKNOWN, chars, silent: Duration::MAX, patient: Duration::MAX }
    }

    pub(crate) fn patience(&self, hears_progress: bool) -> Duration {
        if hears_progress { self.patient } else { self.silent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Endurance {
        Endurance::new(Some(name), &McpConfig::default())
    }

    #[test]
    fn known_clients_get_what_they_endure_and_others_the_default() {
        assert_eq!(client("claude-code").chars, 35_000);
        assert_eq!(client("claudecode").patience(true), Duration::from_secs(290));
        assert_eq!(client("codex-mcp-client").chars, 10_000);
        assert_eq!(client("opencode").patience(false), Duration::from_secs(50));
        let unknown = client("my-own-script");
        assert_eq!((unknown.chars, unknown.patience(true)), (10_000, Duration::from_secs(50)));
        assert_eq!(unknown, Endurance::new(None, &McpConfig::default()));
    }
}
