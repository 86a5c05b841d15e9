//! What the store does for itself: expiry, signs of life, pruning, indexing, and
//! the note of a clean stop.

use posthaste_core::address::InstanceId;
use posthaste_core::events::EventKind;
use posthaste_core::ledger::{BoxNo, DiePlan, Ledger};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::{StoreError, Ticket};
use posthaste_core::registry::Status;
use posthaste_core::time::Timestamp;
use rusqlite::params;
use tokio::sync::oneshot;

use super::settle::write_settled;
use crate::sqlite::dates::Old;
use crate::sqlite::writer::{Db, Op};
use crate::sqlite::{journal, rows};

/// Kills what has outlived its time.
pub(crate) struct Expire {
    plan: DiePlan,
    tx: oneshot::Sender<Result<usize, StoreError>>,
}

impl Expire {
    pub(crate) fn new(tx: oneshot::Sender<Result<usize, StoreError>>) -> Self {
        Self { plan: DiePlan::default(), tx }
    }
}

impl Op for Expire {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_expiry(now);
        !self.plan.dead.is_empty()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        write_settled(db, &self.plan.dead, self.plan.at)
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

/// Writes that decides nothing: the ledger is only asked for what to write.
pub(crate) struct Chore<W> {
    work: W,
    tx: oneshot::Sender<Result<(), StoreError>>,
}

/// The work of a [`Chore`].
pub(crate) trait Work: Send {
    fn looks_at_all(&self) -> bool {
        false
    }
    fn gather(&mut self, _ledger: &mut Ledger, _now: Timestamp) -> bool {
        true
    }
    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()>;
}

impl<W: Work> Chore<W> {
    pub(crate) fn new(work: W, tx: oneshot::Sender<Result<(), StoreError>>) -> Self {
        Self { work, tx }
    }
}

impl<W: Work> Op for Chore<W> {
    fn looks_at_all(&self) -> bool {
        self.work.looks_at_all()
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.work.gather(ledger, now)
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        self.work.write(db)
    }

    fn commit(&mut self, _: &mut Ledger, _: &mut Vec<Ticket>) {}

    fn undo(&mut self, _: &mut Ledger) {}

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(()), Err));
    }
}

/// As much as a message, written and removed: a disk that takes it takes mail.
pub(crate) struct Probe;

impl Work for Probe {
    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let db = db.connection;
        db.execute("INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(16384))", [])?;
        db.execute("DELETE FROM meta WHERE key = 'probe'", []).map(drop)
    }
}

/// Signs of life since the last time, and where a start may begin to look.
#[derive(Default)]
pub(crate) struct Signs {
    signs: Vec<(InstanceId, Timestamp, Status)>,
    low: Option<DeliveryNo>,
}

impl Work for Signs {
    fn looks_at_all(&self) -> bool {
        true
    }

    fn gather(&mut self, ledger: &mut Ledger, _: Timestamp) -> bool {
        // A failed write loses a sign of life, not more: the next one comes.
        self.signs.extend(ledger.take_signs());
        self.low = Some(ledger.low_water());
        !self.signs.is_empty()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        // The clock of this run may be behind: whoever was seen later was seen later.
        let mut update = db.connection.prepare_cached(
            "UPDATE instances SET last_seen = max(last_seen, ?2), status = ?3 WHERE id = ?1",
        )?;
        for (id, seen, status) in &self.signs {
            update.execute(params![id.0, seen.0, status.as_str()])?;
            if *status == Status::Lost {
                db.events.instance(EventKind::Lost, *id);
            }
        }
        match self.low {
            Some(low) => rows::set_meta(db.connection, "low_water", low.0.cast_signed()),
            None => Ok(()),
        }
    }
}

/// Forgets old keys, told ids, and those who ended long ago.
pub(crate) struct Forget {
    pub(crate) keys: Old,
    pub(crate) ended: Old,
    pub(crate) settled: Old,
    pub(crate) events: Old,
    /// There are events that old.
    pub(crate) has_events: bool,
}

