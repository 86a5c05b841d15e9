//! The effect of each change on [`Kept`]. The group was checked before.

use std::sync::Arc;

use posthaste_core::address::InstanceId;
use posthaste_core::ledger::{End, KeyDigest, Settled};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{Message, Seq};
use posthaste_core::orchestration::Assignment;
use posthaste_core::ports::RecordState;
use posthaste_core::ports::change::{Change, Copies};
use posthaste_core::ports::store::Group;
use posthaste_core::registry::{Instance, Status, Team};
use posthaste_core::time::Timestamp;

use super::kept::{Delivery, Entry, EventRow, Kept, WeakAck, forget};

impl Kept {
    /// Writes a group that was checked.
    pub(super) fn apply(&mut self, group: Group) {
        let Group { at, changes, events, .. } = group;
        self.is_clean = false;
        changes.into_iter().for_each(|change| self.change(change));
        if !events.is_empty() {
            let (first, last) = (events.first(), events.last());
            self.events.push_back(EventRow { first, last, at, list: events.bytes().to_vec() });
            self.last_event = last;
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::MailboxOpened { no, mailbox } => {
                self.numbers.insert(mailbox.clone(), no);
                self.mailboxes.insert(no, mailbox);
            }
            Change::MailboxFreed { no } => {
                if let Some(mailbox) = self.mailboxes.remove(&no) {
                    self.numbers.remove(&mailbox);
                }
            }
            Change::MessageAdded { message, copies, key } => self.add(message, &copies, key),
            Change::DeliverySettled { settled, at } => self.settle(settled, at),
            Change::DeliveryReturned { delivery, attempts, .. } => {
                if let Some(row) = self.deliveries.get_mut(&delivery) {
                    (row.attempts, row.marked) = (attempts, true);
                }
            }
            Change::DeliveryRequeued { delivery, marked, .. } => self.requeue(delivery, marked),
            Change::DeliveriesMarked(list) => {
                for delivery in list {
                    if let Some(row) = self.deliveries.get_mut(&delivery) {
                        row.marked = true;
                    }
                }
            }
            Change::NoteAdded(note) => {
                self.last_note += 1;
                self.notes.entry(note.delivery).or_default().push((self.last_note, note));
            }
            Change::MessagesPruned(seqs) => seqs.into_iter().for_each(|seq| self.prune(seq)),
            Change::InstanceAdded(instance) => self.arrive(instance),
            Change::InstanceStarted(new) => self.update(&new, |known| {
                known.status = new.status;
                known.last_seen = known.last_seen.max(new.last_seen);
                known.work.clone_from(&new.work);
            }),
            Change::InstanceEnded(new) => {
                self.update(&new, |known| {
                    (known.status, known.ended_at) = (new.status, new.ended_at);
                    known.work.clone_from(&new.work);
                });
                self.tokens.retain(|_, (_, of)| *of != new.id);
            }
            Change::InstanceSeen { id, at, status } => self.see(id, at, status),
            Change::RecordWritten { worker, record } => self.write_record(worker, &record),
            Change::TokenAdded { token, of } => {
                let next = self.tokens.last_key_value().map_or(1, |(no, _)| no + 1);
                self.tokens.insert(next, (token, of));
            }
            Change::TokenRemoved(token) => self.tokens.retain(|_, (hash, _)| *hash != token),
            Change::TeamAdded(name) => {
                let team = || Team { name: name.clone(), leaders: Vec::new() };
                self.teams.entry(name.clone()).or_insert_with(team);
            }
            Change::TeamWritten(team) => {
                self.teams.insert(team.name.clone(), team);
            }
            Change::ProfileWritten(profile) => self.profiles.write(profile),
            Change::ProfileRemoved(name) => self.profiles.remove(&name),
            Change::AssignmentOpened(assignment) => {
                self.assignments.insert(assignment.task, assignment);
            }
            Change::AssignmentSettled { task, report } => {
                if let Some(assignment) = self.assignments.get_mut(&task) {
                    assignment.report = Some(report);
                }
            }
            Change::NeedOpened(need) => {
                self.last_need = need.id.0;
                self.needs.insert(need.id, (*need).clone());
            }
            Change::NeedClosed { id, closed } => {
                if let Some(need) = self.needs.get_mut(&id) {
                    need.closed = Some(closed);
                }
            }
            Change::VerdictRemembered(verdict) => {
                let key = (verdict.profile.clone(), verdict.subject.clone());
                self.verdicts.insert(key, verdict);
            }
            Change::VerdictForgotten { profile, subject } => {
                self.verdicts.remove(&(profile, subject));
            }
            Change::OldForgotten { keys, ended, settled, events, needs } => {
                self.needs.retain(|_, n| !n.closed.as_ref().is_some_and(|c| needs.has(c.at)));
                self.keys.forget(keys);
                forget(&mut self.weak_acks, keys, |ack| ack.at);
                forget(&mut self.events, events, |row| row.at);
                self.instances.retain(|_, i| !i.ended_at.is_some_and(|at| ended.has(at)));
                let is_old = |a: &Assignment| a.report.as_ref().is_some_and(|r| settled.has(r.at));
                self.assignments.retain(|_, assignment| !is_old(assignment));
            }
            Change::LowWater(delivery) => self.low_water = delivery,
            Change::Stopped => self.is_clean = true,
        }
    }

