//! The programs that can do the demo's job, with their profiles: those of the examples.

use std::time::Duration;

use posthaste_agents::installed;
use posthaste_api::{ApiError, ErrorCode};
use posthaste_core::Timestamp;
use posthaste_core::profiles::{Profile, Source, Template};

use super::repository::TESTS;
use crate::cli::DemoProgram;
use crate::config;
use crate::failure::{Failure, internal};
use crate::profiles::file;

/// Returns the text of an example.
macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../../../../../examples/profiles/", $name, ".md"))
    };
}

impl DemoProgram {
    /// Its name for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Opencode => "OpenCode",
            Self::Gemini => "Gemini CLI",
        }
    }

    /// The profiles of its implementer and of its reviewer.
    fn examples(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => (example!("claude-implementer"), example!("claude-reviewer")),
            Self::Codex => (example!("codex-implementer"), example!("codex-reviewer")),
            Self::Opencode => (example!("opencode-implementer"), example!("opencode-reviewer")),
            Self::Gemini => (example!("gemini-implementer"), example!("gemini-reviewer")),
        }
    }
}

/// The profiles of the two agents.
pub(super) struct Pair {
    pub(super) implementer: Template,
    pub(super) reviewer: Template,
}

impl Pair {
    /// Returns the profiles of the examples, which may also run the tests of the demo's
    /// project, and for so long. Refuses if the program is not installed.
    pub(super) fn of(program: DemoProgram, timeout: Duration) -> Result<Self, Failure> {
        let (implementer, reviewer) = program.examples();
        let mut implementer = template(implementer, timeout)?;
        if let Some(allowed) = &mut implementer.allowed_tools {
            allowed.push(format!("Bash({TESTS})"));
        }
        let pair = Self { implementer, reviewer: template(reviewer, timeout)? };
        is_installed(&pair.implementer)?;
        Ok(pair)
    }
}

fn template(text: &str, timeout: Duration) -> Result<Template, Failure> {
    let wrong = |why: String| internal(format!("a profile of the examples: {why}"));
    let mut template = file::parse(text).map_err(|fault| wrong(fault.why))?.template;
    let mut config: serde_json::Value =
        serde_json::from_str(&template.config).map_err(|e| wrong(e.to_string()))?;
    config["timeout"] = timeout.as_secs_f64().into();
    template.config = config.to_string();
    Ok(template)
}

fn is_installed(template: &Template) -> Result<(), Failure> {
    let (source, now) = (Source::Api, Timestamp(0));
    let template = template.clone();
    let profile = Profile { template, source, version: 0, created_at: now, updated_at: now };
    match installed(&profile, &config::whole_environment()) {
        Ok(_) => Ok(()),
        Err(error) => {
            let told = ApiError::new(ErrorCode::NotFound, error.why);
            Err(told.hint(error.hint.unwrap_or_default()).into())
        }
    }
}
