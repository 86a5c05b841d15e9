//! The promises of the `Store` port, one test each. Every backend runs them all:
//!
//! ```ignore
//! posthaste_testkit::store_suite!(rig());
//! ```

mod choosing;
mod joining;
mod presence;
mod reading;
mod watching;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::messaging::delivery::{AnswerId, Proof, Reason};
use posthaste_core::messaging::message::{
    Details, Draft, MessageRef, Principal, Priority, Seq, Via,
};
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{
    Appended, Bell, Clock, Ending, Filter, HistoryQuery, Leased, Queue, RecordState, Take, Ticket,
    What,
};
use posthaste_core::registry::{NewInstance, Origin, RegistryError, Status};
use posthaste_core::time::Timestamp;
use posthaste_core::{Engine, Limits};

pub use self::choosing::*;
pub use self::joining::*;
pub use self::presence::*;
pub use self::reading::*;
pub use self::watching::*;

/// An engine with a queue that records its tickets and a clock set by hand.
pub struct Rig {
    pub engine: Arc<Engine>,
    pub queue: Arc<SpyQueue>,
    pub clock: Arc<HandClock>,
    pub limits: Limits,
    /// A value that must outlive the store: a folder, a server.
    pub keep: Box<dyn std::any::Any + Send>,
}

/// A clock that stands still until a test advances it.
#[derive(Debug)]
pub struct HandClock(AtomicI64);

impl Default for HandClock {
    fn default() -> Self {
        Self(AtomicI64::new(1_700_000_000_000))
    }
}

impl HandClock {
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("tests take less than an eon");
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A queue that records every ticket and wakes no reader.
#[derive(Default)]
pub struct SpyQueue(pub Mutex<Vec<Ticket>>);

impl Queue for SpyQueue {
    fn put(&self, ticket: Ticket) {
        self.0.lock().push(ticket);
    }

    fn listen(&self, _: Principal, _: Arc<[Mailbox]>, _: Filter) -> Box<dyn Bell> {
        Box::new(Silent)
    }

    fn waiting(&self, _: &Mailbox, _: Principal) -> u32 {
        0
    }

    fn cleanup(&self, _: &Mailbox) {}

    fn close(&self) {}
}

struct Silent;

impl Bell for Silent {
    fn rung(&mut self) -> futures_util::future::BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn answered(&mut self, _: &[posthaste_core::messaging::delivery::DeliveryNo]) {}
}

const HUMAN: Principal = Principal::Operator;

impl Rig {
    pub async fn agent(&self, name: &str) -> Principal {
        Principal::Instance(self.joins(name, "main").await)
    }

    async fn joins(&self, name: &str, team: &str) -> InstanceId {
        let new = NewInstance {
            agent: name.parse().expect("a good name"),
            team: Some(team.parse().expect("a good team")),
            label: None,
            parent: None,
            kind: None,
            key: None,
            origin: Origin::Operator,
            token: rand::random(),
        };
        self.engine.join(new).await.expect("joined").instance.id
    }

    pub async fn send(&self, from: Principal, to: &str, body: &str) -> Result<Appended, SendError> {
        self.send_with(from, to, body, Details::default()).await
    }

    pub async fn send_with(
        &self,
        from: Principal,
        to: &str,
        body: &str,
        details: Details,
    ) -> Result<Appended, SendError> {
        let to = to.parse().expect("a good address");
        let draft = Draft::new(from, to, body.into(), details, Via::Rest, &self.limits)?;
        self.engine.append(draft).await
    }

    pub async fn read(&self, reader: Principal, answer: u64) -> Vec<Leased> {
        self.read_some(reader, answer, usize::MAX).await
    }

    async fn read_some(&self, reader: Principal, answer: u64, messages: usize) -> Vec<Leased> {
        let take = Take {
            reader,
            answer: AnswerId(answer),
            filter: Filter::default(),
            messages,
            bytes: usize::MAX,
            clips: None,
        };
        self.engine.lease(take).await.expect("a lease").mail
    }

