//! Who works for whom.

use posthaste_core::address::InstanceId;
use posthaste_core::events::EventKind;
use posthaste_core::ledger::{AppendPlan, BeginPlan, HirePlan, Ledger, PlannedHire};
use posthaste_core::messaging::message::Seq;
use posthaste_core::orchestration::AssignError;
use posthaste_core::ports::{Hire, Hired, StoreError, Ticket};
use posthaste_core::registry::{Instance, RegistryError, TokenHash, Work};
use posthaste_core::time::Timestamp;
use rusqlite::params;
use tokio::sync::oneshot;

use super::append::write_message;
use super::people::{unavailable, write_arrival, write_token};
use crate::sqlite::writer::{Db, Op};

/// What became of a wish for a worker.
pub(crate) enum HireOutcome {
    New(Box<Hired>),
    /// The key was accepted before, for this task; the wish may differ.
    Before(Seq, Box<Hire>),
}

/// A worker and its task: all or nothing.
pub(crate) struct NewWorker {
    hire: Hire,
    plan: Option<Box<HirePlan>>,
    outcome: Option<Result<HireOutcome, AssignError>>,
    tx: oneshot::Sender<Result<HireOutcome, AssignError>>,
}

impl NewWorker {
    pub(crate) fn new(hire: Hire, tx: oneshot::Sender<Result<HireOutcome, AssignError>>) -> Self {
        Self { hire, plan: None, outcome: None, tx }
    }
}

impl Op for NewWorker {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        match ledger.plan_hire(self.hire.clone(), now, rand::random) {
            Ok(PlannedHire::New(plan)) => {
                self.plan = Some(plan);
                return true;
            }
            Ok(PlannedHire::Duplicate(seq)) => {
                self.outcome = Some(Ok(HireOutcome::Before(seq, Box::new(self.hire.clone()))));
            }
            Err(error) => self.outcome = Some(Err(error)),
        }
        false
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let Some(plan) = &self.plan else { return Ok(()) };
        if let Some(join) = &plan.join {
            write_arrival(db, join, EventKind::Starting)?;
            if let Some(work) = &join.instance.work {
                write_work(db, join.instance.id, work)?;
            }
        }
        write_message(db, &plan.task)?;
        let a = &plan.assignment;
        db.connection
            .execute(
                "INSERT INTO assignments (task, worker, giver, label, opened_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    a.task.0,
                    a.worker.0,
                    a.by.instance().map(|i| i.0),
                    a.label.as_deref(),
                    a.opened_at.0
                ],
            )
            .map(drop)
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        if let Some(plan) = &self.plan {
            ledger.commit_hire(plan, tickets);
            self.outcome = Some(Ok(HireOutcome::New(Box::new(plan.hired()))));
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Some(plan) = self.plan.take() {
            ledger.undo_hire(&plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let outcome = match failure {
            Some(failure) => Err(failure.into()),
            None => self.outcome.unwrap_or(Err(StoreError::Closed.into())),
        };
        let _ = self.tx.send(outcome);
    }
}

/// A worker runs from now on.
pub(crate) struct BeginWork {
    who: InstanceId,
    token: TokenHash,
    work: Work,
    plan: Result<BeginPlan, RegistryError>,
    tx: oneshot::Sender<Result<Instance, RegistryError>>,
}

impl BeginWork {
    pub(crate) fn new(
        who: InstanceId,
        token: TokenHash,
        work: Work,
        tx: oneshot::Sender<Result<Instance, RegistryError>>,
    ) -> Self {
        Self { who, token, work, plan: Err(RegistryError::Ended(String::new())), tx }
    }
}

impl Op for BeginWork {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_begin_work(self.who, self.token, self.work.clone(), now);
        self.plan.is_ok()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let Ok(plan) = &self.plan else { return Ok(()) };
        let i = &plan.instance;
        db.connection.execute(
            "UPDATE instances SET status = ?2, last_seen = max(last_seen, ?3) WHERE id = ?1",
            params![i.id.0, i.status.as_str(), i.last_seen.0],
        )?;
        write_token(db, plan.token, i.id, &plan.dropped)?;
        if let Some(work) = &i.work {
            write_work(db, i.id, work)?;
        }
        db.events.instance(EventKind::Running, i.id);
        Ok(())
    }

    fn commit(&mut self, _: &mut Ledger, _: &mut Vec<Ticket>) {}

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Ok(plan) = &self.plan {
            ledger.undo_begin_work(plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let begun = self.plan.map(|plan| plan.instance);
        let _ = self.tx.send(failure.map_or(begun, |f| Err(unavailable(&f))));
    }
}

pub(super) fn write_work(db: &Db<'_>, of: InstanceId, work: &Work) -> rusqlite::Result<()> {
    db.connection
        .execute(
            "INSERT INTO work \
             (instance, directory, worktree, branch, started_at, exit_code, why, timeout) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (instance) DO UPDATE SET \
             directory = excluded.directory, branch = excluded.branch, \
             started_at = excluded.started_at, exit_code = excluded.exit_code, why = excluded.why",
            params![
                of.0,
                work.directory,
                work.worktree,
                work.branch,
                work.started_at.map(|t| t.0),
                work.exit_code,
                work.why,
                work.timeout.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
            ],
        )
        .map(drop)
}

/// The message settles a task.
pub(super) fn write_report(db: &mut Db<'_>, task: Seq, plan: &AppendPlan) -> rusqlite::Result<()> {
    let Some((at, delivery)) = plan.deliveries.first() else { return Ok(()) };
    db.connection.execute(
        "UPDATE assignments SET report = ?2, report_delivery = ?3, settled_at = ?4, \
         report_mailbox = (SELECT key FROM mailboxes WHERE no = ?5) WHERE task = ?1",
        params![task.0, plan.message.seq.0, delivery.0, plan.message.created_at.0, at],
    )?;
    db.events.message(EventKind::Settled, plan.message.seq, *delivery);
    Ok(())
}
