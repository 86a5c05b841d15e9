//! Messages, deliveries and mailboxes that change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use posthaste_core::address::{Mailbox, Name};
use posthaste_core::ledger::{BoxNo, End, KeyDigest, Settled};
use posthaste_core::messaging::delivery::{DeliveryNo, Proof, Reason};
use posthaste_core::messaging::message::{
    Kind, Message, MessageId, Principal, Priority, Sender, SenderKind, Seq, ThreadId, Via,
};
use posthaste_core::ports::change::{Change, Old};
use posthaste_core::ports::{Note, Noted};
use posthaste_core::profiles::Profile;
use posthaste_core::registry::{Instance, TokenHash};
use posthaste_core::time::Timestamp;

use super::Dice;
use crate::rig::{START, agent, mailbox, minutes_after, reader};

const DAY: i64 = 24 * 60;
const PROOFS: [Proof; 5] =
    [Proof::Receipt, Proof::Hook, Proof::NextCall, Proof::Reply, Proof::Auto];
const REASONS: [Reason; 4] =
    [Reason::Expired, Reason::Cancelled, Reason::RecipientGone, Reason::Unreadable];

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Acked,
    Dead,
}

#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) seq: u64,
    pub(super) at: BoxNo,
    state: State,
    attempts: u8,
}

/// What a ledger would know: enough to make changes that fit.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) now: Timestamp,
    pub(crate) seq: u64,
    pub(crate) delivery: u64,
    pub(super) boxes: BTreeMap<BoxNo, Mailbox>,
    pub(super) messages: BTreeMap<u64, Vec<u64>>,
    pub(super) deliveries: BTreeMap<u64, Delivery>,
    pub(super) known: BTreeMap<u32, Instance>,
    pub(super) tokens: Vec<TokenHash>,
    pub(super) teams: BTreeSet<Name>,
    pub(super) profiles: BTreeMap<Name, Profile>,
    /// Tasks that are open.
    pub(super) tasks: BTreeSet<u64>,
    pub(super) assigned: BTreeSet<u64>,
    pub(super) need: u64,
    pub(super) open_needs: BTreeSet<u64>,
}

