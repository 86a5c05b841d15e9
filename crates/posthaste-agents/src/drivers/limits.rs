//! The limits that a profile sets for its agents, and the check that a driver enforces
//! them.
//!
//! An agent without the limits that it should have is worse than one that does not start.

use posthaste_core::ports::LaunchError;
use posthaste_core::profiles::Template;

use super::Driver;

/// A list of a profile that limits its agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Tools,
    AllowedTools,
    Services,
}

/// The entry in a list of tools that stands for every tool.
const EVERY: &str = "*";

impl Limit {
    const ALL: [Self; 3] = [Self::Tools, Self::AllowedTools, Self::Services];

    /// The key of the profile that sets this limit.
    fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::AllowedTools => "allowed_tools",
            Self::Services => "allowed_builtin_service_aliases",
        }
    }

    /// Returns the list, if a driver has to enforce it. An empty list of services is the
    /// default of every agent, and every tool is no limit.
    fn of(self, template: &Template) -> Option<&[String]> {
        let list = match self {
            Self::Tools => &template.tools,
            Self::AllowedTools => &template.allowed_tools,
            Self::Services => &template.services,
        };
        let list = list.as_deref()?;
        let asks = match self {
            Self::Tools | Self::AllowedTools => !list.iter().any(|tool| tool == EVERY),
            Self::Services => !list.is_empty(),
        };
        asks.then_some(list)
    }

    fn hint(self) -> String {
        let key = self.key();
        match self {
            Self::Tools | Self::AllowedTools => format!(
                "take `{key}` out of the profile, and limit the program in its own words: \
                 `command: [claude, -p, --allowedTools, Read]`"
            ),
            Self::Services => format!("take `{key}` out of the profile, or leave it empty"),
        }
    }
}

/// Refuses a profile that sets a limit which its driver cannot enforce.
pub(super) fn check(template: &Template, driver: &dyn Driver) -> Result<(), LaunchError> {
    let unkept = |limit: &Limit| !driver.keeps(*limit) && limit.of(template).is_some();
    let Some(limit) = Limit::ALL.into_iter().find(unkept) else { return Ok(()) };
    let (name, driver, key) = (&template.name, driver.name(), limit.key());
    Err(LaunchError {
        why: format!("{name}: its driver `{driver}` cannot keep its agents to `{key}`"),
        hint: Some(limit.hint()),
        key: Some(key),
    })
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
