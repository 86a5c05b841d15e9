//! The events of one group: made from its changes, kept as one list of bytes, since a
//! row for each event would cost a send a tenth of its time.
//!
//! An entry is its kind, two numbers and a short text:
//! `kind: 1, a: 8, b: 8, length: 1, text`.

use super::{EventKind, Trace};
use crate::address::{InstanceId, Name};
use crate::ledger::End;
use crate::messaging::delivery::DeliveryNo;
use crate::messaging::message::Seq;
use crate::needs::NeedId;
use crate::ports::change::Change;
use crate::ports::store::StoredEvent;
use crate::profiles::Source;
use crate::registry::Status;
use crate::time::Timestamp;

/// The events of one group, numbered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventList {
    /// The number before the first event.
    after: u64,
    count: u64,
    bytes: Vec<u8>,
}

impl EventList {
    /// Makes the events of these changes, numbered after `after`.
    pub fn of(changes: &[Change], after: u64) -> Self {
        let mut list = Self { after, count: 0, bytes: Vec::new() };
        changes.iter().for_each(|change| list.tell(change));
        list
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of the first event, if there is one.
    pub fn first(&self) -> u64 {
        self.after + 1
    }

    /// Returns the number of the last event; if there is none, of the last before.
    pub fn last(&self) -> u64 {
        self.after + self.count
    }

    /// Returns the list as a store keeps it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads a kept list.
    pub fn read(first: u64, at: Timestamp, mut bytes: &[u8]) -> Vec<StoredEvent> {
        let mut found = Vec::new();
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        while let Some((head, rest)) = bytes.split_first_chunk::<18>() {
            let Some((text, rest)) = rest.split_at_checked(usize::from(head[17])) else { break };
            bytes = rest;
            let (a, b) = (number(&head[1..9]), number(&head[9..17]));
            let told = EventKind::read(head[0])
                .and_then(|kind| trace(kind, a, b, text).map(|trace| (kind, trace)));
            found.push(StoredEvent { no: first + found.len() as u64, at, told });
        }
        found
    }

    fn tell(&mut self, change: &Change) {
        match change {
            Change::MessageAdded { message, .. } => {
                self.message(EventKind::Accepted, message.seq, DeliveryNo(0));
            }
            Change::DeliverySettled { settled, .. } => {
                let kind = match settled.end {
                    End::Acked(_) => EventKind::Acked,
                    End::Dead { .. } => EventKind::Dead,
                };
                self.message(kind, settled.seq, settled.delivery);
            }
            Change::DeliveryReturned { delivery, seq, .. } => {
                self.message(EventKind::Returned, *seq, *delivery);
            }
            Change::DeliveryRequeued { delivery, seq, .. } => {
                self.message(EventKind::Requeued, *seq, *delivery);
            }
            Change::AssignmentSettled { report, .. } => {
                self.message(EventKind::Settled, report.seq, report.delivery);
            }
            Change::InstanceAdded(instance) => {
                let kind = match instance.status {
                    Status::Starting => EventKind::Starting,
                    _ => EventKind::Joined,
                };
                self.instance(kind, instance.id);
            }
            Change::InstanceStarted(instance) => self.instance(EventKind::Running, instance.id),
            Change::InstanceEnded(instance) => self.instance(EventKind::Ended, instance.id),
            Change::InstanceSeen { id, status: Status::Lost, .. } => {
                self.instance(EventKind::Lost, *id);
            }
            Change::NeedOpened(need) => self.need(EventKind::NeedOpened, need.id),
            Change::NeedClosed { id, .. } => self.need(EventKind::NeedClosed, *id),
            Change::TeamWritten(team) => self.named(EventKind::Team, &team.name),
            // The profile of a joined name is told with the instance.
            Change::ProfileWritten(profile) if profile.source != Source::Join => {
                self.named(EventKind::Profile, &profile.template.name);
            }
            Change::ProfileRemoved(name) => self.named(EventKind::Profile, name),
            Change::ProfileWritten(_)
            | Change::InstanceSeen { .. }
            | Change::MailboxOpened { .. }
            | Change::MailboxFreed { .. }
            | Change::DeliveriesMarked(_)
            | Change::NoteAdded(_)
            | Change::MessagesPruned(_)
            | Change::RecordWritten { .. }
            | Change::TokenAdded { .. }
            | Change::TokenRemoved(_)
            | Change::TeamAdded(_)
            | Change::AssignmentOpened(_)
            | Change::VerdictRemembered(_)
            | Change::VerdictForgotten { .. }
            | Change::OldForgotten { .. }
            | Change::LowWater(_)
            | Change::Stopped => {}
        }
    }

    fn message(&mut self, kind: EventKind, seq: Seq, delivery: DeliveryNo) {
        self.add(kind, seq.0, delivery.0, "");
    }

    fn instance(&mut self, kind: EventKind, id: InstanceId) {
        self.add(kind, u64::from(id.0), 0, "");
    }

    fn need(&mut self, kind: EventKind, id: NeedId) {
        self.add(kind, id.0, 0, "");
    }

    fn named(&mut self, kind: EventKind, name: &Name) {
        self.add(kind, 0, 0, name.as_str());
    }

    fn add(&mut self, kind: EventKind, a: u64, b: u64, text: &str) {
        self.count += 1;
        self.bytes.push(kind.number());
        self.bytes.extend_from_slice(&a.to_be_bytes());
        self.bytes.extend_from_slice(&b.to_be_bytes());
        // Names are shorter than 256 bytes.
        self.bytes.push(u8::try_from(text.len()).unwrap_or(0));
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

/// Returns the subject of an entry of this kind.
fn trace(kind: EventKind, a: u64, b: u64, text: &[u8]) -> Option<Trace> {
    let name = || -> Option<Name> { std::str::from_utf8(text).ok()?.parse().ok() };
    match kind {
        EventKind::Accepted
        | EventKind::Acked
        | EventKind::Dead
        | EventKind::Returned
        | EventKind::Requeued
        | EventKind::Settled => Some(Trace::Message { seq: Seq(a), delivery: DeliveryNo(b) }),
        EventKind::Joined
        | EventKind::Ended
        | EventKind::Lost
        | EventKind::Starting
        | EventKind::Running => u32::try_from(a).ok().map(|id| Trace::Instance(InstanceId(id))),
        EventKind::NeedOpened | EventKind::NeedClosed => Some(Trace::Need(NeedId(a))),
        EventKind::Team => name().map(Trace::Team),
        EventKind::Profile => name().map(Trace::Profile),
    }
}