    async fn states(&self, seq: Seq) -> Vec<RecordState> {
        let record = self.engine.message(MessageRef::Seq(seq)).await.expect("a look");
        record.map_or_else(Vec::new, |r| r.deliveries.iter().map(|d| d.state).collect())
    }
}

fn address(who: Principal) -> String {
    who.to_string()
}

fn bodies(mail: &[Leased]) -> Vec<&str> {
    mail.iter().map(|l| l.message.body.as_str()).collect()
}

pub async fn a_ticket_is_put_before_the_sender_is_answered(rig: Rig) {
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &address(bob), "hello").await.expect("accepted");
    let tickets = rig.queue.0.lock();
    let bobs = Principal::instance(bob).map(Mailbox::Instance);
    assert_eq!(tickets.iter().map(|t| Some(t.mailbox.clone())).collect::<Vec<_>>(), [bobs]);
}

pub async fn numbers_grow_without_gaps_and_ids_differ(rig: Rig) {
    let bob = rig.agent("bob").await;
    let mut seen = Vec::new();
    for n in 0..20 {
        let sent = rig.send(HUMAN, &address(bob), &format!("{n}")).await.expect("accepted");
        seen.push((sent.seq.0, sent.id));
    }
    let first = seen[0].0;
    assert!(seen.iter().enumerate().all(|(i, (seq, _))| *seq == first + i as u64));
    seen.sort_by_key(|(_, id)| *id);
    seen.dedup_by_key(|(_, id)| *id);
    assert_eq!(seen.len(), 20);
}

pub async fn a_refused_send_leaves_nothing_behind(rig: Rig) {
    let bob = rig.agent("bob").await;
    let before = rig.send(HUMAN, &address(bob), "one").await.expect("accepted").seq;
    for nowhere in ["nobody", "00000001", "bob@nowhere", "@anyone@nowhere"] {
        let refused = rig.send(HUMAN, nowhere, "two").await;
        assert!(matches!(refused, Err(SendError::NoRecipient { .. })), "{nowhere}");
    }
    let after = rig.send(HUMAN, &address(bob), "three").await.expect("accepted").seq;
    assert_eq!(after.0, before.0 + 1);
}

pub async fn a_delivery_has_at_most_one_lease(rig: Rig) {
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &address(bob), "hello").await.expect("accepted");
    let (a, b) = tokio::join!(rig.read(bob, 1), rig.read(bob, 2));
    assert_eq!(a.len() + b.len(), 1);
}

pub async fn urgent_mail_comes_first_then_by_number(rig: Rig) {
    let bob = rig.agent("bob").await;
    let urgent = || Details { priority: Priority::Urgent, ..Details::default() };
    rig.send(HUMAN, &address(bob), "1").await.expect("accepted");
    rig.send(HUMAN, &address(bob), "2").await.expect("accepted");
    rig.send_with(HUMAN, &address(bob), "3!", urgent()).await.expect("accepted");
    rig.send_with(HUMAN, &address(bob), "4!", urgent()).await.expect("accepted");
    assert_eq!(bodies(&rig.read(bob, 1).await), ["3!", "4!", "1", "2"]);
}

pub async fn a_read_claims_one_message_of_a_one_of_mailbox(rig: Rig) {
    let (one, two) = (rig.agent("mason").await, rig.agent("mason").await);
    for n in 0..3 {
        rig.send(HUMAN, "mason", &format!("{n}")).await.expect("accepted");
    }
    assert_eq!(bodies(&rig.read(one, 1).await), ["0"]);
    assert_eq!(bodies(&rig.read(two, 2).await), ["1"]);
    assert_eq!(bodies(&rig.read(one, 3).await), ["2"]);
}

