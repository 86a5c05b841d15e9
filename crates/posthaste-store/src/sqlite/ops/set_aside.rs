//! Deliveries that cannot be read are set aside, so that the rest of their mailboxes
//! goes on.
//!
//! Each becomes dead (`unreadable`), with a note that names the table, the row and the
//! column. Nothing is deleted: whoever repairs the row can queue it again.

use std::collections::HashSet;

use posthaste_core::ledger::{DiePlan, End, Ledger, Settled};
use posthaste_core::messaging::delivery::Reason;
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::{StoreError, Ticket};
use posthaste_core::time::Timestamp;
use rusqlite::params;
use tokio::sync::oneshot;

use super::settle::write_settled;
use crate::sqlite::Shared;
use crate::sqlite::faults::{Fault, Of};
use crate::sqlite::writer::{Db, Op};

pub(crate) struct SetAside {
    faults: Vec<Fault>,
    /// Deliveries that the ledger knows.
    plan: DiePlan,
    /// Deliveries whose own rows cannot be read, so that they were never loaded.
    unknown: Vec<Settled>,
    tx: oneshot::Sender<Result<usize, StoreError>>,
}

impl SetAside {
    pub(crate) fn new(faults: Vec<Fault>, tx: oneshot::Sender<Result<usize, StoreError>>) -> Self {
        Self { faults, plan: DiePlan::default(), unknown: Vec::new(), tx }
    }

    /// What is wrong with this delivery.
    fn fault_of(&self, dead: &Settled) -> Option<&Fault> {
        self.faults.iter().find(|fault| match fault.of {
            Of::Message(seq) => seq == dead.seq,
            Of::Delivery(delivery, _) => delivery == dead.delivery,
        })
    }
}

/// Sets deliveries aside when the writer comes to it.
pub(crate) fn later(shared: &Shared, faults: Vec<Fault>) {
    if !faults.is_empty() {
        drop(shared.commands.push(|tx| SetAside::new(faults, tx)));
    }
}

impl Op for SetAside {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        let message = |fault: &Fault| match fault.of {
            Of::Message(seq) => Some(seq),
            Of::Delivery(..) => None,
        };
        let messages: HashSet<Seq> = self.faults.iter().filter_map(message).collect();
        self.plan = ledger.plan_unreadable(&messages, now);
        let unknown = self.faults.iter().filter_map(|fault| match fault.of {
            Of::Delivery(delivery, seq) => Some(Settled {
                delivery,
                seq,
                by: None,
                leased_at: None,
                // Whether anybody had it is not known any more.
                end: End::Dead { reason: Reason::Unreadable, maybe_seen: true },
            }),
            Of::Message(_) => None,
        });
        self.unknown = unknown.collect();
        !(self.plan.dead.is_empty() && self.unknown.is_empty())
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        write_settled(db, &self.plan.dead, self.plan.at)?;
        write_settled(db, &self.unknown, self.plan.at)?;
        let mut note = db.connection.prepare_cached(
            "INSERT INTO delivery_notes (delivery, at, what, why) VALUES (?1, ?2, 'unreadable', ?3)",
        )?;
        for dead in self.plan.dead.iter().chain(&self.unknown) {
            let what = self.fault_of(dead).map(|fault| fault.what.as_str());
            note.execute(params![dead.delivery.0, self.plan.at.0, what])?;
        }
        Ok(())
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        ledger.commit_die(&self.plan);
        ledger.count_unreadable(self.unknown.len());
        for dead in self.plan.dead.iter().chain(&self.unknown) {
            let what = self.fault_of(dead).map_or("", |fault| fault.what.as_str());
            let (delivery, seq) = (dead.delivery.0, dead.seq.0);
            tracing::error!(delivery, seq, what, "a delivery cannot be read and is set aside");
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        ledger.undo_die(&self.plan);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let dead = self.plan.dead.len() + self.unknown.len();
        let _ = self.tx.send(failure.map_or(Ok(dead), Err));
    }
}
