//! How a delivery ends: acked by whatever proof, refused, cancelled, expired,
//! queued once more, pruned.

use std::task::Poll;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::clients;
use posthaste_core::messaging::delivery::{Proof, Reason};
use posthaste_core::messaging::message::{Details, Kind, MessageRef, Seq};
use posthaste_core::messaging::proof::{Hook, Moment};
use posthaste_core::messaging::receive::{Ask, BatchStatus};
use posthaste_core::ports::{ActError, RecordState};
use posthaste_core::registry::Status;
use posthaste_testkit::world::{Agent, World};
use tokio::time::sleep;

const HOUR: Duration = Duration::from_secs(3600);

async fn alice_and_bob(world: &World) -> (Agent, Agent) {
    (world.agent("alice").await, world.agent("bob").await)
}

fn dead(reason: Reason, maybe_seen: bool) -> RecordState {
    RecordState::Dead { reason, maybe_seen }
}

fn which(seq: Seq) -> MessageRef {
    MessageRef::Seq(seq)
}

#[tokio::test(start_paused = true)]
async fn naming_the_receipt_settles_the_answer_and_only_that() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let first = alice.sends(&bob, "one").await;
    let one = bob.reads().await;
    let second = alice.sends(&bob, "two").await;
    bob.reads().await;
    let acked = world.hub.ack_receipt(bob.who, one.receipt).await.expect("acked");
    assert_eq!((acked.acked, acked.settled), (1, vec![first.seq]));
    assert_eq!(world.state(first.seq).await, RecordState::Acked(Proof::Receipt));
    assert_eq!(world.state(second.seq).await, RecordState::Leased);
    let again = world.hub.ack_receipt(bob.who, one.receipt).await.expect("ignored");
    assert_eq!(again.acked, 0, "a client that lost our answer may say it again");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_receipt_or_anothers_is_ignored() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    let answer = bob.reads().await;
    for (who, receipt) in [(bob.who, 4711), (alice.who, answer.receipt)] {
        assert_eq!(world.hub.ack_receipt(who, receipt).await.expect("ignored").acked, 0);
        assert_eq!(world.hub.nack_receipt(who, receipt).await.expect("ignored").returned, 0);
    }
    assert_eq!(world.state(sent.seq).await, RecordState::Leased);
}

#[tokio::test(start_paused = true)]
async fn a_receipt_beside_the_next_call_settles_too() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    let answer = bob.reads().await;
    let next = bob.asks(Ask { receipt: Some(answer.receipt), ..bob.ask() }).await;
    assert!(next.mail.is_empty());
    world.settles().await;
    assert_eq!(world.state(sent.seq).await, RecordState::Acked(Proof::Receipt));
}

#[tokio::test(start_paused = true)]
async fn a_receipt_beside_a_beginning_settles_before_the_beginning_returns_it() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    let answer = bob.reads().await;
    let anew = Ask { receipt: Some(answer.receipt), begin: true, ..bob.ask() };
    assert!(bob.asks(anew).await.mail.is_empty());
    world.settles().await;
    assert_eq!(world.state(sent.seq).await, RecordState::Acked(Proof::Receipt));
}

#[tokio::test(start_paused = true)]
async fn a_late_ack_still_settles_what_lies_queued_again() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    let answer = bob.reads().await;
    world.hub.begin(bob.who, posthaste_core::messaging::proof::Scope::All);
    assert_eq!(world.state(sent.seq).await, RecordState::Queued);
    bob.acks(&answer).await;
    assert_eq!(world.state(sent.seq).await, RecordState::Acked(Proof::Receipt));
    assert!(bob.reads().await.mail.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_never_handed_out_cannot_be_acked() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    let acked = world.hub.ack_messages(bob.who, vec![sent.seq]).await.expect("an answer");
    assert_eq!((acked.acked, acked.lost), (0, vec![sent.seq]));
    assert_eq!(bob.reads().await.marked(), [("hello", false)]);
}

#[tokio::test(start_paused = true)]
async fn ack_auto_consumes_what_was_written_and_nothing_else() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    let ask = || Ask { auto_ack: true, ..bob.ask() };
    drop(bob.receives(ask()).await);
    assert_eq!(world.state(sent.seq).await, RecordState::Queued, "it never left");
    assert_eq!(bob.asks(ask()).await.marked(), [("hello", true)]);
    world.settles().await;
    assert_eq!(world.state(sent.seq).await, RecordState::Acked(Proof::Auto));
}

