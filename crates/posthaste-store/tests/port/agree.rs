//! Two stores that got the same changes give the same answers.

use std::fmt::Debug;
use std::sync::Arc;

use posthaste_core::address::InstanceId;
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::id_key::IdKey;
use posthaste_core::messaging::message::{Message, MessageId, MessageRef, Seq, ThreadId};
use posthaste_core::needs::{NeedId, NeedKind};
use posthaste_core::ports::change::Change;
use posthaste_core::ports::store::{
    Ages, Bodies, CommitError, CountsOf, HistoryLook, NeedsLook, Source, StoredRecord,
};
use posthaste_core::time::Timestamp;

use crate::random::World;
use crate::rig::{Rig, minutes_after, name, sorted};

const SEED: u64 = 20_260_101;

/// A store that got a few thousand random changes is like the store in memory that got
/// them, at any time and after each start.
pub(crate) async fn random_changes_leave_what_they_leave_in_memory(mut rig: Rig) {
    let mut memory = crate::memory::open().await;
    let mut world = World::new(SEED);
    for round in 0..8 {
        if round == 5 {
            world.set_clock_back();
        }
        for _ in 0..60 {
            apply(&mut world, [&mut rig, &mut memory]).await;
        }
        for _ in 0..100 {
            look_at_both(&mut world, &rig, &memory).await;
        }
        if round % 2 == 1 {
            rig.commit(vec![Change::Stopped]).await;
            memory.commit(vec![Change::Stopped]).await;
        }
        same(&content(&mut memory).await, &content(&mut rig).await);
    }
    assert!(world.seq > 900, "{}", world.seq);
}

/// Commits the next group to both; now and then one that both refuse.
async fn apply(world: &mut World, rigs: [&mut Rig; 2]) {
    let mut next = world.clone();
    let mut changes = next.group();
    let refused = if next.dice.one_in(12) { next.refused() } else { None };
    let is_refused = refused.is_some();
    changes.extend(refused);
    for rig in rigs {
        rig.now = next.now;
        let changes = changes.iter().map(|change| with_id(change, &rig.id_key)).collect();
        let outcome = rig.try_commit(changes).await;
        match outcome {
            Ok(_) => assert!(!is_refused, "it must be refused"),
            Err(CommitError::OneChange(why)) => assert!(is_refused, "{why}"),
            Err(why) => panic!("{why}"),
        }
    }
    match is_refused {
        true => world.dice = next.dice,
        false => *world = next,
    }
}

/// Ids are made by the key of a store.
fn with_id(change: &Change, key: &IdKey) -> Change {
    match change.clone() {
        Change::MessageAdded { message, copies, key: digest } => {
            let message = Message { id: key.id(message.seq), ..(*message).clone() };
            Change::MessageAdded { message: Arc::new(message), copies, key: digest }
        }
        other => other,
    }
}

/// Asks both stores one random question of each kind.
async fn look_at_both(world: &mut World, one: &Rig, other: &Rig) {
    let questions = Questions::new(world);
    let (found, expected) = (questions.ask(one).await, questions.ask(other).await);
    same_lines(&expected, &found, &format!("{questions:?}"));
}

/// One question of each kind.
#[derive(Debug)]
struct Questions {
    history: HistoryLook,
    records: (Vec<u64>, usize),
    replies: (Seq, usize),
    notes: (DeliveryNo, DeliveryNo),
    events: (u64, usize),
    counts: CountsOf,
    thread: (ThreadId, Vec<Seq>),
    key: (posthaste_core::ledger::KeyDigest, Timestamp),
    aged: (Ages, usize),
    unnamed: Vec<u32>,
    profiles: (u64, u32, String),
    search: (String, u32),
    needs: NeedsLook,
}

