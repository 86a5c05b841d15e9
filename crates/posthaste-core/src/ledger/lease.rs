//! Leasing mail, and looking at mail without leasing it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::presence::Rivals;
use super::{BoxNo, Ledger, MailboxState, Out, Queued};
use crate::address::{InstanceId, Mailbox};
use crate::messaging::delivery::{AnswerId, DeliveryNo, DeliveryState};
use crate::messaging::message::{Message, Principal, SenderKind, Seq};
use crate::ports::{Filter, Survey, Take, Ticket};
use crate::time::Timestamp;

/// A delivery that a lease found. The store must fetch the text if it is on disk.
#[derive(Debug, Clone)]
pub struct Sought {
    pub delivery: DeliveryNo,
    pub seq: Seq,
    pub mailbox: Mailbox,
    pub message: Option<Arc<Message>>,
    pub redelivered: bool,
    pub doubted: bool,
}

/// Number of deliveries that the reader could still take after a lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remaining {
    pub all: usize,
    /// Number of these that other readers could take as well.
    pub shared: usize,
}

/// Number of queued deliveries that [`Ledger::unseen`] looks at in each mailbox.
const LOOK: usize = 64;

/// Messages on disk, without their bodies, that a filter needs.
pub type Heads = HashMap<Seq, Arc<Message>>;

impl Ledger {
    /// Leases the deliveries that fit, and counts those that do not.
    pub fn lease(
        &mut self,
        take: &Take,
        now: Timestamp,
        heads: &Heads,
    ) -> (Vec<Sought>, Remaining) {
        if self.stopping {
            return (Vec::new(), Remaining::default());
        }
        self.fade(now);
        let wanted = self.wanted(take, now, heads);
        let mut bytes = 0;
        let mut found = Vec::with_capacity(wanted.len());
        for (at, delivery, size) in wanted {
            let size = take.least(size as usize);
            if !found.is_empty() && bytes + size > take.bytes {
                break;
            }
            bytes += size;
            found.extend(self.hand_out(at, delivery, take, now));
        }
        let remaining = self.remaining(take, now, heads);
        (found, remaining)
    }

    /// Counts the deliveries that the reader could still take.
    fn remaining(&self, take: &Take, now: Timestamp, heads: &Heads) -> Remaining {
        let held = self.held_reports(take.reader, &take.filter, now);
        let all = take.filter.is_empty() && held.is_empty();
        let mut remaining = Remaining::default();
        for mailbox in &*self.keys_of(take.reader) {
            let Some(at) = self.mailbox_no(mailbox) else { continue };
            let queue = &self.queues[at as usize];
            if queue.len() == 0 {
                continue;
            }
            let rivals = self.rivals_at(mailbox, take.reader);
            if all && self.overdue(at, now) == 0 {
                let (alone, shared) = split(queue, rivals, take.reader);
                let shared = if take.filter.own { 0 } else { shared };
                remaining.all += alone + shared;
                remaining.shared += shared;
                continue;
            }
            let fits = |e: &&Queued| {
                may_take(e, take.reader, now)
                    && accepts(&take.filter, e, heads)
                    && !held.contains(&e.delivery)
            };
            for entry in queue.all().filter(fits) {
                let shared = !rivals.leave(entry.sender);
                if !shared || !take.filter.own {
                    remaining.all += 1;
                    remaining.shared += usize::from(shared);
                }
            }
        }
        remaining
    }

    /// Returns the other readers that could take mail of this mailbox; none for a mailbox
    /// of the reader's own.
    fn rivals_at(&self, mailbox: &Mailbox, reader: Principal) -> Rivals {
        match mailbox.is_one_of() {
            true => self.rivals(mailbox, reader),
            false => Rivals::Nobody,
        }
    }

    /// Counts the queued deliveries of a mailbox that have expired and are not yet dead.
    /// There are hardly ever any.
    fn overdue(&self, no: BoxNo, now: Timestamp) -> usize {
        let due = self.expiries.iter().take_while(|(at, ..)| *at <= now);
        due.filter(|(_, delivery, at)| *at == no && !self.out.contains_key(delivery)).count()
    }

