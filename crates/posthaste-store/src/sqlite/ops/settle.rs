//! Acks, refusals, cancels, and another chance for the dead.

use posthaste_core::address::Mailbox;
use posthaste_core::events::EventKind;
use posthaste_core::ledger::{AckPlan, DiePlan, End, Ledger, NackPlan, RequeuePlan, Settled};
use posthaste_core::messaging::delivery::{DeliveryNo, Proof};
use posthaste_core::messaging::message::Principal;
use posthaste_core::ports::{Acked, ActError, Nacked, StoreError, Ticket, What};
use posthaste_core::time::Timestamp;
use rusqlite::{OptionalExtension, params};
use tokio::sync::oneshot;

use super::append::ROOM;
use crate::sqlite::rows::Dead;
use crate::sqlite::writer::{Db, Op};

pub(crate) const SETTLE: &str = "UPDATE deliveries SET state = ?2, leased_at = ?3, \
    settled_at = ?4, settled_by = ?5, how = ?6, maybe_seen = ?7, room = ?8 WHERE no = ?1";
/// What a point in time takes in a row.
const TIME: usize = 6;

/// Writes the ends of deliveries down.
pub(crate) fn write_settled(
    db: &mut Db<'_>,
    list: &[Settled],
    at: Timestamp,
) -> rusqlite::Result<()> {
    // Those of one answer end alike: only their numbers differ.
    let mut last: Option<(Option<Principal>, Option<Timestamp>, End)> = None;
    let mut by: Option<String> = None;
    for settled in list {
        let this = (settled.by, settled.leased_at, settled.end);
        let (state, how, maybe, kind) = match settled.end {
            End::Acked(proof) => (1, proof.as_str(), None, EventKind::Acked),
            End::Dead { reason, maybe_seen } => {
                (2, reason.as_str(), Some(maybe_seen), EventKind::Dead)
            }
        };
        db.events.message(kind, settled.seq, settled.delivery);
        if last != Some(this) {
            last = Some(this);
            by = settled.by.map(|principal| principal.to_string());
            let times = TIME + settled.leased_at.map_or(0, |_| TIME);
            let taken = times + by.as_ref().map_or(0, String::len) + how.len();
            db.settle.raw_bind_parameter(2, state)?;
            db.settle.raw_bind_parameter(3, settled.leased_at.map(|t| t.0))?;
            db.settle.raw_bind_parameter(4, at.0)?;
            db.settle.raw_bind_parameter(5, &by)?;
            db.settle.raw_bind_parameter(6, how)?;
            db.settle.raw_bind_parameter(7, maybe)?;
            db.settle.raw_bind_parameter(8, &[0; ROOM][taken.min(ROOM)..])?;
        }
        db.settle.raw_bind_parameter(1, settled.delivery.0)?;
        db.settle.raw_execute()?;
        if let (End::Acked(proof), Some(by)) = (settled.end, &by)
            && proof.is_weak()
        {
            db.connection
                .prepare_cached("INSERT INTO taken (reader, seq, at) VALUES (?1, ?2, ?3)")?
                .execute(params![by, settled.seq.0, at.0])?;
        }
    }
    Ok(())
}

pub(crate) struct Ack {
    by: Principal,
    what: What,
    proof: Proof,
    plan: AckPlan,
    tx: oneshot::Sender<Result<Acked, StoreError>>,
}

impl Ack {
    pub(crate) fn new(
        by: Principal,
        what: What,
        proof: Proof,
        tx: oneshot::Sender<Result<Acked, StoreError>>,
    ) -> Self {
        Self { by, what, proof, plan: AckPlan::default(), tx }
    }
}

impl Op for Ack {
    fn is_light(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_ack(self.by, &self.what, self.proof, now, false);
        !self.plan.settled.is_empty()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        write_settled(db, &self.plan.settled, self.plan.at)
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        ledger.commit_ack(&self.plan);
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        ledger.undo_ack(&self.plan);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let acked = Acked {
            acked: self.plan.settled.len(),
            settled: self.plan.settled.iter().map(|s| s.seq).collect(),
            lost: self.plan.lost,
            settling: self.plan.settling,
        };
        let _ = self.tx.send(failure.map_or(Ok(acked), Err));
    }
}

pub(crate) struct Nack {
    by: Principal,
    what: What,
    plan: NackPlan,
    tx: oneshot::Sender<Result<Nacked, StoreError>>,
}

impl Nack {
    pub(crate) fn new(
        by: Principal,
        what: What,
        tx: oneshot::Sender<Result<Nacked, StoreError>>,
    ) -> Self {
        Self { by, what, plan: NackPlan::default(), tx }
    }
}

