//! `posthaste profiles check`: reports faults in a folder of profiles, without a hub.

use std::path::Path;

use posthaste_api::ErrorCode;
use posthaste_api::profiles::ProfileFault;
use posthaste_core::Limits;
use serde::Serialize;

use super::{files_of, of_file};
use crate::failure::Failure;
use crate::output::Output;
use crate::profiles::file;

#[derive(Default, Serialize)]
struct Checked {
    /// Names of the profiles that can be used as they are.
    good: Vec<String>,
    /// Profiles from which no agent can be started.
    warnings: Vec<ProfileFault>,
    /// Files that are no profiles.
    failed: Vec<ProfileFault>,
}

pub(super) fn check(folder: &Path, output: &mut Output) -> Result<(), Failure> {
    let limits = Limits::default();
    let mut checked = Checked::default();
    for path in files_of(folder)? {
        let parsed = match file::read(&path, limits.profile_file_bytes) {
            Ok(parsed) => parsed,
            Err(fault) => {
                checked.failed.push(of_file(&path, fault));
                continue;
            }
        };
        match (parsed.beyond(&limits), parsed.not_startable()) {
            (Some(fault), _) => checked.failed.push(of_file(&path, fault)),
            (None, Some(fault)) => checked.warnings.push(of_file(&path, fault)),
            (None, None) => checked.good.push(parsed.template.name.to_string()),
        }
    }
    let Checked { good, warnings, failed } = &checked;
    if output.json() {
        output.answer(&checked)?;
    } else {
        for (word, faults) in [("warning", warnings), ("failed ", failed)] {
            for fault in faults {
                output.say(&format!("{word} {fault}"))?;
            }
        }
        let counts = (good.len(), warnings.len(), failed.len());
        output.say(&format!(
            "{} good, {} cannot be started, {} failed",
            counts.0, counts.1, counts.2
        ))?;
    }
    match failed.is_empty() && warnings.is_empty() {
        true => Ok(()),
        false => Err(Failure::Shown(ErrorCode::InvalidArgument)),
    }
}
