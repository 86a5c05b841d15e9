//! Signs of life and ends: what becomes of the mail.

use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::delivery::{Proof, Reason};
use posthaste_core::messaging::message::Details;
use posthaste_core::messaging::receive::BatchStatus;
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::RecordState;
use posthaste_core::registry::{JoinKey, NewInstance, RegistryError, Status, joined_hash};
use posthaste_testkit::world::{Agent, World, new_instance};
use tokio::time::sleep;

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

async fn alice_and_bob(world: &World) -> (Agent, Agent) {
    (world.agent("alice").await, world.agent("bob").await)
}

const GONE: RecordState = RecordState::Dead { reason: Reason::RecipientGone, maybe_seen: false };
const GONE_MAYBE_SEEN: RecordState =
    RecordState::Dead { reason: Reason::RecipientGone, maybe_seen: true };

#[tokio::test(start_paused = true)]
async fn the_end_of_an_instance_settles_all_its_mail() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let leased = alice.sends(&bob, "leased").await;
    let one_of = alice.sends("bob", "one of").await;
    assert_eq!(bob.reads().await.mail.len(), 2);
    let returned = alice.sends(&bob, "returned").await;
    drop(bob.receives(bob.ask()).await);
    let queued = alice.sends(&bob, "queued").await;

    let ended = world.hub.end(bob.id(), Status::Failed, false).await.expect("ended");
    assert_eq!(ended.status, Status::Failed);

    assert_eq!(world.state(leased.seq).await, GONE_MAYBE_SEEN);
    assert_eq!(world.state(returned.seq).await, GONE_MAYBE_SEEN);
    assert_eq!(world.state(queued.seq).await, GONE);
    assert_eq!(world.state(one_of.seq).await, RecordState::Queued);
    let other = world.agent("bob").await;
    assert_eq!(other.reads().await.marked(), [("one of", true)]);
}

#[tokio::test(start_paused = true)]
async fn what_the_model_finished_its_own_turn_after_is_acked_by_the_end() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let exact = alice.sends(&bob, "exact").await;
    let one_of = alice.sends("bob", "one of").await;
    assert_eq!(bob.asks(bob.mcp("1")).await.mail.len(), 2);
    let queued = alice.sends(&bob, "queued").await;
    world.hub.end(bob.id(), Status::Finished, true).await.expect("ended");
    for sent in [exact, one_of] {
        assert_eq!(world.state(sent.seq).await, RecordState::Acked(Proof::End));
    }
    assert_eq!(world.state(queued.seq).await, GONE);
}

#[tokio::test(start_paused = true)]
async fn one_of_mail_is_acked_by_the_end_of_somebody_who_never_got_any_other() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends("bob", "one of").await;
    assert_eq!(bob.asks(bob.mcp("1")).await.mail.len(), 1);
    world.hub.end(bob.id(), Status::Finished, true).await.expect("ended");
    assert_eq!(world.state(sent.seq).await, RecordState::Acked(Proof::End));
}

#[tokio::test(start_paused = true)]
async fn nobody_writes_to_the_ended_nor_do_they_write() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    world.hub.end(bob.id(), Status::Stopped, false).await.expect("ended");
    let refused = alice.tries(&bob, "hello", Details::default()).await;
    assert!(matches!(refused, Err(SendError::RecipientGone { .. })), "{refused:?}");
    let ghost = bob.tries(&alice, "boo", Details::default()).await;
    assert!(matches!(ghost, Err(SendError::SenderGone)), "{ghost:?}");
    let twice = world.hub.end(bob.id(), Status::Stopped, false).await;
    assert!(matches!(twice, Err(RegistryError::Ended(_))), "{twice:?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_ends_the_open_call() {
    let world = World::new();
    let bob = world.agent("bob").await;
    let waiting = bob.waits(bob.ask_within(minutes(10))).await;
    world.hub.end(bob.id(), Status::Stopped, false).await.expect("ended");
    let answer = waiting.await.expect("no panic");
    assert_eq!((answer.status, answer.waited), (BatchStatus::CallAgain, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn the_ended_take_no_more_mail() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    world.hub.end(bob.id(), Status::Stopped, false).await.expect("ended");
    let sent = alice.sends("@anyone", "help").await;
    // A request that was let in just before the end.
    assert!(bob.reads().await.mail.is_empty());
    assert_eq!(world.state(sent.seq).await, RecordState::Queued);
}

#[tokio::test(start_paused = true)]
async fn mail_that_is_accepted_in_the_moment_of_an_end_dies_with_it() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let (sent, ended) = tokio::join!(
        alice.sends(&bob, "just in time"),
        world.hub.end(bob.id(), Status::Stopped, false)
    );
    ended.expect("ended");
    assert_eq!(world.state(sent.seq).await, GONE);
}

#[tokio::test(start_paused = true)]
async fn mail_that_is_refused_in_the_moment_of_an_end_dies_with_it() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let sent = alice.sends(&bob, "hello").await;
    bob.reads().await;
    let (nacked, ended) = tokio::join!(
        world.hub.nack_messages(bob.who, vec![sent.seq]),
        world.hub.end(bob.id(), Status::Stopped, false)
    );
    assert_eq!(nacked.expect("refused").returned, 1);
    ended.expect("ended");
    assert_eq!(world.state(sent.seq).await, GONE_MAYBE_SEEN);
}

