//! Assignments, the line of workers that wait to start, and reports.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::append::AppendPlan;
use super::keys::{KeyDigest, KeyLook, KeyMark};
use super::people::JoinPlan;
use super::policy::Before;
use super::{BoxNo, Ledger};
use crate::Map;
use crate::address::{Address, InstanceId, Mailbox, Name};
use crate::messaging::delivery::{DeliveryNo, DeliveryState};
use crate::messaging::message::{Draft, Kind, Message, Principal, Sender, SenderKind, Seq, Via};
use crate::messaging::send::SendError;
use crate::orchestration::{AssignError, Assignment, Report, ReportState};
use crate::ports::{Ending, Given, Hire, Hired, Opening, Ticket};
use crate::registry::{
    Instance, NewInstance, Origin, RegistryError, Status, Terms, TokenHash, Work, nearest,
};
use crate::time::Timestamp;

/// Open assignments, and settled ones about which a giver may still ask.
#[derive(Debug, Clone, Default)]
pub(super) struct Assignments {
    all: BTreeMap<Seq, Tracked>,
    by: Map<Principal, BTreeSet<Seq>>,
    of: Map<InstanceId, BTreeSet<Seq>>,
    /// The first task of each giver's round.
    rounds: Map<Principal, Seq>,
    /// Tasks whose giver waits for the report in a call, and the number of such calls.
    awaited: Map<Seq, usize>,
}

#[derive(Debug, Clone)]
struct Tracked {
    assignment: Assignment,
    /// The task waits for its commit: no reader can lease it yet.
    opening: bool,
    /// The report waits for its commit.
    settling: bool,
    /// The report died before a reader was shown it.
    lost: bool,
    /// The report cannot be read.
    unreadable: bool,
}

impl Tracked {
    fn is_open(&self) -> bool {
        !self.settling && self.assignment.report.is_none()
    }
}

impl Assignments {
    pub(super) fn add(&mut self, assignment: Assignment, opening: bool) {
        let task = assignment.task;
        self.by.entry(assignment.by).or_default().insert(task);
        self.of.entry(assignment.worker).or_default().insert(task);
        self.all.insert(
            task,
            Tracked { assignment, opening, settling: false, lost: false, unreadable: false },
        );
    }

    fn remove(&mut self, task: Seq) {
        let Some(Tracked { assignment, .. }) = self.all.remove(&task) else { return };
        if let Some(list) = self.by.get_mut(&assignment.by) {
            list.remove(&task);
            if list.is_empty() {
                self.by.remove(&assignment.by);
                self.rounds.remove(&assignment.by);
            }
        }
        if let Some(list) = self.of.get_mut(&assignment.worker) {
            list.remove(&task);
            if list.is_empty() {
                self.of.remove(&assignment.worker);
            }
        }
    }

    fn of(&self, worker: InstanceId) -> impl Iterator<Item = &Tracked> {
        self.of.get(&worker).into_iter().flatten().filter_map(|task| self.all.get(task))
    }
}

/// The decision about a request for a worker.
#[derive(Debug)]
pub enum PlannedHire {
    New(Box<HirePlan>),
    /// The key was accepted before, for this task.
    Duplicate(Seq),
    /// The key may have been accepted before: the store must be asked.
    Unsure(KeyMark),
}

/// A worker and its task, before their commit.
#[derive(Debug)]
pub struct HirePlan {
    /// `None` if the worker was here already.
    pub join: Option<JoinPlan>,
    pub task: AppendPlan,
    pub assignment: Assignment,
    instance: Instance,
}

impl HirePlan {
    pub fn hired(&self) -> Hired {
        let (instance, task) = (self.instance.clone(), self.assignment.task);
        Hired { instance, task, duplicate: false }
    }
}

/// A worker that begins to run, before its commit.
#[derive(Debug)]
pub struct BeginPlan {
    pub instance: Instance,
    pub token: TokenHash,
    pub dropped: Vec<TokenHash>,
    before: Instance,
}

