//! The content of a store.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use posthaste_core::address::{InstanceId, Mailbox, Name};
use posthaste_core::ledger::{BoxNo, KeyDigest};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::id_key::IdKey;
use posthaste_core::messaging::message::{Message, Principal, Seq, ThreadId};
use posthaste_core::needs::{Need, NeedId, Remembered};
use posthaste_core::orchestration::Assignment;
use posthaste_core::ports::change::Old;
use posthaste_core::ports::store::Epoch;
use posthaste_core::ports::{Note, RecordState};
use posthaste_core::registry::{Instance, Team, TokenHash};
use posthaste_core::time::Timestamp;

use super::profiles::Profiles;

/// The content of a store. A clone shares the messages.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) epoch: Epoch,
    pub(super) id_key: IdKey,
    /// The run before this one stopped cleanly.
    pub(super) was_clean: bool,
    /// This run has stopped cleanly: no group came after `Change::Stopped`.
    pub(super) is_clean: bool,
    /// The highest numbers ever given. Numbers of pruned messages are not given again.
    pub(super) last_seq: u64,
    pub(super) last_delivery: u64,
    pub(super) last_event: u64,
    /// The last numbers when the store was opened: the backlog ends there.
    pub(super) opened_at: (u64, u64),
    /// No delivery with a lower number is open.
    pub(super) low_water: DeliveryNo,

    pub(super) messages: BTreeMap<Seq, Entry>,
    pub(super) deliveries: BTreeMap<DeliveryNo, Delivery>,
    /// Each note with its number in the order of all notes.
    pub(super) notes: BTreeMap<DeliveryNo, Vec<(u64, Note)>>,
    pub(super) last_note: u64,
    pub(super) of_thread: BTreeSet<(ThreadId, Seq)>,
    pub(super) of_sender: BTreeSet<(InstanceId, Seq)>,
    pub(super) of_mailbox: BTreeSet<(BoxNo, Seq)>,
    /// Pairs of an answered message and its reply.
    pub(super) replies: BTreeSet<(Seq, Seq)>,

    pub(super) mailboxes: BTreeMap<BoxNo, Mailbox>,
    pub(super) numbers: HashMap<Mailbox, BoxNo>,
    pub(super) keys: Keys,
    pub(super) weak_acks: VecDeque<WeakAck>,
    pub(super) events: VecDeque<EventRow>,
    pub(super) instances: BTreeMap<InstanceId, Arc<Instance>>,
    /// By their numbers, which grow.
    pub(super) tokens: BTreeMap<u64, (TokenHash, InstanceId)>,
    pub(super) teams: BTreeMap<Name, Team>,
    pub(super) assignments: BTreeMap<Seq, Assignment>,
    pub(super) profiles: Profiles,
    pub(super) last_need: u64,
    pub(super) needs: BTreeMap<NeedId, Need>,
    pub(super) verdicts: BTreeMap<(Name, String), Remembered>,
}

/// A message, and the numbers of its deliveries.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) message: Arc<Message>,
    pub(super) first: u64,
    pub(super) copies: u64,
}

#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) seq: Seq,
    pub(super) at: BoxNo,
    /// `None` while the delivery is open.
    pub(super) end: Option<RecordState>,
    pub(super) marked: bool,
    pub(super) attempts: u8,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) leased_at: Option<Timestamp>,
    pub(super) settled_at: Option<Timestamp>,
    pub(super) by: Option<Principal>,
}

/// A message that was acked by a weak proof.
#[derive(Clone)]
pub(super) struct WeakAck {
    pub(super) reader: Principal,
    pub(super) seq: Seq,
    pub(super) at: Timestamp,
}

/// The events of one group.
#[derive(Clone)]
pub(super) struct EventRow {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) at: Timestamp,
    pub(super) list: Vec<u8>,
}

/// Idempotency keys, in the order of their messages and by digest.
#[derive(Clone, Default)]
pub(super) struct Keys {
    pub(super) rows: VecDeque<(KeyDigest, Seq, Timestamp)>,
    by_digest: BTreeMap<(u128, Seq), Timestamp>,
}

impl Keys {
    pub(super) fn add(&mut self, digest: KeyDigest, seq: Seq, at: Timestamp) {
        self.rows.push_back((digest, seq, at));
        self.by_digest.insert((digest.0, seq), at);
    }

    pub(super) fn last(&self, digest: KeyDigest, since: Timestamp) -> Option<Seq> {
        let of_digest = (digest.0, Seq(0))..=(digest.0, Seq(u64::MAX));
        let mut newest_first = self.by_digest.range(of_digest).rev();
        newest_first.find(|(_, at)| **at >= since).map(|((_, seq), _)| *seq)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.by_digest.is_empty()
    }

    pub(super) fn forget(&mut self, old: Old) {
        for (digest, seq, _) in forget(&mut self.rows, old, |(.., at)| *at) {
            self.by_digest.remove(&(digest.0, seq));
        }
    }
}

impl Kept {
    pub(super) fn new() -> Self {
        Self {
            epoch: Epoch(1),
            id_key: IdKey::random(),
            was_clean: false,
            is_clean: false,
            last_seq: 0,
            last_delivery: 0,
            last_event: 0,
            opened_at: (0, 0),
            low_water: DeliveryNo(0),
            messages: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            notes: BTreeMap::new(),
            last_note: 0,
            of_thread: BTreeSet::new(),
            of_sender: BTreeSet::new(),
            of_mailbox: BTreeSet::new(),
            replies: BTreeSet::new(),
            mailboxes: BTreeMap::new(),
            numbers: HashMap::new(),
            keys: Keys::default(),
            weak_acks: VecDeque::new(),
            events: VecDeque::new(),
            instances: BTreeMap::new(),
            tokens: BTreeMap::new(),
            teams: BTreeMap::new(),
            assignments: BTreeMap::new(),
            profiles: Profiles::default(),
            last_need: 0,
            needs: BTreeMap::new(),
            verdicts: BTreeMap::new(),
        }
    }

    /// Returns the content as the next start finds it.
    pub(super) fn reopened(&self) -> Self {
        let mut next = self.clone();
        next.epoch = Epoch(self.epoch.0 + 1);
        (next.was_clean, next.is_clean) = (self.is_clean, false);
        next.opened_at = (self.last_delivery, self.last_seq);
        next
    }
}

/// Removes old rows up to the first young one: rows and times grow together. A row of the
/// future holds no other back.
pub(super) fn forget<T>(rows: &mut VecDeque<T>, old: Old, at: impl Fn(&T) -> Timestamp) -> Vec<T> {
    let is_young = |row: &T| (old.before..=old.now).contains(&at(row));
    let first_young = rows.iter().position(is_young).unwrap_or(rows.len());
    let (gone, stays): (Vec<T>, Vec<T>) =
        rows.drain(..first_young).partition(|row| old.has(at(row)));
    stays.into_iter().rev().for_each(|row| rows.push_front(row));
    gone
}
