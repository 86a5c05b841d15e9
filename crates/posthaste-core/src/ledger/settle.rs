//! The last state changes of a delivery: acked, dead, refused, and requeued.

use std::collections::{HashMap, HashSet};

use super::needs::NeedsPlan;
use super::{BoxNo, Ledger, Out, Queued};
use crate::address::Mailbox;
use crate::messaging::delivery::{DeliveryNo, DeliveryState, MoveError, Proof, Reason};
use crate::messaging::message::{Principal, Seq};
use crate::ports::{ActError, Ticket, What};
use crate::time::Timestamp;

/// The end of one delivery, as the store writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    pub delivery: DeliveryNo,
    pub seq: Seq,
    pub by: Option<Principal>,
    pub leased_at: Option<Timestamp>,
    pub end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Acked(Proof),
    Dead { reason: Reason, maybe_seen: bool },
}

#[derive(Debug, Clone, Default)]
pub struct AckPlan {
    pub settled: Vec<Settled>,
    pub at: Timestamp,
    /// Deliveries that another reader holds, or that the caller was never given.
    pub lost: Vec<Seq>,
    /// Deliveries that another write is settling; that write may fail.
    pub settling: Vec<Seq>,
}

#[derive(Debug, Default)]
pub struct DiePlan {
    pub dead: Vec<Settled>,
    pub at: Timestamp,
}

#[derive(Debug, Default)]
pub struct NackPlan {
    /// Deliveries that go back to their mailboxes, with their number of refusals so far.
    pub returned: Vec<(DeliveryNo, u8, Seq)>,
    /// Deliveries that were refused too often.
    pub dead: Vec<Settled>,
    pub at: Timestamp,
    pub by: Option<Principal>,
    pub lost: Vec<Seq>,
    /// What the operator is to decide about the dead.
    pub needs: NeedsPlan,
}

/// Dead deliveries, read from the store, that are to be queued again.
#[derive(Debug)]
pub struct RequeuePlan {
    pub dead: Vec<DeadDelivery>,
    pub at: Timestamp,
    /// No delivery below this one is open once these are.
    pub low_water: DeliveryNo,
    /// The operator has nothing to decide about them any more.
    pub needs: NeedsPlan,
}

/// A dead delivery as it would be queued again, and the reason of its death.
#[derive(Debug, Clone)]
pub struct DeadDelivery {
    pub at: BoxNo,
    pub entry: Queued,
    pub reason: Reason,
}

impl Ledger {
    /// Plans an ack. `held_only` leaves out deliveries that are queued again.
    pub fn plan_ack(
        &mut self,
        by: Principal,
        what: &What,
        proof: Proof,
        now: Timestamp,
        held_only: bool,
    ) -> AckPlan {
        let mut plan = AckPlan { at: now, ..AckPlan::default() };
        let boxes = self.boxes_of(by);
        let from = what.answer();
        for (seq, delivery) in self.meant(by, &boxes, what) {
            // Settled before, or never there.
            let Some(delivery) = delivery else { continue };
            let proved = |state: DeliveryState, entry: &Queued| {
                state.ack(by, from, entry.marked && !held_only)
            };
            match self.settle(&boxes, delivery, proved) {
                Ok(out) => plan.settled.push(settled(out, Some(by), End::Acked(proof))),
                Err(MoveError::Settling) => plan.settling.push(seq),
                Err(_) => plan.lost.push(seq),
            }
        }
        plan
    }

    pub fn commit_ack(&mut self, plan: &AckPlan) {
        for settled in &plan.settled {
            self.close_delivery(settled);
        }
    }

    pub fn undo_ack(&mut self, plan: &AckPlan) {
        self.unsettle(&plan.settled);
    }

    pub fn plan_nack(&mut self, by: Principal, what: &What, now: Timestamp) -> NackPlan {
        let mut plan = NackPlan { at: now, by: Some(by), ..NackPlan::default() };
        let limit = self.limits.attempts;
        let boxes = self.boxes_of(by);
        for (seq, delivery) in self.meant(by, &boxes, what) {
            let taken = delivery.ok_or(MoveError::NotLeased).and_then(|d| {
                // A nack acts on the caller's own lease only.
                let own = |state: DeliveryState, _: &Queued| state.ack(by, what.answer(), false);
                self.settle(&boxes, d, own).cloned()
            });
            match taken {
                Ok(out) if out.entry.attempts + 1 >= limit => {
                    let end = End::Dead { reason: Reason::Refused, maybe_seen: true };
                    plan.dead.push(settled(&out, Some(by), end));
                    self.need_of_refused(&mut plan.needs, &out, by, now);
                }
                Ok(out) => {
                    let entry = &out.entry;
                    plan.returned.push((entry.delivery, entry.attempts + 1, entry.seq));
                }
                Err(_) => plan.lost.push(seq),
            }
        }
        plan
    }

