//! The built-in assistant: `posthaste runner`, or any program that speaks its protocol.
//!
//! The runner has no keys and no network: it asks the hub for its model, its tools and its
//! mail, line by line (`docs/reference/runner.md`). The hub's side of those calls is
//! `assistant.rs`; here is only who may say what, and when a turn runs.

#[cfg(test)]
mod fuzz;
mod talk;
#[cfg(test)]
mod tests;

use posthaste_core::ports::LaunchError;
use serde_json::Value;

use self::talk::Talk;
use super::{Brief, Driver, Launch, Limit, program_of};
use crate::conversation::{Conversation, resumed};
use crate::settings::{Line, Stdin};

pub(super) struct Runner;

impl Driver for Runner {
    fn name(&self) -> &'static str {
        "runner"
    }

    fn keeps(&self, limit: Limit) -> bool {
        match limit {
            Limit::Tools | Limit::Services => true,
            Limit::AllowedTools | Limit::PermissionMode => false,
        }
    }

    fn other_limits(&self) -> Option<&'static str> {
        Some("limit the agent by `tools`, which names the tools that it has")
    }

    fn launch(&self, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError> {
        let own = brief.binary.to_string_lossy();
        let words = program_of(brief.settings, &[&own, "runner"])?;
        brief.settings.mcp_servers()?;
        let state = serde_json::to_value(Talk::new(brief.thread)).ok();
        Ok(Some(Launch {
            assistant: true,
            state,
            ..Launch::plain(Line::Words(words), Stdin::Session)
        }))
    }

    fn resume(&self, state: &Value) -> Option<Box<dyn Conversation>> {
        Some(Box::new(resumed::<Talk>(state)?))
    }

    fn answers_operator(&self) -> bool {
        true
    }

    fn hint_to_open(&self) -> &'static str {
        "does its `command` speak the protocol of runners (docs/reference/runner.md)?"
    }
}