impl Op for Nack {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_nack(self.by, &self.what, now);
        !(self.plan.returned.is_empty() && self.plan.dead.is_empty())
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let mut update = db
            .connection
            .prepare_cached("UPDATE deliveries SET attempts = ?2, marked = 1 WHERE no = ?1")?;
        let mut note = db.connection.prepare_cached(
            "INSERT INTO delivery_notes (delivery, at, what, by) VALUES (?1, ?2, 'refused', ?3)",
        )?;
        let by = self.by.to_string();
        for (delivery, attempts, seq) in &self.plan.returned {
            update.execute(params![delivery.0, attempts])?;
            note.execute(params![delivery.0, self.plan.at.0, by])?;
            db.events.message(EventKind::Returned, *seq, *delivery);
        }
        drop(update);
        write_settled(db, &self.plan.dead, self.plan.at)
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        ledger.commit_nack(&self.plan, tickets);
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        ledger.undo_nack(&self.plan);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let nacked = Nacked {
            returned: self.plan.returned.len(),
            refused: self.plan.dead.len(),
            lost: self.plan.lost,
        };
        let _ = self.tx.send(failure.map_or(Ok(nacked), Err));
    }
}

pub(crate) struct Cancel {
    targets: Vec<(Mailbox, DeliveryNo)>,
    plan: Result<DiePlan, ActError>,
    tx: oneshot::Sender<Result<(), ActError>>,
}

impl Cancel {
    pub(crate) fn new(
        targets: Vec<(Mailbox, DeliveryNo)>,
        tx: oneshot::Sender<Result<(), ActError>>,
    ) -> Self {
        Self { targets, plan: Ok(DiePlan::default()), tx }
    }
}

impl Op for Cancel {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_cancel(&self.targets, now);
        self.plan.is_ok()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        self.plan.as_ref().map_or(Ok(()), |plan| write_settled(db, &plan.dead, plan.at))
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        if let Ok(plan) = &self.plan {
            ledger.commit_die(plan);
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Ok(plan) = &self.plan {
            ledger.undo_die(plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let done = self.plan.map(|_| ());
        let _ = self.tx.send(failure.map_or(done, |f| Err(f.into())));
    }
}

pub(crate) struct Requeue {
    dead: Dead,
    plan: Result<RequeuePlan, ActError>,
    /// Not dead any more when it came to it.
    alive: Vec<DeliveryNo>,
    at: Timestamp,
    tx: oneshot::Sender<Result<(), ActError>>,
}

impl Requeue {
    pub(crate) fn new(dead: Dead, tx: oneshot::Sender<Result<(), ActError>>) -> Self {
        Self { dead, plan: Err(ActError::NotFound), alive: Vec::new(), at: Timestamp(0), tx }
    }
}

impl Op for Requeue {
    fn looks_at_all(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.at = now;
        self.alive.clear();
        self.plan = ledger.plan_requeue(self.dead.deliveries.clone(), self.dead.always_fits);
        self.plan.is_ok()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let Ok(plan) = &mut self.plan else { return Ok(()) };
        // The list was read a moment ago; only now is it sure what is dead.
        let mut update = db.connection.prepare_cached(
            "UPDATE deliveries SET state = 0, marked = marked OR coalesce(maybe_seen, 0), \
             attempts = 0, expires_at = NULL, leased_at = NULL, settled_at = NULL, \
             settled_by = NULL, how = NULL, maybe_seen = NULL \
             WHERE no = ?1 AND state = 2 RETURNING marked",
        )?;
        let mut note = db.connection.prepare_cached(
            "INSERT INTO delivery_notes (delivery, at, what, why) \
             SELECT no, ?2, 'requeued', how FROM deliveries WHERE no = ?1 AND state = 2",
        )?;
        for (_, entry) in &mut plan.entries {
            note.execute(params![entry.delivery.0, self.at.0])?;
            let found = update.query_row(params![entry.delivery.0], |row| row.get(0)).optional()?;
            match found {
                Some(marked) => {
                    (entry.marked, entry.leased_before) = (marked, marked);
                    db.events.message(EventKind::Requeued, entry.seq, entry.delivery);
                }
                None => self.alive.push(entry.delivery),
            }
        }
        // A delivery from below the mark is open again: look there at start.
        let lowest = plan.entries.iter().map(|(_, e)| e.delivery.0).min().unwrap_or(u64::MAX);
        db.connection.execute(
            "UPDATE meta SET value = min(value, ?1) WHERE key = 'low_water'",
            params![lowest],
        )?;
        Ok(())
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        if let Ok(plan) = &mut self.plan {
            let all = std::mem::take(&mut plan.entries).into_iter();
            let (alive, dead) = all.partition(|(_, e)| self.alive.contains(&e.delivery));
            ledger.undo_requeue(&RequeuePlan { entries: alive });
            plan.entries = dead;
            ledger.commit_requeue(plan, tickets);
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Ok(plan) = &self.plan {
            ledger.undo_requeue(plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let done = self.plan.and_then(|plan| match plan.entries.is_empty() {
            true => Err(ActError::Conflict("nothing of it is dead".into())),
            false => Ok(()),
        });
        let _ = self.tx.send(failure.map_or(done, |f| Err(f.into())));
    }
}
