//! Checks whether hooks of agents have failed lately.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::super::hook::log;
use super::Check;
use crate::when;

const HOOKS: &str = "hooks";

/// Older failures are not reported.
const LATELY: SignedDuration = SignedDuration::from_hours(24);

pub(super) fn log_of(folder: &Path) -> PathBuf {
    log::path(folder)
}

pub(super) fn lately(folder: &Path) -> Check {
    let path = log::path(folder);
    let missed = match log::since(folder, Timestamp::now() - LATELY) {
        Ok(missed) => missed,
        Err(e) => {
            let told = format!("{} cannot be read: {e}", path.display());
            return Check::warn(HOOKS, told, "open it for its owner, or remove it");
        }
    };
    let Some(last) = missed.last() else {
        return Check::ok(HOOKS, "none has failed in the last 24 hours");
    };
    let ago = when::ago(&last.at.to_string(), Timestamp::now());
    let told = match missed.len() {
        1 => format!("one failed in the last 24 hours, {ago}: {}", last.why),
        n => format!("{n} failed in the last 24 hours, the last {ago}: {}", last.why),
    };
    Check::warn(HOOKS, told, format!("agents went on without their mail; see {}", path.display()))
}