#[tokio::test(start_paused = true)]
async fn ack_auto_of_an_answer_whose_mail_went_back_consumes_nothing() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    let slow = bob.receives(Ask { auto_ack: true, ..bob.ask() }).await;
    world.hub.begin(bob.who, posthaste_core::messaging::proof::Scope::All);
    let new = bob.reads().await;
    assert_eq!(new.marked(), [("hello", true)]);
    slow.written();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.state(sent.seq).await, RecordState::Leased, "the new reader has it");
}

#[tokio::test(start_paused = true)]
async fn a_reply_proves_that_its_sender_had_the_message() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let question = alice.sends(&bob, "ready?").await;
    let reply = || Details { in_reply_to: Some(question.seq), ..Details::default() };
    alice.tries(&bob, "hm", reply()).await.expect("accepted");
    assert_eq!(world.state(question.seq).await, RecordState::Queued, "not the holder's reply");
    bob.reads().await;
    let answer = bob.sends_with(&alice, "yes", reply()).await;
    assert_eq!(world.state(question.seq).await, RecordState::Acked(Proof::Reply));
    let record = world.record(answer.seq).await.expect("kept");
    assert_eq!(record.message.in_reply_to, Some(question.seq));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_sent_again_settles_nothing_and_lets_go_of_nothing() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let question = alice.sends(&bob, "ready?").await;
    let reply = || Details {
        in_reply_to: Some(question.seq),
        idempotency_key: Some("k".into()),
        ..Details::default()
    };
    bob.sends_with(&alice, "yes", reply()).await;
    bob.reads().await;
    assert!(bob.sends_with(&alice, "yes", reply()).await.duplicate);
    assert_eq!(world.state(question.seq).await, RecordState::Leased);
    world.hub.begin(bob.who, posthaste_core::messaging::proof::Scope::All);
    assert_eq!(bob.reads().await.marked(), [("ready?", true)]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_refused_proves_nothing() {
    let world = World::with(Limits { mailbox_messages: 1, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    let question = alice.sends(&bob, "ready?").await;
    bob.reads().await;
    bob.sends(&alice, "fills the mailbox").await;
    let reply = Details { in_reply_to: Some(question.seq), ..Details::default() };
    assert!(bob.tries(&alice, "yes", reply).await.is_err());
    assert_eq!(world.state(question.seq).await, RecordState::Leased);
}

#[tokio::test(start_paused = true)]
async fn the_fifth_refusal_is_the_last() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    for round in 1..=5 {
        let answer = bob.reads().await;
        assert_eq!(answer.marked(), [("hello", round > 1)]);
        let nacked = world.hub.nack_receipt(bob.who, answer.receipt).await.expect("refused");
        assert_eq!((nacked.returned, nacked.refused), if round < 5 { (1, 0) } else { (0, 1) });
    }
    assert_eq!(world.state(sent.seq).await, dead(Reason::Refused, true));
    assert!(bob.reads().await.mail.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_refusals_count_as_attempts() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    for _ in 0..20 {
        drop(bob.receives(bob.ask()).await);
    }
    let answer = bob.reads().await;
    world.hub.nack_messages(bob.who, vec![sent.seq]).await.expect("refused");
    assert_eq!(answer.mail.len(), 1);
    assert_eq!(world.state(sent.seq).await, RecordState::Queued);
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_not_proved_by_going_on() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    bob.asks(bob.mcp("1")).await;
    world.hub.nack_messages(bob.who, vec![sent.seq]).await.expect("refused");
    let hook = world.hub.hook(bob.who, &Hook::new(Moment::Stop, &clients::UNKNOWN));
    let hook = hook.expect("it may carry mail");
    world.hub.enclose(hook, None).await.expect("an answer").handed.written();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.state(sent.seq).await, RecordState::Queued);
}

#[tokio::test(start_paused = true)]
async fn queued_mail_can_be_taken_back_by_its_sender_and_the_operator_only() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let one = alice.sends(&bob, "one").await;
    let two = alice.sends(&bob, "two").await;
    let foreign = world.hub.cancel(bob.who, which(one.seq)).await;
    assert!(matches!(foreign, Err(ActError::NotFound)), "{foreign:?}");
    world.hub.cancel(alice.who, which(one.seq)).await.expect("cancelled");
    world.hub.cancel(world.operator().who, which(two.seq)).await.expect("cancelled");
    for seq in [one.seq, two.seq] {
        assert_eq!(world.state(seq).await, dead(Reason::Cancelled, false));
    }
    assert!(bob.reads().await.mail.is_empty());
    let twice = world.hub.cancel(alice.who, which(one.seq)).await;
    assert!(matches!(twice, Err(ActError::Conflict(_))), "{twice:?}");
}

#[tokio::test(start_paused = true)]
async fn leased_mail_cannot_be_taken_back() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    bob.reads().await;
    let refused = world.hub.cancel(alice.who, which(sent.seq)).await;
    assert!(matches!(refused, Err(ActError::Refused(_))), "{refused:?}");
    assert_eq!(world.state(sent.seq).await, RecordState::Leased);
}