impl Questions {
    fn new(world: &mut World) -> Self {
        let (seqs, last_delivery) = (world.seq + 3, world.delivery + 3);
        let some_seqs = |world: &mut World, most| -> Vec<u64> {
            let count = world.dice.index(most);
            let mut seqs: Vec<u64> = (0..count).map(|_| 1 + world.dice.below(seqs)).collect();
            seqs.sort_unstable();
            seqs.dedup();
            seqs
        };
        let listed: Vec<Seq> = some_seqs(world, 40).into_iter().map(Seq).collect();
        let boxes: Vec<u32> = (0..40).filter(|_| world.dice.one_in(8)).collect();
        let unread = some_seqs(world, 30).into_iter().map(Seq).collect();
        let mut which = some_seqs(world, 20);
        if world.dice.one_in(2) {
            which.reverse();
        }
        let from = 1 + world.dice.below(last_delivery);
        // The dead are kept for longer than the acked.
        let (acked, events, needs) = (world.old(600), world.old(600), world.old(600));
        let mut dead = world.old(600);
        dead.before = dead.before.min(acked.before);
        Self {
            history: history(world, seqs, listed, &boxes),
            records: (which, bytes(world)),
            replies: (Seq(1 + world.dice.below(seqs)), 1 + world.dice.index(5)),
            notes: (DeliveryNo(from), DeliveryNo(from + world.dice.below(40))),
            events: (world.dice.below(seqs * 2), world.dice.index(60)),
            counts: CountsOf {
                mailboxes: boxes.clone(),
                sender: Some(InstanceId(world.dice.index(8) as u32)),
            },
            thread: (world.thread(), unread),
            key: (world.key(), minutes_after(world.now, -world.dice.minutes(900))),
            aged: (Ages { acked, dead, events, needs }, 1 + world.dice.index(40)),
            unnamed: boxes,
            profiles: (
                world.dice.below(40),
                world.dice.index(30) as u32,
                format!("agent-{}", world.dice.below(60)),
            ),
            search: (query(world), 1 + world.dice.index(30) as u32),
            needs: needs_look(world),
        }
    }

    /// The answers, printed. Ids are left out: each store has its own.
    async fn ask(&self, of: &Rig) -> Vec<String> {
        let mut lines = Lines::default();
        let store = &of.store;
        let part = store.history(self.history.clone()).await.expect("history");
        lines.add("history reached", part.reached);
        lines.records("history", &part.records);
        let by_turns = |(i, n): (usize, &u64)| match i % 2 {
            0 => MessageRef::Seq(Seq(*n)),
            _ => MessageRef::Id(of.id_key.id(Seq(*n))),
        };
        let (which, bytes) = &self.records;
        let refs = which.iter().enumerate().map(by_turns).collect();
        lines.records("record", &store.records(refs, *bytes).await.expect("records"));
        for bodies in [Bodies::With, Bodies::Without] {
            let seqs = which.iter().copied().map(Seq).collect();
            let found = store.messages(seqs, bodies).await.expect("messages");
            sorted(&found.messages).iter().for_each(|(_, m)| lines.message("message", m));
            let missing: Vec<_> = found.unreadable.iter().map(|row| row.of).collect();
            lines.add("missing", (missing, found.damaged));
        }
        let (to, most) = self.replies;
        lines.records("reply", &store.replies(to, most).await.expect("replies"));
        let (first, last) = self.notes;
        lines.add("notes", store.notes(first..=last).await.expect("notes"));
        let (after, most) = self.events;
        lines.add("events", store.events(after, most).await.expect("events"));
        for counted in [None, Some(self.counts.clone())] {
            let counts = store.counts(counted).await.expect("counts");
            let (received, sent) = (sorted(&counts.received), sorted(&counts.sent));
            lines.add("counts", (counts.since, received, sent));
        }
        let (thread, unread) = &self.thread;
        lines.add("thread", store.thread(*thread, unread.clone()).await.expect("a thread"));
        lines.add("key", store.key(self.key.0, self.key.1).await.expect("an answer"));
        lines.add("aged", store.aged(self.aged.0, self.aged.1).await.expect("an answer"));
        lines.add("unnamed", store.unnamed(self.unnamed.clone()).await.expect("an answer"));
        let (skip, most, called) = &self.profiles;
        lines.add("profile", store.profile(name(called)).await.expect("an answer"));
        lines.add("profiles", store.profiles(*skip, *most).await.expect("a page"));
        lines.add("needs", store.needs(self.needs.clone()).await.expect("needs"));
        let (words, most) = self.search.clone();
        let found = store.search(words, most).await.expect("an answer");
        found.iter().for_each(|profile| lines.add("found", profile));
        lines.0
    }
}

fn history(world: &mut World, seqs: u64, listed: Vec<Seq>, boxes: &[u32]) -> HistoryLook {
    let mut sources = Vec::new();
    for _ in 0..=world.dice.below(2) {
        sources.push(match world.dice.below(5) {
            0 => Source::All,
            1 => Source::Thread(world.thread()),
            2 => Source::Mailboxes(boxes.to_vec()),
            3 => Source::Sender(InstanceId(world.dice.index(7) as u32)),
            _ => Source::Listed(listed.clone()),
        });
    }
    let above = if world.dice.one_in(2) { 0 } else { world.dice.below(seqs) };
    let below = if world.dice.one_in(2) { u64::MAX >> 1 } else { world.dice.below(seqs) };
    HistoryLook {
        sources: sources.into(),
        above,
        below,
        forward: world.dice.one_in(2),
        most: 1 + world.dice.index(50),
        bytes: bytes(world),
    }
}