impl Ledger {
    /// Decides about a request for a worker: whether its key was accepted before, which
    /// instance gets the task, whether there is room in line. `dice` gives random numbers
    /// for ids.
    pub fn plan_hire(
        &mut self,
        hire: Hire,
        now: Timestamp,
        dice: impl FnMut() -> u32,
    ) -> Result<PlannedHire, AssignError> {
        self.fade(now);
        let Hire { mut draft, agent, team, work, worker, line, depth } = hire;
        let by = draft.from;
        let key = KeyDigest::of(&draft);
        match key.map(|digest| self.keys.look(digest, draft.key_is_new_since())) {
            Some(KeyLook::Known(seq)) => return Ok(PlannedHire::Duplicate(seq)),
            Some(KeyLook::Perhaps(mark)) => return Ok(PlannedHire::Unsure(mark)),
            Some(KeyLook::New) | None => {}
        }
        let from = self.sender(by)?;
        let team = team.or_else(|| self.instances.get(&by.instance()?).map(|i| i.team.clone()));
        let (join, worker) = match (work, worker) {
            (Some(work), _) => {
                let label = draft.details().label.clone();
                let opening = Opening { by, agent, team, label, work, line, depth };
                let plan = self.plan_open(opening, now, dice)?;
                let worker = plan.instance.clone();
                (Some(plan), worker)
            }
            (None, Some(id)) => (None, self.living(id)?),
            (None, None) => (None, self.idlest(by, &agent, team.as_ref())?.clone()),
        };
        let own = Mailbox::Instance(worker.id);
        draft.to = Address::Exact { name: None, instance: worker.id, team: None };
        let counted = match &join {
            // A new worker of the giver's own is under the limits of the line.
            Some(_) => Before::default(),
            None => {
                let (mailboxes, _) = self.with_room(&draft, vec![own.clone()])?;
                self.admit(&draft, &mailboxes, now)?
            }
        };
        let places = self.place(vec![own], draft.body().len());
        let (task, label) = (places.seq, draft.details().label.as_deref().map(Arc::from));
        if let Some(digest) = key {
            self.keys.plan(digest, task);
        }
        let thread = worker.thread;
        let message = draft.accept(task, self.id_key.id(task), from, thread, now);
        let mut plan = AppendPlan::decided(message, places, None);
        plan.key = key;
        plan.counted = counted;
        let assignment =
            Assignment { task, worker: worker.id, by, label, opened_at: now, report: None };
        self.begin_round(by, task);
        self.assignments.add(assignment.clone(), true);
        Ok(PlannedHire::New(Box::new(HirePlan { join, task: plan, assignment, instance: worker })))
    }

    /// Decides about a request for a worker without a task.
    pub fn plan_open(
        &mut self,
        opening: Opening,
        now: Timestamp,
        dice: impl FnMut() -> u32,
    ) -> Result<JoinPlan, AssignError> {
        let Opening { by, agent, team, label, work, line, depth } = opening;
        self.has_room(by, line, depth)?;
        self.may_hire(by, team.as_ref())?;
        let new = NewInstance {
            agent,
            team: team.or_else(|| self.instances.get(&by.instance()?).map(|i| i.team.clone())),
            label,
            parent: by.instance(),
            kind: None,
            key: None,
            origin: match by {
                Principal::Operator => Origin::Operator,
                Principal::Instance(_) => Origin::Assigned,
            },
            token: TokenHash::default(),
        };
        Ok(self.plan_arrival(new, Some(work), now, dice)?)
    }

    /// Replaces the record of a worker, also of one that has ended, and returns the worker
    /// as it was.
    pub fn put_record(
        &mut self,
        id: InstanceId,
        record: String,
    ) -> Result<Instance, RegistryError> {
        let missing = || RegistryError::NotFound {
            what: "worker",
            name: id.to_string(),
            nearest: Vec::new(),
        };
        let before = self.instances.get(&id).cloned().ok_or_else(missing)?;
        let work = before.work.as_deref().ok_or_else(missing)?;
        let terms = Terms { record: Some(record), ..work.terms.clone().unwrap_or_default() };
        let work = Some(Work { terms: Some(terms), ..work.clone() }.into());
        self.instances.insert(id, Instance { work, ..before.clone() });
        Ok(before)
    }

    /// Puts back the record that a failed commit did not keep.
    pub fn undo_put_record(&mut self, before: &Instance) {
        let Some(known) = self.instances.get_mut(&before.id) else { return };
        known.work.clone_from(&before.work);
    }

