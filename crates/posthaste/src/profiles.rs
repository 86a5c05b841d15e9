//! Files of profiles: Markdown with YAML front matter, ours and CAO's.
//!
//! `file` reads one, `folder` makes the hub's profiles equal to the files of some
//! folders, `watch` does so again whenever a file changes there. A bad file is reported
//! as a fault, and never ends the hub.

pub(crate) mod file;
mod folder;
#[cfg(test)]
mod fuzz;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use figment::value::magic::RelativePathBuf;
use posthaste_core::settings;

pub(crate) use folder::markdown_files;
pub(crate) use watch::Watch;

settings! {
    /// The `[profiles]` section of the configuration.
    pub(crate) struct ProfilesConfig {
        /// Folders besides `profiles` in the data folder; in a file they are relative to
        /// that file.
        folders: Vec<RelativePathBuf> = Vec::new();
        /// How long a folder must be quiet before it is read again.
        settle: Duration = Duration::from_millis(100), "humantime_serde";
        /// How often the folders are read even if nothing was noticed.
        rescan: Duration = Duration::from_secs(30), "humantime_serde";
    }
}

impl ProfilesConfig {
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        self.folders.iter().map(|path| absolute(path.relative())).collect()
    }
}
