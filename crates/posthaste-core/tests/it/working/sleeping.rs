//! What happens without being asked: idle workers end, sleeping agents are woken.

use std::time::Duration;

use posthaste_core::messaging::message::{Details, Kind};
use posthaste_core::orchestration::TurnActivity;
use posthaste_core::registry::Status;
use posthaste_testkit::staff;
use tokio::time::sleep;

use super::Yard;

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_has_reported_and_stays_idle_is_ended_in_time() {
    let yard = Yard::new().await;
    let done = yard.puts_to_work(&yard.boss, "one").await;
    let busy = yard.puts_to_work(&yard.boss, "two").await;
    let result = Details { kind: Kind::RESULT, ..Details::default() };
    done.sends_with(&yard.boss, "done", result).await;
    sleep(minutes(14)).await;
    assert_eq!(yard.world.status(&done), Status::Running);
    sleep(minutes(3)).await;
    assert_eq!(yard.world.status(&done), Status::Stopped);
    // A worker that works gives no sign of life and is not lost.
    assert_eq!(yard.world.status(&busy), Status::Running);
}

#[tokio::test(start_paused = true)]
async fn a_worker_in_the_middle_of_a_turn_is_not_ended_as_idle() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "one").await;
    let hub = &yard.world.hub;
    hub.turn_ended(worker.id(), "done".to_owned(), Vec::new()).await;
    hub.note_activity(worker.id(), Some(TurnActivity::Busy));
    sleep(minutes(60)).await;
    assert_eq!(yard.world.status(&worker), Status::Running);
    hub.note_activity(worker.id(), Some(TurnActivity::Idle));
    sleep(minutes(2)).await;
    assert_eq!(yard.world.status(&worker), Status::Stopped);
}

#[tokio::test(start_paused = true)]
async fn an_agent_with_mail_that_does_not_look_is_woken_and_not_too_often() {
    let yard = Yard::new().await;
    let hub = &yard.world.hub;
    staff::profile(hub, "sleeper", None, r#"{"wake":["ring"]}"#).await;
    staff::profile(hub, "stone", None, "{}").await;
    let (sleeper, stone) = (yard.world.agent("sleeper").await, yard.world.agent("stone").await);
    sleep(minutes(5)).await;
    assert!(yard.staff.woken().is_empty(), "without mail nobody is woken");
    yard.boss.sends(&sleeper, "wake up").await;
    yard.boss.sends(&stone, "wake up").await;
    sleep(minutes(2)).await;
    let woken = yard.staff.woken();
    assert_eq!(woken.len(), 1);
    assert_eq!((woken[0].who.id, woken[0].unread), (sleeper.id(), 1));
    sleep(minutes(8)).await;
    assert!(yard.staff.woken().is_empty());
    sleep(minutes(4)).await;
    assert_eq!(yard.staff.woken().len(), 1, "again after a while");
    sleeper.takes().await;
    sleep(minutes(30)).await;
    assert!(yard.staff.woken().is_empty(), "it has read its mail");
}

#[tokio::test(start_paused = true)]
async fn mail_to_a_name_wakes_the_only_one_it_is_for() {
    let yard = Yard::new().await;
    staff::profile(&yard.world.hub, "sleeper", None, r#"{"wake":["ring"]}"#).await;
    let sleeper = yard.world.agent("sleeper").await;
    sleep(minutes(2)).await;
    yard.boss.sends("sleeper", "wake up").await;
    sleep(minutes(1)).await;
    let woken = yard.staff.woken();
    assert_eq!(woken.len(), 1);
    assert_eq!((woken[0].who.id, woken[0].unread), (sleeper.id(), 1));
}

#[tokio::test(start_paused = true)]
async fn mail_for_several_wakes_the_one_that_has_been_quiet_the_longest() {
    let yard = Yard::new().await;
    staff::profile(&yard.world.hub, "sleeper", None, r#"{"wake":["ring"]}"#).await;
    let first = yard.world.agent("sleeper").await;
    sleep(minutes(1)).await;
    let second = yard.world.agent("sleeper").await;
    sleep(minutes(2)).await;
    yard.boss.sends("sleeper", "wake up").await;
    yard.boss.sends("sleeper@main", "one of you").await;
    sleep(minutes(5)).await;
    let woken: Vec<_> = yard.staff.woken().iter().map(|request| request.who.id).collect();
    assert_eq!(woken, [first.id()]);
    // Its own mail wakes the other one all the same.
    yard.boss.sends(&second, "you, too").await;
    sleep(minutes(1)).await;
    let woken: Vec<_> = yard.staff.woken().iter().map(|request| request.who.id).collect();
    assert_eq!(woken, [second.id()]);
}
