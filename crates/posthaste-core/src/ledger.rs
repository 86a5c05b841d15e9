//! The hub's state in memory: instances, open deliveries of each mailbox, leases.
//!
//! The hub decides everything with this table, and the store writes the decisions. The
//! ledger is loaded from the store at start, and only the writer loop makes durable
//! changes; it is not a cache, because nothing else changes the state that it describes.
//!
//! Every durable change has three steps. `plan` decides and takes what it needs, so that
//! the next plan of the same transaction sees it; `commit` makes the change visible to
//! readers after the flush; `undo` gives back what a failed flush did not keep. Plans are
//! undone in reverse order; [`Ledger::take_unsettled`] returns the tickets of deliveries
//! that an undo queued again. Leases need no disk and are one step.
//!
//! Memory: a few dozen bytes for each open delivery ([`Queued`]); message text only for
//! deliveries in a window at the head of each mailbox, the rest stays on disk.
//!
//! Start with [`Ledger::plan_append`], then [`Ledger::lease`].

mod append;
mod changes;
mod identity;
mod keys;
mod lease;
mod load;
mod needs;
mod people;
mod permissions;
mod policy;
mod presence;
mod profiles;
mod route;
mod settle;
mod sight;
mod threads;
mod tree;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

pub use append::{AppendPlan, Planned};
pub use keys::{KeyDigest, KeyLook, KeyMark};
pub use lease::{Heads, Remaining, Sought};
pub use load::NoSuchMailbox;
pub(crate) use needs::{DISMISS, REQUEUE};
pub use needs::{NeedsPlan, NotOpen};
pub use people::{EndPlan, ForgetPlan, JoinPlan};
pub use permissions::PlannedPermission;
pub use profiles::{KnownProfile, ProfilePlan};
pub use settle::{AckPlan, DeadDelivery, DiePlan, End, NackPlan, RequeuePlan, Settled};
use slab::Slab;
pub use work::{BeginPlan, HirePlan, PlannedHire};

use crate::Map;
use crate::address::{InstanceId, Mailbox, Name};
use crate::figures::Tally;
use crate::limits::Limits;
use crate::messaging::delivery::{AnswerId, DeliveryNo, DeliveryState};
use crate::messaging::id_key::IdKey;
use crate::messaging::message::{Message, Principal, Seq, ThreadId};
use crate::ports::Ticket;
use crate::registry::{Instance, Team, TokenHash};
use crate::time::Timestamp;

/// The number of a mailbox in the ledger and in the store.
pub type BoxNo = u32;

/// A delivery that waits in its mailbox.
#[derive(Debug, Clone)]
pub struct Queued {
    pub delivery: DeliveryNo,
    pub seq: Seq,
    /// `None` outside the window: the text is on disk.
    pub message: Option<Arc<Message>>,
    pub size: u32,
    /// The sending instance, if an instance sent it.
    pub sender: Option<InstanceId>,
    pub attempts: u8,
    pub urgent: bool,
    /// A reader may have seen the message: `redelivered: true`.
    pub marked: bool,
    /// A reader has had a lease of it since the hub started.
    pub leased_before: bool,
    /// Its reader cancelled an answer that contained it.
    pub doubted: bool,
    pub expires_at: Option<Timestamp>,
}

/// A delivery out of its mailbox: leased, or being settled.
#[derive(Debug, Clone)]
pub(crate) struct Out {
    entry: Queued,
    at: BoxNo,
    state: DeliveryState,
    since: Timestamp,
}

#[derive(Debug, Clone)]
struct MailboxState {
    mailbox: Mailbox,
    normal: VecDeque<Queued>,
    urgent: VecDeque<Queued>,
    /// Open deliveries: queued, leased, being settled, being appended.
    unread: usize,
    bytes: usize,
    /// Number of queued deliveries of a one-of mailbox by sending instance.
    sent_by: Map<InstanceId, usize>,
}

impl MailboxState {
    fn new(mailbox: Mailbox) -> Self {
        Self {
            mailbox,
            normal: VecDeque::new(),
            urgent: VecDeque::new(),
            unread: 0,
            bytes: 0,
            sent_by: Map::default(),
        }
    }

    fn lane(&mut self, urgent: bool) -> &mut VecDeque<Queued> {
        if urgent { &mut self.urgent } else { &mut self.normal }
    }

    fn all(&self) -> impl Iterator<Item = &Queued> {
        self.urgent.iter().chain(&self.normal)
    }

    fn len(&self) -> usize {
        self.urgent.len() + self.normal.len()
    }

