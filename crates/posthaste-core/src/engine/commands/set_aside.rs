//! Sets aside deliveries that cannot be read, so that the rest of their mailboxes goes
//! on.
//!
//! Each becomes dead (`unreadable`), with a note that names the table, the row and the
//! column. Nothing is deleted: an operator who repairs the row can requeue it.

use std::collections::HashMap;

use tokio::sync::oneshot;

use crate::engine::Shared;
use crate::engine::line::unanswered;
use crate::engine::writer::Command;
use crate::ledger::{DiePlan, End, Ledger, Settled};
use crate::messaging::delivery::Reason;
use crate::messaging::message::Seq;
use crate::ports::change::Change;
use crate::ports::store::{RowOf, UnreadableRow};
use crate::ports::{Note, Noted, StoreError, Ticket};
use crate::time::Timestamp;

/// Number of rows set aside in one group.
const STEP: usize = 1_000;
/// Number of rows that the log names; it counts the others.
const NAMED: usize = 5;

pub(in crate::engine) struct SetAside {
    /// The faults of messages.
    messages: HashMap<Seq, String>,
    /// Deliveries that the ledger knows.
    plan: DiePlan,
    /// Deliveries whose own rows cannot be read, so that they were never loaded, with
    /// their faults.
    unknown: Vec<(Settled, String)>,
    tx: oneshot::Sender<Result<usize, StoreError>>,
}

impl SetAside {
    fn new(rows: Vec<UnreadableRow>, tx: oneshot::Sender<Result<usize, StoreError>>) -> Self {
        let (mut messages, mut unknown) = (HashMap::new(), Vec::new());
        for UnreadableRow { of, what } in rows {
            match of {
                RowOf::Message(seq) => drop(messages.insert(seq, what)),
                RowOf::Delivery(delivery, seq) => {
                    // The lease of such a delivery is unknown, so a reader may have seen
                    // it.
                    let end = End::Dead { reason: Reason::Unreadable, maybe_seen: true };
                    unknown.push((Settled { delivery, seq, by: None, leased_at: None, end }, what));
                }
            }
        }
        Self { messages, plan: DiePlan::default(), unknown, tx }
    }
}

/// Sets deliveries aside, some at a time.
pub(in crate::engine) async fn all(
    shared: &Shared,
    mut rows: Vec<UnreadableRow>,
) -> Result<(), StoreError> {
    for UnreadableRow { what, .. } in rows.iter().take(NAMED) {
        tracing::error!(what, "a row cannot be read");
    }
    let (count, mut deliveries) = (rows.len(), 0);
    while !rows.is_empty() {
        let later = rows.split_off(rows.len().min(STEP));
        let step = std::mem::replace(&mut rows, later);
        let done = shared.line.push(|tx| SetAside::new(step, tx));
        deliveries += done.await.map_err(unanswered)??;
    }
    if count > 0 {
        tracing::error!(rows = count, deliveries, "what cannot be read is set aside");
    }
    Ok(())
}

impl Command for SetAside {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_unreadable(|seq| self.messages.contains_key(&seq), now);
        let known = self.plan.dead.iter().filter_map(|dead| {
            let what = self.messages.get(&dead.seq)?;
            Some((dead, what))
        });
        for (settled, what) in known.chain(self.unknown.iter().map(|(dead, what)| (dead, what))) {
            changes.push(Change::DeliverySettled { settled: *settled, at: now });
            let noted = Noted::Unreadable(what.as_str().into());
            changes.push(Change::NoteAdded(Note { delivery: settled.delivery, at: now, noted }));
        }
        !(self.plan.dead.is_empty() && self.unknown.is_empty())
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
