//! Instances and teams: joining, signs of life, the end.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::append::AppendPlan;
use super::needs::NeedsPlan;
use super::settle::{End, Settled, dead, settled};
use super::{KnownProfile, Ledger, Queued};
use crate::address::{DEFAULT_TEAM, InstanceId, Mailbox, Name};
use crate::messaging::delivery::{DeliveryNo, DeliveryState, Proof, Reason};
use crate::messaging::message::{Principal, ThreadId};
use crate::ports::{Ending, Ticket};
use crate::profiles::Source;
use crate::registry::{
    AgentKind, Instance, InstanceFilter, InstanceView, Joined, NewInstance, RegistryError, Status,
    Team, TokenHash, Work, joined_hash, nearest,
};
use crate::time::Timestamp;

#[derive(Debug)]
pub struct JoinPlan {
    pub instance: Instance,
    /// `None` for a worker that has yet to start, and for an instance that has the token
    /// already.
    pub token: Option<TokenHash>,
    pub resumed: bool,
    pub new_profile: Option<(Name, AgentKind)>,
    pub new_team: Option<Name>,
    /// The oldest tokens, which make room for the new one.
    pub dropped: Vec<TokenHash>,
    before: Option<Instance>,
}

impl JoinPlan {
    pub fn joined(&self) -> Joined {
        let before = self.before.as_ref().and_then(|i| i.secret);
        let secret_kept = self.instance.secret.is_some() && before != self.instance.secret;
        Joined { instance: self.instance.clone(), resumed: self.resumed, secret_kept }
    }
}

/// The whole end of an instance.
#[derive(Debug)]
pub struct EndPlan {
    pub instance: Instance,
    pub at: Timestamp,
    pub settled: Vec<Settled>,
    /// Reports to the givers of its open assignments.
    pub reports: Vec<AppendPlan>,
    /// Its questions and requests, which nobody needs to answer any more.
    pub needs: NeedsPlan,
    before: Instance,
    tokens: VecDeque<TokenHash>,
    one_of: Vec<DeliveryNo>,
}

/// The ends of instances that are forgotten.
#[derive(Debug, Default)]
pub struct ForgetPlan {
    pub ends: Vec<EndPlan>,
}

impl Ledger {
    /// Creates an instance, or finds the one with the same key and secret. `dice` gives
    /// random numbers for ids.
    pub fn plan_join(
        &mut self,
        new: NewInstance,
        now: Timestamp,
        dice: impl FnMut() -> u32,
    ) -> Result<JoinPlan, RegistryError> {
        let (given, keyed) = (new.token, new.key.is_some());
        let mut plan = self.plan_arrival(new, None, now, dice)?;
        let token = match keyed {
            true => joined_hash(&given, plan.instance.id),
            false => given,
        };
        if self.tokens.get(&token) != Some(&plan.instance.id) {
            plan.dropped = self.add_token(token, plan.instance.id);
            plan.token = Some(token);
        }
        Ok(plan)
    }

    /// Does the same as `plan_join` without a token; `work` if the hub is to start the
    /// instance.
    pub(super) fn plan_arrival(
        &mut self,
        new: NewInstance,
        work: Option<Work>,
        now: Timestamp,
        mut dice: impl FnMut() -> u32,
    ) -> Result<JoinPlan, RegistryError> {
        if let Some(parent) = new.parent
            && self.instances.get(&parent).is_none_or(|p| p.status.has_ended())
        {
            let known: Vec<_> = self.instances.keys().map(InstanceId::to_string).collect();
            return Err(RegistryError::NotFound {
                what: "parent",
                name: parent.to_string(),
                nearest: nearest(&parent.to_string(), known.iter().map(String::as_str)),
            });
        }
        let team = match new.team {
            Some(team) => team,
            None => DEFAULT_TEAM.parse().map_err(|_| RegistryError::Invalid {
                field: "team",
                why: "the default team has no valid name".into(),
            })?,
        };
        self.fade(now);
        let before = match &new.key {
            Some(key) => self.owner_of_key(&new.agent, &team, key, now)?.cloned(),
            None => None,
        };
        let (key, secret) = new.key.map(|k| (k.key, k.secret)).unzip();
        let known_kind = self.profiles.get(&new.agent).map(|known| known.kind);
        let instance = match &before {
            Some(old) => {
                Instance { status: Status::Running, last_seen: now, secret, ..old.clone() }
            }
            None => {
                let id = loop {
                    let id = InstanceId(dice());
                    if !self.instances.contains_key(&id) {
                        break id;
                    }
                };
                let thread = loop {
                    let thread = ThreadId(dice());
                    if thread != ThreadId::OPERATOR && !self.threads.contains_key(&thread) {
                        break thread;
                    }
                };
                let kind = new.kind.or(known_kind).unwrap_or_default();
                Instance {
                    id,
                    address: format!("{}.{id}@{team}", new.agent).into(),
                    keys: Instance::keys(id, &new.agent, &team, kind),
                    agent: new.agent.clone(),
                    team: team.clone(),
                    kind,
                    origin: new.origin,
                    label: new.label,
                    parent: new.parent,
                    thread,
                    key,
                    secret,
                    status: if work.is_some() { Status::Starting } else { Status::Running },
                    created_at: now,
                    last_seen: now,
                    ended_at: None,
                    work: work.map(Arc::new),
                }
            }
        };
        let new_profile = known_kind.is_none().then_some((new.agent, instance.kind));
        let new_team = (!self.teams.contains_key(&team)).then_some(team);
        if let Some((name, kind)) = &new_profile {
            let known =
                KnownProfile { kind: *kind, version: 1, source: Source::Join, created_at: now };
            self.profiles.insert(name.clone(), known);
        }
        if let Some(name) = &new_team {
            self.teams.insert(name.clone(), Team { name: name.clone(), leaders: Vec::new() });
        }
        self.add_instance(instance.clone());
        self.lives_on(instance.id, now);
        Ok(JoinPlan {
            resumed: before.is_some(),
            instance,
            token: None,
            new_profile,
            new_team,
            dropped: Vec::new(),
            before,
        })
    }