    fn add(&mut self, message: Arc<Message>, copies: &Copies, key: Option<KeyDigest>) {
        let seq = message.seq;
        self.last_seq = seq.0;
        for (at, delivery) in copies {
            let row = Delivery {
                seq,
                at: *at,
                end: None,
                marked: false,
                attempts: 0,
                expires_at: message.expires_at,
                leased_at: None,
                settled_at: None,
                by: None,
            };
            self.deliveries.insert(*delivery, row);
            self.of_mailbox.insert((*at, seq));
            self.last_delivery = delivery.0;
        }
        self.of_thread.insert((message.thread, seq));
        self.of_sender.extend(message.from.instance.map(|id| (id, seq)));
        self.replies.extend(message.in_reply_to.map(|to| (to, seq)));
        if let Some(digest) = key {
            self.keys.add(digest, seq, message.created_at);
        }
        let first = copies.first().map_or(0, |(_, delivery)| delivery.0);
        self.messages.insert(seq, Entry { message, first, copies: copies.len() as u64 });
    }

    fn settle(&mut self, settled: Settled, at: Timestamp) {
        let Settled { delivery, seq, by, leased_at, end } = settled;
        let Some(row) = self.deliveries.get_mut(&delivery) else { return };
        (row.leased_at, row.settled_at, row.by) = (leased_at, Some(at), by);
        row.end = Some(match end {
            End::Acked(proof) => RecordState::Acked(proof),
            End::Dead { reason, maybe_seen } => RecordState::Dead { reason, maybe_seen },
        });
        if let (End::Acked(proof), Some(reader)) = (end, by)
            && proof.is_weak()
        {
            self.weak_acks.push_back(WeakAck { reader, seq, at });
        }
    }

    fn requeue(&mut self, delivery: DeliveryNo, marked: bool) {
        let Some(row) = self.deliveries.get_mut(&delivery) else { return };
        let (seq, at) = (row.seq, row.at);
        *row = Delivery {
            seq,
            at,
            end: None,
            marked,
            attempts: 0,
            expires_at: None,
            leased_at: None,
            settled_at: None,
            by: None,
        };
        self.low_water = self.low_water.min(delivery);
    }

    fn prune(&mut self, seq: Seq) {
        let Some(entry) = self.messages.get(&seq) else { return };
        let own = DeliveryNo(entry.first)..DeliveryNo(entry.first + entry.copies);
        if self.deliveries.range(own.clone()).any(|(_, row)| row.end.is_none()) {
            return;
        }
        for no in (own.start.0..own.end.0).map(DeliveryNo) {
            self.notes.remove(&no);
            if let Some(row) = self.deliveries.remove(&no) {
                self.of_mailbox.remove(&(row.at, seq));
            }
        }
        let Some(Entry { message, .. }) = self.messages.remove(&seq) else { return };
        self.of_thread.remove(&(message.thread, seq));
        if let Some(id) = message.from.instance {
            self.of_sender.remove(&(id, seq));
        }
        if let Some(to) = message.in_reply_to {
            self.replies.remove(&(to, seq));
        }
    }

    fn arrive(&mut self, new: Arc<Instance>) {
        match self.instances.get_mut(&new.id) {
            Some(known) => {
                let known = Arc::make_mut(known);
                (known.status, known.secret) = (new.status, new.secret);
                known.last_seen = known.last_seen.max(new.last_seen);
            }
            None => drop(self.instances.insert(new.id, new)),
        }
    }

    fn see(&mut self, id: InstanceId, at: Timestamp, status: Status) {
        if let Some(known) = self.instances.get_mut(&id) {
            let known = Arc::make_mut(known);
            (known.last_seen, known.status) = (known.last_seen.max(at), status);
        }
    }

    fn write_record(&mut self, worker: InstanceId, record: &str) {
        let known = self.instances.get_mut(&worker).map(Arc::make_mut);
        if let Some(work) = known.and_then(|known| known.work.as_mut()).map(Arc::make_mut) {
            work.terms.get_or_insert_default().record = Some(record.to_owned());
        }
    }

    fn update(&mut self, new: &Instance, set: impl FnOnce(&mut Instance)) {
        if let Some(known) = self.instances.get_mut(&new.id) {
            set(Arc::make_mut(known));
        }
    }
}