#[tokio::test(start_paused = true)]
async fn mail_dies_when_its_time_is_over_and_not_in_somebodys_hands() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let ttl = || Details { ttl: Some(Duration::from_secs(10)), ..Details::default() };
    let alone = alice.sends_with(&bob, "alone", ttl()).await;
    sleep(Duration::from_secs(9)).await;
    assert_eq!(world.state(alone.seq).await, RecordState::Queued);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(world.state(alone.seq).await, dead(Reason::Expired, false));

    let held = alice.sends_with(&bob, "held", ttl()).await;
    let answer = bob.receives(bob.ask()).await;
    sleep(HOUR).await;
    assert_eq!(world.state(held.seq).await, RecordState::Leased);
    drop(answer);
    assert!(bob.reads().await.mail.is_empty(), "the expired are nobody's");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.state(held.seq).await, dead(Reason::Expired, true));
}

#[tokio::test(start_paused = true)]
async fn mail_that_comes_back_after_its_time_dies_at_once_and_remains_for_nobody() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let short = Details { ttl: Some(Duration::from_secs(10)), ..Details::default() };
    for way in ["nacked by receipt", "nacked by id", "begun anew", "never written"] {
        let sent = alice.sends_with(&bob, "too late", short.clone()).await;
        let answer = bob.receives(bob.ask()).await;
        sleep(HOUR).await;
        match way {
            "nacked by receipt" => {
                let receipt = answer.written().receipt;
                world.hub.nack_receipt(bob.who, receipt).await.expect("refused");
            }
            "nacked by id" => {
                answer.written();
                world.hub.nack_messages(bob.who, vec![sent.seq]).await.expect("refused");
            }
            "begun anew" => {
                answer.written();
                let next = bob.asks(Ask { begin: true, ..bob.ask() }).await;
                assert_eq!((next.mail.len(), next.remaining), (0, 0), "{way}");
            }
            _ => drop(answer),
        }
        let next = bob.reads().await;
        assert_eq!((next.status, next.remaining), (BatchStatus::Empty, 0), "{way}");
        // Less than a sweep.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.state(sent.seq).await, dead(Reason::Expired, true), "{way}");
    }
    let shared = alice.sends_with("bob", "for any bob", short).await;
    bob.reads().await;
    sleep(Duration::from_secs(11)).await;
    world.hub.end(bob.id(), Status::Stopped, false).await.expect("ended");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.state(shared.seq).await, dead(Reason::Expired, true), "its reader ended");
}

#[tokio::test(start_paused = true)]
async fn dead_mail_gets_another_chance_marked_if_anybody_may_have_seen_it() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let unseen = alice.sends(&bob, "unseen").await;
    world.hub.cancel(alice.who, which(unseen.seq)).await.expect("cancelled");
    let seen = alice.sends(&bob, "seen").await;
    for _ in 0..5 {
        bob.reads().await;
        world.hub.nack_messages(bob.who, vec![seen.seq]).await.expect("refused");
    }
    let alive = world.hub.requeue(alice.who, which(seen.seq)).await.expect("queued again");
    assert_eq!(alive.deliveries[0].state, RecordState::Queued);
    let waiting = bob.waits(bob.ask_within(HOUR / 6)).await;
    assert_eq!(waiting.await.expect("no panic").marked(), [("seen", true)]);
    world.hub.requeue(world.operator().who, which(unseen.seq)).await.expect("queued again");
    assert_eq!(bob.reads().await.marked(), [("unseen", false)]);
    let alive = world.hub.requeue(alice.who, which(unseen.seq)).await;
    assert!(matches!(alive, Err(ActError::Conflict(_))), "{alive:?}");
}

#[tokio::test(start_paused = true)]
async fn two_requeues_at_once_bring_one_message() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    world.hub.cancel(alice.who, which(sent.seq)).await.expect("cancelled");
    let again = || world.hub.requeue(alice.who, which(sent.seq));
    let (one, two, three) = tokio::join!(again(), again(), again());
    let good = [&one, &two, &three].iter().filter(|r| r.is_ok()).count();
    assert_eq!(good, 1, "{one:?} {two:?} {three:?}");
    assert_eq!(bob.takes().await.marked(), [("hello", false)]);
    assert!(bob.reads().await.mail.is_empty(), "once, not twice");
    assert_eq!(world.hub.instance(bob.id()).expect("known").unread, 0);
}