    pub fn commit_hire(&mut self, plan: &HirePlan, tickets: &mut Vec<Ticket>) {
        self.commit_append(&plan.task, tickets);
        if let Some(entry) = self.assignments.all.get_mut(&plan.assignment.task) {
            entry.opening = false;
        }
    }

    pub fn undo_hire(&mut self, plan: &HirePlan) {
        self.assignments.remove(plan.assignment.task);
        self.undo_append(&plan.task);
        if let Some(join) = &plan.join {
            self.undo_join(join);
        }
    }

    /// Begins a new round if no report is due or unread. One gather is about the tasks of
    /// one round.
    fn begin_round(&mut self, by: Principal, task: Seq) {
        let due = |g: &Given| matches!(g.report, ReportState::Open | ReportState::Waits(_));
        if !self.given(by, false).iter().any(due) {
            self.assignments.rounds.insert(by, task);
        }
    }

    /// Returns the first task of the giver's round. A restart forgets it: then the first
    /// task whose report is not read.
    fn round(&self, by: Principal) -> Option<Seq> {
        let known = self.assignments.rounds.get(&by).copied();
        known.or_else(|| {
            let mut tasks = self.assignments.by.get(&by)?.iter();
            let unread = |task: &&Seq| {
                let entry = self.assignments.all.get(task);
                entry.is_some_and(|entry| !self.report_state(entry).is_over())
            };
            tasks.find(unread).copied()
        })
    }

    /// Refuses a worker beyond the length of a session's line or the depth of a tree.
    fn has_room(&self, by: Principal, line: usize, depth: usize) -> Result<(), AssignError> {
        let mut above = by.instance();
        let mut level = 0;
        while let Some(instance) = above.and_then(|id| self.instances.get(&id)) {
            above = instance.parent;
            level += 1;
            if level > depth {
                return Err(AssignError::TooDeep { limit: depth });
            }
        }
        let session = by.instance().map_or(Principal::Operator, |id| self.session(id));
        let waits = |i: &&Instance| i.status == Status::Starting && self.session(i.id) == session;
        match self.instances.values().filter(waits).count() >= line {
            true => Err(AssignError::LineFull { limit: line }),
            false => Ok(()),
        }
    }

    /// Returns the idlest external instance: the living before the away; of these those
    /// with the least work, and of these the one that has been quiet the longest.
    fn idlest(
        &self,
        by: Principal,
        agent: &Name,
        team: Option<&Name>,
    ) -> Result<&Instance, AssignError> {
        let here = self.named.get(agent).into_iter().flatten();
        let here = here.filter_map(|id| self.instances.get(id)).filter(|i| {
            i.status == Status::Running
                && i.work.is_none()
                && by != Principal::Instance(i.id)
                && team.is_none_or(|team| i.team == *team)
        });
        let load = |i: &&Instance| {
            let open = self.assignments.of(i.id).filter(|entry| entry.is_open()).count();
            (!self.is_living(i), open, i.last_seen)
        };
        here.min_by_key(load).ok_or_else(|| AssignError::NobodyHere { name: agent.to_string() })
    }

    /// Plans that a worker runs from now on.
    pub fn plan_begin_work(
        &mut self,
        id: InstanceId,
        token: TokenHash,
        work: Work,
        now: Timestamp,
    ) -> Result<BeginPlan, RegistryError> {
        let before = self.living(id)?;
        // The record may have changed since the launch began.
        let terms = before.work.as_deref().and_then(|work| work.terms.clone());
        let started_at = work.started_at.or(Some(now));
        let work = Arc::new(Work { started_at, terms, ..work });
        let instance = Instance {
            status: Status::Running,
            last_seen: now,
            work: Some(work),
            ..before.clone()
        };
        self.instances.insert(id, instance.clone());
        self.count_holder(Principal::Instance(id));
        let dropped = self.add_token(token, id);
        Ok(BeginPlan { instance, token, dropped, before })
    }

    pub fn undo_begin_work(&mut self, plan: &BeginPlan) {
        self.take_token(plan.token, plan.before.id, &plan.dropped);
        self.instances.insert(plan.before.id, plan.before.clone());
        self.count_holder(Principal::Instance(plan.before.id));
    }

