//! Files of profiles: Markdown with YAML front matter, ours and CAO's.
//!
//! `file` reads one, `folder` makes the hub's profiles equal to what stands in
//! some folders, `watch` does so again whenever something changes there. A bad
//! file is a fault that is told, and never the end of a hub.

pub(crate) mod file;
mod folder;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use figment::value::magic::RelativePathBuf;
use serde::{Deserialize, Serialize};

pub(crate) use folder::markdown_files;
pub(crate) use watch::Watch;

/// The `[profiles]` section of the configuration.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProfilesConfig {
    /// Folders besides `profiles` in the data folder; in a file they are relative to
    /// that file.
    pub(crate) folders: Vec<RelativePathBuf>,
    /// How long a folder must be quiet before it is read again.
    #[serde(with = "humantime_serde")]
    pub(crate) settle: Duration,
    /// How often the folders are read even if nothing was noticed.
    #[serde(with = "humantime_serde")]
    pub(crate) rescan: Duration,
}

impl Default for ProfilesConfig {
    fn default() -> Self {
        Self {
            folders: Vec::new(),
            settle: Duration::from_millis(100),
            rescan: Duration::from_secs(30),
        }
    }
}

impl ProfilesConfig {
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        self.folders.iter().map(|path| absolute(path.relative())).collect()
    }
}