    pub fn commit_nack(&mut self, plan: &NackPlan, tickets: &mut Vec<Ticket>) {
        for (delivery, attempts, _) in &plan.returned {
            let Some(out) = self.out.remove(delivery) else { continue };
            self.release(&out);
            let mut entry = out.entry;
            entry.attempts = *attempts;
            entry.marked = true;
            tickets.push(self.back(out.at, entry));
            self.tally.returned += 1;
        }
        for dead in &plan.dead {
            self.close_delivery(dead);
        }
        self.commit_needs(&plan.needs);
    }

    pub fn undo_nack(&mut self, plan: &NackPlan) {
        self.undo_needs(&plan.needs);
        for (delivery, ..) in &plan.returned {
            self.unsettle_one(*delivery);
        }
        self.unsettle(&plan.dead);
    }

    /// Plans the death of deliveries that are still queued and that the operator or the
    /// sender cancels.
    pub fn plan_cancel(
        &mut self,
        deliveries: &[(Mailbox, DeliveryNo)],
        now: Timestamp,
    ) -> Result<DiePlan, ActError> {
        let mut plan = DiePlan { at: now, ..DiePlan::default() };
        let mut refusal = None;
        for (mailbox, delivery) in deliveries {
            match self.settle_in(mailbox, *delivery, |state, _| state.die_queued()) {
                Ok(out) => plan.dead.push(dead(out, Reason::Cancelled)),
                Err(error) => refusal = Some(error),
            }
        }
        match (plan.dead.is_empty(), refusal) {
            (true, Some(error @ (MoveError::Leased | MoveError::Settling))) => Err(error.into()),
            (true, _) => Err(ActError::Conflict("nothing of it is queued any more".into())),
            (false, _) => Ok(plan),
        }
    }

    /// Plans the death of all deliveries that have expired and are not leased.
    pub fn plan_expiry(&mut self, now: Timestamp) -> DiePlan {
        let mut plan = DiePlan { at: now, ..DiePlan::default() };
        let due: Vec<_> = self.expiries.iter().take_while(|(at, ..)| *at <= now).copied().collect();
        for (_, delivery, at) in due {
            let mailbox = self.queues[at as usize].mailbox.clone();
            if let Ok(out) = self.settle_in(&mailbox, delivery, |state, _| state.die_queued()) {
                plan.dead.push(dead(out, Reason::Expired));
            }
        }
        plan
    }

    /// Plans the death of queued deliveries whose message text cannot be read. A text
    /// that is still in memory can be leased.
    pub fn plan_unreadable(&mut self, is_bad: impl Fn(Seq) -> bool, now: Timestamp) -> DiePlan {
        let mut plan = DiePlan { at: now, ..DiePlan::default() };
        let is_it = |e: &&Queued| e.message.is_none() && is_bad(e.seq);
        let boxes = self.boxes();
        let found: Vec<(BoxNo, DeliveryNo)> = boxes
            .flat_map(|(at, queue)| queue.all().filter(is_it).map(move |e| (at, e.delivery)))
            .collect();
        for (at, delivery) in found {
            if let Ok(out) = self.settle_queued(at, delivery, |state, _| state.die_queued()) {
                plan.dead.push(dead(out, Reason::Unreadable));
            }
        }
        self.mark_reports(&plan.dead.iter().map(|dead| dead.delivery).collect(), true);
        plan
    }

    /// Counts deliveries that died as unreadable and were never loaded.
    pub fn count_unreadable(&mut self, deliveries: usize) {
        (0..deliveries).for_each(|_| self.tally.died(Reason::Unreadable));
    }

    pub fn next_expiry(&self) -> Option<Timestamp> {
        let queued =
            |(_, delivery, _): &&(Timestamp, DeliveryNo, BoxNo)| !self.out.contains_key(delivery);
        self.expiries.iter().find(queued).map(|(at, ..)| *at)
    }

    pub fn commit_die(&mut self, plan: &DiePlan) {
        for settled in &plan.dead {
            self.close_delivery(settled);
        }
    }

    pub fn undo_die(&mut self, plan: &DiePlan) {
        self.unsettle(&plan.dead);
    }

