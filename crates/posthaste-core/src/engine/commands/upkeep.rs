//! The engine's upkeep: expiry, signs of life, pruning, and the note of a clean shutdown.

use tokio::sync::oneshot;

use crate::engine::writer::Command;
use crate::ledger::{BoxNo, DiePlan, Ledger};
use crate::messaging::message::Seq;
use crate::ports::change::{Change, Old};
use crate::ports::{StoreError, Ticket};
use crate::time::Timestamp;

/// Kills deliveries that have expired.
pub(in crate::engine) struct Expire {
    plan: DiePlan,
    tx: oneshot::Sender<Result<usize, StoreError>>,
}

impl Expire {
    pub(in crate::engine) fn new(tx: oneshot::Sender<Result<usize, StoreError>>) -> Self {
        Self { plan: DiePlan::default(), tx }
    }
}

impl Command for Expire {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_expiry(now);
        self.plan.tell(changes);
        !self.plan.dead.is_empty()
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        ledger.commit_die(&self.plan);
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        ledger.undo_die(&self.plan);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(self.plan.dead.len()), Err));
    }
}

/// Writes nothing. Its answer comes when all commands before it are committed.
pub(in crate::engine) struct Barrier {
    tx: oneshot::Sender<Result<(), StoreError>>,
}

impl Barrier {
    pub(in crate::engine) fn new(tx: oneshot::Sender<Result<(), StoreError>>) -> Self {
        Self { tx }
    }
}

impl Command for Barrier {
    fn plan(&mut self, _: &mut Ledger, _: Timestamp, _: &mut Vec<Change>) -> bool {
        false
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(()), Err));
    }
}

/// A command that decides nothing: it only asks the ledger for changes to write.
pub(in crate::engine) struct Chore {
    work: ChoreKind,
    tx: oneshot::Sender<Result<(), StoreError>>,
}

/// The work of a [`Chore`].
pub(in crate::engine) enum ChoreKind {
    /// Writes the signs of life since the last time, and the lowest open delivery.
    Signs,
    /// Forgets old keys, ids acked by weak proof, ended instances, settled assignments,
    /// events and closed needs.
    Forget { keys: Old, ended: Old, settled: Old, events: Old, needs: Old, is_due: bool },
    /// Removes old messages.
    Prune(Vec<Seq>),
}

impl Chore {
    pub(in crate::engine) fn new(
        work: ChoreKind,
        tx: oneshot::Sender<Result<(), StoreError>>,
    ) -> Self {
        Self { work, tx }
    }
}

impl Command for Chore {
    fn looks_at_all(&self) -> bool {
        matches!(self.work, ChoreKind::Signs)
    }

    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp, changes: &mut Vec<Change>) -> bool {
        match &self.work {
            ChoreKind::Signs => write_signs(ledger, changes),
            ChoreKind::Forget { keys, ended, settled, events, needs, is_due } => {
                let forgotten = ledger.forget_keys(keys.before)
                    + ledger.forget_assignments(settled.before)
                    + ledger.forget_ended(ended.before);
                let (keys, ended, settled) = (*keys, *ended, *settled);
                let (events, needs) = (*events, *needs);
                let due = *is_due || forgotten > 0;
                if due {
                    changes.push(Change::OldForgotten { keys, ended, settled, events, needs });
                }
                due
            }
            ChoreKind::Prune(seqs) => {
                changes.push(Change::MessagesPruned(seqs.clone()));
                true
            }
        }
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        if let ChoreKind::Prune(_) = self.work {
            ledger.pruned();
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(()), Err));
    }
}

/// Adds the signs of life. A failed write loses only these: further ones come.
fn write_signs(ledger: &mut Ledger, changes: &mut Vec<Change>) -> bool {
    let signs = ledger.take_signs();
    if signs.is_empty() {
        return false;
    }
    let seen = |(id, at, status)| Change::InstanceSeen { id, at, status };
    changes.extend(signs.into_iter().map(seen));
    changes.push(Change::LowWater(ledger.low_water()));
    true
}

/// Frees the numbers of mailboxes that have no owner and that no delivery names.
pub(in crate::engine) struct FreeMailboxes {
    numbers: Vec<BoxNo>,
    tx: oneshot::Sender<Result<(), StoreError>>,
}

impl FreeMailboxes {
    pub(in crate::engine) fn new(
        numbers: Vec<BoxNo>,
        tx: oneshot::Sender<Result<(), StoreError>>,
    ) -> Self {
        Self { numbers, tx }
    }
}

impl Command for FreeMailboxes {
    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp, changes: &mut Vec<Change>) -> bool {
        // An instance that could not be forgotten is back.
        self.numbers.retain(|no| ledger.is_abandoned(*no));
        changes.extend(self.numbers.iter().map(|no| Change::MailboxFreed { no: *no }));
        !self.numbers.is_empty()
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        self.numbers.iter().for_each(|no| ledger.free_mailbox(*no));
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(()), Err));
    }
}

/// The last command: marks the deliveries that a reader may have seen, and notes that the
/// shutdown was clean. After a kill this note is missing, and every delivery counts as
/// seen.
pub(in crate::engine) struct CleanStop {
    tx: oneshot::Sender<Result<(), StoreError>>,
}

impl CleanStop {
    pub(in crate::engine) fn new(tx: oneshot::Sender<Result<(), StoreError>>) -> Self {
        Self { tx }
    }
}

impl Command for CleanStop {
    fn looks_at_all(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp, changes: &mut Vec<Change>) -> bool {
        // A delivery that is leased after this note would come again unmarked.
        ledger.stop_leasing();
        write_signs(ledger, changes);
        changes.push(Change::LowWater(ledger.low_water()));
        changes.push(Change::DeliveriesMarked(ledger.possibly_seen()));
        changes.push(Change::Stopped);
        true
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(()), Err));
    }
}