pub async fn a_sender_never_claims_its_own_mail(rig: Rig) {
    let (one, two) = (rig.agent("mason").await, rig.agent("mason").await);
    rig.send(one, "mason", "to the other").await.expect("accepted");
    assert!(rig.read(one, 1).await.is_empty());
    assert_eq!(bodies(&rig.read(two, 2).await), ["to the other"]);
}

pub async fn what_is_given_back_comes_again_marked_in_its_old_place(rig: Rig) {
    let bob = rig.agent("bob").await;
    for n in 0..3 {
        rig.send(HUMAN, &address(bob), &format!("{n}")).await.expect("accepted");
    }
    let first = rig.read_some(bob, 1, 1).await;
    assert!(!first[0].redelivered);
    rig.engine.give_back(bob, &[first[0].delivery], AnswerId(1), false);
    let again = rig.read(bob, 2).await;
    assert_eq!(bodies(&again), ["0", "1", "2"]);
    assert_eq!(again.iter().map(|l| l.redelivered).collect::<Vec<_>>(), [true, false, false]);
}

pub async fn a_stale_answer_gives_nothing_back(rig: Rig) {
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &address(bob), "x").await.expect("accepted");
    let mail = rig.read(bob, 1).await;
    rig.engine.give_back(bob, &[mail[0].delivery], AnswerId(9), false);
    assert!(rig.read(bob, 2).await.is_empty(), "the first answer still holds it");
}

pub async fn an_ack_is_final_and_may_be_repeated(rig: Rig) {
    let bob = rig.agent("bob").await;
    let sent = rig.send(HUMAN, &address(bob), "x").await.expect("accepted");
    let mail = rig.read(bob, 1).await;
    let what = || What::Deliveries(vec![mail[0].delivery]);
    assert_eq!(rig.engine.ack(bob, what(), Proof::Receipt).await.expect("acked").acked, 1);
    assert_eq!(rig.engine.ack(bob, what(), Proof::Receipt).await.expect("no error").acked, 0);
    assert_eq!(rig.states(sent.seq).await, [RecordState::Acked(Proof::Receipt)]);
    assert!(rig.read(bob, 2).await.is_empty());
}

pub async fn a_late_ack_settles_what_lies_queued_again(rig: Rig) {
    let bob = rig.agent("bob").await;
    let sent = rig.send(HUMAN, &address(bob), "x").await.expect("accepted");
    let mail = rig.read(bob, 1).await;
    rig.engine.give_back(bob, &[mail[0].delivery], AnswerId(1), false);
    let acked = rig.engine.ack(bob, What::Messages(vec![sent.seq]), Proof::Receipt).await;
    assert_eq!(acked.expect("acked").acked, 1);
    assert!(rig.read(bob, 2).await.is_empty());
}

pub async fn nobody_acks_or_refuses_what_another_holds(rig: Rig) {
    let (one, two) = (rig.agent("mason").await, rig.agent("mason").await);
    let sent = rig.send(HUMAN, "mason", "x").await.expect("accepted");
    assert_eq!(rig.read(one, 1).await.len(), 1);
    let what = || What::Messages(vec![sent.seq]);
    let acked = rig.engine.ack(two, what(), Proof::Receipt).await.expect("answered");
    assert_eq!((acked.acked, acked.lost), (0, vec![sent.seq]));
    let nacked = rig.engine.nack(two, what()).await.expect("answered");
    assert_eq!((nacked.returned, nacked.lost), (0, vec![sent.seq]));
    assert_eq!(rig.states(sent.seq).await, [RecordState::Leased]);
}

pub async fn the_fifth_refusal_is_the_last(rig: Rig) {
    let bob = rig.agent("bob").await;
    let sent = rig.send(HUMAN, &address(bob), "x").await.expect("accepted");
    for attempt in 1..=5 {
        let mail = rig.read(bob, attempt).await;
        assert_eq!(mail.len(), 1, "attempt {attempt}");
        let what = What::Deliveries(vec![mail[0].delivery]);
        let nacked = rig.engine.nack(bob, what).await.expect("answered");
        assert_eq!((nacked.returned, nacked.refused), if attempt < 5 { (1, 0) } else { (0, 1) });
    }
    let dead = RecordState::Dead { reason: Reason::Refused, maybe_seen: true };
    assert_eq!(rig.states(sent.seq).await, [dead]);
}

