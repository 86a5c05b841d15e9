//! What the operator says to an agent, once, over restarts of the hub.

use posthaste_core::Limits;
use posthaste_core::chat::{ChatError, Said, Say};
use posthaste_core::messaging::message::Via;
use posthaste_core::needs::Verdict;
use posthaste_store::Place;
use posthaste_testkit::world::{Agent, World};

use crate::needs::{asks, is_denied, open, push, question};

fn with_key(text: &str, key: &str) -> Say {
    Say { text: text.into(), idempotency_key: Some(key.into()), via: Via::Rest }
}

async fn says(world: &World, to: &Agent, say: Say) -> Result<Said, ChatError> {
    world.hub.chat_say(to.id(), say).await
}

async fn said(world: &World, to: &Agent, text: &str, key: &str) -> Said {
    says(world, to, with_key(text, key)).await.expect("said")
}

#[tokio::test(start_paused = true)]
async fn a_yes_that_is_repeated_after_a_restart_allows_nothing_else() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = Place::File(folder.path().to_owned());
    let world = World::open(&place, Limits::default());
    let bob = world.agent("bob").await;
    let first = asks(&world, &bob, push("r-1")).await;
    let need = said(&world, &bob, "yes", "k-1").await.need.expect("a need");
    assert_eq!(first.await.expect("a verdict"), Verdict::Allow);
    world.hub.close().await.expect("closed");

    let world = World::open(&place, Limits::default());
    let bob = world.knows(bob.who);
    let second = asks(&world, &bob, push("r-2")).await;
    for _ in 0..2 {
        let again = said(&world, &bob, "yes", "k-1").await;
        assert!(again.sent.is_none(), "it is no message");
        let again = again.need.expect("a need");
        assert_eq!((again.id, &again.closed), (need.id, &need.closed));
    }
    assert_eq!(open(&world).await.len(), 1);
    let other = said(&world, &bob, "no", "k-2").await.need.expect("a need");
    assert_ne!(other.id, need.id);
    assert!(is_denied(&second.await.expect("a verdict"), "denied"));
}

#[tokio::test(start_paused = true)]
async fn a_yes_that_was_a_message_is_no_verdict_when_it_is_repeated() {
    let world = World::new();
    let bob = world.agent("bob").await;
    let first = said(&world, &bob, "yes", "k-1").await.sent.expect("a message");
    let asked = asks(&world, &bob, push("r-1")).await;
    let again = said(&world, &bob, "yes", "k-1").await;
    assert!(again.need.is_none());
    let again = again.sent.expect("the same message");
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    assert_eq!(open(&world).await.len(), 1, "nothing is allowed");
    said(&world, &bob, "no", "k-2").await;
    asked.await.expect("a verdict");
}

#[tokio::test(start_paused = true)]
async fn of_two_equal_calls_at_once_one_gives_the_verdict() {
    let world = World::new();
    let bob = world.agent("bob").await;
    let _one = asks(&world, &bob, push("r-1")).await;
    let _two = asks(&world, &bob, push("r-2")).await;
    let (left, right) =
        tokio::join!(said(&world, &bob, "yes", "k-1"), said(&world, &bob, "yes", "k-1"));
    let ids = [left, right].map(|said| said.need.expect("a need").id);
    assert_eq!(ids[0], ids[1]);
    assert_eq!(open(&world).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_names_the_question_that_it_answered_and_no_other() {
    let world = World::new();
    let bob = world.agent("bob").await;
    let plain = said(&world, &bob, "hello", "k-1").await.sent.expect("a message");
    let blocking = || question(Some(r#"{"blocking":true}"#));
    bob.sends_with("human", "red?", blocking()).await;
    let answer = said(&world, &bob, "/answer red", "k-2").await;
    let (sent, need) = (answer.sent.expect("a message"), answer.need.expect("a need"));
    bob.sends_with("human", "blue?", blocking()).await;

    let again = said(&world, &bob, "hello", "k-1").await;
    assert!(again.need.is_none(), "it answered nothing");
    assert_eq!(again.sent.map(|sent| sent.seq), Some(plain.seq));
    let again = said(&world, &bob, "/answer red", "k-2").await;
    assert_eq!(again.need.map(|need| need.id), Some(need.id));
    assert_eq!(again.sent.map(|sent| (sent.seq, sent.duplicate)), Some((sent.seq, true)));
    let other = says(&world, &bob, with_key("/answer green", "k-2")).await;
    assert!(other.is_err(), "the key was given with another text");
    assert_eq!(open(&world).await.len(), 1, "the second question waits");
}