    /// Inserts a delivery in the order of its number; new mail goes to the end.
    fn put(&mut self, entry: Queued) {
        if let (true, Some(sender)) = (self.mailbox.is_one_of(), entry.sender) {
            *self.sent_by.entry(sender).or_default() += 1;
        }
        let lane = self.lane(entry.urgent);
        if lane.back().is_none_or(|last| last.delivery < entry.delivery) {
            return lane.push_back(entry);
        }
        let at = lane.partition_point(|q| q.delivery < entry.delivery);
        lane.insert(at, entry);
    }

    fn find(&self, delivery: DeliveryNo) -> Option<&Queued> {
        [&self.urgent, &self.normal].into_iter().find_map(|lane| {
            lane.binary_search_by_key(&delivery, |q| q.delivery).ok().map(|i| &lane[i])
        })
    }

    fn take(&mut self, delivery: DeliveryNo) -> Option<Queued> {
        let mut taken = None;
        for lane in [&mut self.urgent, &mut self.normal] {
            if let Ok(i) = lane.binary_search_by_key(&delivery, |q| q.delivery) {
                taken = lane.remove(i);
                break;
            }
        }
        if let Some(sender) = taken.as_ref().and_then(|entry| entry.sender)
            && let Some(count) = self.sent_by.get_mut(&sender)
        {
            *count -= 1;
            if *count == 0 {
                self.sent_by.remove(&sender);
            }
        }
        taken
    }

    fn sent_by(&self, who: InstanceId) -> usize {
        self.sent_by.get(&who).copied().unwrap_or(0)
    }

    /// Finds the queued delivery of a message in this mailbox.
    fn of_message(&self, seq: Seq) -> Option<&Queued> {
        [&self.urgent, &self.normal].into_iter().find_map(|lane| {
            // Numbers of deliveries and of messages grow together.
            lane.binary_search_by_key(&seq, |q| q.seq).ok().map(|i| &lane[i])
        })
    }
}

#[derive(Debug, Clone)]
pub struct Ledger {
    limits: Limits,
    /// Makes the ids of new messages.
    id_key: IdKey,
    next_seq: u64,
    next_delivery: u64,
    window_bytes: usize,
    /// Set at shutdown: no delivery is leased any more.
    stopping: bool,

    operator_keys: Arc<[Mailbox]>,
    /// Mailboxes, indexed by number.
    queues: Slab<MailboxState>,
    numbers: Map<Mailbox, BoxNo>,
    out: Map<DeliveryNo, Out>,
    held: Map<Principal, BTreeSet<DeliveryNo>>,
    /// Tickets of deliveries that an undo queued again and that no listener has got yet.
    unsettled: Vec<Ticket>,
    expiries: BTreeSet<(Timestamp, DeliveryNo, BoxNo)>,
    keys: keys::Keys,
    /// Earliest time of the next message, by rate and sender.
    rates: Map<policy::Counted, policy::Due>,

    profiles: BTreeMap<Name, KnownProfile>,
    teams: BTreeMap<Name, Team>,
    instances: BTreeMap<InstanceId, Instance>,
    named: Map<Name, BTreeSet<InstanceId>>,
    presences: Map<InstanceId, presence::Presence>,
    /// Times at which instances become away unless they show a sign of life before.
    fading: BTreeSet<(Timestamp, InstanceId)>,
    /// Holders of keys to one-of mailboxes.
    holders: Map<Mailbox, presence::Holders>,
    /// Owners of the threads.
    threads: Map<ThreadId, InstanceId>,
    joined: Map<(Name, Name, String), Vec<InstanceId>>,
    tokens: Map<TokenHash, InstanceId>,
    token_lists: Map<InstanceId, VecDeque<TokenHash>>,
    unsaved_signs: HashSet<InstanceId>,
    assignments: work::Assignments,
    needs: needs::Needs,
    /// Grows when dead mail is requeued or messages are pruned: answers of the store from
    /// an earlier revision may be stale.
    revision: u64,
    tally: Tally,
}

impl Ledger {
    pub fn new(limits: Limits) -> Self {
        Self {
            keys: keys::Keys::new(&limits),
            limits,
            id_key: IdKey::default(),
            next_seq: 1,
            next_delivery: 1,
            window_bytes: 0,
            stopping: false,
            operator_keys: [Mailbox::Human].into(),
            queues: Slab::new(),
            numbers: Map::default(),
            out: Map::default(),
            held: Map::default(),
            unsettled: Vec::new(),
            expiries: BTreeSet::new(),
            rates: Map::default(),
            profiles: BTreeMap::new(),
            teams: BTreeMap::new(),
            instances: BTreeMap::new(),
            named: Map::default(),
            presences: Map::default(),
            fading: BTreeSet::new(),
            holders: Map::default(),
            threads: Map::default(),
            joined: Map::default(),
            tokens: Map::default(),
            token_lists: Map::default(),
            unsaved_signs: HashSet::new(),
            assignments: work::Assignments::default(),
            needs: needs::Needs::default(),
            revision: 0,
            tally: Tally::default(),
        }
    }