pub async fn cancel_takes_back_queued_mail_only(rig: Rig) {
    let bob = rig.agent("bob").await;
    let sent = rig.send(HUMAN, &address(bob), "x").await.expect("accepted");
    let mail = rig.read(bob, 1).await;
    assert!(rig.engine.cancel(sent.seq).await.is_err(), "it is leased");
    rig.engine.give_back(bob, &[mail[0].delivery], AnswerId(1), false);
    rig.engine.cancel(sent.seq).await.expect("cancelled");
    let dead = RecordState::Dead { reason: Reason::Cancelled, maybe_seen: true };
    assert_eq!(rig.states(sent.seq).await, [dead]);
    assert!(rig.engine.cancel(sent.seq).await.is_err(), "it is dead");
}

pub async fn dead_mail_can_be_queued_again_marked_if_seen(rig: Rig) {
    let bob = rig.agent("bob").await;
    let sent = rig.send(HUMAN, &address(bob), "x").await.expect("accepted");
    assert!(rig.engine.requeue(sent.seq).await.is_err(), "it is not dead");
    rig.engine.cancel(sent.seq).await.expect("cancelled");
    rig.engine.requeue(sent.seq).await.expect("queued again");
    assert!(rig.engine.requeue(sent.seq).await.is_err(), "it is queued");
    let mail = rig.read(bob, 1).await;
    assert_eq!(bodies(&mail), ["x"]);
    assert!(!mail[0].redelivered, "nobody had it before");
}

pub async fn mail_dies_when_its_time_is_over_and_not_before(rig: Rig) {
    let bob = rig.agent("bob").await;
    let ttl = Details { ttl: Some(Duration::from_secs(10)), ..Details::default() };
    let sent = rig.send_with(HUMAN, &address(bob), "x", ttl).await.expect("accepted");
    rig.clock.advance(Duration::from_secs(9));
    rig.engine.sweep().await.expect("swept");
    assert_eq!(rig.states(sent.seq).await, [RecordState::Queued]);
    rig.clock.advance(Duration::from_secs(2));
    assert!(rig.read(bob, 1).await.is_empty(), "expired before the sweep came by");
    assert_eq!(rig.engine.sweep().await.expect("swept").expired, 1);
    let dead = RecordState::Dead { reason: Reason::Expired, maybe_seen: false };
    assert_eq!(rig.states(sent.seq).await, [dead]);
}

pub async fn the_same_key_is_the_same_message(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let key = || Details { idempotency_key: Some("k".into()), ..Details::default() };
    let to = address(bob);
    let (a, b) =
        tokio::join!(rig.send_with(alice, &to, "x", key()), rig.send_with(alice, &to, "x", key()),);
    let (a, b) = (a.expect("accepted"), b.expect("accepted"));
    assert_eq!((a.seq, a.id), (b.seq, b.id));
    assert!(a.duplicate != b.duplicate, "one of them is the first");
    let other = rig.send_with(alice, &address(bob), "y", key()).await;
    assert!(matches!(other, Err(SendError::KeyReused { seq }) if seq == a.seq));
    let human = rig.send_with(HUMAN, &address(bob), "x", key()).await.expect("another sender");
    assert!(!human.duplicate);
    assert_eq!(rig.read(bob, 1).await.len(), 2);
}

pub async fn a_full_mailbox_refuses_all_but_results_and_answers(rig: Rig) {
    let bob = rig.agent("bob").await;
    for n in 0..rig.limits.mailbox_messages {
        rig.send(HUMAN, &address(bob), &format!("{n}")).await.expect("there is room");
    }
    let refused = rig.send(HUMAN, &address(bob), "one more").await;
    assert!(matches!(refused, Err(SendError::MailboxFull { .. })));
    for kind in ["result", "answer"] {
        let kind = kind.parse().expect("a good type");
        let details = Details { kind, ..Details::default() };
        rig.send_with(HUMAN, &address(bob), "done", details).await.expect("always fits");
    }
}

