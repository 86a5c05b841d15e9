//! Instances, teams, profiles, assignments and needs that change.

use std::sync::Arc;

use posthaste_core::address::{InstanceId, Name};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::needs::{Asked, Asker, Closed, Need, NeedId, NeedKind, Outcome, Remembered};
use posthaste_core::orchestration::{Assignment, Report};
use posthaste_core::ports::change::Change;
use posthaste_core::profiles::{Profile, Source, Template};
use posthaste_core::registry::{AgentKind, Instance, Leader, Status, Team, Work};
use posthaste_core::time::Timestamp;

use super::World;
use crate::rig::{instance, minutes_after, name};

impl World {
    /// Somebody new, or again; ids of the ended are not given before they are forgotten.
    pub(super) fn arrive(&mut self) -> Option<Change> {
        let id = self.dice.small(12);
        let secret = self.dice.one_in(2).then(|| [self.dice.small(9) as u8; 32]);
        let mut new = self.known.get(&id).cloned().unwrap_or_else(|| {
            // Nobody is made twice at the same moment.
            let created_at = Timestamp(self.now.0 + i64::from(id));
            let work =
                id.is_multiple_of(3).then(|| Work { worktree: true, ..Work::default() }.into());
            let status = if work.is_some() { Status::Starting } else { Status::Running };
            Instance { work, status, ..instance(id, created_at) }
        });
        if new.ended_at.is_some() {
            return None;
        }
        (new.secret, new.last_seen) = (secret, new.last_seen.max(self.now));
        self.known.insert(id, new.clone());
        Some(Change::InstanceAdded(new.into()))
    }

    fn someone(&mut self) -> Option<Instance> {
        let lives = |i: &&Instance| i.ended_at.is_none();
        let all: Vec<u32> = self.known.values().filter(lives).map(|i| i.id.0).collect();
        self.dice.pick(&all).and_then(|id| self.known.get(&id).cloned())
    }

    pub(super) fn start(&mut self) -> Option<Change> {
        let mut started = self.someone()?;
        let began = Work {
            directory: Some(format!("/tmp/{}", self.dice.below(9))),
            started_at: Some(self.now),
            ..Work::default()
        };
        started.work = Some(began.into());
        (started.status, started.last_seen) = (Status::Running, started.last_seen.max(self.now));
        self.known.insert(started.id.0, started.clone());
        Some(Change::InstanceStarted(started.into()))
    }

    pub(super) fn end(&mut self) -> Option<Change> {
        let mut ended = self.someone()?;
        (ended.status, ended.ended_at) = (Status::Finished, Some(self.now));
        if let Some(work) = &ended.work {
            ended.work = Some(Work { exit_code: Some(1), ..(**work).clone() }.into());
        }
        self.known.get_mut(&ended.id.0)?.ended_at = ended.ended_at;
        Some(Change::InstanceEnded(ended.into()))
    }

    pub(super) fn note(&mut self) -> Option<Change> {
        let someone = self.someone()?;
        let record: std::sync::Arc<str> = format!("record {}", self.dice.below(9)).into();
        if let Some(work) = &someone.work {
            let mut noted = Work::clone(work);
            noted.terms.get_or_insert_default().record = Some(record.to_string());
            self.known.get_mut(&someone.id.0)?.work = Some(noted.into());
        }
        Some(Change::RecordWritten { worker: someone.id, record })
    }

    pub(super) fn see(&mut self) -> Option<Change> {
        let id = self.someone()?.id;
        let at = minutes_after(self.now, -self.dice.minutes(20));
        let status = if self.dice.one_in(3) { Status::Lost } else { Status::Running };
        let known = self.known.get_mut(&id.0)?;
        (known.last_seen, known.status) = (known.last_seen.max(at), status);
        Some(Change::InstanceSeen { id, at, status })
    }

    pub(super) fn token(&mut self) -> Option<Change> {
        if self.dice.one_in(3) && !self.tokens.is_empty() {
            let at = self.dice.index(self.tokens.len());
            return Some(Change::TokenRemoved(self.tokens.swap_remove(at)));
        }
        let of = self.someone()?.id;
        let mut token = [0; 32];
        token[..8].copy_from_slice(&self.dice.next().to_be_bytes());
        self.tokens.push(token);
        Some(Change::TokenAdded { token, of })
    }

    pub(super) fn team(&mut self) -> Change {
        let team = name(&format!("team-{}", self.dice.below(6)));
        let leaders = vec![Leader::Name(name("mason")), Leader::Instance(InstanceId(3))];
        match self.teams.insert(team.clone()) {
            true => Change::TeamAdded(team),
            false => Change::TeamWritten(Team { name: team, leaders }),
        }
    }

