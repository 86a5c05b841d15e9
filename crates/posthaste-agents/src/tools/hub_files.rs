//! The files of the hub that the service `workspace` leaves alone.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Default)]
pub(crate) struct HubFiles {
    /// The data folder, with the operator's token.
    pub(crate) data: PathBuf,
    /// The folder of the folders of workers, in the data folder.
    pub(crate) agents: PathBuf,
    /// The files that hold the keys of models.
    pub(crate) keys: Vec<PathBuf>,
}

impl HubFiles {
    /// Returns what an assistant with this working directory does not see, without links.
    pub(super) fn closed_to(&self, root: &Path) -> Vec<PathBuf> {
        let mut closed: Vec<PathBuf> = self.keys.iter().map(|key| real(key)).collect();
        if !self.is_workplace(root) {
            closed.push(real(&self.data));
        }
        closed
    }

    /// Returns whether a directory lies inside the own folder of a worker.
    fn is_workplace(&self, root: &Path) -> bool {
        let inside = real(root);
        let inside = inside.strip_prefix(real(&self.agents));
        inside.is_ok_and(|inside| inside.components().count() > 1)
    }
}

/// Returns a path without links, also that of a file that is not there yet.
pub(super) fn real(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    let (mut real, mut rest) = (PathBuf::new(), path.components());
    while let Some(part) = rest.next() {
        match real.join(part).canonicalize() {
            Ok(next) => real = next,
            Err(_) => return real.join(part).join(rest.as_path()),
        }
    }
    real
}