    // Questions about open mail.

    /// Counts the deliveries of `mailbox` that are not settled.
    pub fn unread(&self, mailbox: &Mailbox) -> usize {
        self.numbers.get(mailbox).map_or(0, |no| self.queues[*no as usize].unread)
    }

    /// Returns an open delivery's holder, the time of its lease, and its marks. `None`
    /// for a settled delivery.
    pub fn open_delivery(&self, at: &Mailbox, delivery: DeliveryNo) -> Option<OpenDelivery> {
        if let Some(out) = self.out.get(&delivery) {
            let by = match out.state.unsettle() {
                DeliveryState::Leased { by, .. } => Some(by),
                DeliveryState::Queued | DeliveryState::Settling { .. } => None,
            };
            return Some(OpenDelivery {
                by,
                since: Some(out.since),
                ..OpenDelivery::of(&out.entry)
            });
        }
        let queue = &self.queues[*self.numbers.get(at)? as usize];
        let entry = queue.find(delivery)?;
        Some(OpenDelivery::of(entry))
    }

    /// Returns the reader and the answer that have the lease of a delivery.
    pub fn holder(&self, delivery: DeliveryNo) -> Option<(Principal, AnswerId)> {
        match self.out.get(&delivery)?.state.unsettle() {
            DeliveryState::Leased { by, answer } => Some((by, answer)),
            DeliveryState::Queued | DeliveryState::Settling { .. } => None,
        }
    }

    pub fn mailbox(&self, number: BoxNo) -> Option<&Mailbox> {
        self.queues.get(number as usize).map(|q| &q.mailbox)
    }

    pub fn mailbox_no(&self, mailbox: &Mailbox) -> Option<BoxNo> {
        self.numbers.get(mailbox).copied()
    }

