//! What a hub that was stopped or killed finds of its workers.

use std::sync::Arc;

use posthaste_core::Limits;
use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::receive::{BatchStatus, WaitFor};
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::ports::{Ended, Found, Outcome, RecordState};
use posthaste_core::registry::Status;
use posthaste_store::Place;
use posthaste_testkit::staff::Staff;
use posthaste_testkit::world::World;

use super::{LONG, Yard};

fn open(folder: &std::path::Path) -> World {
    World::open(&Place::File(folder.to_owned()), Limits::default())
}

#[tokio::test]
async fn after_a_start_workers_are_found_ended_or_started_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = AgentsConfig { running: 3, ..AgentsConfig::default() };
    let yard = Yard::with(open(folder.path()), config.clone()).await;
    let runs = yard.puts_to_work(&yard.boss, "runs on").await;
    let ended = yard.puts_to_work(&yard.boss, "ended meanwhile").await;
    let never = yard.puts_to_work(&yard.boss, "never ran").await;
    let waits = yard.assigns(&yard.boss, "waits in line").await;
    let task = yard.world.hub.taken_on(runs.id())[0].task;
    // As after a kill: nobody is told that the hub stops.
    yard.world.hub.close().await.expect("closed");
    let boss = yard.boss.who;
    drop(yard);

    let world = open(folder.path());
    let staff = Arc::new(Staff::default());
    staff.leaves(runs.id(), Found::Running);
    let why = "exit code 4".to_owned();
    let outcome = Outcome { end: Ended::Failed, code: Some(4), why, ..Outcome::default() };
    staff.leaves(ended.id(), Found::Ended(outcome));
    world.hub.employ(Arc::clone(&staff) as _, config).await;

    // Its place is free, so the line moves; and who never ran is started again.
    assert_eq!(staff.runs(never.id()).await.task_text(), "never ran");
    assert_eq!(staff.runs(waits.instance.id).await.task_text(), "waits in line");
    assert_eq!(world.status(&runs), Status::Running);
    assert_eq!(world.status(&ended), Status::Failed);
    while world.state(task).await != RecordState::Leased {
        tokio::task::yield_now().await;
    }

    for (who, text) in [(runs.id(), "one"), (never.id(), "two"), (waits.instance.id, "three")] {
        staff.answers(&world.hub, who, text).await;
    }
    let boss = world.knows(boss);
    let answer = boss.asks(boss.gather(LONG, WaitFor::All, &[])).await;
    assert_eq!((answer.mail.len(), answer.status), (4, BatchStatus::Complete));
    assert_eq!(world.state(task).await, RecordState::Acked(Proof::End));
    world.hub.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_comes_before_a_worker_is_found_again_waits_until_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let yard = Yard::with(open(folder.path()), AgentsConfig::default()).await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    yard.world.hub.close().await.expect("closed");
    drop(yard);

    let world = open(folder.path());
    let staff = Arc::new(Staff::default());
    staff.leaves(worker.id(), Found::Running);
    let (now, told) = tokio::sync::oneshot::channel();
    staff.looks_after(told);
    let hub = Arc::clone(&world.hub);
    let employed = tokio::spawn(async move { hub.employ(staff, AgentsConfig::default()).await });
    let (hub, id) = (Arc::clone(&world.hub), worker.id());
    let mut stopped = tokio::spawn(async move { hub.stop(Principal::Operator, id).await });
    // Nobody knows yet how to reach it: that it has stopped would not be true.
    let early = tokio::time::timeout(LONG, &mut stopped).await;
    assert!(early.is_err(), "{early:?}");
    assert_eq!(world.status(&worker), Status::Running);
    now.send(()).expect("it waits for that");
    employed.await.expect("no panic");
    assert_eq!(stopped.await.expect("no panic").expect("it was there"), 1);
    assert_eq!(world.status(&worker), Status::Stopped);
    world.hub.close().await.expect("closed");
}

#[tokio::test]
async fn a_report_that_nobody_read_waits_over_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let yard = Yard::with(open(folder.path()), AgentsConfig::default()).await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    yard.answers(&worker, "a house").await;
    yard.world.hub.close().await.expect("closed");
    let boss = yard.boss.who;
    drop(yard);
    let world = open(folder.path());
    let boss = world.knows(boss);
    let answer = boss.asks(boss.gather(LONG, WaitFor::All, &[])).await;
    assert_eq!((answer.texts(), answer.status), (vec!["a house"], BatchStatus::Complete));
    world.hub.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_stops_its_workers_tells_those_who_wait_for_them() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    yard.world.hub.dismiss().await;
    assert_eq!(yard.world.status(&worker), Status::Stopped);
    assert!(yard.boss.takes().await.texts()[0].contains("the hub stopped"));
}