    /// Returns the candidates for a lease, in the order of reading.
    fn wanted(&self, take: &Take, now: Timestamp, heads: &Heads) -> Vec<(BoxNo, DeliveryNo, u32)> {
        let mut wanted = Vec::new();
        let Take { reader, filter, .. } = take;
        let held = self.held_reports(*reader, filter, now);
        let first = self.first_reports(take);
        let by_rank = filter.or_ends_wait || !first.is_empty();
        let most = if by_rank { usize::MAX } else { take.messages };
        for mailbox in &*self.keys_of(*reader) {
            let Some(at) = self.mailbox_no(mailbox) else { continue };
            if self.queues[at as usize].len() == 0 {
                continue;
            }
            let ranked = |e: &Queued| {
                let (later, normal, delivery) = rank(filter, e, heads);
                ((later && !first.contains(&delivery), normal, delivery), at, e.size)
            };
            let rivals = self.rivals_at(mailbox, *reader);
            let fits = |e: &&Queued| {
                may_take(e, *reader, now)
                    && accepts(filter, e, heads)
                    && !held.contains(&e.delivery)
            };
            let own = |e: &&Queued| rivals.leave(e.sender) && fits(e);
            if split(&self.queues[at as usize], rivals, *reader).0 > 0 {
                wanted.extend(self.queues[at as usize].all().filter(own).map(ranked).take(most));
            }
            let one = self.one_of_shared(at, rivals, *reader, filter, now, heads);
            wanted.extend(one.map(ranked));
        }
        wanted.sort_unstable();
        wanted.truncate(take.messages);
        wanted.into_iter().map(|((_, _, delivery), at, size)| (at, delivery, size)).collect()
    }

    /// Returns the reports that this read leaves for a gather of the same reader, or for a
    /// handoff that waits for it.
    fn held_reports(
        &self,
        reader: Principal,
        filter: &Filter,
        now: Timestamp,
    ) -> HashSet<DeliveryNo> {
        if filter.quiet {
            return self.awaited_reports(reader);
        }
        if !filter.holds_reports {
            return HashSet::new();
        }
        let reports = self.waiting_reports(reader);
        let recent = reports.filter(|report| now.since(report.at) < self.limits.report_hold);
        recent.map(|report| report.delivery).collect()
    }

    /// Returns the reports that a clipped answer must hold first.
    fn first_reports(&self, take: &Take) -> HashSet<DeliveryNo> {
        match take.clips {
            Some(_) => self.waiting_reports(take.reader).map(|report| report.delivery).collect(),
            None => HashSet::new(),
        }
    }

    /// Returns the one delivery that a read gets of mail that others could take as well.
    /// A driver gets none while its agent holds one: the other instances may be free.
    fn one_of_shared(
        &self,
        at: BoxNo,
        rivals: Rivals,
        reader: Principal,
        filter: &Filter,
        now: Timestamp,
        heads: &Heads,
    ) -> Option<&Queued> {
        if matches!(rivals, Rivals::Nobody)
            || filter.own
            || filter.quiet && !self.one_of_held_by(reader).is_empty()
        {
            return None;
        }
        let fits = |e: &&Queued| {
            !rivals.leave(e.sender) && may_take(e, reader, now) && accepts(filter, e, heads)
        };
        let mut fitting = self.queues[at as usize].all().filter(fits);
        match filter.or_ends_wait {
            true => fitting.min_by_key(|e| rank(filter, e, heads)),
            false => fitting.next(),
        }
    }

    fn hand_out(
        &mut self,
        at: BoxNo,
        delivery: DeliveryNo,
        take: &Take,
        now: Timestamp,
    ) -> Option<Sought> {
        let state = DeliveryState::Queued.lease(take.reader, take.answer).ok()?;
        let mut entry = self.queues[at as usize].take(delivery)?;
        let sought = Sought {
            delivery,
            seq: entry.seq,
            mailbox: self.queues[at as usize].mailbox.clone(),
            message: entry.message.clone(),
            redelivered: entry.marked,
            doubted: entry.doubted,
        };
        entry.leased_before = true;
        self.tally.leased += 1;
        self.held.entry(take.reader).or_default().insert(delivery);
        self.out.insert(delivery, Out { entry, at, state, since: now });
        Some(sought)
    }

