//! Ending workers and all below them.

use posthaste_api::ErrorCode;

use super::assigning::assign;
use crate::house::{read, refusal, until};
use crate::staff::{STUBBORN, house};

#[tokio::test]
async fn stopping_a_worker_stops_its_tree_and_its_giver_is_told() {
    let (house, staff) = house().await;
    let (_, as_boss) = house.agent("boss").await;
    let top = assign(&as_boss, "worker", "split it").await;
    let token = staff.works(&top.instance).await.token.0;
    let below = assign(&house.client(&token), "builder", "a part").await;
    staff.works(&below.instance).await;

    let told = as_boss.stop(&top.instance).await.expect("stopped");

    assert_eq!(told.stopped, 2);
    for one in [&top.instance, &below.instance] {
        until("it has ended", async || house.instance(one).await.status == "stopped").await;
    }
    let inbox = read(&as_boss).await;
    assert_eq!(inbox.messages[0].kind, "system.agent_failed");
    assert!(inbox.messages[0].message.contains("stopped by boss."), "{inbox:?}");
    let again = refusal(as_boss.stop(&top.instance).await);
    assert_eq!((again.code, again.code.status()), (ErrorCode::Conflict, 409));
}

#[tokio::test]
async fn a_process_that_does_not_listen_is_told_as_running_until_it_ends() {
    let (house, staff) = house().await;
    let operator = house.operator();
    let given = assign(&operator, STUBBORN, "wait").await;
    staff.works(&given.instance).await;
    until("it runs", async || house.instance(&given.instance).await.status == "running").await;

    let told = operator.stop(&given.instance).await.expect("asked");

    assert_eq!((told.stopped, &*told.instance.status), (1, "running"), "that is what is true");
    let asked: Vec<String> = staff.asked_to_stop().iter().map(ToString::to_string).collect();
    assert_eq!(asked, [given.instance.as_str()]);
    staff.fails(&given.instance, 137, "").await;
    assert_eq!(house.instance(&given.instance).await.status, "failed");
}

#[tokio::test]
async fn only_those_above_may_stop_and_the_operator_stops_all_of_theirs() {
    let (house, staff) = house().await;
    let (_, as_boss) = house.agent("boss").await;
    let (_, as_peer) = house.agent("peer").await;
    let of_boss = assign(&as_boss, "worker", "one").await;
    let mine = assign(&house.operator(), "worker", "two").await;
    let other = assign(&house.operator(), "worker", "three").await;
    for one in [&of_boss, &mine, &other] {
        staff.works(&one.instance).await;
    }

    let error = refusal(as_peer.stop(&of_boss.instance).await);
    assert_eq!((error.code, error.code.status()), (ErrorCode::Forbidden, 403));
    assert!(error.hint.is_some());
    assert_eq!(refusal(as_boss.stop_all().await).code, ErrorCode::Forbidden);

    assert_eq!(house.operator().stop_all().await.expect("stopped").stopped, 2);
    for one in [&mine, &other] {
        until("it has ended", async || house.instance(&one.instance).await.status == "stopped")
            .await;
    }
    assert_eq!(house.instance(&of_boss.instance).await.status, "running", "another's session");
    house.operator().stop(&of_boss.instance).await.expect("the operator may stop anyone");
}

#[tokio::test]
async fn a_session_ends_with_the_agent_at_its_top() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let given = assign(&as_boss, "worker", "one").await;
    staff.works(&given.instance).await;

    let left = as_boss.stop(&boss.instance).await.expect("left");

    assert_eq!((&*left.instance.status, left.stopped), ("stopped", 2));
    until("its worker has ended", async || {
        house.instance(&given.instance).await.status == "stopped"
    })
    .await;
}