    pub fn undo_join(&mut self, plan: &JoinPlan) {
        if let Some(token) = plan.token {
            self.take_token(token, plan.instance.id, &plan.dropped);
        }
        match &plan.before {
            Some(before) => self.add_instance(before.clone()),
            None => self.remove_instance(&plan.instance),
        }
        if let Some((name, _)) = &plan.new_profile {
            self.profiles.remove(name);
        }
        if let Some(name) = &plan.new_team {
            self.teams.remove(name);
        }
    }

    /// Takes everything that the instance's end settles: deliveries in its own mailbox
    /// are acked if `acked` lists them, else they die; one-of mail that it holds goes
    /// back.
    pub fn plan_end(
        &mut self,
        id: InstanceId,
        ending: &Ending,
        now: Timestamp,
    ) -> Result<EndPlan, RegistryError> {
        let Ending { status, acked, .. } = ending;
        let before = self.living(id)?;
        let me = Principal::Instance(id);
        let own = Mailbox::Instance(id);
        let mut list: Vec<Settled> = Vec::new();
        for (answer, delivery) in acked {
            let proved = |state: DeliveryState, _: &Queued| state.ack(me, Some(*answer), false);
            if let Ok(out) = self.settle_in(&own, *delivery, proved) {
                list.push(settled(out, Some(me), End::Acked(Proof::End)));
            }
        }
        let mut one_of = self.one_of_held_by(me);
        one_of.retain(|d| !list.iter().any(|settled| settled.delivery == *d));
        let mut exact: Vec<DeliveryNo> = self.held_by(me);
        exact.retain(|d| !one_of.contains(d));
        if let Some(no) = self.mailbox_no(&own) {
            exact.extend(self.queues[no as usize].all().map(|e| e.delivery));
        }
        for delivery in exact {
            let gone = |state: DeliveryState, _: &Queued| state.die_held(me);
            if let Ok(out) = self.settle_in(&own, delivery, gone) {
                list.push(dead(out, Reason::RecipientGone));
            }
        }
        let work = before.work.as_ref().map(|work| {
            let (exit_code, why) = (ending.code, ending.why.clone());
            Arc::new(Work { exit_code, why, ..(**work).clone() })
        });
        let instance = Instance { status: *status, ended_at: Some(now), work, ..before.clone() };
        self.instances.insert(id, instance.clone());
        self.count_holder(me);
        // The givers of its work hear of its end in the same commit.
        let reports = self.plan_last_reports(&instance, ending, now);
        let needs = self.withdraw_needs(id, now);
        let tokens = self.token_lists.remove(&id).unwrap_or_default();
        for token in &tokens {
            self.tokens.remove(token);
        }
        Ok(EndPlan { instance, at: now, settled: list, reports, needs, before, tokens, one_of })
    }

    pub fn commit_end(&mut self, plan: &EndPlan, tickets: &mut Vec<Ticket>) {
        for settled in &plan.settled {
            self.close_delivery(settled);
        }
        let me = Principal::Instance(plan.instance.id);
        tickets.extend(self.give_back(me, &plan.one_of, None, false));
        for report in &plan.reports {
            self.commit_append(report, tickets);
        }
        self.commit_needs(&plan.needs);
        self.forget_requests(plan.instance.id);
        if plan.instance.work.is_some() {
            self.tally.ended(plan.instance.status);
        }
    }

