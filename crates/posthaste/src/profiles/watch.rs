//! Reads the folders again whenever a file changes there.
//!
//! The system reports changes; after a quiet moment all files are read again. Changes
//! that the system does not report (as in some network folders) are found by a regular
//! scan.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use posthaste_core::Hub;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::ProfilesConfig;
use super::folder::Folders;

/// The watch over the folders of one hub.
pub(crate) struct Watch {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Watch {
    /// Reads the folders once, so that the hub opens with their profiles, and then
    /// watches.
    pub(crate) async fn start(hub: Arc<Hub>, own: PathBuf, config: &ProfilesConfig) -> Self {
        // If the folder cannot be made, the sync reports it.
        let _ = std::fs::create_dir_all(&own);
        let mut paths = config.folders();
        paths.retain(|path| *path != own);
        paths.insert(0, own);
        let mut folders = Folders::new(paths);
        let mut eyes = Eyes::new();
        // Watches first and reads second, so that a write in between is noticed.
        eyes.open(&folders.paths);
        folders.sync(&hub).await;
        let stop = CancellationToken::new();
        let task = tokio::spawn(watch(hub, folders, eyes, config.clone(), stop.clone()));
        Self { task, stop }
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        if let Err(panic) = self.task.await {
            tracing::error!(%panic, "the watch over profiles failed");
        }
    }
}

async fn watch(
    hub: Arc<Hub>,
    mut folders: Folders,
    mut eyes: Eyes,
    config: ProfilesConfig,
    stop: CancellationToken,
) {
    loop {
        let next = Instant::now() + config.rescan;
        tokio::select! {
            () = stop.cancelled() => return,
            () = eyes.changed.notified() => quiet(&eyes.changed, &config, next).await,
            () = sleep_until(next) => {}
        }
        // A folder may have appeared, or come back, since.
        eyes.open(&folders.paths);
        folders.sync(&hub).await;
    }
}

/// Waits until nothing has changed for a moment, but not for ever.
async fn quiet(changed: &Notify, config: &ProfilesConfig, latest: Instant) {
    loop {
        tokio::select! {
            biased;
            () = changed.notified() => if Instant::now() >= latest { return },
            () = sleep(config.settle) => return,
        }
    }
}

/// The system's notifications about the folders.
struct Eyes {
    watcher: Option<RecommendedWatcher>,
    open: BTreeSet<PathBuf>,
    changed: Arc<Notify>,
}

impl Eyes {
    fn new() -> Self {
        let changed = Arc::new(Notify::new());
        let tell = Arc::clone(&changed);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| is_change(event.kind)) {
                tell.notify_one();
            }
        });
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!(%error, "changes of profiles are noticed only every now and then");
        });
        Self { watcher: watcher.ok(), open: BTreeSet::new(), changed }
    }

    fn open(&mut self, paths: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else { return };
        for path in paths {
            if !path.is_dir() {
                // Another folder of the same name may come in its place.
                if self.open.remove(path) {
                    let _ = watcher.unwatch(path);
                }
            } else if self.open.insert(path.clone())
                && let Err(error) = watcher.watch(path, RecursiveMode::NonRecursive)
            {
                let path = path.display();
                tracing::warn!(%path, %error, "changes there are noticed only every now and then");
            }
        }
    }
}

/// Returns whether an event is a change; our own reads are none.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}
