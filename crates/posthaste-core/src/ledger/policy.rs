//! Write policy and rates: the recipients that a sender may write to, and how often.
//!
//! The append applies them, like routing, to the state at that moment. The operator,
//! mechanical agents and the hub itself are under no rate.

use std::time::Duration;

use super::{BoxNo, Ledger};
use crate::address::{Address, InstanceId, Mailbox, Name};
use crate::limits::{Everyone, Write};
use crate::messaging::message::{Draft, Kind, Principal, SenderKind};
use crate::messaging::send::SendError;
use crate::registry::{AgentKind, Instance, Relation};
use crate::time::Timestamp;

/// The subject of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Counted {
    Sender(InstanceId),
    Pair(InstanceId, BoxNo),
    Everyone(InstanceId),
}

/// Earliest time of the next message at the full rate, in microseconds.
pub(super) type Due = i64;

/// The rates before a message, for an undo.
#[derive(Debug, Default)]
pub(super) struct Before([Option<(Counted, Due)>; 2]);

/// A number of messages per time: an idle sender may send them all at once, a busy one
/// gets them evenly.
#[derive(Debug, Clone, Copy)]
struct Rate {
    key: &'static str,
    every: i64,
    at_once: i64,
}

impl Rate {
    fn per_minute(key: &'static str, count: u32) -> Option<Self> {
        let count = i64::from(count);
        (count > 0).then(|| Self { key, every: (60_000_000 / count).max(1), at_once: count })
    }

    fn one_in(key: &'static str, time: Duration) -> Option<Self> {
        let every = i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 2);
        (every > 0).then_some(Self { key, every, at_once: 1 })
    }

    /// Returns the due time of the next message if this one may pass now; else the time
    /// that it must wait.
    fn next(&self, due: Due, now: Timestamp) -> Result<Due, Duration> {
        let now = now.0.saturating_mul(1_000);
        // After the clock was set back no sender waits longer than one full period.
        let most = now.saturating_add(self.at_once.saturating_mul(self.every));
        let start = due.min(most).max(now);
        let ahead = (start - now).saturating_sub((self.at_once - 1).saturating_mul(self.every));
        match u64::try_from(ahead) {
            Ok(wait) if wait > 0 => Err(Duration::from_micros(wait)),
            _ => Ok(start.saturating_add(self.every)),
        }
    }
}

impl Ledger {
    /// Refuses a draft that the policy forbids or that exceeds a rate. An admitted draft
    /// is counted.
    pub(super) fn admit(
        &mut self,
        draft: &Draft,
        mailboxes: &[Mailbox],
        now: Timestamp,
    ) -> Result<Before, SendError> {
        let Principal::Instance(id) = draft.from else { return Ok(Before::default()) };
        if draft.details().hop > self.limits.hops {
            return Err(SendError::HopLimit { limit: self.limits.hops });
        }
        let Some(sender) = self.instances.get(&id) else { return Err(SendError::SenderGone) };
        self.may_write(sender, draft, mailboxes)?;
        if sender.kind == AgentKind::Mechanical {
            return Ok(Before::default());
        }
        self.count(id, draft, mailboxes, now)
    }

    fn may_write(
        &self,
        sender: &Instance,
        draft: &Draft,
        mailboxes: &[Mailbox],
    ) -> Result<(), SendError> {
        let refused = |why: String| Err(SendError::NotAllowed { why });
        let everyone = matches!(draft.to, Address::Everyone { .. });
        if everyone
            && self.limits.everyone_policy == Everyone::Leaders
            && !self.leads_there(sender, draft)
        {
            return refused("only leaders may write to @everyone here".into());
        }
        if draft.details().kind == Kind::DIRECTIVE
            && !mailboxes.iter().all(|m| self.may_direct(sender, m))
        {
            return refused("only a parent, a leader or the human may send a `directive`".into());
        }
        // An instance that was written to may answer the sender, and nobody else with it.
        if self.limits.write_policy == Write::Open || draft.goes_back(mailboxes) {
            return Ok(());
        }
        match mailboxes.iter().find(|m| !self.is_near(sender, m)) {
            None => Ok(()),
            Some(_) => refused(match self.limits.write_policy {
                Write::Team => format!("agents here write within their team ({})", sender.team),
                Write::Family | Write::Open => {
                    "agents here write to their parent, children and siblings only".into()
                }
            }),
        }
    }

