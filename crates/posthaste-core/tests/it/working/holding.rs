//! Reports are left for the gather of whoever gave out the work, for a while.

use std::time::Duration;

use posthaste_core::messaging::message::{Details, Kind, MessageRef, Principal};
use posthaste_core::messaging::proof::{Call, Door};
use posthaste_core::messaging::receive::{BatchStatus, Budget, WaitFor};
use posthaste_core::ports::RecordState;
use posthaste_testkit::world::{Answer, Unwritten};
use tokio::time::sleep;

use super::{LONG, Yard};

const ROOM: Option<Budget> = Some(Budget::Chars(4_000));

/// What another answer to the boss carries along.
async fn along(yard: &Yard) -> Answer {
    let open = yard.world.hub.open(yard.boss.who, &Call::through(Door::Hook));
    Unwritten(yard.world.hub.enclose(open, ROOM).await.expect("an answer")).written()
}

/// What it is given when it wants to finish.
async fn at_stop(yard: &Yard) -> Answer {
    let open = yard.world.hub.open(yard.boss.who, &Call::through(Door::Hook));
    Unwritten(yard.world.hub.enclose_at_stop(open, ROOM).await.expect("an answer")).written()
}

#[tokio::test(start_paused = true)]
async fn a_report_does_not_come_along_for_thirty_seconds_and_then_it_does() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "lay bricks").await;
    let peer = yard.world.agent("peer").await;
    yard.answers(&worker, "laid").await;
    peer.sends(&yard.boss, "hello").await;
    let first = along(&yard).await;
    assert_eq!((first.texts(), first.remaining), (vec!["hello"], 0), "other mail does");
    sleep(Duration::from_secs(29)).await;
    assert!(along(&yard).await.texts().is_empty());
    assert_eq!(yard.world.hub.glance(yard.boss.who).await.expect("a look").waiting, 0);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(along(&yard).await.texts(), ["laid"]);
}

#[tokio::test(start_paused = true)]
async fn the_report_of_a_failure_is_left_for_the_gather_too() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "lay bricks").await;
    yard.staff.fails(&yard.world.hub, worker.id(), 1, "no mortar").await;
    assert!(along(&yard).await.texts().is_empty());
    let gathered = yard.boss.asks(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    assert_eq!((gathered.mail.len(), gathered.status), (1, BatchStatus::Complete));
}

#[tokio::test(start_paused = true)]
async fn a_stop_brings_the_reports_that_wait() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "lay bricks").await;
    yard.answers(&worker, "laid").await;
    assert_eq!(at_stop(&yard).await.texts(), ["laid"]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_nobody_was_asked_for_comes_along_at_once() {
    let yard = Yard::new().await;
    let peer = yard.world.agent("peer").await;
    let result = Details { kind: Kind::RESULT, ..Details::default() };
    peer.sends_with(&yard.boss, "by the way: done", result).await;
    assert_eq!(along(&yard).await.texts(), ["by the way: done"]);
}

#[tokio::test(start_paused = true)]
async fn a_report_that_was_cancelled_is_not_said_to_have_been_handed_over() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "lay bricks").await;
    yard.answers(&worker, "laid").await;
    let task = yard.world.hub.taken_on(worker.id())[0].clone();
    let report = task.report.expect("reported").seq;
    yard.world.hub.cancel(Principal::Operator, MessageRef::Seq(report)).await.expect("cancelled");
    assert!(matches!(yard.world.state(report).await, RecordState::Dead { .. }));
    let gathered = yard.boss.asks(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    assert_eq!((gathered.status, gathered.already), (BatchStatus::Complete, Vec::new()));
}
