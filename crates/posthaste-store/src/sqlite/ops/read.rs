//! A read that marks: what it shows and what it settles is one transaction.

use posthaste_core::ledger::{AckPlan, Ledger};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{MessageRef, Principal, Seq};
use posthaste_core::ports::{StoreError, Ticket};
use posthaste_core::time::Timestamp;
use tokio::sync::oneshot;

use super::settle::write_settled;
use crate::sqlite::rows::{self, RawRecord};
use crate::sqlite::writer::{Db, Op};

/// What was read and what of it was settled; `None` if nothing was left to settle.
pub(crate) type Answer = Option<(Vec<RawRecord>, Vec<Seq>)>;

pub(crate) struct MarkRead {
    by: Principal,
    unread: Vec<DeliveryNo>,
    page: Vec<Seq>,
    plan: AckPlan,
    read: Vec<RawRecord>,
    tx: oneshot::Sender<Result<Answer, StoreError>>,
}

impl MarkRead {
    pub(crate) fn new(
        by: Principal,
        unread: Vec<DeliveryNo>,
        page: Vec<Seq>,
        tx: oneshot::Sender<Result<Answer, StoreError>>,
    ) -> Self {
        Self { by, unread, page, plan: AckPlan::default(), read: Vec::new(), tx }
    }
}

impl Op for MarkRead {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_read(self.by, &self.unread, now);
        !self.plan.settled.is_empty()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        write_settled(db, &self.plan.settled, self.plan.at)?;
        self.read.clear();
        for seq in &self.page {
            self.read.extend(rows::record(db.connection, MessageRef::Seq(*seq))?);
        }
        Ok(())
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        ledger.commit_ack(&self.plan);
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        ledger.undo_ack(&self.plan);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let settled: Vec<Seq> = self.plan.settled.iter().map(|s| s.seq).collect();
        let answer = (!settled.is_empty()).then_some((self.read, settled));
        let _ = self.tx.send(failure.map_or(Ok(answer), Err));
    }
}
