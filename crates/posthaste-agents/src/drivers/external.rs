//! The driver that runs nothing: the agent connects by itself, over MCP, REST or the
//! command line.

use posthaste_core::ports::LaunchError;

use super::{Brief, Driver, Launch, Limit};

pub(super) struct External;

impl Driver for External {
    fn name(&self) -> &'static str {
        "external"
    }

    /// Enforces no limit: that is up to the agent's program.
    fn keeps(&self, _: Limit) -> bool {
        false
    }

    /// Refuses a `command` or a `timeout`: nothing would run the command, the hub cannot
    /// end an agent that connects by itself, and the profile has probably forgotten its
    /// driver.
    fn launch(&self, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError> {
        let settings = brief.settings;
        let forgotten = |what: &'static str, hint| {
            let why =
                format!("{}: it has a `{what}`, and no driver that runs it", settings.profile);
            Err(LaunchError::new(why, hint).about(what))
        };
        match (&settings.command, settings.timeout) {
            (None, None) => Ok(None),
            (Some(_), _) => forgotten(
                "command",
                "add `driver: command` to the profile, or take its `command` away",
            ),
            (None, Some(_)) => {
                forgotten("timeout", "add a driver to the profile, or take its `timeout` away")
            }
        }
    }
}
