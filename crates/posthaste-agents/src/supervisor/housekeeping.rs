//! Removes the folders of instances that the hub has forgotten.

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
    /// Removes the folders of all instances except the known ones. Lists them first, in
    /// one go, so that an instance created meanwhile is not among them.
    pub(super) async fn forget_all_but(&self, known: &[InstanceId]) {
        for who in self.forgotten(known) {
            let folder = self.folder(who);
            let waking = Folder::new(folder.path().join("wake"));
            if folder.is_held() || waking.is_held() {
                // The keeper is not known to the hub any more. The next round removes its
                // folder.
                for keeper in [&folder, &waking].into_iter().filter_map(keeper_of) {
                    process::signal(keeper, Signal::TERM);
                }
                continue;
            }
            if !worktree::forget(&self.git, &folder).await {
                continue;
            }
            self.workshop.usages.forget(who);
            // The note of the place of the worker's own files goes last.
            let remove_all = move || {
                let home = folder.home();
                folder.unlink_alias(&home)?;
                remove(&home).and_then(|()| remove(folder.path()))
            };
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
            // Only a name in exactly our form is ours.
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
