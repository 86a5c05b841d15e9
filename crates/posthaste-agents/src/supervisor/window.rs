//! A window of tmux that shows a worker to whoever attaches to its session.
//!
//! A worker of the driver `terminal` has its own window. For every other worker whose
//! profile names a `session`, the window runs a command that shows the worker and sends it
//! what a person types. The window is a convenience: without tmux the worker runs as well.

use std::ffi::OsString;

use posthaste_core::registry::Instance;

use super::Shared;
use crate::folder::Folder;
use crate::settings::Stdin;
use crate::tmux::NewPane;

/// The command that shows the worker of the folder in which it runs. No word of it names
/// the worker, because other users can see the words of a process.
const SHOW: &str = "tmux-window";
/// The same for a worker that nobody can talk to.
const READ_ONLY: &str = "--read-only";

/// Returns the name of the window with this worker, which is CAO's name of its terminal.
pub(super) fn name(worker: &Instance) -> String {
    format!("{}-{}", worker.agent, worker.id)
}

impl Shared {
    /// Opens a window in this session of tmux that shows the worker of this folder.
    pub(super) async fn show_in_window(
        &self,
        session: &str,
        worker: &Instance,
        stdin: Stdin,
        folder: &Folder,
    ) {
        let mut words: Vec<OsString> = vec![self.binary_for_others().into(), SHOW.into()];
        if stdin != Stdin::Session {
            words.push(READ_ONLY.into());
        }
        let window = name(worker);
        let pane = NewPane { session, window: &window, words: &words, folder: folder.path() };
        let opened = match self.tmux() {
            Ok(tmux) => tmux.open(&pane).await,
            Err(missing) => Err(missing),
        };
        if let Err(error) = opened {
            tracing::info!(session, %error, "no window of tmux shows a worker");
        }
    }
}
