//! Gathers: when a gather is complete, and which reports are missing.
//!
//! A worker counts when its assignment is settled, so a failure counts, too, and mail on
//! the way does not; an instance without an assignment counts with the first message. The
//! answer's `missing` is judged when it is made, by the mail that it holds.

use std::collections::HashSet;

use tokio::sync::watch;

use super::{Already, Ask, BatchStatus, Missing, WaitFor};
use crate::Hub;
use crate::address::{Address, InstanceId};
use crate::messaging::message::{Principal, Seq};
use crate::orchestration::ReportState;
use crate::ports::{Given, Lease, Leased, Parts, Survey, is_called, is_from};

/// The result of a gather.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Assignments without a report, or with one in another answer that is not proven
    /// yet.
    pub(super) missing: Vec<Missing>,
    /// Reports that other answers held.
    pub(super) already: Vec<Already>,
    /// Set if a report was left behind for want of room.
    left: bool,
}

impl Gathered {
    fn add(&mut self, given: &Given, mail: &[Leased]) {
        match given.report {
            ReportState::Open => {
                self.missing.push(owes(given, given.status.map_or("unknown", |s| s.as_str())));
            }
            ReportState::Waits(_) => self.left = true,
            ReportState::Handed(seq) if mail.iter().any(|l| l.message.seq == seq) => {}
            // That answer may not have arrived.
            ReportState::Handed(seq) => {
                self.missing.push(owes(given, "reported"));
                self.was_handed(given, seq);
            }
            ReportState::Done(seq) => self.was_handed(given, seq),
            ReportState::Lost(_) => {}
            ReportState::Unreadable(_) => self.missing.push(owes(given, "unreadable")),
        }
    }

    fn was_handed(&mut self, given: &Given, id: Seq) {
        let label = given.assignment.label.as_deref().map(str::to_owned);
        let already = Already { id, label };
        if !self.already.contains(&already) {
            self.already.push(already);
        }
    }
}

impl Hub {
    /// Returns the reader's open tasks, and those whose reports wait, as the call begins.
    pub(super) fn owed(&self, ask: &Ask) -> Box<[Seq]> {
        // Nothing to weigh: see `look`.
        if ask.wait_for == WaitFor::Any && (ask.window.is_zero() || ask.timeout.is_zero()) {
            return Box::default();
        }
        let given = self.engine.ledger(|l| l.given(ask.reader, false));
        let awaited = |g: &Given| matches!(g.report, ReportState::Open | ReportState::Waits(_));
        given.into_iter().filter(awaited).map(|g| g.assignment.task).collect()
    }

    pub(super) fn are_settled(&self, tasks: &[Seq]) -> bool {
        let settled = |task: &Seq| {
            self.engine
                .ledger(|l| l.assignment(*task))
                .is_none_or(|g| g.assignment.report.is_some())
        };
        tasks.iter().all(settled)
    }

    /// Returns a signal of ended instances, for a call that waits for instances.
    pub(super) fn endings_for(&self, ask: &Ask) -> Option<Box<watch::Receiver<()>>> {
        let waits = ask.wait_for == WaitFor::All && !ask.filter.from.is_empty();
        waits.then(|| Box::new(self.endings.subscribe()))
    }

    /// Returns whether `who` names an instance that has ended: it sends nothing more.
    fn has_gone(&self, who: &str) -> bool {
        let instance =
            exactly(who).and_then(|id| self.engine.ledger(|l| l.instance(id))).map(|v| v.instance);
        instance.is_some_and(|i| i.status.has_ended() && is_called(&i.address, who))
    }