impl Work for Forget {
    fn gather(&mut self, ledger: &mut Ledger, _: Timestamp) -> bool {
        let keys = ledger.forget_keys(self.keys.before);
        let assignments = ledger.forget_assignments(self.settled.before);
        self.has_events | (keys + assignments + ledger.forget_ended(self.ended.before) > 0)
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let db = db.connection;
        journal::forget(db, self.events)?;
        rows::forget(db, "key_lists", self.keys)?;
        rows::forget(db, "taken", self.keys)?;
        db.execute(
            "DELETE FROM instances WHERE ended_at < ?1 OR ended_at > ?2",
            params![self.ended.before.0, self.ended.beyond.0],
        )?;
        db.execute("DELETE FROM work WHERE instance NOT IN (SELECT id FROM instances)", [])?;
        db.execute(
            "DELETE FROM assignments WHERE settled_at < ?1 OR settled_at > ?2",
            params![self.settled.before.0, self.settled.beyond.0],
        )?;
        Ok(())
    }
}

/// Removes messages that nobody needs any more.
pub(crate) struct Prune(pub(crate) Vec<Seq>);

impl Work for Prune {
    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let db = db.connection;
        rows::note_counters(db)?;
        for seq in &self.0 {
            rows::remove_message(db, *seq)?;
        }
        Ok(())
    }
}

/// Frees the numbers of mailboxes that nobody owns and no delivery names.
pub(crate) struct FreeMailboxes {
    numbers: Vec<BoxNo>,
    tx: oneshot::Sender<Result<(), StoreError>>,
}

impl FreeMailboxes {
    pub(crate) fn new(numbers: Vec<BoxNo>, tx: oneshot::Sender<Result<(), StoreError>>) -> Self {
        Self { numbers, tx }
    }
}

impl Op for FreeMailboxes {
    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp) -> bool {
        // Whoever could not be forgotten is back.
        self.numbers.retain(|no| ledger.is_abandoned(*no));
        !self.numbers.is_empty()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let mut free =
            db.connection.prepare_cached("UPDATE mailboxes SET key = NULL WHERE no = ?1")?;
        self.numbers.iter().try_for_each(|no| free.execute(params![no]).map(drop))
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        self.numbers.iter().for_each(|no| ledger.free_mailbox(*no));
    }

    fn undo(&mut self, _: &mut Ledger) {}

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(()), Err));
    }
}

/// Indexes messages up to these numbers, in sorted batches.
pub(crate) struct Index {
    pub(crate) from: rows::Marks,
    pub(crate) to: rows::Marks,
}

impl Work for Index {
    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        rows::index(db.connection, self.from, self.to)
    }
}

/// The last write: marks what anybody may have seen, and says that the stop was
/// clean. After a kill this note is missing, and everything counts as seen.
pub(crate) struct CleanStop {
    seen: Vec<DeliveryNo>,
    signs: Signs,
    tx: oneshot::Sender<Result<(), StoreError>>,
}

impl CleanStop {
    pub(crate) fn new(tx: oneshot::Sender<Result<(), StoreError>>) -> Self {
        Self { seen: Vec::new(), signs: Signs::default(), tx }
    }
}

impl Op for CleanStop {
    fn looks_at_all(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        // What is handed out after this note would come again unmarked.
        ledger.stop_leasing();
        self.seen = ledger.possibly_seen();
        self.signs.gather(ledger, now);
        true
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        self.signs.write(db)?;
        let db = db.connection;
        let mut mark = db.prepare_cached("UPDATE deliveries SET marked = 1 WHERE no = ?1")?;
        for delivery in &self.seen {
            mark.execute(params![delivery.0])?;
        }
        rows::set_meta(db, "clean", 1)
    }

    fn commit(&mut self, _: &mut Ledger, _: &mut Vec<Ticket>) {}

    fn undo(&mut self, _: &mut Ledger) {}

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(()), Err));
    }
}