    /// Refuses a worker in another team, unless writing is open or the giver leads that
    /// team: the worker would write and read there in place of its giver.
    pub(super) fn may_hire(&self, by: Principal, team: Option<&Name>) -> Result<(), SendError> {
        let giver = by.instance().and_then(|id| self.instances.get(&id));
        let (Some(giver), Some(team)) = (giver, team) else { return Ok(()) };
        let near = self.limits.write_policy == Write::Open
            || *team == giver.team
            || self.is_led_by(team, giver);
        match near {
            true => Ok(()),
            false => Err(SendError::NotAllowed {
                why: format!("agents here start workers in their own team ({})", giver.team),
            }),
        }
    }

    /// Returns whether the sender leads the team that it writes to, or its own if the
    /// address names none.
    fn leads_there(&self, sender: &Instance, draft: &Draft) -> bool {
        let team = match &draft.to {
            Address::Everyone { team: Some(team) } => team,
            _ => &sender.team,
        };
        self.is_led_by(team, sender)
    }

    fn may_direct(&self, sender: &Instance, mailbox: &Mailbox) -> bool {
        match mailbox {
            Mailbox::Human => false,
            Mailbox::Instance(id) => {
                matches!(self.to(*id, sender), Relation::Parent | Relation::Leader)
            }
            Mailbox::NameIn(_, team) | Mailbox::AnyoneIn(team) => self.is_led_by(team, sender),
            Mailbox::Name(_) | Mailbox::Anyone => false,
        }
    }

    /// Returns whether the mailbox is near enough for the policy. The human is near to
    /// all.
    fn is_near(&self, sender: &Instance, mailbox: &Mailbox) -> bool {
        let by_team = self.limits.write_policy == Write::Team;
        match mailbox {
            Mailbox::Human => true,
            Mailbox::Instance(id) => {
                let relation = self.to(*id, sender);
                let family =
                    matches!(relation, Relation::Parent | Relation::Child | Relation::Sibling);
                let same = || self.instances.get(id).is_some_and(|i| i.team == sender.team);
                family || (by_team && (relation == Relation::Leader || same()))
            }
            Mailbox::NameIn(_, team) | Mailbox::AnyoneIn(team) => by_team && *team == sender.team,
            Mailbox::Name(_) | Mailbox::Anyone => false,
        }
    }

    /// Returns the relation of `sender` to the instance.
    fn to(&self, id: InstanceId, sender: &Instance) -> Relation {
        self.relation(Principal::Instance(id), Some(sender.id), SenderKind::Agent)
    }

    fn count(
        &mut self,
        id: InstanceId,
        draft: &Draft,
        mailboxes: &[Mailbox],
        now: Timestamp,
    ) -> Result<Before, SendError> {
        let limits = &self.limits;
        let all = Rate::per_minute("limits.sender_per_minute", limits.sender_per_minute);
        let special = if matches!(draft.to, Address::Everyone { .. }) {
            let rate = Rate::one_in("limits.everyone_every", limits.everyone_every);
            rate.map(|rate| (Counted::Everyone(id), rate))
        } else {
            // The first message to a new mailbox is not counted for the pair.
            let no = mailboxes.first().and_then(|m| self.mailbox_no(m));
            let rate = Rate::per_minute("limits.pair_per_minute", limits.pair_per_minute);
            no.zip(rate).map(|(no, rate)| (Counted::Pair(id, no), rate))
        };
        let rates = [all.map(|rate| (Counted::Sender(id), rate)), special];
        let (mut due, mut before) = ([None; 2], Before::default());
        for (i, (counted, rate)) in rates.into_iter().flatten().enumerate() {
            let last = self.rates.get(&counted).copied().unwrap_or_default();
            let told = |wait| SendError::TooOften { retry_after: wait, key: rate.key };
            due[i] = Some((counted, rate.next(last, now).map_err(told)?));
            before.0[i] = Some((counted, last));
        }
        // Counted only when all rates let the draft pass.
        self.rates.extend(due.into_iter().flatten());
        Ok(before)
    }

