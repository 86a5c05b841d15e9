//! One-of mail: whoever reads first, and only once.

use std::time::Duration;

use posthaste_core::messaging::message::{Details, Kind};
use posthaste_core::messaging::receive::{Ask, WaitFor};
use posthaste_core::ports::{Filter, RecordState};
use posthaste_core::registry::{AgentKind, NewInstance};
use posthaste_testkit::world::{World, new_instance};
use tokio::time::sleep;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn only_one_of_those_who_wait_gets_it_and_the_other_waits_on() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    let first = one.waits(one.ask_within(secs(60))).await;
    let second = two.waits(two.ask_within(secs(60))).await;
    let receipt = alice.sends("mason", "one brick").await;
    assert_eq!((receipt.recipients[0].active, receipt.recipients[0].waiting), (2, 2));

    assert_eq!(first.await.expect("no panic").texts(), ["one brick"], "who came first");
    assert!(!second.is_finished());
    alice.sends("mason", "another").await;
    assert_eq!(second.await.expect("no panic").texts(), ["another"]);
}

#[tokio::test(start_paused = true)]
async fn two_messages_at_once_go_to_two_readers() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    let first = one.waits(one.ask_within(secs(60))).await;
    let second = two.waits(two.ask_within(secs(60))).await;
    tokio::join!(alice.sends("mason", "a"), alice.sends("mason", "b"));
    let (first, second) = (first.await.expect("no panic"), second.await.expect("no panic"));
    assert_eq!((first.mail.len(), second.mail.len()), (1, 1));
    assert!(first.waited < secs(1) && second.waited < secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_read_claims_one_message_of_each_one_of_mailbox() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let mason = world.agent("mason").await;
    for body in ["n1", "n2"] {
        alice.sends("mason", body).await;
    }
    for body in ["a1", "a2"] {
        alice.sends("@anyone", body).await;
    }
    alice.sends("mason@main", "t1").await;
    alice.sends(&mason, "mine").await;
    let answer = mason.reads().await;
    assert_eq!(answer.texts(), ["n1", "a1", "t1", "mine"]);
    assert_eq!(answer.remaining, 0, "the rest is for others, too");
    assert_eq!(mason.reads().await.texts(), ["n2", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn a_sender_never_gets_its_own() {
    let world = World::new();
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    let own = one.waits(one.ask_within(secs(10))).await;
    let receipt = one.sends("mason", "who else?").await;
    assert_eq!((receipt.recipients[0].active, receipt.recipients[0].waiting), (1, 0));
    one.sends("@anyone", "anyone?").await;
    assert!(own.await.expect("no panic").mail.is_empty());
    assert_eq!(two.reads().await.texts(), ["who else?", "anyone?"]);
}

#[tokio::test(start_paused = true)]
async fn a_mechanical_agent_is_reached_by_name_but_is_not_anyone() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let robot = NewInstance { kind: Some(AgentKind::Mechanical), ..new_instance("robot") };
    let robot = world.joins(robot).await;
    let receipt = alice.sends("@anyone", "help").await;
    assert_eq!(receipt.recipients[0].active, 0, "the sender and a machine are nobody");
    alice.sends("@anyone@main", "help here").await;
    alice.sends("robot", "beep").await;
    assert_eq!(robot.reads().await.texts(), ["beep"]);
    let bob = world.agent("bob").await;
    assert_eq!(bob.reads().await.texts(), ["help", "help here"]);
}

#[tokio::test(start_paused = true)]
async fn when_the_one_who_was_rung_vanishes_the_next_gets_it() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    let vanishes = one.waits(Ask { window: secs(50), ..one.ask_within(secs(60)) }).await;
    let stays = two.waits(two.ask_within(secs(60))).await;
    alice.sends("mason", "one brick").await;
    sleep(secs(5)).await;
    assert!(!stays.is_finished(), "the first one was rung and collects");

    vanishes.abort();
    assert!(vanishes.await.is_err());
    let answer = stays.await.expect("no panic");
    assert_eq!(answer.marked(), [("one brick", false)]);
    assert_eq!(answer.waited.as_secs(), 5, "without waiting for the sweep");
}

#[tokio::test(start_paused = true)]
async fn who_gathers_does_not_keep_it_from_one_who_takes_anything() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    let gathers = one.waits(one.gather(secs(600), WaitFor::Senders(9), &[])).await;
    let waits = two.waits(two.ask_within(secs(600))).await;
    alice.sends("mason", "one brick").await;
    let answer = waits.await.expect("no panic");
    assert_eq!((answer.texts(), answer.waited), (vec!["one brick"], Duration::ZERO));
    assert!(!gathers.is_finished());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_somebodys_mail_does_not_wait_behind_anothers() {
    let world = World::new();
    let (alice, carol) = (world.agent("alice").await, world.agent("carol").await);
    let mason = world.agent("mason").await;
    alice.sends("mason", "from alice").await;
    carol.sends("mason", "from carol").await;
    let filter = Filter { from: ["carol".to_owned()].into(), ..Filter::default() };
    let answer = mason.asks(Ask { window: secs(2), filter, ..mason.ask_within(secs(60)) }).await;
    assert_eq!((answer.texts(), answer.waited), (vec!["from carol"], secs(2)), "the window");
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_a_gather_also_behind_other_mail() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let mason = world.agent("mason").await;
    alice.sends("mason", "one brick").await;
    let kind = "question".parse::<Kind>().expect("a kind");
    let question = Details { kind, ..Details::default() };
    alice.sends_with("mason", "which brick?", question).await;
    let answer = mason.asks(mason.gather(secs(600), WaitFor::Senders(9), &[])).await;
    assert_eq!((answer.texts(), answer.waited), (vec!["which brick?"], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn one_of_mail_in_an_unwritten_answer_goes_to_the_next() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    alice.sends("mason", "one brick").await;
    let lost = one.receives(one.ask()).await;
    let waiting = two.waits(two.ask_within(secs(60))).await;
    drop(lost);
    let answer = waiting.await.expect("no panic");
    assert_eq!(answer.marked(), [("one brick", true)]);
    assert_eq!(answer.waited, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_somebody_to_come_and_the_receipt_says_so() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let mason = world.agent("mason").await;
    world
        .hub
        .end(mason.id(), posthaste_core::registry::Status::Finished, true)
        .await
        .expect("ended");
    let receipt = alice.sends("mason", "one brick").await;
    assert_eq!((receipt.recipients[0].active, receipt.recipients[0].waiting), (0, 0));
    sleep(secs(3600)).await;
    let late = world.agent("mason").await;
    assert_eq!(late.reads().await.marked(), [("one brick", false)]);
}

#[tokio::test(start_paused = true)]
async fn a_team_is_a_boundary() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let here = world.agent_in("mason", "avalon").await;
    let elsewhere = world.agent_in("mason", "camelot").await;
    alice.sends("mason@avalon", "by name").await;
    alice.sends("@anyone@avalon", "anyone").await;
    assert!(elsewhere.reads().await.mail.is_empty());
    assert_eq!(here.reads().await.texts(), ["by name", "anyone"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_acks_or_refuses_what_another_holds() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    let sent = alice.sends("mason", "one brick").await;
    one.reads().await;
    let acked = world.hub.ack_messages(two.who, vec![sent.seq]).await.expect("an answer");
    assert_eq!((acked.acked, acked.lost), (0, vec![sent.seq]));
    let nacked = world.hub.nack_messages(two.who, vec![sent.seq]).await.expect("an answer");
    assert_eq!((nacked.returned, nacked.lost), (0, vec![sent.seq]));
    assert_eq!(world.state(sent.seq).await, RecordState::Leased);
}
