//! Waiting for everybody: when a gather is complete, and who is missing.
//!
//! A worker counts when its assignment is settled, so a failure counts, too, and
//! mail on the way does not; somebody without an assignment counts with the first
//! message. What is missing is judged when it is said, by what the answer holds.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::{Ask, BatchStatus, Missing, WaitFor};
use crate::Hub;
use crate::address::{Address, InstanceId};
use crate::messaging::message::{Principal, Seq};
use crate::messaging::proof::Door;
use crate::orchestration::Standing;
use crate::ports::{Given, Lease, Leased, Parts, Survey, is_called, is_from};

/// How soon a proof that is due is looked for.
const SOON: Duration = Duration::from_millis(50);

impl Hub {
    /// The reader's open tasks, and those whose reports wait, as the call begins.
    pub(super) fn owed(&self, ask: &Ask) -> Box<[Seq]> {
        // Nothing to weigh: see `look`.
        if ask.wait_for == WaitFor::Any && (ask.window.is_zero() || ask.timeout.is_zero()) {
            return Box::default();
        }
        let given = self.store.given(ask.reader, false);
        let awaited = |g: &Given| matches!(g.standing, Standing::Open | Standing::Waits(_));
        given.into_iter().filter(awaited).map(|g| g.assignment.task).collect()
    }

    pub(super) fn are_settled(&self, tasks: &[Seq]) -> bool {
        let settled =
            |task: &Seq| self.store.assignment(*task).is_none_or(|g| g.assignment.report.is_some());
        tasks.iter().all(settled)
    }

    /// Rings when somebody ends, for those who wait for somebody.
    pub(super) fn endings_for(&self, ask: &Ask) -> Option<Box<watch::Receiver<()>>> {
        let waits = ask.wait_for == WaitFor::All && !ask.filter.from.is_empty();
        waits.then(|| Box::new(self.endings.subscribe()))
    }

    /// Whether `who` names an instance that has ended: nothing of it is to come.
    fn has_gone(&self, who: &str) -> bool {
        let instance = exactly(who).and_then(|id| self.store.instance(id)).map(|v| v.instance);
        instance.is_some_and(|i| i.status.has_ended() && is_called(&i.address, who))
    }

    pub(super) fn is_met(&self, ask: &Ask, owed: &[Seq], survey: &Survey) -> bool {
        match ask.wait_for {
            WaitFor::Any => survey.waiting > 0,
            WaitFor::All if ask.filter.from.is_empty() => self.are_settled(owed),
            WaitFor::All => {
                let given = self.store.given(ask.reader, true);
                let senders: Vec<Parts<'_>> =
                    survey.senders.iter().map(|address| Parts::of(address)).collect();
                ask.filter.from.iter().all(|who| {
                    let mut of = given.iter().filter(|g| is_work_of(g, who)).peekable();
                    match of.peek() {
                        Some(_) => of.all(|g| g.assignment.report.is_some()),
                        None => has_sent(survey, &senders, who) || self.has_gone(who),
                    }
                })
            }
            WaitFor::Senders(n) => survey.senders.len() >= n,
        }
    }

    /// Reports that came along with earlier answers are proved by this very call, once
    /// it has lasted a little: until then a gather that is complete but for them waits.
    /// When to look again.
    pub(super) fn proved_soon(&self, ask: &Ask, deadline: Instant) -> Option<Instant> {
        if ask.door != Door::Mcp || ask.wait_for != WaitFor::All {
            return None;
        }
        let now = Instant::now();
        let until = (deadline - ask.timeout + self.limits.proof_grace + SOON * 4).min(deadline);
        let handed = |g: &Given| matches!(g.standing, Standing::Handed(_));
        let waits = now < until && self.store.given(ask.reader, false).iter().any(handed);
        waits.then(|| until.min(now + SOON))
    }

