//! The writer loop: take the commands that wait, plan them, commit their changes as one
//! group, and answer.
//!
//! A command plans under the ledger's lock, in microseconds. The store writes without the
//! lock, so readers lease meanwhile. No caller or reader hears of a change before its
//! commit.
//!
//! If a group fails because of one change, every command is tried again alone: a bad
//! command fails only itself, and no caller is answered from a plan that was undone.

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
    /// Returns whether the command looks at all open deliveries. Earlier plans must be
    /// committed first, or it would overlook them.
    fn looks_at_all(&self) -> bool {
        false
    }
    /// Returns whether the command needs nothing of the backlog that is still being
    /// loaded.
    fn is_early(&self) -> bool {
        false
    }
    /// Decides, takes, and adds the changes for the store. `false`: there is nothing to
    /// write, and nothing was taken. A command that was not answered is planned again.
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool;
    /// Makes the committed changes visible to readers.
    fn commit(&mut self, _ledger: &mut Ledger, _tickets: &mut Vec<Ticket>) {}
    /// Counts the waiting readers after the commit, before the tickets wake them.
    fn look(&mut self, _queue: &dyn Queue) {}
    /// Takes the plan back: the changes were not committed.
    fn undo(&mut self, _ledger: &mut Ledger) {}
    /// Answers the caller; `failure` if the store could not write.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

type Commands = Vec<Box<dyn Command>>;

/// The task that serves commands. While no command waits it does not hold the engine, so
/// that a dropped engine lets go of its store at once.
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
    /// Marks the engine as unhealthy and fails the waiting commands, however the writer
    /// ends.
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.healthy.store(false, Ordering::Relaxed);
        }
        self.line.shut();
    }
}

/// Cuts a group before each command that looks at all open deliveries.
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

/// Plans, commits and answers one group; commands that fail together are tried alone.
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

/// Splits a group into the commands with changes, and those with nothing to write.
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

/// Finishes a committed group: shows it to readers, puts tickets, then answers callers.
fn conclude(shared: &Shared, mut planned: Commands, refused: Refused, committed: Committed) {
    shared.healthy.store(true, Ordering::Relaxed);
    let mut tickets = Vec::new();
    {
        let mut ledger = shared.ledger.lock();
        planned.iter_mut().for_each(|command| command.commit(&mut ledger, &mut tickets));
        let revision = ledger.needs_revision();
        shared.closed_needs.send_if_modified(|known| {
            let is_new = *known != revision;
            *known = revision;
            is_new
        });
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

/// Wakes the followers of the journal.
fn tell_the_news(shared: &Shared) {
    let last = shared.last_event.load(Ordering::Relaxed);
    shared.news.send_if_modified(|news| std::mem::replace(news, last) != last);
}

fn fail(group: Commands, failure: CommitError) {
    let failure = failure.into_inner();
    // A store that was moved away logs that itself, once.
    if !matches!(failure, StoreError::Misplaced { .. }) {
        tracing::error!(error = %failure, writes = group.len(), "the store cannot write");
    }
    group.into_iter().for_each(|command| command.answer(Some(failure.clone())));
}