    /// Takes back the counts of a message that was not committed.
    pub(super) fn uncount(&mut self, before: &Before) {
        self.rates.extend(before.0.into_iter().flatten());
    }

    /// Forgets senders that have been quiet for so long that they may send at once the
    /// whole number again.
    pub fn forget_rates(&mut self, now: Timestamp) {
        self.rates.retain(|_, due| *due > now.0.saturating_mul(1_000));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Limits;
    use crate::ledger::Planned;
    use crate::messaging::message::{Details, RepliedTo, ThreadChoice, ThreadId, Via};
    use crate::registry::{NewInstance, Origin};

    #[test]
    fn an_idle_sender_spends_a_minute_at_once_and_a_busy_one_waits_its_turn() {
        let rate = Rate::per_minute("x", 60).expect("a rate");
        let now = Timestamp(1_000_000);
        let mut due = Due::default();
        for n in 0..60 {
            due = rate.next(due, now).unwrap_or_else(|wait| panic!("{n}: {wait:?}"));
        }
        assert_eq!(rate.next(due, now), Err(Duration::from_secs(1)));
        let later = now + Duration::from_secs(1);
        due = rate.next(due, later).expect("one a second");
        assert_eq!(rate.next(due, later), Err(Duration::from_secs(1)));
        assert!(rate.next(due, now + Duration::from_secs(600)).is_ok());
    }

    #[test]
    fn nothing_is_counted_where_a_rate_is_zero() {
        assert!(Rate::per_minute("x", 0).is_none());
        assert!(Rate::one_in("x", Duration::ZERO).is_none());
    }

    #[test]
    fn what_the_disk_did_not_keep_costs_its_sender_nothing() {
        let limits =
            Limits { sender_per_minute: 1, write_policy: Write::Family, ..Limits::default() };
        let mut ledger = Ledger::new(limits.clone());
        let now = Timestamp(1_000_000);
        let mut join = |name: &str, number| {
            let new = NewInstance {
                agent: name.parse().expect("a name"),
                team: None,
                label: None,
                parent: None,
                kind: None,
                key: None,
                origin: Origin::Operator,
                token: [number; 32],
            };
            let plan = ledger.plan_join(new, now, || u32::from(number)).expect("joined");
            plan.instance.id
        };
        let (alice, bob) = (join("alice", 1), join("bob", 2));
        let to = Address::Exact { name: None, instance: bob, team: None };
        // Bob had written to alice: the policy of the family does not keep her from
        // answering.
        let back_to = Some(Mailbox::Instance(bob));
        let replied_to = Some(RepliedTo::Seen { thread: ThreadId::OPERATOR, back_to });
        let thread = ThreadChoice { named: None, replied_to };
        let details = Details { thread, ..Details::default() };
        let from = Principal::Instance(alice);
        let mut draft = Draft::new(from, to.clone(), "hi".into(), details, Via::Rest, &limits)
            .expect("within the limits");
        for _ in 0..3 {
            let planned = ledger.plan_append(draft, now);
            let Planned::New(plan) = planned else { panic!("it is new and admitted") };
            ledger.undo_append(&plan);
            let message = Arc::unwrap_or_clone(plan.message);
            draft = Draft::again(message, from, to.clone(), plan.thread);
        }
    }
}
