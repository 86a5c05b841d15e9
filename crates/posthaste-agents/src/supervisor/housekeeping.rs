//! What is left of those whom the hub has forgotten.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use posthaste_core::address::InstanceId;
use rustix::process::Signal;

use super::Shared;
use super::keepers::keeper_of;
use crate::folder::Folder;
use crate::{process, worktree};

impl Shared {
    /// Removes their folders. Looks first, in one go: whoever is new by the time that
    /// something is removed is not among those.
    pub(super) async fn forget_all_but(&self, known: &[InstanceId]) {
        for who in self.forgotten(known) {
            let folder = self.folder(who);
            let waking = Folder::new(folder.path().join("wake"));
            if folder.is_held() || waking.is_held() {
                // It belongs to nobody any more. Its folder goes the next time.
                for keeper in [&folder, &waking].into_iter().filter_map(keeper_of) {
                    process::signal(keeper, Signal::TERM);
                }
                continue;
            }
            if !worktree::forget(&self.git, &folder).await {
                continue;
            }
            // The note of where its files lie goes last.
            let remove_all = move || remove(&folder.home()).and_then(|()| remove(folder.path()));
            if let Ok(Err(error)) = tokio::task::spawn_blocking(remove_all).await {
                tracing::warn!(%who, %error, "the folder of a worker cannot be removed");
            }
        }
    }

    fn forgotten(&self, known: &[InstanceId]) -> Vec<InstanceId> {
        let known: HashSet<&InstanceId> = known.iter().collect();
        let running = self.running.lock();
        let entries = fs::read_dir(self.agents()).into_iter().flatten().flatten();
        let folders = entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut found = Vec::new();
        for entry in folders {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse::<InstanceId>().ok()) else {
                continue;
            };
            // Only a name as we write it is ours.
            let ours = name == *id.to_string();
            if ours && !known.contains(&id) && !running.contains_key(&id) {
                found.push(id);
            }
        }
        found
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
