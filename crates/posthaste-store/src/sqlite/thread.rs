//! Runs work that takes longer than the event loop may wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

/// The reason why work on a thread has no result.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WorkLost(String);

/// Runs `work` on a thread. Where the system grants none, the runtime panics and keeps its
/// closure for later; so `work` is taken out of the closure, and the caller gets an error
/// that the work is lost.
pub(crate) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WorkLost> {
    let work = Arc::new(Mutex::new(Some(work)));
    let theirs = Arc::clone(&work);
    let take = move || {
        let work = theirs.lock().take();
        work.map(|work| work())
    };
    let Ok(running) = catch_unwind(AssertUnwindSafe(|| spawn_blocking(take))) else {
        work.lock().take();
        return Err(WorkLost("the system grants no thread".into()));
    };
    let done = running.await.map_err(|panic| WorkLost(panic.to_string()))?;
    done.ok_or_else(|| WorkLost("it was given up".into()))
}