    pub(super) fn is_met(&self, ask: &Ask, owed: &[Seq], survey: &Survey) -> bool {
        match ask.wait_for {
            WaitFor::Any => survey.waiting > 0,
            WaitFor::All if ask.filter.from.is_empty() => self.are_settled(owed),
            WaitFor::All => {
                let given = self.engine.ledger(|l| l.given(ask.reader, true));
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

    /// Judges the status when the answer is made, by the mail that it really holds.
    pub(super) fn judge(
        &self,
        ask: &Ask,
        owed: &[Seq],
        lease: &Lease,
        met: bool,
    ) -> (BatchStatus, Gathered) {
        let mail = &lease.mail;
        let found = match ask.wait_for {
            WaitFor::All => self.gathered(ask.reader, owed, &ask.filter.from, mail),
            WaitFor::Any | WaitFor::Senders(_) => Gathered::default(),
        };
        let status = match ask.wait_for {
            // A report that did not fit is still to come.
            WaitFor::All if found.left => BatchStatus::CallAgain,
            WaitFor::All if found.missing.is_empty() => BatchStatus::Complete,
            // No wait would bring the rest.
            WaitFor::All if met => BatchStatus::Partial,
            _ if mail.is_empty() => BatchStatus::Empty,
            WaitFor::Any => BatchStatus::Complete,
            WaitFor::Senders(_) if met && lease.remaining > lease.shared => BatchStatus::CallAgain,
            WaitFor::Senders(n) if senders(mail) >= n => BatchStatus::Complete,
            WaitFor::All | WaitFor::Senders(_) => BatchStatus::Partial,
        };
        (status, found)
    }

    /// Returns the state of the assignments waited for: those that `from` names, or else
    /// those that were owed when the call began and that the reader has given out since.
    fn gathered(&self, by: Principal, owed: &[Seq], from: &[String], mail: &[Leased]) -> Gathered {
        let mut found = Gathered::default();
        if from.is_empty() {
            let round = self.engine.ledger(|l| l.given_in_round(by));
            let is_earlier = |task: &Seq| round.first().is_none_or(|g| *task < g.assignment.task);
            let before = owed.iter().copied().filter(is_earlier);
            let before = before.filter_map(|task| self.engine.ledger(|l| l.assignment(task)));
            before.for_each(|given| found.add(&given, mail));
            round.iter().for_each(|given| found.add(given, mail));
            return found;
        }
        let given = self.engine.ledger(|l| l.given(by, true));
        let mut strangers = Vec::new();
        for who in from {
            let mut of = given.iter().filter(|g| is_work_of(g, who)).peekable();
            if of.peek().is_some() {
                of.for_each(|given| found.add(given, mail));
            } else if !mail.iter().any(|l| is_from(&l.message, who)) {
                strangers.push(self.stranger(who));
            }
        }
        found.missing.extend(strangers);
        found
    }

    /// Makes the entry of an instance that has no assignment of the reader.
    fn stranger(&self, who: &str) -> Missing {
        let instance = exactly(who);
        let status = match instance.map(|id| self.engine.ledger(|l| l.instance(id))) {
            Some(Some(view)) => view.instance.status.as_str(),
            Some(None) => "unknown",
            None => "waiting",
        };
        let label = instance.is_none().then(|| who.to_owned());
        Missing { instance, label, status }
    }
}

/// Returns the instance that `who` names, if it does not name several.
fn exactly(who: &str) -> Option<InstanceId> {
    match who.parse() {
        Ok(Address::Exact { instance, .. }) => Some(instance),
        _ => None,
    }
}

/// Returns whether `who`, an instance, a name, an address or a label, means this work.
fn is_work_of(given: &Given, who: &str) -> bool {
    given.assignment.label.as_deref() == Some(who)
        || given.address.as_ref().is_some_and(|address| is_called(address, who))
}

fn owes(given: &Given, status: &'static str) -> Missing {
    let assignment = &given.assignment;
    let label = assignment.label.as_deref().map(str::to_owned);
    Missing { instance: Some(assignment.worker), label, status }
}

/// Counts the distinct senders of this mail; a failed worker is one.
fn senders(mail: &[Leased]) -> usize {
    mail.iter().map(|l| &l.message.from.address).collect::<HashSet<_>>().len()
}

/// Returns whether the waiting mail holds a message of `who`: an instance, a name, an
/// address or a label.
fn has_sent(survey: &Survey, senders: &[Parts<'_>], who: &str) -> bool {
    survey.labels.iter().any(|label| label == who) || senders.iter().any(|s| s.is_called(who))
}
