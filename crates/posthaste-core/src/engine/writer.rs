//! The writer loop: take the commands that wait, plan them, commit their changes as one
//! group, and answer.
//!
//! A command plans under the ledger's lock, in microseconds. The store writes without the
//! lock, so readers lease meanwhile. Nobody hears of anything before the commit.
//!
//! If a group fails because of one change, every command is tried again alone: a bad
//! neighbour fails only itself, and nobody is answered from what was undone with it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::line::CommandLine;
use crate::events::EventList;
use crate::ledger::Ledger;
use crate::ports::change::Change;
use crate::ports::store::{CommitError, Committed, Group};
use crate::ports::{Queue, StoreError, Ticket};
use crate::time::Timestamp;
use crate::vitals::Vital;

/// One durable change of the ledger, from its plan to its answer.
pub(super) trait Command: Send {
    /// Looks at everything that is open. What was planned before it must be committed
    /// first, or it would be overlooked.
    fn looks_at_all(&self) -> bool {
        false
    }
    /// Needs nothing of the backlog that is still being read after a start.
    fn is_early(&self) -> bool {
        false
    }
    /// Decides, takes, and adds what the store is to write. `false`: there is nothing to
    /// write, and nothing was taken. It is planned again if it was not answered.
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool;
    /// The changes are committed: readers may see them.
    fn commit(&mut self, _ledger: &mut Ledger, _tickets: &mut Vec<Ticket>) {}
    /// Readers can see it and have not been told yet.
    fn look(&mut self, _queue: &dyn Queue) {}
    /// The changes are not committed: as if they had never been planned.
    fn undo(&mut self, _ledger: &mut Ledger) {}
    /// Tells the caller; `failure` when the store could not write.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

type Commands = Vec<Box<dyn Command>>;

/// The task that serves commands. While none waits it does not hold the engine, so that
/// an engine which is dropped lets go of its store at once.
pub(super) struct Writer {
    shared: Weak<Shared>,
    line: CommandLine,
    batch: usize,
    stopping: CancellationToken,
    _vital: Vital,
}

impl Writer {
    pub(super) fn new(shared: &Arc<Shared>, stopping: CancellationToken) -> Self {
        let vital = shared.vitals.guard("the writer of the store", stopping.clone());
        let (line, batch) = (shared.line.clone(), shared.config.batch.max(1));
        Self { shared: Arc::downgrade(shared), line, batch, stopping, _vital: vital }
    }

    /// Serves commands until the engine stops.
    pub(super) async fn run(self) {
        loop {
            let group = tokio::select! {
                biased;
                group = self.line.take(self.batch) => group,
                () = self.stopping.cancelled() => return,
            };
            let Some(shared) = self.shared.upgrade() else { return };
            for part in apart(group) {
                serve(&shared, part).await;
            }
        }
    }
}

impl Drop for Writer {
    /// However the writer leaves: the engine is not well without it, and who stands in
    /// line is told.
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.healthy.store(false, Ordering::Relaxed);
        }
        self.line.shut();
    }
}

/// Cuts a group before each command that looks at everything that is open.
fn apart(group: Commands) -> Vec<Commands> {
    let mut parts: Vec<Commands> = Vec::new();
    for command in group {
        match parts.last_mut() {
            Some(part) if !command.looks_at_all() => part.push(command),
            _ => parts.push(vec![command]),
        }
    }
    parts
}

/// Plans, commits and answers one group; what fails together is tried alone.
async fn serve(shared: &Shared, group: Commands) {
    let many = group.len() > 1;
    let Err((failure, group)) = attempt(shared, group).await else { return };
    if !many || !matches!(failure, CommitError::OneChange(_)) {
        return fail(group, failure);
    }
    tracing::warn!(error = %failure, "a group of writes failed; each is tried alone");
    for command in group {
        if let Err((failure, group)) = attempt(shared, vec![command]).await {
            fail(group, failure);
        }
    }
}

/// Commands that have nothing to write, with their places in the group.
type Refused = Vec<(usize, Box<dyn Command>)>;

async fn attempt(shared: &Shared, group: Commands) -> Result<(), (CommitError, Commands)> {
    let now = shared.clock.now();
    let (planned, refused, changes) = plan(shared, group, now);
    if planned.is_empty() {
        refused.into_iter().for_each(|(_, command)| command.answer(None));
        return Ok(());
    }
    let events = EventList::of(&changes, shared.last_event.load(Ordering::Relaxed));
    let last_event = events.last();
    let group = Group { epoch: shared.epoch, at: now, changes, events };
    match shared.store.commit(group).await {
        Ok(committed) => {
            shared.last_event.store(last_event, Ordering::Release);
            shared.meters.committed(planned.len(), committed.took);
            conclude(shared, planned, refused, committed);
            Ok(())
        }
        Err(failure) => Err((failure, give_up(shared, planned, refused))),
    }
}

/// Splits a group into what is to be written, with the changes, and what is not.
fn plan(shared: &Shared, group: Commands, now: Timestamp) -> (Commands, Refused, Vec<Change>) {
    let mut planned = Vec::with_capacity(group.len());
    let mut changes = Vec::with_capacity(group.len() * 2);
    let mut refused = Vec::new();
    let mut ledger = shared.ledger.lock();
    for (place, mut command) in group.into_iter().enumerate() {
        match command.plan(&mut ledger, now, &mut changes) {
            true => planned.push(command),
            false => refused.push((place, command)),
        }
    }
    (planned, refused, changes)
}

/// The group is committed: readers see it, tickets are put, then everybody is answered.
fn conclude(shared: &Shared, mut planned: Commands, refused: Refused, committed: Committed) {
    shared.healthy.store(true, Ordering::Relaxed);
    let mut tickets = Vec::new();
    {
        let mut ledger = shared.ledger.lock();
        planned.iter_mut().for_each(|command| command.commit(&mut ledger, &mut tickets));
    }
    planned.iter_mut().for_each(|command| command.look(&*shared.queue));
    shared.put_all(tickets);
    refused.into_iter().for_each(|(_, command)| command.answer(None));
    planned.into_iter().for_each(|command| command.answer(committed.doubt.clone()));
    tell_the_news(shared);
}

/// Undoes every plan, last first, and returns the whole group in its order.
fn give_up(shared: &Shared, mut planned: Commands, refused: Refused) -> Commands {
    shared.healthy.store(false, Ordering::Relaxed);
    let tickets = {
        let mut ledger = shared.ledger.lock();
        planned.iter_mut().rev().for_each(|command| command.undo(&mut ledger));
        ledger.take_unsettled()
    };
    shared.put_all(tickets);
    // Refusals may depend on plans that were just undone: plan them again.
    refused.into_iter().for_each(|(place, command)| planned.insert(place, command));
    planned
}

/// Whoever follows the journal may look.
fn tell_the_news(shared: &Shared) {
    let last = shared.last_event.load(Ordering::Relaxed);
    shared.news.send_if_modified(|news| std::mem::replace(news, last) != last);
}

fn fail(group: Commands, failure: CommitError) {
    let failure = failure.into_inner();
    // A store that was moved away says so itself, once.
    if !matches!(failure, StoreError::Misplaced { .. }) {
        tracing::error!(error = %failure, writes = group.len(), "the store cannot write");
    }
    group.into_iter().for_each(|command| command.answer(Some(failure.clone())));
}