    pub(super) fn profile(&mut self) -> Change {
        let name = name(&format!("agent-{}", self.dice.below(60)));
        let before = self.profiles.get(&name);
        let (version, created_at) = before.map_or((1, self.now), |p| (p.version + 1, p.created_at));
        let mut template = Template::new(name.clone(), AgentKind::External);
        template.title = self.dice.one_in(2).then(|| format!("The {}", self.dice.text(3)));
        template.description = self.dice.text(20);
        template.tags = (0..self.dice.below(4)).map(|_| self.dice.text(2)).collect();
        template.system_prompt = self.dice.text(30);
        let source = if self.dice.one_in(3) { Source::Join } else { Source::Api };
        let profile = Profile { template, source, version, created_at, updated_at: self.now };
        self.profiles.insert(name, profile.clone());
        Change::ProfileWritten(profile.into())
    }

    pub(super) fn remove_profile(&mut self) -> Option<Change> {
        let names: Vec<Name> = self.profiles.keys().cloned().collect();
        let name = self.dice.pick(&names)?;
        self.profiles.remove(&name);
        Some(Change::ProfileRemoved(name))
    }

    pub(super) fn assign(&mut self) -> Option<Change> {
        let all = self.messages.keys().filter(|seq| !self.assigned.contains(seq));
        let kept: Vec<u64> = all.copied().collect();
        let task = self.dice.pick(&kept)?;
        self.assigned.insert(task);
        self.tasks.insert(task);
        Some(Change::AssignmentOpened(Assignment {
            task: Seq(task),
            worker: InstanceId(self.dice.small(12)),
            by: self.reader(),
            label: self.dice.one_in(2).then(|| "a label".into()),
            opened_at: self.now,
            report: None,
        }))
    }

    pub(super) fn report(&mut self) -> Option<Change> {
        let tasks: Vec<u64> = self.tasks.iter().copied().collect();
        let task = self.dice.pick(&tasks)?;
        let numbers: Vec<u64> = self.deliveries.keys().copied().collect();
        let no = self.dice.pick(&numbers)?;
        let row = &self.deliveries[&no];
        self.tasks.remove(&task);
        let report = Report {
            seq: Seq(row.seq),
            delivery: DeliveryNo(no),
            mailbox: self.boxes[&row.at].clone(),
            at: self.now,
        };
        Some(Change::AssignmentSettled { task: Seq(task), report })
    }

    pub(super) fn need(&mut self) -> Change {
        self.need += 1;
        self.open_needs.insert(self.need);
        let (kind, _) = NeedKind::ALL[self.dice.index(4)];
        let instance = InstanceId(self.dice.small(12));
        let from = Asker { instance: Some(instance), address: format!("mason.{instance}").into() };
        let asked = Asked { request: format!("r-{}", self.need), subject: Some(self.dice.text(2)) };
        Change::NeedOpened(Arc::new(Need {
            blocking: self.dice.one_in(2),
            options: (0..self.dice.below(3)).map(|_| self.dice.text(2)).collect(),
            message: self.dice.one_in(2).then(|| Seq(1 + self.dice.below(99))),
            delivery: self.dice.one_in(4).then(|| DeliveryNo(self.dice.below(99))),
            asked: (kind == NeedKind::Permission).then_some(asked),
            ..Need::new(NeedId(self.need), kind, from, self.dice.text(9), self.now)
        }))
    }

    pub(super) fn close_need(&mut self) -> Option<Change> {
        let open: Vec<u64> = self.open_needs.iter().copied().collect();
        let id = self.dice.pick(&open)?;
        self.open_needs.remove(&id);
        let (outcome, _) = Outcome::ALL[self.dice.index(8)];
        let text = self.dice.one_in(2).then(|| self.dice.text(5));
        let message = self.dice.one_in(3).then(|| Seq(1 + self.dice.below(99)));
        let closed = Closed { text, message, ..Closed::new(outcome, self.now) };
        Some(Change::NeedClosed { id: NeedId(id), closed })
    }

    pub(super) fn verdict(&mut self) -> Change {
        let profile = name(&format!("agent-{}", self.dice.below(4)));
        let subject = format!("Tool({})", self.dice.below(4));
        let (allow, at) = (self.dice.one_in(2), self.now);
        match self.dice.one_in(3) {
            true => Change::VerdictForgotten { profile, subject },
            false => Change::VerdictRemembered(Remembered { profile, subject, allow, at }),
        }
    }
}