#[tokio::test(start_paused = true)]
async fn a_token_dies_with_its_instance() {
    let world = World::new();
    let new = new_instance("bob");
    let token = new.token;
    let bob = world.joins(new).await;
    assert_eq!(world.hub.caller(&token), Some(bob.who));
    world.hub.end(bob.id(), Status::Finished, true).await.expect("ended");
    assert_eq!(world.hub.caller(&token), None);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_and_secret_bring_the_same_instance_back_and_its_mail() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let resumed = |key: &str| {
        let key = JoinKey { key: key.into(), secret: [7; 32] };
        NewInstance { key: Some(key), ..new_instance("bob") }
    };
    let bob = world.joins(resumed("window 1")).await;
    alice.sends(&bob, "hello").await;
    let again = world.joins(resumed("window 1")).await;
    let other = world.joins(resumed("window 2")).await;
    assert_eq!(bob.id(), again.id());
    assert_ne!(bob.id(), other.id());
    assert_eq!(again.reads().await.texts(), ["hello"]);
    world.hub.end(bob.id(), Status::Finished, true).await.expect("ended");
    assert_ne!(world.joins(resumed("window 1")).await.id(), bob.id(), "the ended stay ended");
}

#[tokio::test(start_paused = true)]
async fn the_same_token_is_kept_once_and_pushes_no_other_out() {
    let world = World::with(Limits { tokens: 2, ..Limits::default() });
    let with = |token: u8| NewInstance {
        key: Some(JoinKey { key: "window 1".into(), secret: [7; 32] }),
        token: [token; 32],
        ..new_instance("bob")
    };
    let bob = world.joins(with(1)).await;
    for token in [2, 1, 2, 2, 1] {
        assert_eq!(world.joins(with(token)).await.id(), bob.id());
    }
    let hash = |token: u8| joined_hash(&[token; 32], bob.id());
    let opens = |token: u8| world.hub.caller(&hash(token)) == Some(bob.who);
    assert!(opens(1) && opens(2));
    world.joins(with(3)).await;
    assert!(!opens(1) && opens(2) && opens(3), "of so many different ones the oldest goes");
}

#[tokio::test(start_paused = true)]
async fn an_agent_with_an_open_stream_keeps_its_key_however_long_ago_it_called() {
    let seldom = Duration::from_secs(60 * 60);
    let world = World::with(Limits { sweep: seldom, ..Limits::default() });
    let secret = |secret| {
        let key = JoinKey { key: "k".into(), secret: [secret; 32] };
        NewInstance { key: Some(key), ..new_instance("bob") }
    };
    let bob = world.joins(secret(1)).await;
    let stream = world.hub.stays(bob.who);
    sleep(world.hub.limits().away_after * 2).await;
    let refused = world.hub.join(secret(2)).await.expect_err("bob is here");
    assert_eq!(refused, RegistryError::Taken("bob".into()));
    drop(stream);
    sleep(world.hub.limits().away_after).await;
    let other = world.hub.join(secret(2)).await.expect("the key is free");
    assert_ne!(other.instance.id, bob.id());
}

