//! Any program in a terminal of tmux, to which a person can attach.
//!
//! The program need not know of the hub. The profile says by patterns how its screen
//! looks when it is idle, when it works and when it asks a person; without a pattern for
//! idle it can be watched and attached to, and nothing is typed into it: it gets no task.

mod conversation;
mod dialogue;
mod manners;
mod screen;
#[cfg(test)]
mod tests;
mod typing;

use posthaste_core::ports::LaunchError;
use posthaste_core::profiles::Template;
use serde_json::Value;

use self::manners::Manners;
use super::{Brief, Driver, Launch, Limit};
use crate::conversation::Conversation;
use crate::settings::Stdin;

pub(super) struct Terminal;

impl Driver for Terminal {
    fn name(&self) -> &'static str {
        "terminal"
    }

    fn hint_to_open(&self) -> &'static str {
        "its screen never looked as `patterns.idle` of its profile says"
    }

    /// Enforces no limit: any program may do anything.
    fn keeps(&self, _: Limit) -> bool {
        false
    }

    fn launch(&self, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError> {
        let settings = brief.settings;
        let manners = Manners::read(&settings.profile, &brief.template.config)?;
        let Some(line) = &settings.command else {
            return Err(LaunchError::new(
                format!("{}: its driver is `terminal`, and it has no `command`", settings.profile),
                "for example `command: [claude]`, or one text for /bin/sh",
            ));
        };
        let state = Some(conversation::Terminal::first(manners));
        Ok(Some(Launch { state, ..Launch::plain(line.clone(), Stdin::Terminal) }))
    }

    fn check_task(&self, profile: &Template) -> Result<(), LaunchError> {
        let name = profile.name.as_str();
        match Manners::read(name, &profile.config)?.takes_prompts() {
            true => Ok(()),
            false => Err(LaunchError::new(
                format!("{name} takes no task: nothing says when its terminal is idle"),
                "add `patterns: { idle: … }`, a regular expression for its screen when it waits for input",
            )
            .about("patterns")),
        }
    }

    fn resume(&self, state: &Value) -> Option<Box<dyn Conversation>> {
        let terminal = conversation::Terminal::resume(state)?;
        Some(Box::new(terminal))
    }
}
