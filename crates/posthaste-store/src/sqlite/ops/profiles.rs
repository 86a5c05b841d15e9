//! Profiles come, change and go.

use posthaste_core::address::Name;
use posthaste_core::events::EventKind;
use posthaste_core::ledger::{Ledger, ProfilePlan};
use posthaste_core::ports::{StoreError, Ticket};
use posthaste_core::profiles::{Profile, PutProfile, Source, Written};
use posthaste_core::registry::RegistryError;
use posthaste_core::time::Timestamp;
use rusqlite::params;
use tokio::sync::oneshot;

use super::people::unavailable;
use crate::sqlite::profiles::{list_text, upsert};
use crate::sqlite::writer::{Db, Op};

type Plan = Option<Result<ProfilePlan, RegistryError>>;

fn undo(plan: &Plan, ledger: &mut Ledger) {
    if let Some(Ok(plan)) = plan {
        ledger.undo_profile(plan);
    }
}

pub(crate) struct Put {
    put: PutProfile,
    plan: Plan,
    now: Timestamp,
    created_at: Timestamp,
    tx: oneshot::Sender<Result<Written, RegistryError>>,
}

impl Put {
    pub(crate) fn new(
        put: PutProfile,
        tx: oneshot::Sender<Result<Written, RegistryError>>,
    ) -> Self {
        Self { put, plan: None, now: Timestamp(0), created_at: Timestamp(0), tx }
    }

    fn written(
        plan: ProfilePlan,
        put: PutProfile,
        created_at: Timestamp,
        now: Timestamp,
    ) -> Written {
        let profile = Profile {
            template: put.template,
            source: put.by,
            version: plan.after.map_or(0, |known| known.version),
            created_at,
            updated_at: now,
        };
        Written { profile, created: plan.before.is_none() }
    }
}

impl Op for Put {
    fn is_early(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        let plan = ledger.plan_put_profile(&self.put, now);
        let writes = plan.is_ok();
        (self.plan, self.now) = (Some(plan), now);
        writes
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let Some(Ok(ProfilePlan { after: Some(known), .. })) = &self.plan else { return Ok(()) };
        let t = &self.put.template;
        db.events.named(EventKind::Profile, t.name.as_str());
        let row = params![
            t.name.as_str(),
            t.title,
            t.description,
            t.kind.as_str(),
            t.driver,
            t.system_prompt,
            list_text(&t.tags),
            t.tools.as_deref().map(list_text),
            t.config,
            self.put.by.as_str(),
            known.version,
            self.now.0,
            t.allowed_tools.as_deref().map(list_text),
            t.services.as_deref().map(list_text),
        ];
        self.created_at = Timestamp(upsert(db.connection, row)?);
        Ok(())
    }

    fn commit(&mut self, _: &mut Ledger, _: &mut Vec<Ticket>) {}

    fn undo(&mut self, ledger: &mut Ledger) {
        undo(&self.plan, ledger);
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let Self { put, plan, now, created_at, tx } = *self;
        let answer = match (failure, plan) {
            (Some(failure), _) => Err(unavailable(&failure)),
            (None, Some(plan)) => plan.map(|plan| Self::written(plan, put, created_at, now)),
            (None, None) => Err(unavailable(&StoreError::Closed)),
        };
        let _ = tx.send(answer);
    }
}

pub(crate) struct Remove {
    name: Name,
    by: Source,
    plan: Plan,
    tx: oneshot::Sender<Result<usize, RegistryError>>,
}

impl Remove {
    pub(crate) fn new(
        name: Name,
        by: Source,
        tx: oneshot::Sender<Result<usize, RegistryError>>,
    ) -> Self {
        Self { name, by, plan: None, tx }
    }
}

impl Op for Remove {
    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp) -> bool {
        let plan = ledger.plan_remove_profile(&self.name, &self.by);
        let writes = plan.is_ok();
        self.plan = Some(plan);
        writes
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        db.connection
            .execute("DELETE FROM profiles WHERE name = ?1", params![self.name.as_str()])?;
        db.events.named(EventKind::Profile, self.name.as_str());
        Ok(())
    }

    fn commit(&mut self, _: &mut Ledger, _: &mut Vec<Ticket>) {}

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