pub async fn an_end_is_one_transaction(rig: Rig) {
    let (bob, eve) = (rig.agent("bob").await, rig.agent("bob").await);
    let held = rig.send(HUMAN, &address(bob), "in its hands").await.expect("accepted");
    let mail = rig.read(bob, 1).await;
    assert_eq!(mail.len(), 1);
    let unseen = rig.send(HUMAN, &address(bob), "never read").await.expect("accepted");
    let shared = rig.send(HUMAN, "bob", "for any bob").await.expect("accepted");
    assert_eq!(rig.read_some(bob, 2, 1).await.len(), 1);
    let one_of = rig.read_some(bob, 3, 1).await;
    assert_eq!(bodies(&one_of), ["for any bob"]);

    let id = bob.instance().expect("an instance");
    rig.engine.end(id, Ending::plain(Status::Stopped, Vec::new())).await.expect("ended");
    let gone = |maybe_seen| RecordState::Dead { reason: Reason::RecipientGone, maybe_seen };
    assert_eq!(rig.states(held.seq).await, [gone(true)]);
    assert_eq!(rig.states(unseen.seq).await, [gone(true)]);
    assert_eq!(rig.states(shared.seq).await, [RecordState::Queued]);
    let again = rig.read(eve, 4).await;
    assert_eq!((bodies(&again), again[0].redelivered), (vec!["for any bob"], true));

    let refused = rig.send(HUMAN, &address(bob), "too late").await;
    assert!(matches!(refused, Err(SendError::RecipientGone { .. })));
    let twice = rig.engine.end(id, Ending::plain(Status::Failed, Vec::new())).await;
    assert!(matches!(twice, Err(RegistryError::Ended(_))));
}

pub async fn an_end_proves_only_what_that_answer_still_holds(rig: Rig) {
    let bob = rig.agent("bob").await;
    let seen = rig.send(HUMAN, &address(bob), "seen").await.expect("accepted");
    let [first] = &rig.read(bob, 1).await[..] else { panic!("one message") };
    let again = rig.send(HUMAN, &address(bob), "on its way again").await.expect("accepted");
    let [second] = &rig.read(bob, 2).await[..] else { panic!("one message") };
    rig.engine.give_back(bob, &[second.delivery], AnswerId(2), false);
    assert_eq!(rig.read(bob, 3).await.len(), 1);

    let acked = vec![(AnswerId(1), first.delivery), (AnswerId(2), second.delivery)];
    let id = bob.instance().expect("an instance");
    rig.engine.end(id, Ending::plain(Status::Finished, acked)).await.expect("ended");
    assert_eq!(rig.states(seen.seq).await, [RecordState::Acked(Proof::End)]);
    let gone = RecordState::Dead { reason: Reason::RecipientGone, maybe_seen: true };
    assert_eq!(rig.states(again.seq).await, [gone]);
}

pub async fn the_silent_are_lost_and_come_back(rig: Rig) {
    let (one, two) = (rig.agent("mason").await, rig.agent("mason").await);
    rig.send(HUMAN, "mason", "for one of you").await.expect("accepted");
    rig.send(HUMAN, &address(one), "for you").await.expect("accepted");
    assert_eq!(rig.read(one, 1).await.len(), 2);
    rig.clock.advance(rig.limits.lost_after + Duration::from_secs(1));
    rig.engine.seen(two);
    assert_eq!(rig.engine.sweep().await.expect("swept").lost, 1);
    let status = |who: Principal| {
        let view = rig.engine.ledger(|l| l.instance(who.instance().expect("an instance")));
        view.expect("known").instance.status
    };
    assert_eq!((status(one), status(two)), (Status::Lost, Status::Running));
    assert_eq!(bodies(&rig.read(two, 2).await), ["for one of you"], "one-of mail goes on");
    rig.send(HUMAN, &address(one), "still an address").await.expect("accepted");
    rig.engine.seen(one);
    assert_eq!(status(one), Status::Running);
    assert_eq!(bodies(&rig.read(one, 3).await), ["still an address"], "its own stays leased");
}

