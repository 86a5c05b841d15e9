//! The instances that are alive, and so could take one-of mail.
//!
//! An instance is alive while it starts, while its process runs (workers of the hub),
//! while it has a lasting connection (stream, bridge) or an open call, and for
//! `limits.away_after` after a call. When its last lasting connection closes the instance
//! is away at once. After a hub start every instance is away until it shows a sign of
//! life; of workers the launcher tells whether they still run.
//!
//! For every one-of mailbox the ledger keeps the set of its living holders, so that a
//! send and a lease look at that set and not at all instances.

use std::collections::BTreeSet;

use super::Ledger;
use crate::address::{InstanceId, Mailbox};
use crate::messaging::message::Principal;
use crate::ports::OpenCall;
use crate::registry::{Instance, Status};
use crate::time::Timestamp;

/// The signs of life of one instance that has not been forgotten.
#[derive(Debug, Clone, Default)]
pub(super) struct Presence {
    connections: u32,
    calls: u32,
    /// Number of times that the last lasting connection has closed.
    departures: u32,
    /// Until this time the instance is alive without any connection.
    until: Timestamp,
    called_at: Timestamp,
    /// Its entry in `Ledger::fading`.
    timer: Option<Timestamp>,
    /// The set of its mailboxes' holders that it is counted in.
    stands: Option<Life>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Living,
    Away,
}

/// The instances that hold a key to a one-of mailbox and have not ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Holders {
    living: BTreeSet<InstanceId>,
    away: BTreeSet<InstanceId>,
}

impl Holders {
    /// Returns the living holders; if none is alive, all of them.
    fn takers(&self) -> &BTreeSet<InstanceId> {
        if self.living.is_empty() { &self.away } else { &self.living }
    }

    fn set(&mut self, life: Life) -> &mut BTreeSet<InstanceId> {
        match life {
            Life::Living => &mut self.living,
            Life::Away => &mut self.away,
        }
    }
}

/// The other instances that could take the mail of a one-of mailbox.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rivals {
    Nobody,
    One(InstanceId),
    Several,
}

impl Rivals {
    /// Returns whether only one reader could take a message of this sender: a sender
    /// never takes its own mail.
    pub(super) fn leave(self, sender: Option<InstanceId>) -> bool {
        match self {
            Self::Nobody => true,
            Self::One(rival) => sender == Some(rival),
            Self::Several => false,
        }
    }
}

impl Ledger {
    /// Counts a lasting connection that opened.
    pub fn connect(&mut self, who: Principal, now: Timestamp) {
        self.seen(who, now);
        let Some(presence) = self.presence(who) else { return };
        presence.connections += 1;
        self.count_holder(who);
    }

    /// Counts a lasting connection that closed. After the last one the instance is away
    /// at once.
    pub fn disconnect(&mut self, who: Principal, now: Timestamp) {
        self.seen(who, now);
        let Some(presence) = self.presence(who) else { return };
        presence.connections = presence.connections.saturating_sub(1);
        if presence.connections > 0 {
            return;
        }
        presence.departures = presence.departures.wrapping_add(1);
        presence.until = now;
        if let (Some(at), Some(id)) = (presence.timer.take(), who.instance()) {
            self.fading.remove(&(at, id));
        }
        self.count_holder(who);
    }

    pub fn open_call(&mut self, who: Principal, now: Timestamp) -> OpenCall {
        self.seen(who, now);
        let Some(presence) = self.presence(who) else { return OpenCall::default() };
        presence.calls += 1;
        OpenCall { departures: presence.departures }
    }

    /// Ends a call. A call from before the last departure ended with that departure: its
    /// end is no sign of life.
    pub fn close_call(&mut self, who: Principal, call: OpenCall, now: Timestamp) {
        let Some(presence) = self.presence(who) else { return };
        presence.calls = presence.calls.saturating_sub(1);
        if presence.departures == call.departures {
            self.seen(who, now);
        }
        self.count_holder(who);
    }