    pub fn undo_end(&mut self, plan: &EndPlan) {
        self.undo_needs(&plan.needs);
        for report in plan.reports.iter().rev() {
            self.undo_append(report);
        }
        self.unsettle(&plan.settled);
        self.instances.insert(plan.before.id, plan.before.clone());
        self.count_holder(Principal::Instance(plan.before.id));
        for token in &plan.tokens {
            self.tokens.insert(*token, plan.before.id);
        }
        self.token_lists.insert(plan.before.id, plan.tokens.clone());
    }

    /// Ends every instance that is away or lost, showed no sign of life since `before`,
    /// and has neither mail nor open work nor a question that the operator may answer.
    pub fn plan_forget(&mut self, before: Timestamp, now: Timestamp) -> ForgetPlan {
        self.fade(now);
        let here = self.instances.values().filter(|i| !i.status.has_ended());
        let parents: HashSet<InstanceId> = here.filter_map(|i| i.parent).collect();
        let gone = |i: &&Instance| {
            matches!(self.shown(i), Status::Away | Status::Lost)
                && i.last_seen <= before
                && self.unread_of(Principal::Instance(i.id)).0 == 0
                && !self.has_open_work(i.id)
                && !self.asks_operator(i.id)
                && !parents.contains(&i.id)
        };
        let gone: Vec<InstanceId> = self.instances.values().filter(gone).map(|i| i.id).collect();
        let ending = Ending::plain(Status::Stopped, Vec::new());
        let plans = gone.into_iter().map(|id| self.plan_end(id, &ending, now));
        ForgetPlan { ends: plans.filter_map(Result::ok).collect() }
    }

    /// Writes the team, and returns the earlier one for an undo.
    pub fn put_team(&mut self, team: Team) -> Option<Team> {
        self.teams.insert(team.name.clone(), team)
    }

    pub fn undo_put_team(&mut self, name: &Name, before: Option<Team>) {
        match before {
            Some(team) => self.teams.insert(name.clone(), team),
            None => self.teams.remove(name),
        };
    }

    pub fn caller(&self, token: &TokenHash) -> Option<Principal> {
        self.tokens.get(token).map(|id| Principal::Instance(*id))
    }

    /// Counts a call as a sign of life.
    pub fn seen(&mut self, who: Principal, now: Timestamp) {
        self.shows_life(who, now);
        self.called(who, now);
    }

    pub(super) fn shows_life(&mut self, who: Principal, now: Timestamp) {
        let Some(instance) = who.instance().and_then(|id| self.instances.get_mut(&id)) else {
            return;
        };
        if instance.status.has_ended() {
            return;
        }
        let was_lost = instance.status == Status::Lost;
        if was_lost {
            instance.status = Status::Running;
        }
        instance.last_seen = now;
        let id = instance.id;
        self.unsaved_signs.insert(id);
        self.lives_on(id, now);
        if was_lost {
            self.count_holder(who);
        }
    }

    /// Marks instances lost that showed no sign of life since `before`, and returns the
    /// one-of mail that they hold. Mail of their own mailboxes is not returned.
    pub fn lose(&mut self, before: Timestamp) -> (Vec<InstanceId>, Vec<Ticket>) {
        // A worker's process is its sign of life; the process's owner tells of its end.
        let silent =
            |i: &&Instance| i.status == Status::Running && i.last_seen < before && i.work.is_none();
        let lost: Vec<_> = self.instances.values().filter(silent).map(|i| i.id).collect();
        let mut tickets = Vec::new();
        for id in &lost {
            if let Some(instance) = self.instances.get_mut(id) {
                instance.status = Status::Lost;
                self.unsaved_signs.insert(*id);
            }
            let me = Principal::Instance(*id);
            self.count_holder(me);
            let held = self.one_of_held_by(me);
            tickets.extend(self.give_back(me, &held, None, false));
        }
        (lost, tickets)
    }

    /// Takes the signs of life since the last call, for the store to write.
    pub fn take_signs(&mut self) -> Vec<(InstanceId, Timestamp, Status)> {
        let ids = std::mem::take(&mut self.unsaved_signs);
        let of = |id| self.instances.get(&id).map(|i| (i.id, i.last_seen, i.status));
        ids.into_iter().filter_map(of).filter(|(_, _, status)| !status.has_ended()).collect()
    }

    /// Forgets instances that ended before `before`; their mail died with them.
    pub fn forget_ended(&mut self, before: Timestamp) -> usize {
        let old = |i: &&Instance| i.ended_at.is_some_and(|at| at < before);
        let ended: Vec<Instance> = self.instances.values().filter(old).cloned().collect();
        ended.iter().for_each(|i| self.remove_instance(i));
        ended.len()
    }