#[tokio::test(start_paused = true)]
async fn dead_mail_does_not_come_back_into_a_full_mailbox() {
    let world = World::with(Limits { mailbox_messages: 2, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "one").await;
    world.hub.cancel(alice.who, which(sent.seq)).await.expect("cancelled");
    alice.sends(&bob, "two").await;
    alice.sends(&bob, "three").await;
    let refused = world.hub.requeue(alice.who, which(sent.seq)).await;
    assert!(matches!(refused, Err(ActError::Conflict(_))), "{refused:?}");
    assert_eq!(world.state(sent.seq).await, dead(Reason::Cancelled, false));
    assert_eq!(bob.takes().await.texts(), ["two", "three"]);
    world.hub.requeue(alice.who, which(sent.seq)).await.expect("there is room again");
    assert_eq!(bob.takes().await.texts(), ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_report_comes_back_into_a_full_mailbox_as_it_came_the_first_time() {
    let world = World::with(Limits { mailbox_messages: 1, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    let result = Details { kind: Kind::RESULT, ..Details::default() };
    let sent = alice.sends_with(&bob, "all done", result).await;
    world.hub.cancel(alice.who, which(sent.seq)).await.expect("cancelled");
    alice.sends(&bob, "it is full now").await;
    world.hub.requeue(alice.who, which(sent.seq)).await.expect("a report always fits");
    assert_eq!(bob.takes().await.texts(), ["all done", "it is full now"]);
}

#[test]
fn a_slow_requeue_does_not_bring_back_what_was_read_meanwhile() {
    // Its only thread for files is busy, so that the slow look surely waits.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let world = World::at(folder.path());
        let (alice, bob) = alice_and_bob(&world).await;
        let sent = alice.sends(&bob, "hello").await;
        world.hub.cancel(alice.who, which(sent.seq)).await.expect("cancelled");
        let mut slow = Box::pin(world.engine.requeue(sent.seq));
        let (free, held) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || held.recv());
        // It looks at the message while that is dead, and goes on later.
        let glance = std::future::poll_fn(|cx| Poll::Ready(slow.as_mut().poll(cx).is_pending()));
        assert!(glance.await);
        drop(free);
        assert!(busy.await.expect("no panic").is_err());
        world.hub.requeue(alice.who, which(sent.seq)).await.expect("queued again");
        assert_eq!(bob.takes().await.texts(), ["hello"]);
        let refused = slow.await;
        assert!(matches!(refused, Err(ActError::Conflict(_))), "{refused:?}");
        assert_eq!(world.state(sent.seq).await, RecordState::Acked(Proof::Receipt));
        assert!(bob.reads().await.mail.is_empty());
    });
}

#[tokio::test(start_paused = true)]
async fn settled_mail_is_pruned_a_day_later_and_unread_mail_never() {
    let world = World::with(Limits { sweep: HOUR / 4, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    let acked = alice.sends(&bob, "acked").await;
    bob.takes().await;
    let held = alice.sends(&bob, "held").await;
    bob.reads().await;
    let unread = alice.sends(&bob, "unread").await;
    let cancelled = alice.sends(&bob, "cancelled").await;
    world.hub.cancel(alice.who, which(cancelled.seq)).await.expect("cancelled");

    sleep(23 * HOUR).await;
    assert!(world.record(acked.seq).await.is_some());
    sleep(2 * HOUR).await;
    assert!(world.record(acked.seq).await.is_none(), "a day after it was settled");
    sleep(24 * 20 * HOUR).await;
    assert!(world.record(cancelled.seq).await.is_some(), "dead mail stays for thirty days");
    sleep(24 * 10 * HOUR).await;
    assert!(world.record(cancelled.seq).await.is_none());
    assert_eq!(world.state(held.seq).await, RecordState::Leased, "leases have no expiry");
    assert_eq!(world.state(unread.seq).await, RecordState::Queued);
}

#[tokio::test(start_paused = true)]
async fn a_message_to_everyone_is_pruned_after_its_last_delivery() {
    let world = World::with(Limits { sweep: HOUR / 4, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    let carol = world.agent("carol").await;
    let sent = alice.sends("@everyone", "hello").await;
    bob.takes().await;
    sleep(30 * HOUR).await;
    assert!(world.record(sent.seq).await.is_some(), "carol has not read it");
    carol.takes().await;
    sleep(25 * HOUR).await;
    assert!(world.record(sent.seq).await.is_none());
}
