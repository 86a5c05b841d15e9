//! The state that a start reads back.

use std::collections::{HashMap, VecDeque};

use posthaste_core::ledger::{BoxNo, Queued};
use posthaste_core::messaging::delivery::{DeliveryNo, Reason};
use posthaste_core::messaging::message::{Principal, Priority, Seq};
use posthaste_core::needs::{KnownNeed, Need, NeedKind};
use posthaste_core::orchestration::Assignment;
use posthaste_core::ports::RecordState;
use posthaste_core::ports::store::{Backlog, BacklogMark, BacklogPart, Loaded};
use posthaste_core::registry::Instance;

use super::kept::{Delivery, Kept};
use super::look;

/// Most ids acked by a weak proof that the next run is told of each reader.
const NAMED: usize = 20;

impl Kept {
    pub(super) fn load(&self, part: usize) -> Loaded {
        let mut backlog = Vec::new();
        let mut rest = Some(BacklogMark::default());
        while let Some(from) = rest.filter(|_| backlog.is_empty() || part == usize::MAX) {
            let next = self.backlog(from, part);
            backlog.push(next.part);
            rest = next.rest;
        }
        Loaded {
            epoch: self.epoch,
            id_key: self.id_key,
            clean: self.was_clean,
            last_seq: self.last_seq,
            last_delivery: self.last_delivery,
            last_event: self.last_event,
            profiles: self.profiles.known(),
            teams: self.teams.values().cloned().collect(),
            instances: self.instances_by_age(),
            tokens: self.tokens.values().copied().collect(),
            mailboxes: self.mailboxes.iter().map(|(no, mailbox)| (*no, mailbox.clone())).collect(),
            assignments: self.assignments.values().cloned().collect(),
            last_need: self.last_need,
            needs: self.known_needs(),
            remembered: self.verdicts.values().cloned().collect(),
            unreadable_reports: self.unreadable_reports(),
            weakly_acked: self.weakly_acked(),
            backlog,
            unreadable: Vec::new(),
            rest,
        }
    }

    /// Returns the next part of the backlog: open deliveries first, then keys.
    pub(super) fn backlog(&self, from: BacklogMark, part: usize) -> Backlog {
        let BacklogMark { deliveries_after, keys_after } = from;
        let (last_delivery, last_seq) = self.opened_at;
        if deliveries_after < last_delivery {
            let first = DeliveryNo(deliveries_after + 1).max(self.low_water);
            let rows = self.deliveries.range(first..).take_while(|(no, _)| no.0 <= last_delivery);
            let open = rows.filter(|(_, row)| row.end.is_none());
            let part: Vec<_> =
                open.filter_map(|(no, row)| self.queued(*no, row)).take(part).collect();
            let reached = part.last().map_or(last_delivery, |(_, queued)| queued.delivery.0);
            let rest = Some(BacklogMark { deliveries_after: reached, keys_after });
            return Backlog { part: BacklogPart::Deliveries(part), unreadable: Vec::new(), rest };
        }
        let rows = self.keys.rows.iter().skip_while(|(_, seq, _)| seq.0 <= keys_after);
        let mut rows = rows.take_while(|(_, seq, _)| seq.0 <= last_seq).copied();
        let keys: Vec<_> = rows.by_ref().take(part).collect();
        let rest = rows
            .next()
            .and(keys.last())
            .map(|(_, seq, _)| BacklogMark { deliveries_after, keys_after: seq.0 });
        Backlog { part: BacklogPart::Keys(keys), unreadable: Vec::new(), rest }
    }

    /// Returns an open delivery as the ledger queues it, without its text.
    fn queued(&self, delivery: DeliveryNo, row: &Delivery) -> Option<(BoxNo, Queued)> {
        let message = &self.messages.get(&row.seq)?.message;
        let queued = Queued {
            delivery,
            seq: row.seq,
            message: None,
            size: look::size(message),
            sender: message.from.instance,
            attempts: row.attempts,
            urgent: message.priority == Priority::Urgent,
            marked: row.marked,
            leased_before: false,
            doubted: false,
            expires_at: row.expires_at,
        };
        Some((row.at, queued))
    }

    fn instances_by_age(&self) -> Vec<Instance> {
        let mut all: Vec<Instance> = self.instances.values().map(|i| (**i).clone()).collect();
        all.sort_by_key(|instance| instance.created_at);
        all
    }

    /// Returns the needs that the ledger knows: the open ones, and the permissions of
    /// instances that have not ended.
    fn known_needs(&self) -> Vec<KnownNeed> {
        let lives = |need: &Need| {
            let instance = need.from.instance.and_then(|id| self.instances.get(&id));
            instance.is_some_and(|instance| instance.ended_at.is_none())
        };
        let is_known = |need: &&Need| {
            need.closed.is_none() || need.kind == NeedKind::Permission && lives(need)
        };
        self.needs.values().filter(is_known).map(Need::known).collect()
    }

    fn unreadable_reports(&self) -> Vec<DeliveryNo> {
        let report = |a: &Assignment| a.report.as_ref().map(|report| report.delivery);
        let is_unreadable = |no: &DeliveryNo| {
            let end = self.deliveries.get(no).and_then(|row| row.end);
            matches!(end, Some(RecordState::Dead { reason: Reason::Unreadable, .. }))
        };
        self.assignments.values().filter_map(report).filter(is_unreadable).collect()
    }

    fn weakly_acked(&self) -> HashMap<Principal, Vec<Seq>> {
        let mut of_reader: HashMap<Principal, VecDeque<Seq>> = HashMap::new();
        for ack in &self.weak_acks {
            let list = of_reader.entry(ack.reader).or_default();
            list.push_back(ack.seq);
            if list.len() > NAMED {
                list.pop_front();
            }
        }
        of_reader.into_iter().map(|(reader, list)| (reader, list.into())).collect()
    }
}
