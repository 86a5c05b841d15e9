//! What a failed write leaves of a need: nothing, or the need as it was.

use std::sync::Arc;

use posthaste_core::messaging::message::Details;
use posthaste_core::needs::{AnswerError, Outcome, Verdict};
use posthaste_core::ports::StoreError;
use posthaste_core::ports::store::CommitError;
use posthaste_core::registry::Status;
use posthaste_core::{Engine, EngineConfig, Hub, Limits};
use posthaste_queue::LocalQueue;
use posthaste_store::MemoryStore;
use posthaste_testkit::clock::TestClock;
use posthaste_testkit::world::World;

use super::{all, allow, answers, asks, is_denied, one, open, outcome, push, question, text};

/// A hub on a store that fails when the test says so.
async fn fragile() -> (World, Arc<MemoryStore>) {
    let (store, clock) = (MemoryStore::new(), Arc::new(TestClock::new()));
    let queue = Arc::new(LocalQueue::new());
    let (config, limits) = (EngineConfig::default(), Limits::default());
    let engine = Engine::open(Arc::clone(&store) as _, config, limits, queue, clock.clone()).await;
    let engine = engine.expect("an engine");
    (World { hub: Hub::start(Arc::clone(&engine)), engine, clock }, store)
}

fn full() -> CommitError {
    CommitError::Nothing(StoreError::Unavailable("the disk is full".into()))
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_not_kept_needs_nobody_and_its_number_is_given_again() {
    let (world, store) = fragile().await;
    let alice = world.agent("alice").await;
    store.fail_next(full());
    alice.tries("human", "red?", question(None)).await.expect_err("not kept");
    assert!(all(&world).await.is_empty() && open(&world).await.is_empty());
    alice.sends_with("human", "red?", question(None)).await;
    let need = one(&world).await;
    assert_eq!(need.id.0, 1);

    // An answer that was not kept leaves it open, and so does an end.
    store.fail_next(full());
    let failed = answers(&world, &need, text("yes")).await;
    assert!(matches!(failed, Err(AnswerError::Send(_))), "{failed:?}");
    assert_eq!(one(&world).await, need);
    store.fail_next(full());
    world.hub.end(alice.id(), Status::Stopped, false).await.expect_err("not kept");
    assert_eq!(one(&world).await, need);
    answers(&world, &need, text("yes")).await.expect("answered");
    assert_eq!(alice.takes().await.texts(), ["yes"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_fails_with_its_neighbour_is_sent_once_all_the_same() {
    let (world, store) = fragile().await;
    let alice = world.agent("alice").await;
    alice.sends_with("human", "red?", question(None)).await;
    let need = one(&world).await;
    // One change is to blame: each command of the group is planned again, and alone.
    store.fail_next(CommitError::OneChange(StoreError::Unavailable("a bad row".into())));
    let operator = world.operator();
    let (answered, other) = tokio::join!(
        answers(&world, &need, text("yes")),
        operator.tries(&alice, "hello", Details::default())
    );
    assert!(answered.is_ok() && other.is_ok(), "{answered:?} {other:?}");
    assert_eq!(alice.takes().await.mail.len(), 2);
    assert_eq!(outcome(&world, need.id).await, Some(Outcome::Answered));
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_cannot_be_kept_is_denied_and_a_verdict_that_is_not_kept_is_none() {
    let (world, store) = fragile().await;
    let mason = world.agent("mason").await;
    store.fail_next(full());
    let denied = world.hub.permission(mason.id(), push("r-1")).await;
    assert!(is_denied(&denied, "cannot keep the request"), "{denied:?}");
    assert!(open(&world).await.is_empty());
    let asked = asks(&world, &mason, push("r-1")).await;
    let need = one(&world).await;
    store.fail_next(full());
    let failed = answers(&world, &need, allow(true)).await;
    assert!(matches!(failed, Err(AnswerError::Store(_))), "{failed:?}");
    assert!(!asked.is_finished());
    assert_eq!(one(&world).await, need);
    answers(&world, &need, allow(true)).await.expect("allowed");
    assert_eq!(asked.await.expect("a verdict"), Verdict::Allow);
}
