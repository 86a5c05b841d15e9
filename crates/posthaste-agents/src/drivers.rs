//! How agents are run: one file per driver.
//!
//! All that is special about a driver stands in its file, and the supervisor asks.
//! Adding one is a file and a line here.

mod command;
mod external;

use posthaste_core::ports::LaunchError;
use posthaste_core::profiles::Profile;

use crate::settings::{Line, Settings};

/// One way to run agents.
pub(crate) trait Driver: Sync {
    /// As a profile's `driver` names it.
    fn name(&self) -> &'static str;

    /// What is run for a worker with these settings; `None` if such an agent comes by
    /// itself and nothing is run.
    fn line(&self, settings: &Settings) -> Result<Option<Line>, LaunchError>;
}

const ALL: [&dyn Driver; 2] = [&command::Command, &external::External];

/// The driver of a profile. Who names none comes by itself.
pub(crate) fn of(profile: &Profile) -> Result<&'static dyn Driver, LaunchError> {
    let template = &profile.template;
    let Some(wanted) = &template.driver else { return Ok(&external::External) };
    ALL.into_iter().find(|driver| driver.name() == wanted).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|driver| driver.name()).collect();
        LaunchError {
            why: format!("{}: no driver is called `{wanted}`", template.name),
            hint: Some(format!(
                "known: {}; `driver: command` with a `command` runs any program",
                known.join(", ")
            )),
        }
    })
}
