//! Drivers, the ways to run agents: one file for each.
//!
//! All that is special about a driver stands in its file, and the supervisor asks it. To
//! add a driver, add a file and a line here.

mod command;
mod external;
mod limits;

use std::path::Path;

use posthaste_core::Timestamp;
use posthaste_core::ports::LaunchError;
use posthaste_core::profiles::{Profile, Source, Template};

use self::limits::Limit;
use crate::settings::{Line, Settings};

/// One way to run agents.
pub(crate) trait Driver: Sync {
    /// The name in a profile's `driver`.
    fn name(&self) -> &'static str;

    /// Returns whether the driver enforces this limit of the profile on its agents.
    fn keeps(&self, limit: Limit) -> bool;

    /// Returns the command that runs a worker with these settings; `None` if such an
    /// agent connects by itself and the hub runs nothing.
    fn line(&self, settings: &Settings) -> Result<Option<Line>, LaunchError>;
}

const ALL: [&dyn Driver; 2] = [&command::Command, &external::External];

/// Returns the command that runs a worker of this profile; `None` if the agent connects
/// by itself. Refuses a profile with a limit that its driver cannot enforce.
pub(crate) fn line(profile: &Profile, settings: &Settings) -> Result<Option<Line>, LaunchError> {
    let driver = of(profile)?;
    let line = driver.line(settings)?;
    if line.is_some() {
        limits::check(&profile.template, driver)?;
    }
    Ok(line)
}

/// Checks whether a worker of this profile could be started, as far as the profile alone
/// tells: the driver is known, the keys have the right form, and the driver can enforce
/// every limit. Does not look for programs and folders.
pub fn check_profile(template: &Template) -> Result<(), LaunchError> {
    let now = Timestamp(0);
    let profile = Profile {
        template: template.clone(),
        source: Source::Api,
        version: 0,
        created_at: now,
        updated_at: now,
    };
    line(&profile, &Settings::read(&profile, Some(Path::new("/")))?).map(|_| ())
}

/// Returns the driver of a profile: the external one if the profile names none.
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
            key: Some("driver"),
        }
    })
}
