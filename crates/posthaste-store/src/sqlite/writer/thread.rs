//! Work that takes longer than the event loop may wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_core::ports::store::CommitError;
use tokio::task::spawn_blocking;

use super::lost;

/// Runs `work` on a thread of its own; where the system grants none, here.
pub(super) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CommitError> {
    let work = Arc::new(Mutex::new(Some(work)));
    let theirs = Arc::clone(&work);
    let take = move || {
        let work = theirs.lock().take();
        work.map(|work| work())
    };
    // The runtime panics if it gets no thread, and keeps what it was given for later.
    let spawned = catch_unwind(AssertUnwindSafe(|| spawn_blocking(take)));
    let done = match spawned {
        Ok(running) => running.await.map_err(|panic| panic.to_string()),
        Err(_) => {
            let work = work.lock().take();
            Ok(work.map(|work| work()))
        }
    };
    done.map_err(lost)?.ok_or_else(|| lost("it was given up".into()))
}
