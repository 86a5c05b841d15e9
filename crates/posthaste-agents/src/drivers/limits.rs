//! The limits that a profile sets for its agents, and the check that a driver enforces
//! them.
//!
//! An agent without the limits that it should have is worse than one that does not start.

use posthaste_core::ports::LaunchError;
use posthaste_core::profiles::Template;

use super::Driver;
use crate::settings::Settings;

/// A key of a profile that limits its agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Tools,
    AllowedTools,
    Services,
    PermissionMode,
}

/// The entry in a list of tools that stands for every tool.
const EVERY: &str = "*";

impl Limit {
    const ALL: [Self; 4] = [Self::Tools, Self::AllowedTools, Self::Services, Self::PermissionMode];

    /// The key of the profile that sets this limit.
    fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::AllowedTools => "allowed_tools",
            Self::Services => "allowed_builtin_service_aliases",
            Self::PermissionMode => "permission_mode",
        }
    }

    /// Returns whether a driver has to enforce it. An empty list of services is the default
    /// of every agent, and every tool is no limit.
    fn is_set(self, template: &Template, settings: &Settings) -> bool {
        let limits = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !is_every(list));
        match self {
            Self::Tools => limits(&template.tools),
            Self::AllowedTools => limits(&template.allowed_tools),
            Self::Services => template.services.as_ref().is_some_and(|list| !list.is_empty()),
            Self::PermissionMode => settings.permission_mode.is_some(),
        }
    }

    fn hint(self, driver: &dyn Driver) -> String {
        let key = self.key();
        match self {
            Self::Tools | Self::AllowedTools => format!(
                "take `{key}` out of the profile, and {}",
                driver.other_limits().unwrap_or(
                    "limit the program in its own words, for example `command: [claude, -p, \
                     --allowedTools, Read]`"
                )
            ),
            Self::Services => format!("take `{key}` out of the profile, or leave it empty"),
            Self::PermissionMode => format!(
                "take `{key}` out of the profile, and say it in its `command`, in the program's \
                 own words"
            ),
        }
    }
}

pub(super) fn is_every(list: &[String]) -> bool {
    list.iter().any(|tool| tool == EVERY)
}

/// Refuses a profile that sets a limit which its driver cannot enforce, or that allows
/// every tool of a program which asks all the same.
pub(super) fn check(
    template: &Template,
    settings: &Settings,
    driver: &dyn Driver,
) -> Result<(), LaunchError> {
    let (name, kind) = (&template.name, driver.name());
    let unkept = |limit: &Limit| !driver.keeps(*limit) && limit.is_set(template, settings);
    if let Some(limit) = Limit::ALL.into_iter().find(unkept) {
        let key = limit.key();
        return Err(LaunchError {
            why: format!("{name}: its driver `{kind}` cannot keep its agents to `{key}`"),
            hint: Some(limit.hint(driver)),
            key: Some(key),
        });
    }
    match (driver.asks_nothing(), &template.allowed_tools) {
        (Some(how), Some(list)) if is_every(list) => Err(LaunchError {
            why: format!(
                "{name}: with its driver `{kind}`, `allowed_tools: [\"*\"]` allows nothing"
            ),
            hint: Some(format!("an agent that asks for nothing has {how}")),
            key: Some("allowed_tools"),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_core::profiles::Profile;

    use crate::check_profile;
    use crate::settings::tests::profile;

    fn command(change: impl FnOnce(&mut Profile)) -> Result<(), String> {
        let mut profile = profile(Some("command"), r#"{"command": "true"}"#);
        change(&mut profile);
        check_profile(&profile.template)
            .map_err(|error| format!("{}; {}", error.why, error.hint.unwrap_or_default()))
    }

    fn list(words: &[&str]) -> Option<Vec<String>> {
        Some(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn a_limit_that_no_command_can_keep_is_an_error_that_names_it() {
        let tools = command(|p| p.template.tools = list(&["Read"])).expect_err("refused");
        assert!(tools.contains("`command`") && tools.contains("`tools`"), "{tools}");
        let none = command(|p| p.template.tools = list(&[])).expect_err("no tool is a limit");
        assert!(none.contains("`tools`"), "{none}");
        let allowed = command(|p| p.template.allowed_tools = list(&["Read"])).expect_err("refused");
        assert!(allowed.contains("`allowed_tools`") && allowed.contains("--allowedTools"));
        let services = command(|p| p.template.services = list(&["files"])).expect_err("refused");
        assert!(services.contains("`allowed_builtin_service_aliases`"), "{services}");
    }

    #[test]
    fn a_hint_is_about_the_program_of_the_profile() {
        for (driver, words) in [("codex", "sandbox"), ("acp", "`permission_mode`")] {
            let mut profile = profile(Some(driver), r#"{"command": ["x"]}"#);
            profile.template.tools = list(&["Read"]);
            let error = check_profile(&profile.template).expect_err("refused");
            let hint = error.hint.expect("a hint");
            assert!(hint.contains(words) && !hint.contains("claude"), "{hint}");
        }
    }

    #[test]
    fn a_list_of_every_tool_does_not_stop_a_program_from_asking() {
        for (driver, mode) in [
            ("claude", "`permission_mode: bypassPermissions`"),
            ("codex", "`permission_mode: danger-full-access never`"),
            ("acp", "`permission_mode`"),
        ] {
            let mut profile = profile(Some(driver), r#"{"command": ["x"]}"#);
            profile.template.allowed_tools = list(&["*"]);
            let error = check_profile(&profile.template).expect_err("refused");
            assert_eq!(error.key, Some("allowed_tools"));
            assert!(error.hint.expect("a hint").contains(mode), "{driver}");
        }
        assert_eq!(command(|p| p.template.allowed_tools = list(&["*"])), Ok(()), "it never asks");
    }

    #[test]
    fn a_permission_mode_that_nobody_reads_is_an_error() {
        for driver in ["command", "terminal"] {
            let config = r#"{"command": ["x"], "permission_mode": "plan"}"#;
            let error = check_profile(&profile(Some(driver), config).template);
            let error = error.expect_err(driver);
            assert_eq!(error.key, Some("permission_mode"), "{error}");
            assert!(error.why.contains(driver), "{error}");
        }
    }

    #[test]
    fn lists_that_limit_nothing_are_no_error() {
        assert_eq!(command(|_| ()), Ok(()));
        assert_eq!(command(|p| p.template.tools = list(&["*"])), Ok(()));
        assert_eq!(command(|p| p.template.services = list(&[])), Ok(()));
        // The program of an agent that connects by itself enforces the agent's limits.
        let mut visitor = profile(None, "{}");
        visitor.template.tools = list(&["Read"]);
        assert_eq!(check_profile(&visitor.template), Ok(()));
    }
}
