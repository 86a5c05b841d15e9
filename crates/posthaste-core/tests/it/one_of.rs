//! One-of mail: whoever reads first, and only once.

use std::time::Duration;

use posthaste_core::history::ThreadAsk;
use posthaste_core::messaging::message::{Details, Kind, Priority};
use posthaste_core::messaging::proof::{Call, Door};
use posthaste_core::messaging::receive::{Ask, BatchStatus, Budget, WaitFor};
use posthaste_core::ports::{Filter, RecordState};
use posthaste_core::registry::{AgentKind, NewInstance, Status};
use posthaste_testkit::world::{Agent, Answer, Unwritten, World, new_instance};
use tokio::time::sleep;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// What an agent has unread: of its own, and together with others.
fn counts(world: &World, agent: &Agent) -> (usize, usize) {
    let view = world.hub.instance(agent.id()).expect("known");
    (view.unread, view.unread_shared)
}

/// What an answer to anything else carries along.
async fn enclosed(world: &World, agent: &Agent) -> Answer {
    let open = world.hub.open(agent.who, &Call::through(Door::Mcp));
    let batch = world.hub.enclose(open, Some(Budget::Whole)).await.expect("an answer");
    Unwritten(batch).written()
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
async fn of_mail_for_several_a_read_claims_one_message_of_each_mailbox() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (mason, other) = (world.agent("mason").await, world.agent("mason").await);
    for body in ["n1", "n2"] {
        alice.sends("mason", body).await;
    }
    for body in ["a1", "a2"] {
        alice.sends("@anyone", body).await;
    }
    alice.sends("mason@main", "t1").await;
    alice.sends(&mason, "mine").await;
    assert_eq!(counts(&world, &mason), (1, 5));
    assert_eq!(counts(&world, &other), (0, 5), "all of them see it");
    let answer = mason.reads().await;
    assert_eq!(answer.texts(), ["n1", "a1", "t1", "mine"]);
    assert_eq!((answer.remaining, answer.status), (2, BatchStatus::Partial));
    assert_eq!(counts(&world, &mason), (4, 2), "what it holds is its own");
    let last = mason.reads().await;
    assert_eq!((last.texts(), last.remaining), (vec!["n2", "a2"], 0));
    assert_eq!(last.status, BatchStatus::Complete);
}

#[tokio::test(start_paused = true)]
async fn mail_to_a_name_is_all_there_in_one_read_while_one_lives() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let mason = world.agent("mason").await;
    alice.sends("mason", "one").await;
    alice.sends(&mason, "two").await;
    alice.sends("mason@main", "three").await;
    alice.sends("@anyone", "four").await;
    alice.sends("@anyone@main", "five").await;
    let urgent = Details { priority: Priority::Urgent, ..Details::default() };
    alice.sends_with("mason", "first of all", urgent).await;
    assert_eq!(counts(&world, &mason), (6, 0));
    assert_eq!(world.hub.context(mason.who).pending, 6);
    let answer = mason.reads().await;
    assert_eq!(answer.texts(), ["first of all", "one", "two", "three", "four", "five"]);
    assert_eq!((answer.remaining, answer.status), (0, BatchStatus::Complete));
    assert_eq!(counts(&world, &mason), (6, 0), "it has proved nothing yet");
    mason.acks(&answer).await;
    assert_eq!(counts(&world, &mason), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn whatever_else_an_agent_is_told_carries_the_mail_to_its_name() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let mason = world.agent("mason").await;
    for text in ["one", "two"] {
        alice.sends("mason", text).await;
    }
    assert_eq!(world.hub.glance(mason.who).await.expect("a look").waiting, 2);
    let batch = enclosed(&world, &mason).await;
    assert_eq!(batch.texts(), ["one", "two"]);

    let _other = world.agent("mason").await;
    for text in ["three", "four", "five"] {
        alice.sends("mason", text).await;
    }
    assert_eq!(world.hub.glance(mason.who).await.expect("a look").waiting, 1);
    let batch = enclosed(&world, &mason).await;
    assert_eq!((batch.texts(), batch.remaining), (vec!["three"], 2));
}

#[tokio::test(start_paused = true)]
async fn what_its_only_rival_sent_is_all_there_in_one_read() {
    let world = World::new();
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    for text in ["a", "b"] {
        one.sends("mason", text).await;
    }
    world.operator().sends("mason", "c").await;
    world.operator().sends("mason", "d").await;
    assert_eq!((counts(&world, &one), counts(&world, &two)), ((0, 2), (2, 2)));
    let answer = two.reads().await;
    assert_eq!((answer.texts(), answer.remaining), (vec!["a", "b", "c"], 1));
    assert_eq!(answer.status, BatchStatus::Partial);
}

#[tokio::test(start_paused = true)]
async fn when_the_others_have_gone_what_they_left_is_all_there_in_one_read() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    let connected = world.hub.attach(two.who, 1).expect("room for a stream");
    for text in ["a", "b", "c"] {
        alice.sends("mason", text).await;
    }
    assert_eq!((counts(&world, &one), counts(&world, &two)), ((0, 3), (0, 3)));
    drop(connected);
    assert_eq!((counts(&world, &one), counts(&world, &two)), ((3, 0), (0, 0)));
    assert_eq!(one.reads().await.texts(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_gather_is_not_complete_while_mail_for_several_waits() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (mason, _other) = (world.agent("mason").await, world.agent("mason").await);
    for text in ["a", "b"] {
        alice.sends("mason", text).await;
    }
    let ask = || mason.gather(secs(60), WaitFor::All, &[]);
    let answer = mason.asks(ask()).await;
    assert_eq!((answer.texts(), answer.remaining), (vec!["a"], 1));
    assert_eq!(answer.status, BatchStatus::Partial);
    assert_eq!(mason.asks(ask()).await.status, BatchStatus::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_thread_shows_mail_to_a_name_as_unread_to_the_only_one_it_is_for() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let mason = world.agent("mason").await;
    let sent = alice.sends("mason", "hello").await;
    let ask =
        || ThreadAsk { thread: sent.thread, unread_only: true, last: 9, since: None, mark: true };
    let summary = world.hub.thread_summary(mason.who, sent.thread).await.expect("counts");
    assert_eq!(summary.unread, 1);
    let other = world.agent("mason").await;
    assert!(world.hub.read_thread(mason.who, ask()).await.expect("a page").marked.is_empty());
    world.hub.end(other.id(), Status::Stopped, false).await.expect("ended");
    let marked = world.hub.read_thread(mason.who, ask()).await.expect("a page").marked;
    assert_eq!(marked, [sent.seq]);
    assert!(mason.reads().await.mail.is_empty());
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
    assert_eq!(answer.texts(), ["which brick?", "one brick"], "it comes first");
    assert_eq!(answer.waited, Duration::ZERO);
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
    world.hub.end(mason.id(), Status::Finished, true).await.expect("ended");
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
