//! Commands that write and remove profiles.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::people::unavailable;
use crate::address::Name;
use crate::engine::writer::Command;
use crate::ledger::{KnownProfile, Ledger, ProfilePlan};
use crate::ports::StoreError;
use crate::ports::change::Change;
use crate::profiles::{Profile, PutProfile, Source, Written};
use crate::registry::RegistryError;
use crate::time::Timestamp;

type Plan = Option<Result<ProfilePlan, RegistryError>>;

fn undo(plan: &Plan, ledger: &mut Ledger) {
    if let Some(Ok(plan)) = plan {
        ledger.undo_profile(plan);
    }
}

pub(in crate::engine) struct Put {
    put: PutProfile,
    plan: Plan,
    profile: Option<Arc<Profile>>,
    tx: oneshot::Sender<Result<Written, RegistryError>>,
}

impl Put {
    pub(in crate::engine) fn new(
        put: PutProfile,
        tx: oneshot::Sender<Result<Written, RegistryError>>,
    ) -> Self {
        Self { put, plan: None, profile: None, tx }
    }

    fn profile(&self, known: &KnownProfile, now: Timestamp) -> Profile {
        Profile {
            template: self.put.template.clone(),
            source: known.source.clone(),
            version: known.version,
            created_at: known.created_at,
            updated_at: now,
        }
    }
}

impl Command for Put {
    fn is_early(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        let plan = self.plan.insert(ledger.plan_put_profile(&self.put, now));
        let Ok(ProfilePlan { after: Some(known), .. }) = plan else { return false };
        let known = known.clone();
        let profile = Arc::new(self.profile(&known, now));
        changes.push(Change::ProfileWritten(Arc::clone(&profile)));
        self.profile = Some(profile);
        true
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        undo(&self.plan, ledger);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let Self { plan, profile, tx, .. } = *self;
        let closed = || unavailable(&StoreError::Closed);
        let answer = match (failure, plan) {
            (Some(failure), _) => Err(unavailable(&failure)),
            (None, Some(Ok(plan))) => profile.ok_or_else(closed).map(|profile| Written {
                profile: Arc::unwrap_or_clone(profile),
                created: plan.before.is_none(),
            }),
            (None, Some(Err(error))) => Err(error),
            (None, None) => Err(closed()),
        };
        let _ = tx.send(answer);
    }
}

pub(in crate::engine) struct Remove {
    name: Name,
    by: Source,
    plan: Plan,
    tx: oneshot::Sender<Result<usize, RegistryError>>,
}

impl Remove {
    pub(in crate::engine) fn new(
        name: Name,
        by: Source,
        tx: oneshot::Sender<Result<usize, RegistryError>>,
    ) -> Self {
        Self { name, by, plan: None, tx }
    }
}

impl Command for Remove {
    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp, changes: &mut Vec<Change>) -> bool {
        let plan = self.plan.insert(ledger.plan_remove_profile(&self.name, &self.by));
        if plan.is_ok() {
            changes.push(Change::ProfileRemoved(self.name.clone()));
        }
        plan.is_ok()
    }

    fn undo(&mut self, ledger: &mut Ledger) {
        undo(&self.plan, ledger);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let answer = match (failure, self.plan) {
            (Some(failure), _) => Err(unavailable(&failure)),
            (None, Some(plan)) => plan.map(|plan| plan.waiting),
            (None, None) => Err(unavailable(&StoreError::Closed)),
        };
        let _ = self.tx.send(answer);
    }
}