    /// Queues dead deliveries again, unless their recipient has ended or its mailbox is
    /// full; mail that always fits needs no room. `None`: the list is of an earlier
    /// `revision`, so the caller must read it again.
    pub fn plan_requeue(
        &mut self,
        dead: Vec<DeadDelivery>,
        always_fits: bool,
        revision: u64,
        now: Timestamp,
    ) -> Option<Result<RequeuePlan, ActError>> {
        (self.revision == revision).then(|| self.plan_requeue_now(dead, always_fits, now))
    }

    fn plan_requeue_now(
        &mut self,
        dead: Vec<DeadDelivery>,
        always_fits: bool,
        now: Timestamp,
    ) -> Result<RequeuePlan, ActError> {
        let lowest = dead.iter().map(|d| d.entry.delivery).min();
        let Some(lowest) = lowest else {
            return Err(ActError::Conflict("nothing of it is dead".into()));
        };
        for DeadDelivery { at, entry, .. } in &dead {
            self.may_requeue(*at, entry, always_fits)?;
        }
        for DeadDelivery { at, entry, .. } in &dead {
            let queue = &mut self.queues[*at as usize];
            queue.unread += 1;
            queue.bytes += entry.size as usize;
        }
        let needs = self.close_requeued(dead.iter().map(|d| d.entry.delivery), now);
        Ok(RequeuePlan { dead, at: now, low_water: self.low_water().min(lowest), needs })
    }

    fn may_requeue(&self, at: BoxNo, entry: &Queued, always_fits: bool) -> Result<(), ActError> {
        let conflict = |why: &str| Err(ActError::Conflict(why.to_owned()));
        let Some(queue) = self.queues.get(at as usize) else {
            return conflict("its mailbox is not known");
        };
        let gone = match &queue.mailbox {
            Mailbox::Instance(id) => self.instances.get(id).is_none_or(|i| i.status.has_ended()),
            _ => false,
        };
        if gone {
            return conflict("its recipient has ended");
        }
        if !always_fits && self.is_full(at, entry.size as usize) {
            let mailbox = &queue.mailbox;
            return conflict(&format!(
                "mailbox {mailbox} is full: try again when it has been read"
            ));
        }
        if self.out.contains_key(&entry.delivery) || queue.find(entry.delivery).is_some() {
            return conflict("nothing of it is dead");
        }
        Ok(())
    }

    pub fn commit_requeue(&mut self, plan: &RequeuePlan, tickets: &mut Vec<Ticket>) {
        self.revision += 1;
        self.commit_needs(&plan.needs);
        self.mark_reports(&plan.dead.iter().map(|d| d.entry.delivery).collect(), false);
        for DeadDelivery { at, entry, .. } in &plan.dead {
            if let Some(expiry) = entry.expires_at {
                self.expiries.insert((expiry, entry.delivery, *at));
            }
            tickets.push(self.back(*at, entry.clone()));
        }
    }

    pub fn undo_requeue(&mut self, plan: &RequeuePlan) {
        self.undo_needs(&plan.needs);
        for DeadDelivery { at, entry, .. } in &plan.dead {
            let queue = &mut self.queues[*at as usize];
            queue.unread = queue.unread.saturating_sub(1);
            queue.bytes = queue.bytes.saturating_sub(entry.size as usize);
        }
    }

    /// Returns the revision, which grows with every requeue and pruning.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Counts the revision up after a pruning.
    pub fn pruned(&mut self) {
        self.revision += 1;
    }

    /// Finds the deliveries that a caller names: those that it holds, or that are in a
    /// mailbox it has a key to.
    fn meant(&self, by: Principal, boxes: &[BoxNo], what: &What) -> Vec<(Seq, Option<DeliveryNo>)> {
        let queues = || boxes.iter().map(|no| &self.queues[*no as usize]);
        let seqs = match what {
            What::Deliveries(list) | What::Held(_, list) => {
                let open = |d: &DeliveryNo| match self.out.get(d) {
                    Some(out) => Some(out.entry.seq),
                    None => queues().find_map(|q| q.find(*d)).map(|e| e.seq),
                };
                let found = list.iter().map(|d| (open(d), *d));
                return found.map(|(seq, d)| (seq.unwrap_or(Seq(0)), seq.map(|_| d))).collect();
            }
            What::Messages(seqs) => seqs,
        };
        let held: HashMap<Seq, DeliveryNo> = self
            .held
            .get(&by)
            .into_iter()
            .flatten()
            .filter_map(|d| self.out.get(d).map(|o| (o.entry.seq, *d)))
            .collect();
        let queued = |seq: Seq| queues().find_map(|q| q.of_message(seq)).map(|e| e.delivery);
        let mut meant: Vec<(Seq, Option<DeliveryNo>)> = seqs
            .iter()
            .map(|seq| (*seq, held.get(seq).copied().or_else(|| queued(*seq))))
            .collect();
        self.find_elsewhere(boxes, &mut meant);
        meant
    }