    /// Finds the assignment that a `result` to its giver settles: that of the task which
    /// the draft answers, else the oldest open one. Further results are marked late.
    pub(super) fn plan_report(&mut self, draft: &mut Draft, mailboxes: &[Mailbox]) -> Option<Seq> {
        let (Some(worker), [mailbox]) = (draft.from.instance(), mailboxes) else { return None };
        if draft.details().kind != Kind::RESULT {
            return None;
        }
        let own = |entry: &&Tracked| Mailbox::of(entry.assignment.by) == *mailbox;
        let mut given = self.assignments.of(worker).filter(own).peekable();
        given.peek()?;
        let open: Vec<Seq> =
            given.filter(|entry| entry.is_open()).map(|entry| entry.assignment.task).collect();
        let answered = draft.details().in_reply_to.filter(|seq| open.contains(seq));
        let Some(task) = answered.or_else(|| open.first().copied()) else {
            draft.comes_late();
            return None;
        };
        let entry = self.assignments.all.get_mut(&task)?;
        entry.settling = true;
        draft.reports_on(task, entry.assignment.label.as_deref());
        Some(task)
    }

    pub(super) fn commit_report(&mut self, task: Seq, report: Report) {
        let Some(entry) = self.assignments.all.get_mut(&task) else { return };
        entry.settling = false;
        entry.assignment.report = Some(report);
    }

    pub(super) fn undo_report(&mut self, task: Seq) {
        if let Some(entry) = self.assignments.all.get_mut(&task) {
            entry.settling = false;
        }
    }

    /// Makes one report for each open assignment of a worker that goes on living. A task
    /// that it has not had gets none: one of `unseen`, or one that waits in its mailbox.
    pub fn plan_reports(
        &mut self,
        id: InstanceId,
        answer: &str,
        unseen: &[Seq],
        now: Timestamp,
    ) -> Result<Vec<AppendPlan>, RegistryError> {
        let worker = self.living(id)?;
        let ending =
            Ending { answer: Some(answer.to_owned()), ..Ending::plain(worker.status, Vec::new()) };
        let queue = self.numbers.get(&Mailbox::Instance(id)).map(|no| &self.queues[*no as usize]);
        let waits = |task: Seq| queue.is_some_and(|queue| queue.of_message(task).is_some());
        let had = |task: &Seq| !unseen.contains(task) && !waits(*task);
        let open = self.open_tasks(id).into_iter().filter(had).collect();
        Ok(self.plan_reports_on(&worker, open, &ending, now))
    }

    /// Returns the tasks of a worker's open assignments.
    fn open_tasks(&self, worker: InstanceId) -> Vec<Seq> {
        let open = self.assignments.of(worker).filter(|entry| entry.is_open());
        open.map(|entry| entry.assignment.task).collect()
    }

    /// Makes one report for each assignment that is open when its worker ends: the
    /// worker's answer, or a failure.
    pub(super) fn plan_last_reports(
        &mut self,
        worker: &Instance,
        ending: &Ending,
        now: Timestamp,
    ) -> Vec<AppendPlan> {
        let open = self.open_tasks(worker.id);
        self.plan_reports_on(worker, open, ending, now)
    }

    fn plan_reports_on(
        &mut self,
        worker: &Instance,
        open: Vec<Seq>,
        ending: &Ending,
        now: Timestamp,
    ) -> Vec<AppendPlan> {
        let open = open.into_iter().filter_map(|task| self.assignments.all.get(&task));
        let open: Vec<Assignment> = open.map(|entry| entry.assignment.clone()).collect();
        let mut plans = Vec::with_capacity(open.len());
        for Assignment { task, by, label, .. } in open {
            let mailbox = self.survivor(by);
            let (kind, body) = match &ending.answer {
                Some(answer) => (Kind::RESULT, answer.clone()),
                None => (Kind::AGENT_FAILED, ending.obituary.clone()),
            };
            let kind_of_sender = match &ending.answer {
                Some(_) => SenderKind::Agent,
                None => SenderKind::System,
            };
            let (to, to_human) = (self.address_of(&mailbox), mailbox == Mailbox::Human);
            let places = self.place(vec![mailbox.clone()], body.len());
            let report = Report::of(places.seq, &places.copies, Some(mailbox), now);
            let id = self.id_key.id(places.seq);
            let from = Sender { kind: kind_of_sender, ..worker.sender() };
            let message = Message {
                thread: worker.thread,
                kind,
                label: label.as_deref().map(str::to_owned),
                in_reply_to: Some(task),
                ..Message::new(places.seq, id, from, to, body, now, Via::Hub)
            };
            if let Some(entry) = self.assignments.all.get_mut(&task) {
                entry.settling = true;
            }
            let needs = self.needs_of_message(&message, to_human && !ending.by_operator);
            let settles = report.map(|report| (task, report));
            let mut plan = AppendPlan::decided(message, places, settles);
            plan.needs = needs;
            plans.push(plan);
        }
        plans
    }