pub async fn settled_mail_is_pruned_after_a_day_and_unread_mail_never(rig: Rig) {
    let bob = rig.agent("bob").await;
    let read = rig.send(HUMAN, &address(bob), "read").await.expect("accepted");
    let mail = rig.read(bob, 1).await;
    let what = What::Deliveries(vec![mail[0].delivery]);
    rig.engine.ack(bob, what, Proof::Receipt).await.expect("acked");
    let unread = rig.send(HUMAN, &address(bob), "unread").await.expect("accepted");
    let dead = rig.send(HUMAN, &address(bob), "dead").await.expect("accepted");
    rig.engine.cancel(dead.seq).await.expect("cancelled");

    rig.clock.advance(rig.limits.settled_retention - Duration::from_secs(1));
    assert_eq!(rig.engine.sweep().await.expect("swept").pruned, 0);
    rig.clock.advance(rig.limits.prune + Duration::from_secs(1));
    assert_eq!(rig.engine.sweep().await.expect("swept").pruned, 1);
    assert!(rig.states(read.seq).await.is_empty());
    rig.clock.advance(rig.limits.dead_retention);
    assert_eq!(rig.engine.sweep().await.expect("swept").pruned, 1);
    assert!(rig.states(dead.seq).await.is_empty());
    assert_eq!(rig.states(unread.seq).await, [RecordState::Queued]);
    let next = rig.send(HUMAN, &address(bob), "next").await.expect("accepted");
    assert_eq!(next.seq.0, dead.seq.0 + 1, "a number is never given twice");
}

pub async fn mail_beyond_the_window_is_read_from_the_store(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let many = rig.limits.window_messages + 5;
    for n in 0..many {
        let label = (n + 1 == many).then(|| "last".to_owned());
        let details = Details { label, ..Details::default() };
        rig.send_with(alice, &address(bob), &format!("{n}"), details).await.expect("accepted");
    }
    let filter = Filter { label: Some("last".into()), ..Filter::default() };
    let survey = rig.engine.survey(bob, filter.clone()).await.expect("a survey");
    assert_eq!(survey.waiting, 1);
    let take = Take {
        reader: bob,
        answer: AnswerId(1),
        filter,
        messages: 10,
        bytes: usize::MAX,
        clips: None,
    };
    let found = rig.engine.lease(take).await.expect("a lease");
    assert_eq!(bodies(&found.mail), [format!("{}", many - 1)]);
    let rest = rig.read(bob, 2).await;
    let expected: Vec<String> = (0..many - 1).map(|n| n.to_string()).collect();
    assert_eq!(bodies(&rest), expected);
}

pub async fn history_shows_and_never_consumes(rig: Rig) {
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    for n in 0..5 {
        rig.send(alice, &address(bob), &format!("{n}")).await.expect("accepted");
    }
    let bobs = Mailbox::Instance(bob.instance().expect("an instance"));
    let query = |last, before| HistoryQuery {
        mailbox: Some(bobs.clone()),
        last,
        before,
        ..HistoryQuery::default()
    };
    let page = rig.engine.history(query(2, None)).await.expect("history").records;
    let text = |r: &posthaste_core::ports::Record| r.message.body.to_string();
    assert_eq!(page.iter().map(text).collect::<Vec<_>>(), ["3", "4"]);
    let before = Some(page[0].message.seq);
    let page = rig.engine.history(query(9, before)).await.expect("history").records;
    assert_eq!(page.iter().map(text).collect::<Vec<_>>(), ["0", "1", "2"]);
    assert_eq!(rig.read(bob, 1).await.len(), 5, "all are still there");
    let leased = HistoryQuery { status: Some("leased"), ..query(9, None) };
    assert_eq!(rig.engine.history(leased).await.expect("history").records.len(), 5);
    let strangers = HistoryQuery { of: rig.agent("eve").await.instance(), ..query(9, None) };
    assert!(rig.engine.history(strangers).await.expect("history").records.is_empty());
}

