//! How agents are run: one file per driver.
//!
//! All that is special about a driver stands in its file, and the supervisor asks.
//! Adding one is a file and a line here.

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
    /// As a profile's `driver` names it.
    fn name(&self) -> &'static str;

    /// Whether its agents can do no more than this limit of their profile allows.
    fn keeps(&self, limit: Limit) -> bool;

    /// What is run for a worker with these settings; `None` if such an agent comes by
    /// itself and nothing is run.
    fn line(&self, settings: &Settings) -> Result<Option<Line>, LaunchError>;
}

const ALL: [&dyn Driver; 2] = [&command::Command, &external::External];

/// What is run for a worker of this profile; `None` if it comes by itself. A profile with
/// a limit that its driver cannot keep is refused.
pub(crate) fn line(profile: &Profile, settings: &Settings) -> Result<Option<Line>, LaunchError> {
    let driver = of(profile)?;
    let line = driver.line(settings)?;
    if line.is_some() {
        limits::check(&profile.template, driver)?;
    }
    Ok(line)
}

/// Whether a worker of this profile could be started at all, as far as the profile alone
/// tells: the driver is known, the keys have the right form, and no limit is beyond the
/// driver. Programs and folders are another matter.
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
            key: Some("driver"),
        }
    })
}