    /// `complete` is judged when it is said: by what the answer really holds.
    pub(super) fn judge(&self, ask: &Ask, lease: &Lease, met: bool) -> (BatchStatus, Vec<Missing>) {
        let mail = &lease.mail;
        let (missing, left) = match ask.wait_for {
            WaitFor::All => self.absent(ask.reader, &ask.filter.from, mail),
            WaitFor::Any | WaitFor::Senders(_) => (Vec::new(), false),
        };
        let status = match ask.wait_for {
            // A report that did not fit is still to come.
            WaitFor::All if left => BatchStatus::CallAgain,
            WaitFor::All if missing.is_empty() => BatchStatus::Complete,
            // No wait would bring the rest.
            WaitFor::All if met => BatchStatus::Partial,
            _ if mail.is_empty() => BatchStatus::Empty,
            WaitFor::Any => BatchStatus::Complete,
            WaitFor::Senders(_) if met && lease.remaining > lease.shared => BatchStatus::CallAgain,
            WaitFor::Senders(n) if senders(mail) >= n => BatchStatus::Complete,
            WaitFor::All | WaitFor::Senders(_) => BatchStatus::Partial,
        };
        (status, missing)
    }

    /// Who of those waited for is not in this mail, and whether a report was left
    /// behind for want of room.
    fn absent(&self, by: Principal, from: &[String], mail: &[Leased]) -> (Vec<Missing>, bool) {
        let here = |seq: Seq| mail.iter().any(|l| l.message.seq == seq);
        let mut missing = Vec::new();
        let mut left = false;
        let mut look = |g: &Given| match g.standing {
            Standing::Open => missing.push(owes(g, g.status.map_or("unknown", |s| s.as_str()))),
            Standing::Waits(_) => left = true,
            // In another answer of the same reader, which may not have arrived.
            Standing::Handed(seq) if !here(seq) => missing.push(owes(g, "reported")),
            Standing::Handed(_) | Standing::Done(_) => {}
        };
        if from.is_empty() {
            self.store.given(by, false).iter().for_each(look);
            return (missing, left);
        }
        let given = self.store.given(by, true);
        let mut strangers = Vec::new();
        for who in from {
            let mut of = given.iter().filter(|g| is_work_of(g, who)).peekable();
            if of.peek().is_some() {
                of.for_each(&mut look);
            } else if !mail.iter().any(|l| is_from(&l.message, who)) {
                strangers.push(self.stranger(who));
            }
        }
        missing.extend(strangers);
        (missing, left)
    }

    /// Somebody who was given nothing.
    fn stranger(&self, who: &str) -> Missing {
        let instance = exactly(who);
        let status = match instance.map(|id| self.store.instance(id)) {
            Some(Some(view)) => view.instance.status.as_str(),
            Some(None) => "unknown",
            None => "waiting",
        };
        let label = instance.is_none().then(|| who.to_owned());
        Missing { instance, label, status }
    }
}

/// The one instance that `who` names, if it does not name several.
fn exactly(who: &str) -> Option<InstanceId> {
    match who.parse() {
        Ok(Address::Exact { instance, .. }) => Some(instance),
        _ => None,
    }
}

/// Whether `who`, an instance, a name, an address or a label, means this work.
fn is_work_of(given: &Given, who: &str) -> bool {
    given.assignment.label.as_deref() == Some(who)
        || given.address.as_ref().is_some_and(|address| is_called(address, who))
}

fn owes(given: &Given, status: &'static str) -> Missing {
    let assignment = &given.assignment;
    let label = assignment.label.as_deref().map(str::to_owned);
    Missing { instance: Some(assignment.worker), label, status }
}

/// Distinct senders of this mail; a failed worker is one.
fn senders(mail: &[Leased]) -> usize {
    mail.iter().map(|l| &l.message.from.address).collect::<HashSet<_>>().len()
}

/// Whether what waits holds something of `who`: an instance, a name, an address
/// or a label.
fn has_sent(survey: &Survey, senders: &[Parts<'_>], who: &str) -> bool {
    survey.labels.iter().any(|label| label == who) || senders.iter().any(|s| s.is_called(who))
}