    pub fn instance(&self, id: InstanceId) -> Option<InstanceView> {
        self.instances.get(&id).map(|i| self.view(i))
    }

    pub fn instances(&self, filter: &InstanceFilter) -> Vec<InstanceView> {
        let wanted = |i: &&Instance| {
            filter.agent.as_ref().is_none_or(|a| i.agent == *a)
                && filter.team.as_ref().is_none_or(|t| i.team == *t)
                && (filter.statuses.is_empty() || filter.statuses.contains(&self.shown(i)))
                && filter.parent.is_none_or(|parent| i.parent == Some(parent))
                && filter.after.is_none_or(|after| i.id > after)
                && filter.session.is_none_or(|top| self.session(i.id) == top)
        };
        self.instances.values().filter(wanted).take(filter.limit).map(|i| self.view(i)).collect()
    }

    pub fn team(&self, name: &Name) -> Option<(Team, Vec<Instance>)> {
        let team = self.teams.get(name)?.clone();
        let here = |i: &&Instance| i.team == *name && !i.status.has_ended();
        Some((team, self.instances.values().filter(here).map(|i| self.as_shown(i)).collect()))
    }

    pub fn team_names(&self) -> Vec<Name> {
        self.teams.keys().cloned().collect()
    }

    /// Returns the instance if it has not ended.
    pub(super) fn living(&self, id: InstanceId) -> Result<Instance, RegistryError> {
        match self.instances.get(&id) {
            None => Err(RegistryError::NotFound {
                what: "instance",
                name: id.to_string(),
                nearest: Vec::new(),
            }),
            Some(gone) if gone.status.has_ended() => {
                Err(RegistryError::Ended(gone.address.to_string()))
            }
            Some(here) => Ok(here.clone()),
        }
    }

    fn view(&self, instance: &Instance) -> InstanceView {
        let (unread, unread_shared) = self.unread_of(Principal::Instance(instance.id));
        let called_at = self.called_at(instance);
        InstanceView { unread, unread_shared, called_at, instance: self.as_shown(instance) }
    }

    pub(super) fn add_instance(&mut self, instance: Instance) {
        self.named.entry(instance.agent.clone()).or_default().insert(instance.id);
        self.index_key(&instance);
        self.threads.insert(instance.thread, instance.id);
        let id = instance.id;
        self.instances.insert(id, instance);
        self.count_holder(Principal::Instance(id));
    }

    fn remove_instance(&mut self, instance: &Instance) {
        if let Some(ids) = self.named.get_mut(&instance.agent) {
            ids.remove(&instance.id);
        }
        self.unindex_key(instance);
        self.token_lists.remove(&instance.id);
        self.uncount_holder(instance);
        self.threads.remove(&instance.thread);
        self.instances.remove(&instance.id);
    }

    /// Undoes `add_token`: the dropped tokens are valid again.
    pub(super) fn take_token(&mut self, token: TokenHash, of: InstanceId, dropped: &[TokenHash]) {
        self.tokens.remove(&token);
        if let Some(list) = self.token_lists.get_mut(&of) {
            list.retain(|t| *t != token);
            for token in dropped.iter().rev() {
                list.push_front(*token);
                self.tokens.insert(*token, of);
            }
        }
    }

    /// Adds a token, and returns the oldest tokens, which had to make room.
    pub(super) fn add_token(&mut self, token: TokenHash, of: InstanceId) -> Vec<TokenHash> {
        self.tokens.insert(token, of);
        let list = self.token_lists.entry(of).or_default();
        list.push_back(token);
        let mut dropped = Vec::new();
        while list.len() > self.limits.tokens.max(1) {
            dropped.extend(list.pop_front());
        }
        for token in &dropped {
            self.tokens.remove(token);
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::registry::Origin;

    #[test]
    fn a_newcomer_gets_an_id_and_a_thread_that_nobody_has() {
        let mut ledger = Ledger::new(Limits::default());
        // The second join rolls the ids of the first, and the operator's thread.
        let mut rolls = [7, 5, 7, 8, 0, 5, 6].into_iter();
        let mut join = || {
            let new = NewInstance {
                agent: "mason".parse().expect("a name"),
                team: None,
                label: None,
                parent: None,
                kind: None,
                key: None,
                origin: Origin::Operator,
                token: [1; 32],
            };
            let roll = || rolls.next().expect("another roll");
            let plan = ledger.plan_join(new, Timestamp(0), roll).expect("joined");
            (plan.instance.id, plan.instance.thread)
        };
        assert_eq!(join(), (InstanceId(7), ThreadId(5)));
        assert_eq!(join(), (InstanceId(8), ThreadId(6)));
    }
}
