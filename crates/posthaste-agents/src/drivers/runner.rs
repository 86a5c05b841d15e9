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
use posthaste_core::profiles::Template;
use serde_json::Value;

use self::talk::Talk;
use super::{Brief, Driver, Launch, Limit, program_of};
use crate::conversation::{Conversation, one_line, resumed};
use crate::settings::{Line, Settings, Stdin};
use crate::tools::SERVICES;
use crate::tools::servers::Definition;

/// Number of characters of a wrong name that an error quotes.
const QUOTED: usize = 60;

pub(super) struct Runner;

/// Refuses a service that nobody has.
fn check_services(template: &Template) -> Result<(), LaunchError> {
    let mut services = template.services.iter().flatten();
    match services.find(|service| !SERVICES.contains(&service.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(LaunchError {
            why: format!(
                "{}: there is no service `{}` for its `allowed_builtin_service_aliases`",
                template.name,
                one_line(unknown, QUOTED)
            ),
            hint: Some(format!("known: {}", SERVICES.join(", "))),
            key: Some("allowed_builtin_service_aliases"),
        }),
    }
}

/// Refuses an MCP server that could not be started or reached as it is written.
fn check_servers(settings: &Settings) -> Result<(), LaunchError> {
    for (name, server) in settings.mcp_servers()? {
        Definition::read(&server).map_err(|why| {
            LaunchError::new(
                format!("{}: the MCP server {} {why}", settings.profile, one_line(&name, QUOTED)),
                "for example `{command: files-mcp, args: [--read-only]}` or `{type: http, url: \
                 \"https://tools.example/mcp\"}`",
            )
            .about("mcp_config")
        })?;
    }
    Ok(())
}

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

    fn tools_of_hub(&self) -> &'static str {
        "your tools"
    }

    fn launch(&self, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError> {
        let own = brief.binary.to_string_lossy();
        let words = program_of(brief.settings, &[&own, "runner"])?;
        check_services(brief.template)?;
        check_servers(brief.settings)?;
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
