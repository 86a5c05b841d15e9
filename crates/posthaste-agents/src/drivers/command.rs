//! Any program: its task on stdin, its answer on stdout.
//!
//! For scripts, mechanical agents, and agent programs that answer one prompt and end.

use posthaste_core::ports::LaunchError;

use super::{Brief, Driver, Launch, Limit};

pub(super) struct Command;

impl Driver for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    /// Enforces no limit: any program may do anything.
    fn keeps(&self, _: Limit) -> bool {
        false
    }

    fn launch(&self, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError> {
        let settings = brief.settings;
        match &settings.command {
            Some(line) => Ok(Some(Launch::plain(line.clone(), settings.stdin))),
            None => Err(LaunchError::new(
                format!("{}: its driver is `command`, and it has no `command`", settings.profile),
                "for example `command: [python3, worker.py]`, or one text for /bin/sh",
            )),
        }
    }
}
