//! Nothing: the agent connects by itself, over MCP, REST or the command line.

use posthaste_core::ports::LaunchError;

use super::{Driver, Limit};
use crate::settings::{Line, Settings};

pub(super) struct External;

impl Driver for External {
    fn name(&self) -> &'static str {
        "external"
    }

    /// The program that the agent is decides.
    fn keeps(&self, _: Limit) -> bool {
        false
    }

    /// A command that nobody runs is a driver that was forgotten.
    fn line(&self, settings: &Settings) -> Result<Option<Line>, LaunchError> {
        match settings.command {
            None => Ok(None),
            Some(_) => Err(LaunchError::new(
                format!("{}: it has a `command`, and no driver that runs it", settings.profile),
                "add `driver: command` to the profile, or take its `command` away",
            )),
        }
    }
}
