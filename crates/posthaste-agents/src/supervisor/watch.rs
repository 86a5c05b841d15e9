//! Waits for the end of one worker, or brings it about.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use posthaste_core::Hub;
use posthaste_core::orchestration::AtShutdown;
use posthaste_core::registry::Instance;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::keepers::Keeper;
use super::session::Session;
use super::{Shared, outcome, remains};
use crate::folder::Folder;
use crate::worktree;

/// The time that a keeper may take beyond the grace, in which it ends the worker's
/// strays.
const MARGIN: Duration = Duration::from_secs(15);
/// The time until a keeper that could not be reached is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// The reason why the hub ends a worker and lets it fail.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) why: String,
    /// The end of the worker's output tells more.
    pub(super) quotes: bool,
}

/// A request to end a worker. The first reason counts.
#[derive(Debug, Default)]
pub(super) struct Stop {
    why: OnceLock<String>,
    /// The reason why the worker fails, if it is ended for that.
    fails: OnceLock<Failure>,
    asked: CancellationToken,
    /// Wakes the session to cancel the running turn.
    cancels: tokio::sync::Notify,
}

impl Stop {
    pub(super) fn ask(&self, why: &str) {
        self.why.get_or_init(|| why.to_owned());
        self.asked.cancel();
    }

    /// Ends a worker that cannot work, and lets it fail for this reason.
    pub(super) fn fail(&self, why: &str) {
        self.fails.get_or_init(|| Failure { why: why.to_owned(), quotes: false });
        self.ask(why);
    }

    /// The same for a reason that the end of the worker's output may explain.
    pub(super) fn fail_quoting(&self, why: &str) {
        self.fails.get_or_init(|| Failure { why: why.to_owned(), quotes: true });
        self.ask(why);
    }

    /// Asks for the end of the running turn, and not of the worker.
    pub(super) fn cancel_turn(&self) {
        self.cancels.notify_one();
    }

    /// Completes when the running turn is to be cancelled.
    pub(super) async fn cancelled_turn(&self) {
        self.cancels.notified().await;
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        self.fails.get()
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_cancelled()
    }

    fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }
}

/// Owns one worker's keeper, until the keeper is reaped and the worker's end is reported.
pub(super) struct Watch {
    pub(super) hub: Arc<Hub>,
    pub(super) shared: Arc<Shared>,
    pub(super) worker: Instance,
    pub(super) folder: Folder,
    pub(super) stop: Arc<Stop>,
    pub(super) keeper: Keeper,
    /// The conversation with the worker, if its driver holds one.
    pub(super) session: Option<Session>,
}

async fn converse(session: &mut Option<Session>) {
    match session {
        Some(session) => session.run().await,
        None => std::future::pending().await,
    }
}

impl Watch {
    pub(super) async fn run(mut self) {
        let stop = Arc::clone(&self.stop);
        let shared = Arc::clone(&self.shared);
        let mut session = self.session.take();
        tokio::select! {
            () = self.keeper.ended() => {}
            () = converse(&mut session) => {}
            () = stop.asked.cancelled() => self.end().await,
            () = shared.closing.cancelled() => match shared.config.agents.shutdown {
                AtShutdown::Stop => {
                    stop.ask("the hub was stopped");
                    self.end().await;
                }
                // The next start of the hub finds the worker again.
                AtShutdown::Leave => return,
            },
        }
        if self.folder.exit().is_none() {
            remains::end(self.folder.started().flatten(), &shared.home(self.worker.id)).await;
        }
        let mut outcome = outcome::of(&shared, &self.worker, &self.folder, stop.why()).await;
        match session {
            Some(session) => {
                let (driver, most) = (session.driver, shared.config.agents.tail_chars);
                let end = session.finish().await;
                outcome::of_session(
                    &mut outcome,
                    &self.folder,
                    (driver, end),
                    stop.failure(),
                    most,
                );
            }
            None => outcome::of_lost_session(&mut outcome, &self.folder),
        }
        outcome.kept_branch = worktree::settle(&shared.git, &self.folder).await;
        self.hub.conclude(self.worker.id, outcome).await;
        // Not earlier: until then, a stop must not take the worker for gone.
        shared.running.lock().remove(&self.worker.id);
        shared.transcripts.lock().remove(&self.worker.id);
        shared.workshop.forget(self.worker.id);
    }

    /// Asks the keeper to end, and kills it if it does not end in time. [`Watch::run`]
    /// then ends the worker's remaining processes, because there is no exit note.
    async fn end(&mut self) {
        let until = Instant::now() + self.shared.config.agents.grace + MARGIN;
        let asked = async {
            while !self.keeper.signal(Signal::TERM) {
                tokio::select! {
                    () = self.keeper.ended() => return,
                    () = sleep(AGAIN) => {}
                }
            }
            self.keeper.ended().await;
        };
        if timeout_at(until, asked).await.is_err() {
            tracing::warn!(who = %self.worker.id, "a keeper does not end; it is killed");
            self.keeper.signal(Signal::KILL);
            self.keeper.ended().await;
        }
    }
}