    /// Marks the instances whose time is up as away. To be called before any question
    /// about who is alive.
    pub fn fade(&mut self, now: Timestamp) {
        while let Some((at, id)) = self.fading.first().copied()
            && at <= now
        {
            self.fading.pop_first();
            let Some(presence) = self.presences.get_mut(&id) else { continue };
            presence.timer = (presence.until > now).then_some(presence.until);
            match presence.timer {
                Some(later) => drop(self.fading.insert((later, id))),
                None => self.count_holder(Principal::Instance(id)),
            }
        }
    }

    /// Counts every open connection and call as a sign of life.
    pub fn keep_alive(&mut self, now: Timestamp) {
        let here = |p: &Presence| p.connections > 0 || p.calls > 0;
        let here: Vec<InstanceId> =
            self.presences.iter().filter(|(_, p)| here(p)).map(|(id, _)| *id).collect();
        here.into_iter().for_each(|id| self.shows_life(Principal::Instance(id), now));
    }

    pub(super) fn called(&mut self, who: Principal, now: Timestamp) {
        if let Some(presence) = self.presence(who) {
            presence.called_at = now;
        }
    }

    /// Returns the time of the instance's last call. Of a call before the hub started
    /// only a later sign of life is known.
    pub(super) fn called_at(&self, instance: &Instance) -> Timestamp {
        let called = self.presences.get(&instance.id).map(|presence| presence.called_at);
        called.filter(|at| *at > Timestamp::default()).unwrap_or(instance.last_seen)
    }

    /// Keeps the instance alive for a while after a call. A connection keeps it alive by
    /// itself.
    pub(super) fn lives_on(&mut self, id: InstanceId, now: Timestamp) {
        let until = now + self.limits.away_after;
        let Some(presence) = self.presences.get_mut(&id) else { return };
        if presence.connections > 0 {
            return;
        }
        presence.until = until;
        if presence.timer.is_none() {
            presence.timer = Some(until);
            self.fading.insert((until, id));
            self.count_holder(Principal::Instance(id));
        }
    }

    pub(super) fn is_living(&self, instance: &Instance) -> bool {
        let presence = self.presences.get(&instance.id);
        presence.is_some_and(|p| p.stands == Some(Life::Living))
    }

    /// Returns the status that a listing shows.
    pub(super) fn shown(&self, instance: &Instance) -> Status {
        match instance.status {
            Status::Running if !self.is_living(instance) => Status::Away,
            status => status,
        }
    }

    /// Returns the instance with the status that a listing shows.
    pub(super) fn as_shown(&self, instance: &Instance) -> Instance {
        Instance { status: self.shown(instance), ..instance.clone() }
    }

    /// Moves an instance into the sets of holders that fit its state. To be called after
    /// every change of its status or presence.
    pub(super) fn count_holder(&mut self, who: Principal) {
        let Some(id) = who.instance() else { return };
        let Some(instance) = self.instances.get(&id) else { return };
        let presence = self.presences.entry(id).or_default();
        let life = match instance.status {
            status if status.has_ended() => None,
            Status::Starting => Some(Life::Living),
            Status::Running
                if instance.work.is_some()
                    || presence.connections > 0
                    || presence.calls > 0
                    || presence.timer.is_some() =>
            {
                Some(Life::Living)
            }
            _ => Some(Life::Away),
        };
        let before = std::mem::replace(&mut presence.stands, life);
        if before == life {
            return;
        }
        for mailbox in instance.keys.iter().filter(|m| m.is_one_of()) {
            let holders = match self.holders.get_mut(mailbox) {
                Some(holders) => holders,
                None => self.holders.entry(mailbox.clone()).or_default(),
            };
            if let Some(before) = before {
                holders.set(before).remove(&id);
            }
            if let Some(life) = life {
                holders.set(life).insert(id);
            }
        }
    }