    /// Gives the deliveries of `what` that `from` still holds back to their mailboxes,
    /// marked.
    pub fn give_back(
        &mut self,
        by: Principal,
        what: &[DeliveryNo],
        from: Option<AnswerId>,
        doubt: bool,
    ) -> Vec<Ticket> {
        self.return_leases(by, what, from, |entry| {
            entry.marked = true;
            entry.doubted |= doubt;
        })
    }

    /// Gives the deliveries of `what` that `from` still holds back to their mailboxes, as
    /// they were: no reader was shown them.
    pub fn put_back(&mut self, by: Principal, what: &[DeliveryNo], from: AnswerId) -> Vec<Ticket> {
        self.return_leases(by, what, Some(from), |entry| entry.leased_before = entry.marked)
    }

    fn return_leases(
        &mut self,
        by: Principal,
        what: &[DeliveryNo],
        from: Option<AnswerId>,
        note: impl Fn(&mut Queued),
    ) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        for delivery in what {
            let Some(out) = self.out.get(delivery) else { continue };
            let Ok(state) = out.state.give_back(by, from) else { continue };
            let Some(mut out) = self.out.remove(delivery) else { continue };
            self.release(&out);
            out.state = state;
            note(&mut out.entry);
            // A delivery that is being settled is not back yet, and may never be.
            let ticket = self.put_by_state(out);
            self.tally.returned += u64::from(ticket.is_some());
            tickets.extend(ticket);
        }
        tickets
    }

    /// Returns whether `to` has not acked a message that `from` sent before `before`.
    /// Looks only at the first deliveries of a long backlog.
    pub fn unseen(&self, from: Principal, to: InstanceId, before: Seq) -> bool {
        let from = from.instance();
        let earlier = |e: &Queued| e.sender == from && e.seq < before;
        let reader = Principal::Instance(to);
        let queued = self.keys_of(reader).iter().any(|mailbox| {
            let Some(no) = self.mailbox_no(mailbox) else { return false };
            let rivals = self.rivals_at(mailbox, reader);
            let own = |e: &Queued| earlier(e) && rivals.leave(e.sender);
            self.queues[no as usize].all().take(LOOK).any(own)
        });
        let held = self.held.get(&reader).into_iter().flatten();
        queued || held.take(LOOK).any(|d| self.out.get(d).is_some_and(|o| earlier(&o.entry)))
    }

    /// Counts the unacked deliveries of an instance: those that only it could take or
    /// that it holds, and the queued ones that others could take as well.
    pub fn unread_of(&self, who: Principal) -> (usize, usize) {
        let (mut own, mut shared) = (self.unread(&Mailbox::of(who)), 0);
        let Principal::Instance(id) = who else { return (own, shared) };
        own += self.one_of_held_by(who).len();
        for mailbox in self.keys_of(who).iter().filter(|m| m.is_one_of()) {
            let Some(at) = self.mailbox_no(mailbox) else { continue };
            let queue = &self.queues[at as usize];
            if queue.len() == 0 || !self.may_be_taken_by(mailbox, id) {
                continue;
            }
            let (alone, together) = split(queue, self.rivals(mailbox, who), who);
            own += alone;
            shared += together;
        }
        (own, shared)
    }

    /// Returns all deliveries that a reader holds.
    pub fn held_by(&self, reader: Principal) -> Vec<DeliveryNo> {
        self.held.get(&reader).map_or_else(Vec::new, |held| held.iter().copied().collect())
    }

    /// Returns the leases of one-of mail that a reader holds.
    pub fn one_of_held_by(&self, reader: Principal) -> Vec<DeliveryNo> {
        let held = self.held_by(reader).into_iter();
        held.filter(|d| {
            self.out.get(d).is_some_and(|o| self.queues[o.at as usize].mailbox.is_one_of())
        })
        .collect()
    }

    /// Returns the messages on disk whose heads this filter needs.
    pub fn unjudged(&self, reader: Principal, filter: &Filter) -> Vec<Seq> {
        if filter.is_empty() && !filter.or_ends_wait {
            return Vec::new();
        }
        let boxes = self.keys_of(reader);
        let queues = boxes.iter().filter_map(|m| self.mailbox_no(m));
        let entries = queues.flat_map(|no| self.queues[no as usize].all());
        let mut seqs: Vec<Seq> = entries.filter(|e| e.message.is_none()).map(|e| e.seq).collect();
        seqs.sort_unstable();
        seqs
    }

    /// Counts the deliveries that a lease would find.
    pub fn survey(
        &self,
        reader: Principal,
        filter: &Filter,
        now: Timestamp,
        heads: &Heads,
    ) -> Survey {
        let mut survey = Survey::default();
        let (mut senders, mut labels) = (HashSet::new(), HashSet::new());
        let held = self.held_reports(reader, filter, now);
        for mailbox in &*self.keys_of(reader) {
            let Some(at) = self.mailbox_no(mailbox) else { continue };
            let rivals = self.rivals_at(mailbox, reader);
            let one = self.one_of_shared(at, rivals, reader, filter, now, heads);
            let own = self.queues[at as usize].all();
            let own = own.filter(|e| rivals.leave(e.sender) && may_take(e, reader, now));
            let own = own.filter(|e| !held.contains(&e.delivery));
            for entry in one.into_iter().chain(own) {
                let message = message_of(entry, heads);
                // Urgent mail, human mail and questions end a wait, whatever the filter.
                let human = entry.sender.is_none();
                survey.ends_wait |= entry.urgent || message.map_or(human, |m| m.ends_a_wait());
                if !accepts(filter, entry, heads) {
                    continue;
                }
                survey.waiting += 1;
                if let Some(message) = message {
                    let at = message.created_at;
                    survey.first_at = Some(survey.first_at.map_or(at, |first| first.min(at)));
                    labels.extend(message.label.clone());
                }
                senders.insert(entry.sender);
            }
        }
        let address = |id: Option<InstanceId>| match id.and_then(|id| self.instances.get(&id)) {
            Some(instance) => Arc::clone(&instance.address),
            None => "human".into(),
        };
        survey.senders = senders.into_iter().map(address).collect();
        survey.labels = labels.into_iter().collect();
        survey
    }
}

