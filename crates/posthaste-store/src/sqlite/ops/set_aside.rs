//! Deliveries that cannot be read are set aside, so that the rest of their mailboxes
//! goes on.
//!
//! Each becomes dead (`unreadable`), with a note that names the table, the row and the
//! column. Nothing is deleted: whoever repairs the row can queue it again.

use std::collections::HashMap;

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
use crate::sqlite::writer::{Db, Op, unanswered};

/// Rows set aside in one transaction.
const STEP: usize = 1_000;
/// So many are named in the log, and the others counted.
const NAMED: usize = 5;

pub(crate) struct SetAside {
    /// What is wrong with messages.
    messages: HashMap<Seq, String>,
    /// Deliveries that the ledger knows.
    plan: DiePlan,
    /// Deliveries whose own rows cannot be read, so that they were never loaded, and what
    /// is wrong with each.
    unknown: Vec<Settled>,
    why: Vec<String>,
    tx: oneshot::Sender<Result<usize, StoreError>>,
}

impl SetAside {
    fn new(faults: Vec<Fault>, tx: oneshot::Sender<Result<usize, StoreError>>) -> Self {
        let (mut messages, mut unknown, mut why) = (HashMap::new(), Vec::new(), Vec::new());
        for Fault { of, what } in faults {
            match of {
                Of::Message(seq) => drop(messages.insert(seq, what)),
                Of::Delivery(delivery, seq) => {
                    // Whether anybody had it is not known any more.
                    let end = End::Dead { reason: Reason::Unreadable, maybe_seen: true };
                    unknown.push(Settled { delivery, seq, by: None, leased_at: None, end });
                    why.push(what);
                }
            }
        }
        Self { messages, plan: DiePlan::default(), unknown, why, tx }
    }
}

/// Sets deliveries aside, some at a time.
pub(crate) async fn all(shared: &Shared, mut faults: Vec<Fault>) -> Result<(), StoreError> {
    for Fault { what, .. } in faults.iter().take(NAMED) {
        tracing::error!(what, "a row cannot be read");
    }
    let (rows, mut deliveries) = (faults.len(), 0);
    while !faults.is_empty() {
        let later = faults.split_off(faults.len().min(STEP));
        let step = std::mem::replace(&mut faults, later);
        let done = shared.commands.push(|tx| SetAside::new(step, tx));
        deliveries += done.await.map_err(unanswered)??;
    }
    if rows > 0 {
        tracing::error!(rows, deliveries, "what cannot be read is set aside");
    }
    Ok(())
}

impl Op for SetAside {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_unreadable(|seq| self.messages.contains_key(&seq), now);
        !(self.plan.dead.is_empty() && self.unknown.is_empty())
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        write_settled(db, &self.plan.dead, self.plan.at)?;
        write_settled(db, &self.unknown, self.plan.at)?;
        let mut note = db.connection.prepare_cached(
            "INSERT INTO delivery_notes (delivery, at, what, why) VALUES (?1, ?2, 'unreadable', ?3)",
        )?;
        let known = self.plan.dead.iter().map(|dead| (dead, self.messages.get(&dead.seq)));
        for (dead, why) in known.chain(self.unknown.iter().zip(self.why.iter().map(Some))) {
            note.execute(params![dead.delivery.0, self.plan.at.0, why])?;
        }
        Ok(())
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        ledger.commit_die(&self.plan);
        ledger.count_unreadable(self.unknown.len());
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        ledger.undo_die(&self.plan);
        ledger.mark_reports(&self.plan.dead.iter().map(|dead| dead.delivery).collect(), false);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let dead = self.plan.dead.len() + self.unknown.len();
        let _ = self.tx.send(failure.map_or(Ok(dead), Err));
    }
}
