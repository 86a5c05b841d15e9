//! Commands that ack, refuse, cancel and requeue deliveries.

use tokio::sync::oneshot;

use crate::address::Mailbox;
use crate::engine::writer::Command;
use crate::ledger::{AckPlan, DeadDelivery, DiePlan, Ledger, NackPlan, RequeuePlan};
use crate::messaging::delivery::{DeliveryNo, Proof};
use crate::messaging::message::{Principal, Seq};
use crate::ports::change::Change;
use crate::ports::{Acked, ActError, Nacked, StoreError, Ticket, What};
use crate::time::Timestamp;

pub(in crate::engine) struct Ack {
    by: Principal,
    what: What,
    proof: Proof,
    plan: AckPlan,
    tx: oneshot::Sender<Result<Acked, StoreError>>,
}

impl Ack {
    pub(in crate::engine) fn new(
        by: Principal,
        what: What,
        proof: Proof,
        tx: oneshot::Sender<Result<Acked, StoreError>>,
    ) -> Self {
        Self { by, what, proof, plan: AckPlan::default(), tx }
    }
}

impl Command for Ack {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_ack(self.by, &self.what, self.proof, now, false);
        self.plan.tell(changes);
        !self.plan.settled.is_empty()
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

/// Acks deliveries that their owner says it has read.
pub(in crate::engine) struct MarkRead {
    by: Principal,
    unread: Vec<DeliveryNo>,
    plan: AckPlan,
    tx: oneshot::Sender<Result<Vec<Seq>, StoreError>>,
}

impl MarkRead {
    pub(in crate::engine) fn new(
        by: Principal,
        unread: Vec<DeliveryNo>,
        tx: oneshot::Sender<Result<Vec<Seq>, StoreError>>,
    ) -> Self {
        Self { by, unread, plan: AckPlan::default(), tx }
    }
}

impl Command for MarkRead {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_read(self.by, &self.unread, now);
        self.plan.tell(changes);
        !self.plan.settled.is_empty()
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        ledger.commit_ack(&self.plan);
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        ledger.undo_ack(&self.plan);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let settled = self.plan.settled.iter().map(|s| s.seq).collect();
        let _ = self.tx.send(failure.map_or(Ok(settled), Err));
    }
}

pub(in crate::engine) struct Nack {
    by: Principal,
    what: What,
    plan: NackPlan,
    tx: oneshot::Sender<Result<Nacked, StoreError>>,
}

impl Nack {
    pub(in crate::engine) fn new(
        by: Principal,
        what: What,
        tx: oneshot::Sender<Result<Nacked, StoreError>>,
    ) -> Self {
        Self { by, what, plan: NackPlan::default(), tx }
    }
}

impl Command for Nack {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_nack(self.by, &self.what, now);
        self.plan.tell(changes);
        !(self.plan.returned.is_empty() && self.plan.dead.is_empty())
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

pub(in crate::engine) struct Cancel {
    targets: Vec<(Mailbox, DeliveryNo)>,
    plan: Result<DiePlan, ActError>,
    tx: oneshot::Sender<Result<(), ActError>>,
}

impl Cancel {
    pub(in crate::engine) fn new(
        targets: Vec<(Mailbox, DeliveryNo)>,
        tx: oneshot::Sender<Result<(), ActError>>,
    ) -> Self {
        Self { targets, plan: Ok(DiePlan::default()), tx }
    }
}

impl Command for Cancel {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_cancel(&self.targets, now);
        self.plan.as_ref().is_ok_and(|plan| {
            plan.tell(changes);
            true
        })
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

/// Queues the dead deliveries of a message again, as listed at a revision of the ledger.
pub(in crate::engine) struct Requeue {
    dead: Vec<DeadDelivery>,
    always_fits: bool,
    revision: u64,
    /// `None`: the revision has changed since.
    plan: Option<Result<RequeuePlan, ActError>>,
    tx: oneshot::Sender<Result<Requeued, ActError>>,
}

/// The result of a requeue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Requeued {
    Done,
    /// The list of dead deliveries is out of date: read it again.
    Stale,
}

impl Requeue {
    pub(in crate::engine) fn new(
        dead: Vec<DeadDelivery>,
        always_fits: bool,
        revision: u64,
        tx: oneshot::Sender<Result<Requeued, ActError>>,
    ) -> Self {
        Self { dead, always_fits, revision, plan: None, tx }
    }
}

impl Command for Requeue {
    fn looks_at_all(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        let dead = self.dead.clone();
        self.plan = ledger.plan_requeue(dead, self.always_fits, self.revision, now);
        let Some(Ok(plan)) = &self.plan else { return false };
        plan.tell(changes);
        true
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        if let Some(Ok(plan)) = &self.plan {
            ledger.commit_requeue(plan, tickets);
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Some(Ok(plan)) = &self.plan {
            ledger.undo_requeue(plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let done = match self.plan {
            Some(plan) => plan.map(|_| Requeued::Done),
            None => Ok(Requeued::Stale),
        };
        let _ = self.tx.send(failure.map_or(done, |f| Err(f.into())));
    }
}