/// Counts the queued deliveries that only the reader could take, and those that others
/// could take as well.
fn split(queue: &MailboxState, rivals: Rivals, reader: Principal) -> (usize, usize) {
    let all = queue.len() - reader.instance().map_or(0, |id| queue.sent_by(id));
    let alone = match rivals {
        Rivals::Nobody => all,
        Rivals::One(rival) => queue.sent_by(rival),
        Rivals::Several => 0,
    };
    (alone, all - alone)
}

/// Returns whether the reader may take a delivery: not its own mail, and nothing expired.
fn may_take(entry: &Queued, reader: Principal, now: Timestamp) -> bool {
    (entry.sender.is_none() || entry.sender != reader.instance())
        && entry.expires_at.is_none_or(|at| at > now)
}

fn message_of<'a>(entry: &'a Queued, heads: &'a Heads) -> Option<&'a Arc<Message>> {
    entry.message.as_ref().or_else(|| heads.get(&entry.seq))
}

/// The order of reading: mail that a gather waits for, then urgent mail, then by number.
fn rank(filter: &Filter, entry: &Queued, heads: &Heads) -> (bool, bool, DeliveryNo) {
    let known = || message_of(entry, heads).is_some_and(|m| m.is_report() || m.ends_a_wait());
    let awaited = filter.or_ends_wait && (entry.sender.is_none() || known());
    (!awaited, !entry.urgent, entry.delivery)
}

fn accepts(filter: &Filter, entry: &Queued, heads: &Heads) -> bool {
    let message = message_of(entry, heads);
    let human = || message.map_or(entry.sender.is_none(), |m| m.from.kind == SenderKind::Human);
    if filter.leaves_human && human() {
        return false;
    }
    filter.is_empty() || message.is_some_and(|m| filter.accepts(m))
}
