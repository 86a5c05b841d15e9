//! What becomes of an answer: calls side by side, calls that end early, readers
//! that begin anew, and what going on proves.

use std::time::Duration;

use posthaste_core::messaging::clients::Client;
use posthaste_core::messaging::message::{Details, Seq};
use posthaste_core::messaging::proof::{Call, Door};
use posthaste_core::messaging::receive::{Ask, BatchStatus, Budget};
use posthaste_core::ports::RecordState;
use posthaste_testkit::world::{Agent, World};
use tokio::time::{Instant, sleep};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn alice_and_bob(world: &World) -> (Agent, Agent) {
    (world.agent("alice").await, world.agent("bob").await)
}

#[tokio::test(start_paused = true)]
async fn two_calls_of_one_agent_never_get_the_same_message() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let mut texts = Vec::new();
    for n in 0..20 {
        let one = bob.waits(bob.ask_within(secs(5))).await;
        let two = bob.waits(bob.ask_within(secs(5))).await;
        alice.sends(&bob, &format!("{n} a")).await;
        alice.sends(&bob, &format!("{n} b")).await;
        for answer in [one.await.expect("no panic"), two.await.expect("no panic")] {
            texts.extend(answer.texts().into_iter().map(str::to_owned));
        }
        texts.extend(bob.reads().await.texts().into_iter().map(str::to_owned));
    }
    let all = texts.len();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!((texts.len(), all), (40, 40), "every message exactly once");
}

#[tokio::test(start_paused = true)]
async fn a_beginning_ends_the_open_call_and_brings_its_mail_again_marked() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, "read but not proved").await;
    assert_eq!(bob.reads().await.marked(), [("read but not proved", false)]);
    let open = bob.waits(bob.ask_within(secs(600))).await;

    let begun = bob.asks(Ask { begin: true, ..bob.ask() }).await;
    assert_eq!(begun.marked(), [("read but not proved", true)]);

    let ended = open.await.expect("no panic");
    assert_eq!((ended.status, ended.mail.len()), (BatchStatus::CallAgain, 0));
    assert_eq!(ended.waited, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_beginning_at_one_door_leaves_the_other_door_alone() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "through mcp").await;
    bob.asks(bob.mcp("1")).await;
    let begun = bob.asks(Ask { begin: true, door: Door::Rest, ..bob.ask() }).await;
    assert!(begun.mail.is_empty());
    // Its reader goes on, and that still proves what it read.
    bob.asks(bob.mcp("2")).await;
    sleep(secs(3)).await;
    assert!(matches!(world.state(sent.seq).await, RecordState::Acked(_)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_never_written_comes_again_marked() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, "hello").await;
    let lost = bob.receives(bob.ask()).await;
    assert!(bob.reads().await.mail.is_empty(), "it is in the first answer");
    drop(lost);
    assert_eq!(bob.reads().await.marked(), [("hello", true)]);
}

#[tokio::test(start_paused = true)]
async fn a_returned_message_wakes_whoever_waits() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    alice.sends(&bob, "hello").await;
    let lost = bob.receives(bob.ask()).await;
    let waiting = bob.waits(bob.ask_within(secs(600))).await;
    sleep(secs(1)).await;
    drop(lost);
    let answer = waiting.await.expect("no panic");
    assert_eq!(answer.marked(), [("hello", true)]);
    assert_eq!(answer.waited.as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn going_on_after_an_answer_proves_it_and_the_reader_is_told_which() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    assert_eq!(bob.asks(bob.mcp("1")).await.texts(), ["hello"]);
    assert!(bob.asks(bob.mcp("2")).await.settled.is_empty());
    sleep(secs(3)).await;
    assert_eq!(bob.asks(bob.mcp("3")).await.settled, [sent.seq]);
    bob.asks(bob.mcp("4")).await;
    sleep(secs(3)).await;
    assert!(bob.asks(bob.mcp("5")).await.settled.is_empty(), "told once, and that was proved");
}