#[tokio::test(start_paused = true)]
async fn the_silent_are_lost_after_ten_minutes_and_come_back_with_any_sign_of_life() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let exact = alice.sends(&bob, "exact").await;
    let one_of = alice.sends("bob", "one of").await;
    assert_eq!(bob.reads().await.mail.len(), 2);

    sleep(minutes(9)).await;
    assert_eq!(world.status(&bob), Status::Away);
    assert_eq!(world.state(one_of.seq).await, RecordState::Leased);
    sleep(minutes(2)).await;

    assert_eq!(world.status(&bob), Status::Lost);
    assert_eq!(world.state(exact.seq).await, RecordState::Leased, "its own mail stays its own");
    assert_eq!(world.state(one_of.seq).await, RecordState::Queued);
    let receipt = alice.sends(&bob, "are you there?").await;
    assert_eq!(receipt.recipients[0].active, 0, "still an address, but not active");
    assert_eq!(bob.reads().await.marked(), [("one of", true), ("are you there?", false)]);
    assert_eq!(world.status(&bob), Status::Running);
}

#[tokio::test(start_paused = true)]
async fn one_of_mail_of_the_lost_goes_to_whoever_waits() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    alice.sends("mason", "one brick").await;
    let first = one.reads().await;
    assert_eq!(first.texts(), ["one brick"]);
    let answer = two.waits(two.ask_within(minutes(60))).await.await.expect("no panic");
    assert_eq!(answer.marked(), [("one brick", true)]);
    assert!(answer.waited < minutes(11), "{:?}", answer.waited);
    // The lost one comes back and knows nothing of it.
    let late = world.hub.ack_receipt(one.who, first.receipt).await.expect("an answer");
    assert_eq!((late.acked, late.lost.len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_not_lost() {
    let world = World::new();
    let bob = world.agent("bob").await;
    let waiting = bob.waits(bob.ask_within(minutes(60))).await;
    sleep(minutes(30)).await;
    assert_eq!(world.status(&bob), Status::Running);
    assert_eq!(waiting.await.expect("no panic").status, BatchStatus::Empty);
}

#[tokio::test(start_paused = true)]
async fn who_shows_its_token_lives() {
    let world = World::new();
    let new = new_instance("bob");
    let token = new.token;
    let bob = world.joins(new).await;
    for _ in 0..6 {
        sleep(minutes(9)).await;
        assert_eq!(world.hub.caller(&token), Some(bob.who));
    }
    assert_eq!(world.status(&bob), Status::Running);
    sleep(minutes(11)).await;
    assert_eq!(world.status(&bob), Status::Lost);
    world.hub.caller(&token);
    assert_eq!(world.status(&bob), Status::Running);
}

#[tokio::test(start_paused = true)]
async fn who_keeps_a_stream_open_is_not_lost() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let attached = world.hub.attach(bob.who, 1).expect("room for a stream");
    sleep(minutes(30)).await;
    assert_eq!((world.status(&alice), world.status(&bob)), (Status::Lost, Status::Running));
    let receipt = world.operator().sends("@everyone", "who is here?").await;
    assert_eq!(receipt.recipients.len(), 1);
    drop(attached);
    sleep(minutes(11)).await;
    assert_eq!(world.status(&bob), Status::Lost);
}

#[tokio::test(start_paused = true)]
async fn who_has_gone_is_away_at_once_and_its_mail_waits() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let first = world.hub.attach(bob.who, 9).expect("room for a stream");
    let second = world.hub.stays(bob.who);
    drop(first);
    assert_eq!(world.status(&bob), Status::Running, "another connection is open");
    drop(second);
    assert_eq!(world.status(&bob), Status::Away);
    let exact = alice.sends(&bob, "exact").await;
    let named = alice.sends("bob", "by name").await;
    assert_eq!((exact.recipients[0].active, named.recipients[0].active), (0, 0));
    let to_all = world.operator().sends("@everyone", "who is here?").await;
    assert_eq!(to_all.recipients.len(), 1, "only alice");
    let back = bob.reads().await;
    assert_eq!(back.texts(), ["exact", "by name"]);
    assert_eq!(world.status(&bob), Status::Running);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_connection_is_active_for_a_minute_after_its_call() {
    let world = World::new();
    let (alice, bob) = alice_and_bob(&world).await;
    let waiting = bob.waits(bob.ask_within(minutes(5))).await;
    sleep(minutes(4)).await;
    assert_eq!(world.status(&bob), Status::Running, "a call is open");
    assert_eq!(world.status(&alice), Status::Away);
    waiting.await.expect("no panic");
    sleep(Duration::from_secs(59)).await;
    assert_eq!(world.status(&bob), Status::Running);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(world.status(&bob), Status::Away);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_broke_off_with_its_connection_is_no_sign_of_life() {
    let world = World::new();
    let bob = world.agent("bob").await;
    let connected = world.hub.attach(bob.who, 1).expect("room for a stream");
    let waiting = bob.waits(bob.ask_within(minutes(5))).await;
    drop(connected);
    assert_eq!(world.status(&bob), Status::Running, "its call is still open");
    waiting.abort();
    assert!(waiting.await.is_err());
    assert_eq!(world.status(&bob), Status::Away);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_active_where_all_have_gone() {
    let world = World::new();
    let bob = world.agent("bob").await;
    drop(world.hub.stays(bob.who));
    let refused = world.operator().tries("@everyone", "hello?", Details::default()).await;
    assert!(matches!(refused, Err(SendError::NoRecipient { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_everybody_is_away_until_they_show_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::at(folder.path());
    let (one, two) = (world.agent("mason").await, world.agent("mason").await);
    let _connected = world.hub.stays(one.who);
    world.operator().sends("mason", "a brick").await;
    world.operator().sends("mason", "two bricks").await;
    world.hub.close().await.expect("closed");

    let world = World::at(folder.path());
    let (one, two) = (world.knows(one.who), world.knows(two.who));
    assert_eq!((world.status(&one), world.status(&two)), (Status::Away, Status::Away));
    assert_eq!(one.reads().await.texts(), ["a brick", "two bricks"], "who comes first");
    assert_eq!((world.status(&one), world.status(&two)), (Status::Running, Status::Away));
    world.hub.close().await.expect("closed");
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test(start_paused = true)]
async fn who_has_gone_for_a_day_is_forgotten_and_its_history_stays() {
    let world = World::with(Limits { settled_retention: 2 * DAY, ..Limits::default() });
    let (alice, bob) = alice_and_bob(&world).await;
    let _connected = world.hub.stays(alice.who);
    let sent = alice.sends(&bob, "hello").await;
    bob.takes().await;
    sleep(DAY - minutes(2)).await;
    assert_eq!(world.status(&bob), Status::Lost);
    sleep(minutes(3)).await;
    assert_eq!(world.status(&bob), Status::Stopped);
    let refused = alice.tries(&bob, "still there?", Details::default()).await;
    assert!(matches!(refused, Err(SendError::RecipientGone { .. })), "{refused:?}");
    assert_eq!(world.state(sent.seq).await, RecordState::Acked(Proof::Receipt));
    assert_eq!(world.status(&alice), Status::Running, "who is connected is not forgotten");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_forgotten_who_has_mail_or_open_work() {
    let world = World::new();
    let mut names = ["reader", "holder", "named", "parent"].into_iter();
    let mut next = async || world.agent(names.next().expect("another name")).await;
    let (reader, holder) = (next().await, next().await);
    let (named, parent) = (next().await, next().await);
    let child = NewInstance { parent: Some(parent.id()), ..new_instance("child") };
    let child = world.joins(child).await;
    let _connected = world.hub.stays(child.who);
    world.operator().sends(&reader, "unread").await;
    world.operator().sends(&holder, "unproven").await;
    holder.reads().await;
    let by_name = world.operator().sends("named", "by name").await;
    sleep(2 * DAY).await;
    for agent in [&reader, &holder, &named, &parent] {
        assert_eq!(world.status(agent), Status::Lost, "{agent}");
    }
    assert!(world.hub.forget_all_gone().await.expect("a look").is_empty());

    named.takes().await;
    assert_eq!(world.state(by_name.seq).await, RecordState::Acked(Proof::Receipt));
    drop(world.hub.stays(named.who));
    let gone = world.hub.forget_all_gone().await.expect("a look");
    assert_eq!(gone.iter().map(|i| i.id).collect::<Vec<_>>(), [named.id()]);
    assert_eq!(world.state(by_name.seq).await, RecordState::Acked(Proof::Receipt));
}