    /// Fills in the deliveries of these mailboxes that other readers hold. Looks once
    /// through all deliveries that are out, however many messages are named.
    fn find_elsewhere(&self, boxes: &[BoxNo], meant: &mut [(Seq, Option<DeliveryNo>)]) {
        let unknown = meant.iter().filter(|(_, delivery)| delivery.is_none()).map(|(seq, _)| *seq);
        let unknown: HashSet<Seq> = unknown.collect();
        if unknown.is_empty() {
            return;
        }
        let is_meant = |out: &&Out| unknown.contains(&out.entry.seq) && boxes.contains(&out.at);
        let found: HashMap<Seq, DeliveryNo> = self
            .out
            .values()
            .filter(is_meant)
            .map(|out| (out.entry.seq, out.entry.delivery))
            .collect();
        for (seq, delivery) in meant {
            *delivery = delivery.or_else(|| found.get(seq).copied());
        }
    }

    fn boxes_of(&self, by: Principal) -> Vec<BoxNo> {
        self.keys_of(by).iter().filter_map(|m| self.mailbox_no(m)).collect()
    }

    /// Takes a delivery for its last state change: from its holder, or from one of
    /// `boxes`.
    fn settle(
        &mut self,
        boxes: &[BoxNo],
        delivery: DeliveryNo,
        step: impl Fn(DeliveryState, &Queued) -> Result<DeliveryState, MoveError>,
    ) -> Result<&Out, MoveError> {
        if self.out.contains_key(&delivery) {
            let out = self.out.get_mut(&delivery).ok_or(MoveError::NotLeased)?;
            out.state = step(out.state, &out.entry)?;
            return Ok(out);
        }
        let in_box = |no: &&BoxNo| self.queues[**no as usize].find(delivery).is_some();
        let at = *boxes.iter().find(in_box).ok_or(MoveError::NotLeased)?;
        self.settle_queued(at, delivery, step)
    }

    /// Does the same as `settle` for a known mailbox.
    pub(super) fn settle_in(
        &mut self,
        mailbox: &Mailbox,
        delivery: DeliveryNo,
        step: impl Fn(DeliveryState, &Queued) -> Result<DeliveryState, MoveError>,
    ) -> Result<&Out, MoveError> {
        // A delivery that is out may be of another mailbox, and `mailbox` may never have
        // been used.
        let at = self.mailbox_no(mailbox);
        self.settle(at.as_slice(), delivery, step)
    }

    fn settle_queued(
        &mut self,
        at: BoxNo,
        delivery: DeliveryNo,
        step: impl Fn(DeliveryState, &Queued) -> Result<DeliveryState, MoveError>,
    ) -> Result<&Out, MoveError> {
        let queue = &mut self.queues[at as usize];
        let state = step(DeliveryState::Queued, queue.find(delivery).ok_or(MoveError::NotLeased)?)?;
        let entry = queue.take(delivery).ok_or(MoveError::NotLeased)?;
        Ok(self.out.entry(delivery).or_insert(Out { entry, at, state, since: Timestamp(0) }))
    }

    pub(super) fn unsettle(&mut self, list: &[Settled]) {
        for settled in list {
            self.unsettle_one(settled.delivery);
        }
    }

    fn unsettle_one(&mut self, delivery: DeliveryNo) {
        let Some(mut out) = self.out.remove(&delivery) else { return };
        out.state = out.state.unsettle();
        let ticket = self.put_by_state(out);
        self.unsettled.extend(ticket);
    }

    /// Takes the tickets of deliveries that the last undos put back into their mailboxes.
    pub fn take_unsettled(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.unsettled)
    }
}

pub(super) fn settled(out: &Out, by: Option<Principal>, end: End) -> Settled {
    let leased = matches!(out.state.unsettle(), DeliveryState::Leased { .. });
    Settled {
        delivery: out.entry.delivery,
        seq: out.entry.seq,
        by,
        leased_at: leased.then_some(out.since),
        end,
    }
}

/// Makes the end of a dead delivery. It says `maybe_seen` if a reader may have read the
/// message, whatever the reason.
pub(super) fn dead(out: &Out, reason: Reason) -> Settled {
    let by = match out.state.unsettle() {
        DeliveryState::Leased { by, .. } => Some(by),
        DeliveryState::Queued | DeliveryState::Settling { .. } => None,
    };
    let maybe_seen = out.entry.marked || out.entry.leased_before;
    settled(out, by, End::Dead { reason, maybe_seen })
}