#[tokio::test(start_paused = true)]
async fn going_on_proves_nothing_at_the_rest_door() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    bob.reads().await;
    bob.reads().await;
    sleep(secs(3600)).await;
    assert_eq!(world.state(sent.seq).await, RecordState::Leased);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_ends_and_its_mail_waits_for_the_next() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let waiting = bob.waits(Ask { timeout: secs(600), ..bob.mcp("7") }).await;
    sleep(secs(1)).await;
    world.hub.cancel_call(bob.who, "7");
    assert_eq!(waiting.await.expect("no panic").status, BatchStatus::CallAgain);
    alice.sends(&bob, "hello").await;
    assert_eq!(bob.asks(bob.mcp("8")).await.marked(), [("hello", false)]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_every_wait_politely() {
    let world = World::new();
    let bob = world.agent("bob").await;
    let waiting = bob.waits(bob.ask_within(secs(600))).await;
    let began = Instant::now();
    world.hub.close().await.expect("a clean stop");
    assert_eq!(waiting.await.expect("no panic").status, BatchStatus::CallAgain);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// Bob was taken to have read a message, and an answer that says so brought another
/// one. Returns both.
async fn told_beside_a_message(alice: &Agent, bob: &Agent) -> (Seq, Seq) {
    let taken = alice.sends(bob, "taken").await.seq;
    bob.asks(bob.mcp("1")).await;
    bob.asks(bob.mcp("2")).await;
    sleep(secs(3)).await;
    let beside = alice.sends(bob, "beside").await.seq;
    let answer = bob.asks(bob.mcp("3")).await;
    assert_eq!(answer.texts(), ["beside"]);
    assert_eq!(answer.settled, [taken]);
    (taken, beside)
}

#[tokio::test(start_paused = true)]
async fn a_reply_to_a_message_proves_all_that_its_answer_said() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let (_, beside) = told_beside_a_message(&alice, &bob).await;
    let reply = Details { in_reply_to: Some(beside), ..Details::default() };
    bob.sends_with(&alice, "yes", reply).await;
    assert!(bob.asks(bob.mcp("4")).await.settled.is_empty());
}

#[tokio::test(start_paused = true)]
async fn acking_a_message_by_its_id_proves_all_that_its_answer_said() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let (taken, beside) = told_beside_a_message(&alice, &bob).await;
    let unproved = bob.asks(bob.mcp("4")).await;
    assert_eq!(unproved.settled, [taken], "going on proves it only two seconds later");
    world.hub.ack_messages(bob.who, vec![beside]).await.expect("acked");
    assert!(bob.asks(bob.mcp("5")).await.settled.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_clients_patience_cuts_short_says_call_again() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let began = Instant::now();
    let asked = |timeout| Ask { patience: secs(50), ..bob.ask_within(timeout) };
    let cut = bob.asks(asked(secs(600))).await;
    assert_eq!((cut.status, began.elapsed()), (BatchStatus::CallAgain, secs(50)));
    let whole = bob.asks(asked(secs(20))).await;
    assert_eq!(whole.status, BatchStatus::Empty, "that was all that the reader asked for");
    let waiting = bob.waits(asked(secs(600))).await;
    alice.sends(&bob, "hello").await;
    let answer = waiting.await.expect("no panic");
    assert_eq!((answer.texts(), answer.status), (vec!["hello"], BatchStatus::Complete));
}

#[tokio::test(start_paused = true)]
async fn mail_beside_any_answer_at_the_edge_of_patience_comes_again_marked() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let client = Client::called("codex");
    let open = world.hub.open(bob.who, &Call { client, ..Call::through(Door::Mcp) });
    sleep(secs(297)).await;
    alice.sends(&bob, "hello").await;
    let late = world.hub.enclose(open, Some(Budget::Whole)).await.expect("an answer");
    assert_eq!(late.mail.len(), 1);
    late.handed.written();
    let next = bob.asks(bob.mcp("2")).await;
    assert_eq!(next.marked(), [("hello", true)], "the client may have dropped it");
}