    /// Returns the mailbox that gets reports meant for this giver: its own, else that of
    /// the giver's own giver, and so on; at last the operator's.
    fn survivor(&self, by: Principal) -> Mailbox {
        let mut above = by.instance();
        while let Some(instance) = above.and_then(|id| self.instances.get(&id)) {
            if !instance.status.has_ended() {
                return Mailbox::Instance(instance.id);
            }
            above = instance.parent;
        }
        Mailbox::Human
    }

    fn address_of(&self, mailbox: &Mailbox) -> String {
        match mailbox {
            Mailbox::Instance(id) => id.to_string(),
            other => other.to_string(),
        }
    }

    /// Returns the assignments of the giver's round, open, settled and read.
    pub fn given_in_round(&self, by: Principal) -> Vec<Given> {
        let Some(first) = self.round(by) else { return Vec::new() };
        let tasks = self.assignments.by.get(&by).into_iter().flat_map(|tasks| tasks.range(first..));
        tasks.filter_map(|task| self.assignment(*task)).collect()
    }

    /// Returns the assignments of this giver that are not over; with `done`, all of them.
    pub fn given(&self, by: Principal, done: bool) -> Vec<Given> {
        let tasks = self.assignments.by.get(&by).into_iter().flatten();
        let given = tasks.filter_map(|task| self.assignment(*task));
        given.filter(|given| done || !given.report.is_over()).collect()
    }

    pub fn assignment(&self, task: Seq) -> Option<Given> {
        let entry = self.assignments.all.get(&task)?;
        let worker = self.instances.get(&entry.assignment.worker);
        let (address, status) = worker.map(|i| (Arc::clone(&i.address), self.shown(i))).unzip();
        let report = self.report_state(entry);
        Some(Given { assignment: entry.assignment.clone(), report, address, status })
    }

    fn report_state(&self, entry: &Tracked) -> ReportState {
        let Some(Report { seq, delivery, mailbox, .. }) = &entry.assignment.report else {
            return ReportState::Open;
        };
        if *mailbox != Mailbox::of(entry.assignment.by) {
            return ReportState::Lost(*seq);
        }
        if let Some(out) = self.out.get(delivery) {
            return match out.state {
                DeliveryState::Leased { .. } => ReportState::Handed(*seq),
                DeliveryState::Settling { .. } if entry.unreadable => ReportState::Unreadable(*seq),
                DeliveryState::Queued | DeliveryState::Settling { .. } => ReportState::Done(*seq),
            };
        }
        let queue = self.mailbox_no(mailbox).map(|no| &self.queues[no as usize]);
        match queue.is_some_and(|queue| queue.find(*delivery).is_some()) {
            true => ReportState::Waits(*seq),
            false if entry.unreadable => ReportState::Unreadable(*seq),
            false if entry.lost => ReportState::Lost(*seq),
            false => ReportState::Done(*seq),
        }
    }

    /// Marks a report as lost if its delivery died before a reader was shown it.
    pub(super) fn died_unseen(&mut self, at: BoxNo, delivery: DeliveryNo) {
        let by = match &self.queues[at as usize].mailbox {
            Mailbox::Human => Principal::Operator,
            Mailbox::Instance(id) => Principal::Instance(*id),
            _ => return,
        };
        let Assignments { all, by: givers, .. } = &mut self.assignments;
        for task in givers.get(&by).into_iter().flatten() {
            let Some(entry) = all.get_mut(task) else { continue };
            let reports = entry.assignment.report.as_ref();
            entry.lost |= reports.is_some_and(|report| report.delivery == delivery);
        }
    }

