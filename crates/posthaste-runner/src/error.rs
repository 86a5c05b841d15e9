//! The reasons why a runner ends before its work is done.

use std::fmt;
use std::io;

#[derive(Debug)]
pub enum RunnerError {
    /// The input ended in the middle of a turn.
    HubGone,
    /// The input cannot be read.
    Input(io::Error),
    /// The output cannot be written.
    Output(io::Error),
    /// The hub refused a call twice without which there is no next step.
    Refused { method: &'static str, message: String },
}

impl fmt::Display for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HubGone => f.write_str(
                "stdin ended in the middle of a turn; the hub has the conversation, and a new \
                 runner goes on from there",
            ),
            Self::Input(error) => write!(f, "stdin cannot be read: {error}"),
            Self::Output(error) => write!(f, "stdout cannot be written: {error}"),
            Self::Refused { method, message } => {
                write!(f, "the hub refused {method} twice, so this runner cannot go on: {message}")
            }
        }
    }
}

impl std::error::Error for RunnerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Input(error) | Self::Output(error) => Some(error),
            Self::HubGone | Self::Refused { .. } => None,
        }
    }
}
