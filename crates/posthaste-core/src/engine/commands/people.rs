//! Commands of instances (join, end, forget) and of teams.

use tokio::sync::oneshot;

use crate::address::InstanceId;
use crate::engine::writer::Command;
use crate::ledger::{EndPlan, ForgetPlan, JoinPlan, Ledger};
use crate::ports::change::Change;
use crate::ports::{Ending, StoreError, Ticket};
use crate::registry::{Instance, Joined, NewInstance, RegistryError, Team};
use crate::time::Timestamp;

pub(super) fn unavailable(failure: &StoreError) -> RegistryError {
    RegistryError::Unavailable(failure.to_string())
}

pub(in crate::engine) struct Join {
    new: NewInstance,
    plan: Result<JoinPlan, RegistryError>,
    tx: oneshot::Sender<Result<Joined, RegistryError>>,
}

impl Join {
    pub(in crate::engine) fn new(
        new: NewInstance,
        tx: oneshot::Sender<Result<Joined, RegistryError>>,
    ) -> Self {
        Self { new, plan: Err(RegistryError::Ended(String::new())), tx }
    }
}

impl Command for Join {
    fn is_early(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_join(self.new.clone(), now, rand::random);
        let Ok(plan) = &self.plan else { return false };
        plan.tell(changes);
        true
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Ok(plan) = &self.plan {
            ledger.undo_join(plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let joined = self.plan.map(|plan| plan.joined());
        let _ = self.tx.send(failure.map_or(joined, |f| Err(unavailable(&f))));
    }
}

pub(in crate::engine) struct End {
    who: InstanceId,
    ending: Ending,
    plan: Result<EndPlan, RegistryError>,
    tx: oneshot::Sender<Result<Instance, RegistryError>>,
}

impl End {
    pub(in crate::engine) fn new(
        who: InstanceId,
        ending: Ending,
        tx: oneshot::Sender<Result<Instance, RegistryError>>,
    ) -> Self {
        Self { who, ending, plan: Err(RegistryError::Ended(String::new())), tx }
    }
}

impl Command for End {
    fn looks_at_all(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_end(self.who, &self.ending, now);
        let Ok(plan) = &self.plan else { return false };
        plan.tell(changes);
        true
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        if let Ok(plan) = &self.plan {
            ledger.commit_end(plan, tickets);
        }
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        if let Ok(plan) = &self.plan {
            ledger.undo_end(plan);
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let ended = self.plan.map(|plan| plan.instance);
        let _ = self.tx.send(failure.map_or(ended, |f| Err(unavailable(&f))));
    }
}

/// Ends all instances that are gone and have neither mail nor open work.
pub(in crate::engine) struct ForgetGone {
    before: Timestamp,
    plan: ForgetPlan,
    tx: oneshot::Sender<Result<Vec<Instance>, RegistryError>>,
}

impl ForgetGone {
    pub(in crate::engine) fn new(
        before: Timestamp,
        tx: oneshot::Sender<Result<Vec<Instance>, RegistryError>>,
    ) -> Self {
        Self { before, plan: ForgetPlan::default(), tx }
    }
}

impl Command for ForgetGone {
    fn looks_at_all(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.plan = ledger.plan_forget(self.before, now);
        self.plan.ends.iter().for_each(|end| end.tell(changes));
        !self.plan.ends.is_empty()
    }

    fn commit(&mut self, ledger: &mut Ledger, tickets: &mut Vec<Ticket>) {
        self.plan.ends.iter().for_each(|end| ledger.commit_end(end, tickets));
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        self.plan.ends.iter().rev().for_each(|end| ledger.undo_end(end));
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let forgotten = self.plan.ends.into_iter().map(|end| end.instance).collect();
        let _ = self.tx.send(failure.map_or(Ok(forgotten), |f| Err(unavailable(&f))));
    }
}

pub(in crate::engine) struct PutTeam {
    team: Team,
    before: Option<Team>,
    tx: oneshot::Sender<Result<(), RegistryError>>,
}

impl PutTeam {
    pub(in crate::engine) fn new(
        team: Team,
        tx: oneshot::Sender<Result<(), RegistryError>>,
    ) -> Self {
        Self { team, before: None, tx }
    }
}

impl Command for PutTeam {
    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp, changes: &mut Vec<Change>) -> bool {
        self.before = ledger.put_team(self.team.clone());
        changes.push(Change::TeamWritten(self.team.clone()));
        true
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        ledger.undo_put_team(&self.team.name, self.before.take());
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(()), |f| Err(unavailable(&f))));
    }
}