fn needs_look(world: &mut World) -> NeedsLook {
    if world.dice.one_in(3) {
        return NeedsLook::These((0..6).map(|_| NeedId(world.dice.below(60))).collect());
    }
    NeedsLook::After {
        after: NeedId(world.dice.below(40)),
        kind: world.dice.one_in(2).then(|| NeedKind::ALL[world.dice.index(4)].0),
        open_only: world.dice.one_in(2),
        most: world.dice.index(20),
    }
}

fn bytes(world: &mut World) -> usize {
    [1, 200, 1_000, 5_000, usize::MAX][world.dice.index(5)]
}

/// Some words, the last perhaps unfinished.
fn query(world: &mut World) -> String {
    let mut words = world.dice.text(3);
    if world.dice.one_in(2) {
        words.pop();
    }
    words
}

/// Everything that a store holds, printed: what a start loads, all messages, events, notes,
/// counts and profiles. Opens the store again.
pub(crate) async fn content(rig: &mut Rig) -> Vec<String> {
    let start = rig.reopen().await;
    let mut lines = Lines::default();
    let mut loaded = start.loaded;
    lines.add("clean", loaded.clean);
    lines.add("last", (loaded.last_seq, loaded.last_delivery, loaded.last_event));
    loaded.profiles.sort_by(|(one, _), (other, _)| one.cmp(other));
    loaded.profiles.iter().for_each(|profile| lines.add("known", profile));
    loaded.teams.sort_by(|one, other| one.name.cmp(&other.name));
    lines.add("teams", &loaded.teams);
    assert!(loaded.instances.is_sorted_by_key(|i| i.created_at), "oldest first");
    loaded.instances.iter().for_each(|instance| lines.add("instance", instance));
    lines.add("tokens", &loaded.tokens);
    lines.add("mailboxes", &loaded.mailboxes);
    loaded.assignments.iter().for_each(|assignment| lines.add("assignment", assignment));
    lines.add("last need", loaded.last_need);
    loaded.needs.iter().for_each(|need| lines.add("need", need));
    loaded.remembered.iter().for_each(|verdict| lines.add("verdict", verdict));
    lines.add("unreadable reports", &loaded.unreadable_reports);
    sorted(&loaded.weakly_acked).iter().for_each(|acked| lines.add("weakly acked", acked));
    start.deliveries.iter().for_each(|open| lines.add("open", open));
    start.keys.iter().for_each(|key| lines.add("key", key));
    lines.records("record", &rig.everything().await);
    rig.journal().await.iter().for_each(|event| lines.add("event", event));
    let all = DeliveryNo(0)..=DeliveryNo(rig.delivery);
    lines.add("notes", rig.store.notes(all).await.expect("notes"));
    let counts = rig.store.counts(None).await.expect("counts");
    lines.add("received", sorted(&counts.received));
    lines.add("sent", sorted(&counts.sent));
    for (name, _) in &loaded.profiles {
        lines.add("profile", rig.store.profile(name.clone()).await.expect("a profile"));
    }
    lines.0
}

pub(crate) fn same(expected: &[String], found: &[String]) {
    same_lines(expected, found, "everything");
}

/// Shows the first line that differs, and not all of them.
fn same_lines(expected: &[String], found: &[String], asked: &str) {
    let differs = expected.iter().zip(found).position(|(one, other)| one != other);
    if let Some(at) = differs {
        panic!("line {at} of {asked}:\nexpected {}\nfound    {}", expected[at], found[at]);
    }
    let rest = |lines: &[String], after: usize| lines.get(after).cloned().unwrap_or_default();
    assert!(
        expected.len() == found.len(),
        "{asked}: expected {} lines, found {}:\n{}{}",
        expected.len(),
        found.len(),
        rest(expected, found.len()),
        rest(found, expected.len())
    );
}

#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn add(&mut self, what: &str, value: impl Debug) {
        self.0.push(format!("{what}: {value:?}"));
    }

    /// With the text, which is not printed otherwise, and without the id.
    fn message(&mut self, what: &str, message: &Message) {
        let text = message.body.as_str();
        let message = Message { id: MessageId(0), ..message.clone() };
        self.add(what, (message, text));
    }

    fn records(&mut self, what: &str, records: &[StoredRecord]) {
        for record in records {
            self.message(what, &record.message);
            self.add(what, (&record.deliveries, &record.unreadable));
        }
    }
}