    /// Removes every trace of an instance's presence.
    pub(super) fn uncount_holder(&mut self, instance: &Instance) {
        let Some(presence) = self.presences.remove(&instance.id) else { return };
        if let Some(at) = presence.timer {
            self.fading.remove(&(at, instance.id));
        }
        for mailbox in instance.keys.iter().filter(|m| m.is_one_of()) {
            let Some(holders) = self.holders.get_mut(mailbox) else { continue };
            holders.living.remove(&instance.id);
            holders.away.remove(&instance.id);
            if holders.living.is_empty() && holders.away.is_empty() {
                self.holders.remove(mailbox);
            }
        }
    }

    /// Counts the living instances, apart from `but`, that hold a key to the mailbox.
    pub fn active(&self, mailbox: &Mailbox, but: Principal) -> u32 {
        let count = match mailbox {
            Mailbox::Human => 1,
            Mailbox::Instance(id) => {
                let other = but != Principal::Instance(*id);
                let living = |i: &Instance| self.is_living(i);
                usize::from(other && self.instances.get(id).is_some_and(living))
            }
            one_of => self.holders.get(one_of).map_or(0, |holders| {
                let sender = but.instance().is_some_and(|id| holders.living.contains(&id));
                holders.living.len() - usize::from(sender)
            }),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Returns the instances that could take the mail of a one-of mailbox in place of
    /// `reader`.
    pub(super) fn rivals(&self, mailbox: &Mailbox, reader: Principal) -> Rivals {
        let takers = self.holders.get(mailbox).map(Holders::takers).into_iter().flatten();
        let mut others = takers.filter(|id| reader != Principal::Instance(**id));
        match (others.next(), others.next()) {
            (None, _) => Rivals::Nobody,
            (Some(one), None) => Rivals::One(*one),
            (Some(_), Some(_)) => Rivals::Several,
        }
    }

    /// Returns whether `who` could take the mail of a one-of mailbox now.
    pub(super) fn may_be_taken_by(&self, mailbox: &Mailbox, who: InstanceId) -> bool {
        self.holders.get(mailbox).is_some_and(|holders| holders.takers().contains(&who))
    }

    /// Returns the instance that alone could take a message of this sender now.
    pub fn only_taker(&self, mailbox: &Mailbox, sender: Option<InstanceId>) -> Option<InstanceId> {
        let takers = self.holders.get(mailbox)?.takers().iter();
        let mut takers = takers.filter(|id| sender != Some(**id));
        match (takers.next(), takers.next()) {
            (Some(only), None) => Some(*only),
            _ => None,
        }
    }

    fn presence(&mut self, who: Principal) -> Option<&mut Presence> {
        self.presences.get_mut(&who.instance()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::Limits;
    use crate::ports::Ending;
    use crate::registry::{NewInstance, Origin};

    #[derive(Debug, Clone)]
    enum Step {
        Connect(usize),
        Disconnect(usize),
        OpenCall(usize),
        CloseCall(usize),
        Seen(usize),
        Pass(u64),
        Lose,
        End(usize),
        UndoneEnd(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let who = 0..4usize;
        prop_oneof![
            who.clone().prop_map(Step::Connect),
            who.clone().prop_map(Step::Disconnect),
            who.clone().prop_map(Step::OpenCall),
            who.clone().prop_map(Step::CloseCall),
            who.clone().prop_map(Step::Seen),
            (1..100u64).prop_map(Step::Pass),
            Just(Step::Lose),
            who.clone().prop_map(Step::End),
            who.prop_map(Step::UndoneEnd),
        ]
    }

    /// A naive model of one instance's presence.
    #[derive(Debug, Clone, Default)]
    struct Known {
        connections: u32,
        calls: Vec<(OpenCall, bool)>,
        until: Timestamp,
        last_seen: Timestamp,
        lost: bool,
        ended: bool,
    }

    impl Known {
        fn seen(&mut self, now: Timestamp, away_after: std::time::Duration) {
            if self.ended {
                return;
            }
            (self.lost, self.last_seen) = (false, now);
            if self.connections == 0 {
                self.until = now + away_after;
            }
        }

        fn lives(&self, now: Timestamp) -> bool {
            let here = self.connections > 0 || !self.calls.is_empty() || self.until > now;
            !self.ended && !self.lost && here
        }
    }

    proptest! {
        #[test]
        fn the_sets_of_holders_are_what_a_count_of_all_would_give(
            steps in proptest::collection::vec(step(), 0..60),
        ) {
            // Shorter than the time that a call keeps an instance alive, so that an
            // instance may be lost before it is away.
            let lost_after = std::time::Duration::from_secs(40);
            let limits = Limits { lost_after, ..Limits::default() };
            let (away, lost) = (limits.away_after, limits.lost_after);
            let mut ledger = Ledger::new(limits);
            let mut now = Timestamp(1_000_000);
            let mut dice = 1..;
            let ids: Vec<InstanceId> = (0..4u8).map(|n| {
                let new = NewInstance {
                    agent: if n < 3 { "mason" } else { "bob" }.parse().expect("a name"),
                    team: None, label: None, parent: None, kind: None, key: None,
                    origin: Origin::Operator, token: [n; 32],
                };
                let roll = || dice.next().expect("another roll");
                ledger.plan_join(new, now, roll).expect("joined").instance.id
            }).collect();
            let born = Known { until: now + away, last_seen: now, ..Known::default() };
            let mut known = vec![born; 4];
            let of = |n: usize| Principal::Instance(ids[n]);
            for step in steps {
                ledger.fade(now);
                match step {
                    Step::Connect(n) => {
                        ledger.connect(of(n), now);
                        known[n].seen(now, away);
                        known[n].connections += 1;
                    }
                    Step::Disconnect(n) if known[n].connections > 0 => {
                        ledger.disconnect(of(n), now);
                        known[n].seen(now, away);
                        known[n].connections -= 1;
                        if known[n].connections == 0 {
                            known[n].until = now;
                            known[n].calls.iter_mut().for_each(|(_, counts)| *counts = false);
                        }
                    }
                    Step::OpenCall(n) => {
                        let call = ledger.open_call(of(n), now);
                        known[n].seen(now, away);
                        known[n].calls.push((call, true));
                    }
                    Step::CloseCall(n) => {
                        let Some((call, counts)) = known[n].calls.pop() else { continue };
                        ledger.close_call(of(n), call, now);
                        if counts {
                            known[n].seen(now, away);
                        }
                    }
                    Step::Seen(n) => {
                        ledger.seen(of(n), now);
                        known[n].seen(now, away);
                    }
                    Step::Pass(seconds) => now = now + std::time::Duration::from_secs(seconds),
                    Step::Lose => {
                        ledger.keep_alive(now);
                        ledger.lose(now - lost);
                        for one in known.iter_mut().filter(|one| !one.ended) {
                            if one.connections > 0 || !one.calls.is_empty() {
                                one.seen(now, away);
                            }
                            one.lost |= one.last_seen < now - lost;
                        }
                    }
                    Step::End(n) | Step::UndoneEnd(n) => {
                        let ending = Ending::plain(Status::Stopped, Vec::new());
                        let Ok(plan) = ledger.plan_end(ids[n], &ending, now) else { continue };
                        match step {
                            Step::End(_) => known[n].ended = true,
                            _ => ledger.undo_end(&plan),
                        }
                    }
                    Step::Disconnect(_) => {}
                }
                ledger.fade(now);
                let mason = Mailbox::Name("mason".parse().expect("a name"));
                for (mailbox, holders) in [(mason, &known[..3]), (Mailbox::Anyone, &known[..])] {
                    let living = holders.iter().filter(|one| one.lives(now)).count();
                    prop_assert_eq!(ledger.active(&mailbox, Principal::Operator) as usize, living);
                }
                for (n, one) in known.iter().enumerate() {
                    let lives = ledger.instances.get(&ids[n]).is_some_and(|i| ledger.is_living(i));
                    prop_assert_eq!(lives, one.lives(now), "{} at {:?}: {:?}", n, now, one);
                }
            }
        }
    }
}