impl World {
    /// It begins a hundred days after the start, so that its clock can be set back behind
    /// everything.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            now: minutes_after(START, 100 * DAY),
            seq: 0,
            delivery: 0,
            boxes: BTreeMap::new(),
            messages: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            known: BTreeMap::new(),
            tokens: Vec::new(),
            teams: BTreeSet::new(),
            profiles: BTreeMap::new(),
            tasks: BTreeSet::new(),
            assigned: BTreeSet::new(),
            need: 0,
            open_needs: BTreeSet::new(),
        }
    }

    /// The machine's clock was wrong until now.
    pub(crate) fn set_clock_back(&mut self) {
        self.now = START;
    }

    /// The changes of the next group.
    pub(crate) fn group(&mut self) -> Vec<Change> {
        self.now = minutes_after(self.now, self.dice.minutes(4));
        let mut changes = Vec::new();
        for _ in 0..=self.dice.below(15) {
            self.step(&mut changes);
        }
        changes
    }

    /// A change that contradicts what is kept.
    pub(crate) fn refused(&mut self) -> Option<Change> {
        let taken = *self.boxes.keys().next()?;
        Some(Change::MailboxOpened { no: taken, mailbox: mailbox("n.nobody@nowhere") })
    }

    fn step(&mut self, changes: &mut Vec<Change>) {
        match self.dice.below(43) {
            0..12 => self.send(changes),
            12..20 => (0..2).for_each(|_| changes.extend(self.settle())),
            20 => self.return_one(changes),
            21 | 22 => self.requeue(changes),
            23 => changes.push(Change::DeliveriesMarked(self.some_open(4))),
            24 => changes.push(self.prune()),
            25 | 26 => changes.extend(self.arrive()),
            27 => changes.extend(self.start()),
            28 => changes.extend(self.end()),
            29 => changes.extend(self.see().into_iter().chain(self.note())),
            30 => changes.extend(self.token()),
            31 => changes.push(self.team()),
            32 | 33 => changes.push(self.profile()),
            34 => changes.extend(self.remove_profile()),
            35 => changes.extend(self.assign()),
            36 => changes.extend(self.report()),
            37 => changes.push(self.forget()),
            38 => changes.push(self.low_water()),
            39 => changes.push(self.need()),
            40 => changes.extend(self.close_need()),
            41 => changes.push(self.verdict()),
            _ => changes.extend(self.free_box()),
        }
    }

    fn send(&mut self, changes: &mut Vec<Change>) {
        let count = if self.dice.one_in(6) { 1 + self.dice.index(4) } else { 1 };
        let to: BTreeSet<BoxNo> = (0..count).map(|_| self.some_box(changes)).collect();
        self.seq += 1;
        let seq = self.seq;
        let message = self.message(seq);
        let numbers: Vec<u64> = (self.delivery + 1..).take(to.len()).collect();
        self.delivery += to.len() as u64;
        for (no, at) in numbers.iter().zip(&to) {
            let row = Delivery { seq, at: *at, state: State::Open, attempts: 0 };
            self.deliveries.insert(*no, row);
        }
        let copies = to.into_iter().zip(numbers.iter().copied().map(DeliveryNo)).collect();
        self.messages.insert(seq, numbers);
        let key = self.dice.one_in(3).then(|| self.key());
        changes.push(Change::MessageAdded { message: Arc::new(message), copies, key });
    }

    fn message(&mut self, seq: u64) -> Message {
        let mut from = match self.dice.below(4) {
            0 => Sender::human(),
            _ => agent(self.dice.small(6)),
        };
        let words = ["text", "result", "question"];
        let mut kind: Kind = words[self.dice.index(3)].parse().expect("a kind");
        if self.dice.one_in(12) {
            kind = Kind::AGENT_FAILED;
            from = Sender { address: "system".into(), instance: None, kind: SenderKind::System };
        }
        let words = if self.dice.one_in(10) { 300 } else { 12 };
        // Each store has its own ids: see `with_ids`.
        let id = MessageId(0);
        let body = format!("{seq}: {}", self.dice.text(words));
        let via = if self.dice.one_in(2) { Via::Rest } else { Via::Mcp };
        Message {
            thread: self.thread(),
            kind,
            priority: if self.dice.one_in(5) { Priority::Urgent } else { Priority::Normal },
            label: self.dice.one_in(4).then(|| self.dice.text(3)),
            in_reply_to: self.dice.one_in(3).then(|| Seq(1 + self.dice.below(seq))),
            metadata: self.dice.one_in(5).then(|| "{}".to_owned()),
            expires_at: self.dice.one_in(5).then(|| minutes_after(self.now, 30)),
            late: self.dice.one_in(20),
            ..Message::new(Seq(seq), id, from, "somebody", body, self.now, via)
        }
    }

    fn some_box(&mut self, changes: &mut Vec<Change>) -> BoxNo {
        let id = self.dice.small(90);
        let wanted = mailbox(&match self.dice.below(6) {
            0 => "human".to_owned(),
            1 => "any".to_owned(),
            2 => format!("n.agent-{}", id % 5),
            3 => format!("n.agent-{}@main", id % 5),
            4 => "any@main".to_owned(),
            _ => format!("i.{id:08x}"),
        });
        if let Some((no, _)) = self.boxes.iter().find(|(_, mailbox)| **mailbox == wanted) {
            return *no;
        }
        let free = (0..).find(|no| !self.boxes.contains_key(no)).expect("a free number");
        self.boxes.insert(free, wanted.clone());
        changes.push(Change::MailboxOpened { no: free, mailbox: wanted });
        free
    }

    fn in_state(&self, state: State) -> Vec<u64> {
        self.deliveries.iter().filter(|(_, d)| d.state == state).map(|(no, _)| *no).collect()
    }

    fn some_open(&mut self, most: usize) -> Vec<DeliveryNo> {
        let open = self.in_state(State::Open);
        (0..most).filter_map(|_| self.dice.pick(&open)).map(DeliveryNo).collect()
    }

    fn settle(&mut self) -> Option<Change> {
        let no = self.some_open(1).first()?.0;
        let by = self.reader();
        let acked = !self.dice.one_in(3);
        let end = match acked {
            true => End::Acked(PROOFS[self.dice.index(PROOFS.len())]),
            false => {
                let reason = REASONS[self.dice.index(REASONS.len())];
                End::Dead { reason, maybe_seen: self.dice.one_in(2) }
            }
        };
        let row = self.deliveries.get_mut(&no)?;
        row.state = if acked { State::Acked } else { State::Dead };
        let settled = Settled {
            delivery: DeliveryNo(no),
            seq: Seq(row.seq),
            by: (acked || self.dice.one_in(2)).then_some(by),
            leased_at: self.dice.one_in(2).then_some(self.now),
            end,
        };
        Some(Change::DeliverySettled { settled, at: self.now })
    }

    fn return_one(&mut self, changes: &mut Vec<Change>) {
        let Some(delivery) = self.some_open(1).first().copied() else { return };
        let by = self.reader();
        let Some(row) = self.deliveries.get_mut(&delivery.0) else { return };
        row.attempts += 1;
        let (seq, attempts) = (Seq(row.seq), row.attempts);
        changes.push(Change::DeliveryReturned { delivery, seq, attempts });
        let noted = Noted::Refused(Some(by));
        changes.push(Change::NoteAdded(Note { delivery, at: self.now, noted }));
    }

    fn requeue(&mut self, changes: &mut Vec<Change>) {
        let dead = self.in_state(State::Dead);
        let Some(no) = self.dice.pick(&dead) else { return };
        let marked = self.dice.one_in(2);
        let Some(row) = self.deliveries.get_mut(&no) else { return };
        (row.state, row.attempts) = (State::Open, 0);
        let (delivery, seq) = (DeliveryNo(no), Seq(row.seq));
        let noted = Noted::Requeued(Some(Reason::Expired));
        changes.push(Change::NoteAdded(Note { delivery, at: self.now, noted }));
        changes.push(Change::DeliveryRequeued { delivery, seq, marked });
    }

    /// Some are settled, and perhaps one is open or not there.
    fn prune(&mut self) -> Change {
        let is_open = |world: &Self, numbers: &[u64]| {
            numbers.iter().any(|no| world.deliveries[no].state == State::Open)
        };
        let all = self.messages.iter();
        let settled: Vec<u64> =
            all.filter(|(_, numbers)| !is_open(self, numbers)).map(|(seq, _)| *seq).collect();
        let count = self.dice.index(6);
        let mut seqs: Vec<u64> = (0..count).filter_map(|_| self.dice.pick(&settled)).collect();
        if self.dice.one_in(3) {
            seqs.push(1 + self.dice.below(self.seq + 3));
        }
        for seq in &seqs {
            let Some(numbers) = self.messages.get(seq).cloned() else { continue };
            if !is_open(self, &numbers) {
                self.messages.remove(seq);
                self.deliveries.retain(|no, _| !numbers.contains(no));
            }
        }
        Change::MessagesPruned(seqs.into_iter().map(Seq).collect())
    }

    /// Rows that are older than up to so many minutes.
    pub(crate) fn old(&mut self, minutes: u64) -> Old {
        let before = minutes_after(self.now, -self.dice.minutes(minutes));
        let beyond = if self.dice.one_in(2) { self.now } else { Timestamp(i64::MAX) };
        Old { before, beyond, now: self.now }
    }

    fn forget(&mut self) -> Change {
        let [keys, ended, settled, events, needs] = [(); 5].map(|()| self.old(600));
        self.known.retain(|_, instance| !instance.ended_at.is_some_and(|at| ended.has(at)));
        Change::OldForgotten { keys, ended, settled, events, needs }
    }

    fn low_water(&mut self) -> Change {
        let lowest = self.in_state(State::Open).first().copied();
        Change::LowWater(DeliveryNo(lowest.unwrap_or(self.delivery + 1)))
    }

    fn free_box(&mut self) -> Option<Change> {
        let named: BTreeSet<BoxNo> = self.deliveries.values().map(|d| d.at).collect();
        let free: Vec<BoxNo> =
            self.boxes.keys().copied().filter(|no| !named.contains(no)).collect();
        let no = self.dice.pick(&free)?;
        self.boxes.remove(&no);
        Some(Change::MailboxFreed { no })
    }

    pub(crate) fn reader(&mut self) -> Principal {
        match self.dice.small(5) {
            0 => Principal::Operator,
            id => reader(id),
        }
    }

    pub(crate) fn thread(&mut self) -> ThreadId {
        ThreadId(self.dice.small(8))
    }

    pub(crate) fn key(&mut self) -> KeyDigest {
        KeyDigest(u128::from(self.dice.below(40)) << 100)
    }
}
