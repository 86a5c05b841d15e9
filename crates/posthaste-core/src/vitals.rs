//! Tasks that the hub cannot work without.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Watches the tasks that the hub cannot work without. A hub that has lost one must exit,
/// so that a supervisor starts it again.
#[derive(Clone, Default)]
pub struct Vitals(watch::Sender<Option<Arc<str>>>);

impl Vitals {
    /// Watches over the task that keeps the guard: its end before `stopping` is a failure.
    pub fn guard(&self, task: &'static str, stopping: CancellationToken) -> Vital {
        Vital { vitals: self.clone(), task, stopping }
    }

    /// Notes that the hub cannot go on, for this reason. The first reason is kept.
    pub fn fail(&self, why: impl Into<Arc<str>>) {
        let why = why.into();
        self.0.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                tracing::error!(%why, "the hub cannot go on");
                *known = Some(why);
            }
            first
        });
    }

    /// Completes when the hub cannot go on, with the reason.
    pub async fn failed(&self) -> Arc<str> {
        let mut state = self.0.subscribe();
        let why = state.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => why,
            // The sender is `self`, so the channel cannot close before.
            None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Vitals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vitals({:?})", &*self.0.borrow())
    }
}

/// Kept by a task as long as it runs; a panic drops it as well.
#[derive(Debug)]
pub struct Vital {
    vitals: Vitals,
    task: &'static str,
    stopping: CancellationToken,
}

impl Drop for Vital {
    fn drop(&mut self) {
        if !self.stopping.is_cancelled() {
            self.vitals.fail(format!("{} has ended by itself", self.task));
        }
    }
}