/// Runs every promise against the store that `$rig` makes (an async expression).
#[macro_export]
macro_rules! store_suite {
    ($rig:expr) => {
        $crate::store_suite! { $rig;
            a_ticket_is_put_before_the_sender_is_answered
            numbers_grow_without_gaps_and_ids_differ
            a_refused_send_leaves_nothing_behind
            a_delivery_has_at_most_one_lease
            urgent_mail_comes_first_then_by_number
            a_read_claims_one_message_of_a_one_of_mailbox
            a_sender_never_claims_its_own_mail
            a_read_can_be_of_what_nobody_else_could_take
            a_read_can_be_of_messages_by_number
            what_the_human_says_to_a_question_is_linked_to_it_or_to_nothing
            it_is_known_what_a_sender_had_not_read_yet
            what_nobody_was_shown_goes_back_as_it_was
            what_is_given_back_comes_again_marked_in_its_old_place
            a_stale_answer_gives_nothing_back
            an_ack_is_final_and_may_be_repeated
            a_late_ack_settles_what_lies_queued_again
            nobody_acks_or_refuses_what_another_holds
            the_fifth_refusal_is_the_last
            cancel_takes_back_queued_mail_only
            dead_mail_can_be_queued_again_marked_if_seen
            mail_dies_when_its_time_is_over_and_not_before
            the_same_key_is_the_same_message
            a_full_mailbox_refuses_all_but_results_and_answers
            an_end_is_one_transaction
            an_end_proves_only_what_that_answer_still_holds
            one_of_mail_is_the_own_of_the_only_one_alive
            who_closes_its_last_connection_is_away_at_once
            an_open_call_keeps_its_instance_alive_and_a_while_after
            a_call_that_ends_after_the_last_connection_is_no_sign_of_life
            who_is_gone_is_forgotten_unless_it_has_mail
            the_silent_are_lost_and_come_back
            settled_mail_is_pruned_after_a_day_and_unread_mail_never
            a_key_and_its_secret_bring_the_same_instance_back
            a_key_without_its_secret_is_refused_while_its_owner_lives
            an_owner_finds_its_instance_although_a_stranger_took_its_key
            who_shows_the_wrong_secret_changes_nothing_of_the_owner
            mail_beyond_the_window_is_read_from_the_store
            history_shows_and_never_consumes
            events_are_numbered_in_order_and_none_is_left_out
            the_journal_is_forgotten_after_its_time_and_its_numbers_are_not
            history_finds_what_is_open_by_whom_it_concerns
            history_goes_forward_from_a_number_and_ends
            history_shows_what_all_its_filters_name
            a_page_ends_where_the_answer_is_full_and_says_where_to_go_on
            leaders_see_what_is_addressed_to_their_team_and_take_nothing
            a_thread_is_seen_by_the_family_of_its_owner
            a_marking_read_settles_what_it_shows_and_only_the_readers_own
            two_marking_reads_never_give_the_same_unread_message
            replies_are_found_by_what_they_answer
            a_thread_is_counted_for_whoever_asks
            what_is_open_and_what_is_kept_is_counted
            refusals_and_requeues_are_noted_with_their_time
            figures_tell_what_became_of_mail
            a_probe_writes_and_leaves_nothing
        }
    };
    ($rig:expr; $($promise:ident)*) => {
        $(
            #[tokio::test]
            async fn $promise() {
                $crate::store_suite::$promise($rig.await).await;
            }
        )*
    };
}
