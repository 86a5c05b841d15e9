//! Refuses groups with a change that contradicts the content of the store.
//!
//! A group is checked as a whole before anything is written. [`Check`] remembers the
//! effects of the group's earlier changes.

use std::collections::{HashMap, HashSet};

use posthaste_core::address::Mailbox;
use posthaste_core::ledger::{BoxNo, End};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::needs::NeedId;
use posthaste_core::ports::change::{Change, Copies};
use posthaste_core::ports::store::{CommitError, Group};
use posthaste_core::ports::{RecordState, StoreError};

use super::kept::Kept;

pub(super) fn group(kept: &Kept, group: &Group) -> Result<(), CommitError> {
    let unavailable = |why: String| StoreError::Unavailable(why.into());
    if group.epoch != kept.epoch {
        let why = format!("the store is at epoch {}, not {}", kept.epoch.0, group.epoch.0);
        return Err(CommitError::Nothing(unavailable(why)));
    }
    if !group.events.is_empty() && group.events.first() <= kept.last_event {
        let why = format!("event {} was given before", group.events.first());
        return Err(CommitError::Nothing(unavailable(why)));
    }
    let mut check = Check::new(kept);
    let checked = group.changes.iter().try_for_each(|change| check.change(change));
    checked.map_err(|why| CommitError::OneChange(unavailable(why)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Acked,
    Dead,
}

struct Check<'a> {
    kept: &'a Kept,
    last_seq: u64,
    last_delivery: u64,
    /// Effects of the group on mailboxes and deliveries so far.
    opened: HashMap<BoxNo, &'a Mailbox>,
    freed: HashSet<BoxNo>,
    states: HashMap<DeliveryNo, State>,
    last_need: u64,
    /// Effects of the group on needs so far: whether each is open.
    needs: HashMap<NeedId, bool>,
}

impl<'a> Check<'a> {
    fn new(kept: &'a Kept) -> Self {
        Self {
            kept,
            last_seq: kept.last_seq,
            last_delivery: kept.last_delivery,
            opened: HashMap::new(),
            freed: HashSet::new(),
            states: HashMap::new(),
            last_need: kept.last_need,
            needs: HashMap::new(),
        }
    }

    fn change(&mut self, change: &'a Change) -> Result<(), String> {
        match change {
            Change::MailboxOpened { no, mailbox } => self.open(*no, mailbox),
            Change::MailboxFreed { no } => {
                self.opened.remove(no);
                self.freed.insert(*no);
                Ok(())
            }
            Change::MessageAdded { message, copies, .. } => self.add(message.seq, copies),
            Change::DeliverySettled { settled, .. } => {
                let end = match settled.end {
                    End::Acked(_) => State::Acked,
                    End::Dead { .. } => State::Dead,
                };
                self.turn(settled.delivery, State::Open, end)
            }
            Change::DeliveryReturned { delivery, .. } => {
                self.turn(*delivery, State::Open, State::Open)
            }
            Change::DeliveryRequeued { delivery, .. } => {
                self.turn(*delivery, State::Dead, State::Open)
            }
            Change::DeliveriesMarked(list) => {
                list.iter().try_for_each(|delivery| self.state(*delivery).map(drop))
            }
            Change::NoteAdded(note) => self.state(note.delivery).map(drop),
            Change::NeedOpened(need) => self.open_need(need.id),
            Change::NeedClosed { id, .. } => self.close_need(*id),
            Change::MessagesPruned(_)
            | Change::InstanceAdded(_)
            | Change::InstanceStarted(_)
            | Change::InstanceEnded(_)
            | Change::InstanceSeen { .. }
            | Change::RecordWritten { .. }
            | Change::TokenAdded { .. }
            | Change::TokenRemoved(_)
            | Change::TeamAdded(_)
            | Change::TeamWritten(_)
            | Change::ProfileWritten(_)
            | Change::ProfileRemoved(_)
            | Change::AssignmentOpened(_)
            | Change::AssignmentSettled { .. }
            | Change::VerdictRemembered(_)
            | Change::VerdictForgotten { .. }
            | Change::OldForgotten { .. }
            | Change::LowWater(_)
            | Change::Stopped => Ok(()),
        }
    }

    /// Returns the mailbox that has this number.
    fn mailbox(&self, no: BoxNo) -> Option<&Mailbox> {
        let kept = || self.kept.mailboxes.get(&no).filter(|_| !self.freed.contains(&no));
        self.opened.get(&no).copied().or_else(kept)
    }

    fn open(&mut self, no: BoxNo, mailbox: &'a Mailbox) -> Result<(), String> {
        if let Some(other) = self.mailbox(no) {
            return Err(format!("mailbox {no} is {other}, and cannot become {mailbox}"));
        }
        let number = self.kept.numbers.get(mailbox).filter(|no| !self.freed.contains(*no));
        if number.is_some() || self.opened.values().any(|opened| *opened == mailbox) {
            return Err(format!("{mailbox} has a number, and cannot have {no}, too"));
        }
        self.opened.insert(no, mailbox);
        Ok(())
    }

    fn add(&mut self, seq: Seq, copies: &Copies) -> Result<(), String> {
        if seq.0 <= self.last_seq {
            return Err(format!("message {seq} does not come after {}", self.last_seq));
        }
        self.last_seq = seq.0;
        let first = copies.first().map_or(0, |(_, delivery)| delivery.0);
        for ((at, delivery), expected) in copies.iter().zip(first..) {
            if delivery.0 <= self.last_delivery || delivery.0 != expected {
                return Err(format!("delivery {} of message {seq} is out of order", delivery.0));
            }
            if self.mailbox(*at).is_none() {
                return Err(format!("message {seq} is for mailbox {at}, which nobody has"));
            }
            self.states.insert(*delivery, State::Open);
            self.last_delivery = delivery.0;
        }
        Ok(())
    }

    fn open_need(&mut self, id: NeedId) -> Result<(), String> {
        if id.0 <= self.last_need {
            return Err(format!("need {id} does not come after {}", self.last_need));
        }
        self.last_need = id.0;
        self.needs.insert(id, true);
        Ok(())
    }

    fn close_need(&mut self, id: NeedId) -> Result<(), String> {
        let kept = || self.kept.needs.get(&id).is_some_and(|need| need.closed.is_none());
        match self.needs.get(&id).copied().unwrap_or_else(kept) {
            true => drop(self.needs.insert(id, false)),
            false => return Err(format!("need {id} is not open")),
        }
        Ok(())
    }

    fn state(&self, delivery: DeliveryNo) -> Result<State, String> {
        if let Some(state) = self.states.get(&delivery) {
            return Ok(*state);
        }
        let row = self.kept.deliveries.get(&delivery);
        row.map(|row| match row.end {
            Some(RecordState::Acked(_)) => State::Acked,
            Some(RecordState::Dead { .. }) => State::Dead,
            Some(RecordState::Queued | RecordState::Leased) | None => State::Open,
        })
        .ok_or_else(|| format!("there is no delivery {}", delivery.0))
    }

    fn turn(&mut self, delivery: DeliveryNo, from: State, to: State) -> Result<(), String> {
        if self.state(delivery)? != from {
            let word = if from == State::Open { "open" } else { "dead" };
            return Err(format!("delivery {} is not {word}", delivery.0));
        }
        self.states.insert(delivery, to);
        Ok(())
    }
}