    /// Stops leasing, so that the set of possibly seen deliveries is final.
    pub fn stop_leasing(&mut self) {
        self.stopping = true;
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Returns the deliveries that must start marked after a clean shutdown: all that
    /// some reader was given and has not acked.
    pub fn possibly_seen(&self) -> Vec<DeliveryNo> {
        let queued = self.boxes().flat_map(|(_, q)| q.all());
        let out = self.out.values().map(|o| &o.entry);
        let mut seen: Vec<_> =
            queued.chain(out).filter(|e| e.marked || e.leased_before).map(|e| e.delivery).collect();
        seen.sort_unstable();
        seen
    }

    /// Returns the lowest open delivery: the next start need not read below it.
    pub fn low_water(&self) -> DeliveryNo {
        let heads = self.boxes().flat_map(|(_, q)| [q.urgent.front(), q.normal.front()]);
        let queued = heads.flatten().map(|e| e.delivery);
        let out = self.out.keys().copied();
        queued.chain(out).min().unwrap_or(DeliveryNo(self.next_delivery))
    }

    /// Returns the counts of accepted, returned and settled mail since the start.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts the open deliveries, and returns the oldest message among them.
    pub fn open(&self) -> (u64, Option<Seq>) {
        let open = self.boxes().map(|(_, q)| q.unread as u64).sum();
        let heads = self.boxes().flat_map(|(_, q)| [q.urgent.front(), q.normal.front()]);
        let queued = heads.flatten().map(|e| e.seq);
        (open, queued.chain(self.out.values().map(|o| o.entry.seq)).min())
    }

    /// Returns a ticket for the first queued delivery of each mailbox that is `listened`
    /// to.
    pub fn waiting_tickets(&self, listened: impl Fn(&Mailbox) -> bool) -> Vec<Ticket> {
        let all = self.boxes().map(|(_, q)| q);
        let waiting = all.filter(|q| q.len() > 0 && listened(&q.mailbox));
        waiting.filter_map(|q| q.all().next().map(|e| ticket(&q.mailbox, e))).collect()
    }

    /// Returns the highest numbers given to a message and to a delivery.
    pub fn last_numbers(&self) -> (u64, u64) {
        (self.next_seq - 1, self.next_delivery - 1)
    }

    fn boxes(&self) -> impl Iterator<Item = (BoxNo, &MailboxState)> {
        self.queues.iter().filter_map(|(no, queue)| Some((BoxNo::try_from(no).ok()?, queue)))
    }

    fn add_queue(&mut self, mailbox: Mailbox) -> BoxNo {
        let number = self.queues.insert(MailboxState::new(mailbox.clone()));
        let number = BoxNo::try_from(number).unwrap_or(BoxNo::MAX);
        self.numbers.insert(mailbox, number);
        number
    }

    /// Returns the mailboxes of forgotten instances.
    pub fn abandoned(&self) -> Vec<BoxNo> {
        self.boxes().map(|(no, _)| no).filter(|no| self.is_abandoned(*no)).collect()
    }

    /// Returns whether the mailbox is empty and its instance forgotten: it gets no mail
    /// any more.
    pub fn is_abandoned(&self, number: BoxNo) -> bool {
        self.queues.get(number as usize).is_some_and(|queue| match &queue.mailbox {
            Mailbox::Instance(id) => queue.unread == 0 && !self.instances.contains_key(id),
            _ => false,
        })
    }

    /// Removes a mailbox. The next new mailbox may get its number.
    pub fn free_mailbox(&mut self, number: BoxNo) {
        if let Some(queue) = self.queues.try_remove(number as usize) {
            self.numbers.remove(&queue.mailbox);
        }
    }

    /// Keeps the text of new mail in memory while there is room in the window. The text
    /// stays in memory until the delivery is settled.
    fn window(&mut self, at: BoxNo, entry: &mut Queued) {
        let Some(message) = &entry.message else { return };
        let full = self.queues[at as usize].len() >= self.limits.window_messages
            || self.window_bytes + message.body.len() > self.limits.window_bytes;
        if full && !entry.urgent {
            entry.message = None;
        } else {
            self.window_bytes += message.body.len();
        }
    }

    /// Puts a delivery where its state belongs: back into its mailbox, which returns a
    /// ticket, or among those that are out.
    fn put_by_state(&mut self, out: Out) -> Option<Ticket> {
        match out.state {
            DeliveryState::Queued => Some(self.back(out.at, out.entry)),
            DeliveryState::Leased { .. } | DeliveryState::Settling { .. } => {
                self.out.insert(out.entry.delivery, out);
                None
            }
        }
    }

    /// Puts a delivery back into its mailbox and returns the ticket.
    fn back(&mut self, at: BoxNo, entry: Queued) -> Ticket {
        let queue = &mut self.queues[at as usize];
        let ticket = ticket(&queue.mailbox, &entry);
        queue.put(entry);
        ticket
    }

    /// Removes a settled delivery from the open ones.
    fn close_delivery(&mut self, settled: &Settled) {
        let delivery = settled.delivery;
        let Some(out) = self.out.remove(&delivery) else { return };
        self.release(&out);
        if let Some(message) = &out.entry.message {
            self.window_bytes = self.window_bytes.saturating_sub(message.body.len());
        }
        let queue = &mut self.queues[out.at as usize];
        queue.unread = queue.unread.saturating_sub(1);
        queue.bytes = queue.bytes.saturating_sub(out.entry.size as usize);
        if let Some(expiry) = out.entry.expires_at {
            self.expiries.remove(&(expiry, delivery, out.at));
        }
        match settled.end {
            End::Acked(_) => self.tally.acked += 1,
            End::Dead { reason, maybe_seen } => {
                self.tally.died(reason);
                if !maybe_seen {
                    self.died_unseen(out.at, delivery);
                }
            }
        }
    }

    /// Removes the delivery from the list of its holder.
    fn release(&mut self, out: &Out) {
        if let DeliveryState::Leased { by, .. } = out.state.unsettle()
            && let Some(held) = self.held.get_mut(&by)
        {
            held.remove(&out.entry.delivery);
            if held.is_empty() {
                self.held.remove(&by);
            }
        }
    }
}

/// The state of an open delivery: holder, time of the lease, marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDelivery {
    pub by: Option<Principal>,
    pub since: Option<Timestamp>,
    pub marked: bool,
    /// Number of refusals so far.
    pub attempts: u8,
    /// Its reader cancelled an answer that contained it.
    pub doubted: bool,
}

impl OpenDelivery {
    fn of(entry: &Queued) -> Self {
        let Queued { marked, attempts, doubted, .. } = *entry;
        Self { by: None, since: None, marked, attempts, doubted }
    }
}

fn ticket(mailbox: &Mailbox, entry: &Queued) -> Ticket {
    Ticket { delivery: entry.delivery, mailbox: mailbox.clone(), message: entry.message.clone() }
}
