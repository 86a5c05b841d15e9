//! Commands about needs: a permission is asked for, a need is closed, verdicts are
//! forgotten.

use tokio::sync::oneshot;

use crate::address::{InstanceId, Name};
use crate::engine::needs::Permission;
use crate::engine::writer::Command;
use crate::ledger::{Ledger, NeedsPlan, PlannedPermission};
use crate::needs::{Closed, NeedId, Outcome, PermissionAsk};
use crate::ports::change::Change;
use crate::ports::{StoreError, Ticket};
use crate::time::Timestamp;

pub(in crate::engine) struct AskPermission {
    who: InstanceId,
    ask: PermissionAsk,
    plan: Option<NeedsPlan>,
    found: Option<Permission>,
    tx: oneshot::Sender<Result<Permission, StoreError>>,
}

impl AskPermission {
    pub(in crate::engine) fn new(
        who: InstanceId,
        ask: PermissionAsk,
        tx: oneshot::Sender<Result<Permission, StoreError>>,
    ) -> Self {
        Self { who, ask, plan: None, found: None, tx }
    }
}

impl Command for AskPermission {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        let found = match ledger.plan_permission(self.who, &self.ask, now) {
            PlannedPermission::New(plan) => {
                plan.tell(changes);
                let need = plan.opened.first();
                self.found = need.map(|need| Permission::Waits(need.id, need.created_at));
                self.plan = Some(plan);
                return true;
            }
            PlannedPermission::Waits(id, since) => Permission::Waits(id, since),
            PlannedPermission::Decided(verdict) => Permission::Decided(verdict),
        };
        self.found = Some(found);
        false
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        if let Some(plan) = &self.plan {
            ledger.commit_needs(plan);
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Some(plan) = self.plan.take() {
            ledger.undo_needs(&plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let found = self.found.ok_or(StoreError::Closed);
        let _ = self.tx.send(failure.map_or(found, Err));
    }
}

pub(in crate::engine) struct CloseNeed {
    id: NeedId,
    outcome: Outcome,
    text: Option<String>,
    remember: bool,
    /// `None`: the need is not open.
    plan: Option<NeedsPlan>,
    tx: oneshot::Sender<Result<bool, StoreError>>,
}

impl CloseNeed {
    pub(in crate::engine) fn new(
        id: NeedId,
        outcome: Outcome,
        text: Option<String>,
        remember: bool,
        tx: oneshot::Sender<Result<bool, StoreError>>,
    ) -> Self {
        Self { id, outcome, text, remember, plan: None, tx }
    }
}

impl Command for CloseNeed {
    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        let closed = Closed { text: self.text.clone(), ..Closed::new(self.outcome, now) };
        self.plan = ledger.plan_close_need(self.id, closed, self.remember).ok();
        let Some(plan) = &self.plan else { return false };
        plan.tell(changes);
        true
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        if let Some(plan) = &self.plan {
            ledger.commit_needs(plan);
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Some(plan) = self.plan.take() {
            ledger.undo_needs(&plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(self.plan.is_some()), Err));
    }
}

/// Forgets remembered verdicts of a profile.
pub(in crate::engine) struct ForgetVerdicts {
    profile: Name,
    subject: Option<String>,
    found: Vec<String>,
    tx: oneshot::Sender<Result<usize, StoreError>>,
}

impl ForgetVerdicts {
    pub(in crate::engine) fn new(
        profile: Name,
        subject: Option<String>,
        tx: oneshot::Sender<Result<usize, StoreError>>,
    ) -> Self {
        Self { profile, subject, found: Vec::new(), tx }
    }
}

impl Command for ForgetVerdicts {
    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.found = ledger.remembered_of(&self.profile, self.subject.as_deref());
        changes.extend(self.found.iter().map(|subject| Change::VerdictForgotten {
            profile: self.profile.clone(),
            subject: subject.clone(),
        }));
        !self.found.is_empty()
    }

    fn commit(&mut self, ledger: &mut Ledger, _: &mut Vec<Ticket>) {
        self.found.iter().for_each(|subject| ledger.forget_verdict(&self.profile, subject));
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(self.found.len()), Err));
    }
}
