//! Waits for the end of one worker, or brings it about.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use posthaste_core::Hub;
use posthaste_core::orchestration::{AtShutdown, HUB_STOPPED};
use posthaste_core::ports::Ended;
use posthaste_core::registry::Instance;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::keepers::Keeper;
use super::session::Session;
use super::{Shared, outcome, remains};
use crate::folder::Folder;
use crate::worktree;

/// The time after the end of an assistant in which a machine that stops has told the hub.
const MOMENT: Duration = Duration::from_secs(2);

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
    /// The worker is ended because its work is done.
    is_done: AtomicBool,
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

    /// Ends a worker that has nothing more to do, and lets it finish.
    pub(super) fn finish(&self, why: &str) {
        self.is_done.store(!self.is_asked(), Ordering::Relaxed);
        self.ask(why);
    }

    fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
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

/// Ends what a worker left, if its keeper could not.
async fn end_remains(folder: &Folder, home: &Path) {
    if folder.exit().is_none() {
        remains::end(folder.started().flatten(), home).await;
    }
}

fn is_assistant(session: Option<&Session>) -> bool {
    session.is_some_and(|session| session.assistant.is_some())
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
            () = stop.asked.cancelled() => self.dismiss().await,
            () = shared.closing.cancelled() => match shared.config.agents.shutdown {
                AtShutdown::Stop if !stop.is_asked() && self.pauses(session.as_ref()) => {
                    self.end_keeper().await;
                    if let Some(session) = &mut session {
                        session.end_calls().await;
                    }
                    return self.pause().await;
                }
                AtShutdown::Stop => {
                    stop.ask(HUB_STOPPED);
                    self.dismiss().await;
                }
                // The next start of the hub finds the worker again.
                AtShutdown::Leave => return,
            },
        }
        if let Some(session) = session.as_mut().filter(|session| session.assistant.is_some()) {
            session.end_calls().await;
            if self.ends_with_hub().await {
                return self.pause().await;
            }
        }
        end_remains(&self.folder, &shared.home(self.worker.id)).await;
        let mut outcome = outcome::of(&shared, &self.worker, &self.folder, stop.why()).await;
        if stop.is_done() && outcome.end == Ended::Stopped {
            outcome.end = Ended::Finished;
        }
        match session {
            Some(session) => {
                let (driver, most) = (session.driver, shared.config.agents.tail_chars);
                let mut end = session.finish().await;
                end.in_turn &= !stop.is_done();
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

    /// Returns whether the worker is an assistant, whose conversation is kept: the next hub
    /// starts its runner again. Records that first, for a hub that is killed meanwhile.
    fn pauses(&self, session: Option<&Session>) -> bool {
        if !is_assistant(session) {
            return false;
        }
        let noted = self.folder.note_paused();
        if let Err(error) = &noted {
            tracing::warn!(who = %self.worker.id, %error, "an assistant is stopped for good: the note for the next hub cannot be written");
        }
        noted.is_ok()
    }

    /// Returns whether an assistant was ended by somebody who ends the hub too, as a machine
    /// does that stops. Then the next hub starts its runner again.
    async fn ends_with_hub(&mut self) -> bool {
        !self.stop.is_asked()
            && self.folder.is_interrupted()
            && timeout(MOMENT, self.hub.stopped()).await.is_ok()
    }

    /// Leaves an assistant whose keeper has ended to the next hub.
    async fn pause(&mut self) {
        end_remains(&self.folder, &self.shared.home(self.worker.id)).await;
    }

    /// Ends the worker for good.
    async fn dismiss(&mut self) {
        if let Err(error) = self.folder.note_dismissed() {
            let who = self.worker.id;
            tracing::warn!(%who, %error, "if the hub is killed now, the next one goes on with the worker");
        }
        self.end_keeper().await;
    }

    /// Ends the keeper. If it has to be killed, [`Watch::run`] ends the worker's remaining
    /// processes, because there is no exit note.
    async fn end_keeper(&mut self) {
        self.keeper.end(self.worker.id, self.shared.config.agents.grace).await;
    }
}