    /// Marks the reports among these deliveries as unreadable, or as readable again.
    pub fn mark_reports(&mut self, deliveries: &HashSet<DeliveryNo>, unreadable: bool) {
        for entry in self.assignments.all.values_mut() {
            let report = entry.assignment.report.as_ref();
            if report.is_some_and(|report| deliveries.contains(&report.delivery)) {
                entry.unreadable = unreadable;
            }
        }
    }

    /// Returns the reports in this giver's mailbox on work that it gave out.
    pub(super) fn waiting_reports(&self, by: Principal) -> impl Iterator<Item = &Report> {
        let own = Mailbox::of(by);
        let queue = self.mailbox_no(&own).map(|no| &self.queues[no as usize]);
        let tasks = self.assignments.by.get(&by).into_iter().flatten();
        let reports =
            tasks.filter_map(|task| self.assignments.all.get(task)?.assignment.report.as_ref());
        reports.filter(move |report| {
            report.mailbox == own && queue.is_some_and(|q| q.find(report.delivery).is_some())
        })
    }

    /// Notes that a call waits for the report on this task: no driver prompts the giver
    /// with it meanwhile.
    pub fn begin_to_await(&mut self, task: Seq) {
        *self.assignments.awaited.entry(task).or_default() += 1;
    }

    pub fn end_to_await(&mut self, task: Seq) {
        if let Some(calls) = self.assignments.awaited.get_mut(&task) {
            *calls -= 1;
            if *calls == 0 {
                self.assignments.awaited.remove(&task);
            }
        }
    }

    /// Returns the reports for which calls of this giver wait.
    pub(super) fn awaited_reports(&self, by: Principal) -> HashSet<DeliveryNo> {
        let Assignments { all, awaited, .. } = &self.assignments;
        let given = awaited.keys().filter_map(|task| Some(&all.get(task)?.assignment));
        let given = given.filter(|assignment| assignment.by == by);
        given.filter_map(|assignment| Some(assignment.report.as_ref()?.delivery)).collect()
    }

    /// Returns whether the instance has open work, or gave work out and has not acked the
    /// report.
    pub(super) fn has_open_work(&self, id: InstanceId) -> bool {
        self.assignments.of(id).any(Tracked::is_open)
            || !self.given(Principal::Instance(id), false).is_empty()
    }

    pub fn taken_on(&self, worker: InstanceId) -> Vec<Assignment> {
        self.assignments.of(worker).map(|entry| entry.assignment.clone()).collect()
    }

    /// Forgets assignments that were settled before `before`, and counts them.
    pub fn forget_assignments(&mut self, before: Timestamp) -> usize {
        let old =
            |entry: &&Tracked| entry.assignment.report.as_ref().is_some_and(|r| r.at < before);
        let old: Vec<Seq> =
            self.assignments.all.values().filter(old).map(|e| e.assignment.task).collect();
        old.iter().for_each(|task| self.assignments.remove(*task));
        old.len()
    }

    /// Returns the workers that wait to be started, in the order of their tasks.
    pub fn in_line(&self) -> Vec<Instance> {
        let waits = |i: &&Instance| {
            i.status == Status::Starting && !self.assignments.of(i.id).any(|entry| entry.opening)
        };
        let mut line: Vec<Instance> = self.instances.values().filter(waits).cloned().collect();
        let task = |i: &Instance| self.assignments.of.get(&i.id)?.first().copied();
        line.sort_by_key(task);
        line
    }

    /// Returns the workers of the hub that have not ended.
    pub fn at_work(&self) -> Vec<Instance> {
        let works = |i: &&Instance| i.work.is_some() && !i.status.has_ended();
        self.instances.values().filter(works).cloned().collect()
    }

    /// Returns the names of profiles that are nearest to an unknown one.
    pub fn nearest_profiles(&self, wanted: &str) -> Vec<String> {
        nearest(wanted, self.profiles.keys().map(Name::as_str))
    }
}

impl From<SendError> for AssignError {
    fn from(error: SendError) -> Self {
        Self::Send(error)
    }
}
