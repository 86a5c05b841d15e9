//! Needs survive a restart, and whoever waited waits again for the same one.

use std::path::Path;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::needs::{Answer, NeedKind, Outcome, Verdict};
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::registry::Status;
use posthaste_store::Place;
use posthaste_testkit::world::World;

use super::{all, allow, answers, asks, is_denied, kinds, open, outcome, push, question, text};

fn world_at(folder: &Path) -> World {
    World::open(&Place::File(folder.to_owned()), Limits::default())
}

async fn closes(world: World) {
    world.hub.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn needs_verdicts_and_numbers_are_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let world = world_at(folder.path());
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    alice.sends_with("human", "red?", question(None)).await;
    let seq = alice.sends(&bob, "take this").await.seq;
    for _ in 0..5 {
        bob.reads().await;
        world.hub.nack_messages(bob.who, vec![seq]).await.expect("refused");
    }
    let answered = asks(&world, &bob, push("r-1")).await;
    let yes = Answer { remember: true, ..allow(true) };
    answers(&world, &open(&world).await[2], yes).await.expect("allowed");
    answered.await.expect("a verdict");
    let waiting = {
        let ask = posthaste_core::needs::PermissionAsk { subject: "Edit".into(), ..push("r-2") };
        asks(&world, &bob, ask).await
    };
    let before = all(&world).await;
    closes(world).await;
    waiting.abort();

    let world = world_at(folder.path());
    assert_eq!(all(&world).await, before);
    let needs = open(&world).await;
    let expected = [NeedKind::Question, NeedKind::Dead, NeedKind::Permission];
    assert_eq!(kinds(&needs), expected);
    assert_eq!(world.hub.remembered().len(), 1);
    // Answered before, remembered, and still open.
    assert_eq!(world.hub.permission(bob.id(), push("r-1")).await, Verdict::Allow);
    assert_eq!(world.hub.permission(bob.id(), push("r-9")).await, Verdict::Allow);
    let (hub, id) = (world.hub.clone(), bob.id());
    let again = posthaste_core::needs::PermissionAsk { subject: "Edit".into(), ..push("r-2") };
    let again = tokio::spawn(async move { hub.permission(id, again).await });
    world.settles().await;
    assert_eq!(open(&world).await.len(), 3, "it waits for the same need");
    answers(&world, &needs[2], allow(false)).await.expect("denied");
    assert!(is_denied(&again.await.expect("a verdict"), "denied"));

    answers(&world, &needs[0], text("yes")).await.expect("answered");
    assert_eq!(world.knows(alice.who).takes().await.texts(), ["yes"]);
    answers(&world, &needs[1], allow(true)).await.expect("requeued");
    assert_eq!(world.knows(bob.who).takes().await.texts(), ["take this"]);
    let next = world.knows(alice.who);
    next.sends_with("human", "blue?", question(None)).await;
    assert_eq!(open(&world).await[0].id.0, 5, "no number is given again");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_request_counts_from_when_it_was_opened_also_over_a_restart() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let world = world_at(folder.path());
    let mason = world.agent("mason").await;
    // The clock of the next world is ahead of this one by more than the time.
    world.clock.set_back(AgentsConfig::default().permission_timeout * 2);
    let asked = asks(&world, &mason, push("r-1")).await;
    closes(world).await;
    asked.abort();
    let world = world_at(folder.path());
    let verdict = world.hub.permission(mason.id(), push("r-1"));
    let verdict = tokio::time::timeout(Duration::from_secs(9), verdict).await.expect("at once");
    assert!(is_denied(&verdict, "in time"), "{verdict:?}");
    assert_eq!(outcome(&world, all(&world).await[0].id).await, Some(Outcome::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn a_stopping_hub_gives_no_verdict() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let world = world_at(folder.path());
    let mason = world.agent("mason").await;
    let asked = asks(&world, &mason, push("r-1")).await;
    world.hub.close().await.expect("closed");
    let hub = world.hub.clone();
    let late = tokio::spawn(async move { hub.permission(mason.id(), push("r-2")).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!asked.is_finished() && !late.is_finished(), "the request waits for the next start");
    asked.abort();
    late.abort();
    drop(world);
    let world = world_at(folder.path());
    assert_eq!(open(&world).await.len(), 1);
    world
        .hub
        .end(open(&world).await[0].from.instance.expect("mason"), Status::Lost, false)
        .await
        .expect("ended");
    assert!(open(&world).await.is_empty());
}
