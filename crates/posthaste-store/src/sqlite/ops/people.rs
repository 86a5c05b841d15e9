//! Who comes, who goes, who leads.

use posthaste_core::address::InstanceId;
use posthaste_core::events::EventKind;
use posthaste_core::ledger::{EndPlan, ForgetPlan, JoinPlan, Ledger};
use posthaste_core::ports::{Ending, StoreError, Ticket};
use posthaste_core::registry::{Instance, Joined, NewInstance, RegistryError, Team, TokenHash};
use posthaste_core::time::Timestamp;
use rusqlite::params;
use tokio::sync::oneshot;

use super::append::write_message;
use super::settle::write_settled;
use super::work::write_work;
use crate::sqlite::writer::{Db, Op};

pub(super) fn unavailable(failure: &StoreError) -> RegistryError {
    RegistryError::Unavailable(failure.to_string())
}

pub(crate) struct Join {
    new: NewInstance,
    plan: Result<JoinPlan, RegistryError>,
    tx: oneshot::Sender<Result<Joined, RegistryError>>,
}

impl Join {
    pub(crate) fn new(
        new: NewInstance,
        tx: oneshot::Sender<Result<Joined, RegistryError>>,
    ) -> Self {
        Self { new, plan: Err(RegistryError::Ended(String::new())), tx }
    }
}

impl Op for Join {
    fn is_early(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_join(self.new.clone(), now, rand::random);
        self.plan.is_ok()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        match &self.plan {
            Ok(plan) => write_arrival(db, plan, EventKind::Joined),
            Err(_) => Ok(()),
        }
    }

    fn commit(&mut self, _: &mut Ledger, _: &mut Vec<Ticket>) {}

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

pub(crate) struct End {
    who: InstanceId,
    ending: Ending,
    plan: Result<EndPlan, RegistryError>,
    tx: oneshot::Sender<Result<Instance, RegistryError>>,
}

impl End {
    pub(crate) fn new(
        who: InstanceId,
        ending: Ending,
        tx: oneshot::Sender<Result<Instance, RegistryError>>,
    ) -> Self {
        Self { who, ending, plan: Err(RegistryError::Ended(String::new())), tx }
    }
}

impl Op for End {
    fn looks_at_all(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_end(self.who, &self.ending, now, rand::random);
        self.plan.is_ok()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        match &self.plan {
            Ok(plan) => write_end(db, plan),
            Err(_) => Ok(()),
        }
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

/// Ends all at once who are gone and have nothing to lose.
pub(crate) struct ForgetGone {
    before: Timestamp,
    plan: ForgetPlan,
    tx: oneshot::Sender<Result<Vec<Instance>, RegistryError>>,
}

impl ForgetGone {
    pub(crate) fn new(
        before: Timestamp,
        tx: oneshot::Sender<Result<Vec<Instance>, RegistryError>>,
    ) -> Self {
        Self { before, plan: ForgetPlan::default(), tx }
    }
}

impl Op for ForgetGone {
    fn looks_at_all(&self) -> bool {
        true
    }

    fn plan(&mut self, ledger: &mut Ledger, now: Timestamp) -> bool {
        self.plan = ledger.plan_forget(self.before, now, rand::random);
        !self.plan.ends.is_empty()
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        self.plan.ends.iter().try_for_each(|end| write_end(db, end))
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

fn write_end(db: &mut Db<'_>, plan: &EndPlan) -> rusqlite::Result<()> {
    db.connection.execute(
        "UPDATE instances SET status = ?2, ended_at = ?3 WHERE id = ?1",
        params![plan.instance.id.0, plan.instance.status.as_str(), plan.at.0],
    )?;
    db.connection.execute("DELETE FROM tokens WHERE instance = ?1", params![plan.instance.id.0])?;
    if let Some(work) = &plan.instance.work {
        write_work(db, plan.instance.id, work)?;
    }
    // The report is there before anybody can see the end.
    for report in &plan.reports {
        write_message(db, report)?;
    }
    db.events.instance(EventKind::Ended, plan.instance.id);
    write_settled(db, &plan.settled, plan.at)
}

pub(crate) struct PutTeam {
    team: Team,
    before: Option<Team>,
    tx: oneshot::Sender<Result<(), RegistryError>>,
}

impl PutTeam {
    pub(crate) fn new(team: Team, tx: oneshot::Sender<Result<(), RegistryError>>) -> Self {
        Self { team, before: None, tx }
    }
}

impl Op for PutTeam {
    fn plan(&mut self, ledger: &mut Ledger, _: Timestamp) -> bool {
        self.before = ledger.put_team(self.team.clone());
        true
    }

    fn write(&mut self, db: &mut Db<'_>) -> rusqlite::Result<()> {
        let leaders: Vec<String> = self.team.leaders.iter().map(ToString::to_string).collect();
        db.connection.execute(
            "INSERT INTO teams (name, leaders) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET leaders = excluded.leaders",
            params![self.team.name.as_str(), leaders.join(" ")],
        )?;
        db.events.named(EventKind::Team, self.team.name.as_str());
        Ok(())
    }

    fn commit(&mut self, _: &mut Ledger, _: &mut Vec<Ticket>) {}

    fn undo(&mut self, ledger: &mut Ledger) {
        ledger.undo_put_team(&self.team.name, self.before.take());
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let _ = self.tx.send(failure.map_or(Ok(()), |f| Err(unavailable(&f))));
    }
}

/// Somebody new, and the name and team that it is the first of.
pub(super) fn write_arrival(
    db: &mut Db<'_>,
    plan: &JoinPlan,
    event: EventKind,
) -> rusqlite::Result<()> {
    let i = &plan.instance;
    if let Some((name, kind)) = &plan.new_profile {
        db.connection.execute(
            "INSERT INTO profiles (name, description, kind, system_prompt, tags, config, source, \
             version, created_at, updated_at) \
             VALUES (?1, '', ?2, '', '[]', '{}', 'join', 1, ?3, ?3)",
            params![name.as_str(), kind.as_str(), i.last_seen.0],
        )?;
    }
    if let Some(name) = &plan.new_team {
        db.connection
            .execute("INSERT INTO teams (name, leaders) VALUES (?1, '')", params![name.as_str()])?;
    }
    db.connection.execute(
        "INSERT INTO instances (id, agent, team, kind, label, parent, thread, join_key, status, \
         created_at, last_seen, secret, origin) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
         ON CONFLICT (id) DO UPDATE SET status = excluded.status, \
         last_seen = max(last_seen, excluded.last_seen), secret = excluded.secret",
        params![
            i.id.0,
            i.agent.as_str(),
            i.team.as_str(),
            i.kind.as_str(),
            i.label,
            i.parent.map(|p| p.0),
            i.thread.0,
            i.key,
            i.status.as_str(),
            i.created_at.0,
            i.last_seen.0,
            i.secret,
            i.origin.as_str()
        ],
    )?;
    if let Some(token) = plan.token {
        write_token(db, token, i.id, &plan.dropped)?;
    }
    db.events.instance(event, i.id);
    Ok(())
}

/// A token more; the oldest made room.
pub(super) fn write_token(
    db: &Db<'_>,
    token: TokenHash,
    of: InstanceId,
    dropped: &[TokenHash],
) -> rusqlite::Result<()> {
    for token in dropped {
        db.connection.execute("DELETE FROM tokens WHERE hash = ?1", params![token])?;
    }
    db.connection
        .execute("INSERT INTO tokens (hash, instance) VALUES (?1, ?2)", params![token, of.0])
        .map(drop)
}
