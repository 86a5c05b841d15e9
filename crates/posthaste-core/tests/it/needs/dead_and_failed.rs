//! Mail that was refused for the last time, and workers that failed.

use std::sync::Arc;

use posthaste_core::messaging::delivery::Reason;
use posthaste_core::messaging::message::{MessageRef, Principal, Seq};
use posthaste_core::needs::{Answer, AnswerError, NeedKind, Outcome};
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::ports::{ActError, RecordState};
use posthaste_core::registry::Status;
use posthaste_testkit::staff::{self, Staff};
use posthaste_testkit::world::{Agent, World};

use super::{allow, answers, kinds, one, open, option, outcome, refused, stories, text};
use crate::working::wish;

stories![
    the_fifth_refusal_asks_the_operator_who_queues_the_message_again,
    a_dismissed_message_stays_dead,
    a_requeue_through_another_door_closes_the_need,
    a_message_that_cannot_be_requeued_leaves_the_need_open,
    mail_that_dies_otherwise_needs_nobody,
    a_worker_that_fails_for_the_operator_needs_to_be_seen,
    a_worker_that_the_operator_stops_needs_nobody_and_reports,
    the_failure_of_an_agents_worker_is_the_agents,
];

/// Sends a message that bob refuses until it is dead.
async fn refuses(alice: &Agent, bob: &Agent, world: &World) -> Seq {
    let seq = alice.sends(bob, "take this").await.seq;
    for left in (0..5).rev() {
        bob.reads().await;
        assert!(open(world).await.is_empty(), "{left} refusals are left");
        world.hub.nack_messages(bob.who, vec![seq]).await.expect("refused");
    }
    let dead = RecordState::Dead { reason: Reason::Refused, maybe_seen: true };
    assert_eq!(world.state(seq).await, dead);
    seq
}

async fn pair(world: &World) -> (Agent, Agent) {
    (world.agent("alice").await, world.agent("bob").await)
}

async fn the_fifth_refusal_asks_the_operator_who_queues_the_message_again(world: World) {
    let (alice, bob) = pair(&world).await;
    let seq = refuses(&alice, &bob, &world).await;
    let need = one(&world).await;
    assert_eq!((need.kind, need.message), (NeedKind::Dead, Some(seq)));
    assert_eq!((&*need.from.address, need.from.instance), (&*alice.address, Some(alice.id())));
    assert_eq!(need.options, ["requeue", "dismiss"]);
    assert!(need.text.contains(&bob.address) && need.text.contains("5 times"), "{}", need.text);

    answers(&world, &need, allow(true)).await.expect("requeued");
    assert_eq!(outcome(&world, need.id).await, Some(Outcome::Requeued));
    assert_eq!(bob.takes().await.marked(), [("take this", true)]);
    let again = answers(&world, &need, allow(true)).await;
    assert!(matches!(again, Err(AnswerError::Closed(_))), "{again:?}");

    // It may be refused again.
    refuses(&alice, &bob, &world).await;
    answers(&world, &one(&world).await, option("requeue")).await.expect("requeued");
}

async fn a_dismissed_message_stays_dead(world: World) {
    let (alice, bob) = pair(&world).await;
    for answer in [allow(false), option("dismiss")] {
        let seq = refuses(&alice, &bob, &world).await;
        let need = one(&world).await;
        for (wrong, field) in [
            (text("x"), "text"),
            (option("x"), "option"),
            (Answer::default(), "allow"),
            (Answer { remember: true, ..allow(true) }, "remember"),
            (Answer { option: Some("requeue".into()), ..allow(true) }, "option"),
        ] {
            assert_eq!(refused(answers(&world, &need, wrong.clone()).await), field, "{wrong:?}");
        }
        answers(&world, &need, answer).await.expect("dismissed");
        assert_eq!(outcome(&world, need.id).await, Some(Outcome::Dismissed));
        assert!(matches!(world.state(seq).await, RecordState::Dead { .. }));
        assert!(open(&world).await.is_empty());
    }
}

async fn a_requeue_through_another_door_closes_the_need(world: World) {
    let (alice, bob) = pair(&world).await;
    let seq = refuses(&alice, &bob, &world).await;
    let need = one(&world).await;
    world.hub.requeue(alice.who, MessageRef::Seq(seq)).await.expect("its sender may");
    assert!(open(&world).await.is_empty());
    assert_eq!(outcome(&world, need.id).await, Some(Outcome::Requeued));
}

async fn a_message_that_cannot_be_requeued_leaves_the_need_open(world: World) {
    let (alice, bob) = pair(&world).await;
    refuses(&alice, &bob, &world).await;
    world.hub.end(bob.id(), Status::Stopped, false).await.expect("ended");
    let need = one(&world).await;
    let refused = answers(&world, &need, allow(true)).await;
    assert!(matches!(refused, Err(AnswerError::Requeue(ActError::Conflict(_)))), "{refused:?}");
    assert_eq!(one(&world).await.id, need.id);
    answers(&world, &need, allow(false)).await.expect("dismissed");
}

async fn mail_that_dies_otherwise_needs_nobody(world: World) {
    let (alice, bob) = pair(&world).await;
    let seq = alice.sends(&bob, "never mind").await.seq;
    world.hub.cancel(alice.who, MessageRef::Seq(seq)).await.expect("cancelled");
    alice.sends(&bob, "too late").await;
    world.hub.end(bob.id(), Status::Stopped, false).await.expect("ended");
    assert!(open(&world).await.is_empty());
}

/// A hub with workers; the operator and an agent can give work.
async fn employs(world: &World) -> (Arc<Staff>, Agent) {
    let workers = Arc::new(Staff::default());
    staff::profile(&world.hub, "mason", Some("command"), "{}").await;
    world.hub.employ(Arc::clone(&workers) as _, AgentsConfig::default()).await;
    (workers, world.agent("boss").await)
}

async fn a_worker_that_fails_for_the_operator_needs_to_be_seen(world: World) {
    let (workers, _) = employs(&world).await;
    let assigned = world.hub.assign(wish(&world.operator(), "build")).await.expect("assigned");
    let id = assigned.instance.id;
    workers.runs(id).await;
    workers.fails(&world.hub, id, 3, "out of bricks").await;
    let need = one(&world).await;
    assert_eq!((need.kind, need.from.instance), (NeedKind::Failed, Some(id)));
    assert!(need.text.contains("exit code 3") && need.text.contains("out of bricks"));
    let mail = world.operator().takes().await;
    assert_eq!(need.message, Some(mail.mail[0].leased.message.seq), "the report is in the mail");
    assert_eq!(one(&world).await.id, need.id, "reading the report does not close it");
    assert_eq!(refused(answers(&world, &need, allow(true)).await), "allow");
    assert_eq!(refused(answers(&world, &need, option("x")).await), "option");
    let told = refused(answers(&world, &need, text("I know")).await);
    assert_eq!(told, "text", "nobody is left who could read it");
    let answered = answers(&world, &need, Answer::default()).await.expect("seen");
    assert!(answered.sent.is_none());
    assert_eq!(answered.need.closed.expect("closed").outcome, Outcome::Seen);
    // Without a word.
    let assigned = world.hub.assign(wish(&world.operator(), "again")).await.expect("assigned");
    workers.runs(assigned.instance.id).await;
    workers.fails(&world.hub, assigned.instance.id, 1, "").await;
    answers(&world, &one(&world).await, Answer::default()).await.expect("seen");
    assert!(open(&world).await.is_empty());
}

async fn a_worker_that_the_operator_stops_needs_nobody_and_reports(world: World) {
    let (workers, _) = employs(&world).await;
    let assigned = world.hub.assign(wish(&world.operator(), "build")).await.expect("assigned");
    let id = assigned.instance.id;
    workers.runs(id).await;
    world.hub.stop(Principal::Operator, id).await.expect("stopped");
    let mail = loop {
        match world.operator().takes().await {
            mail if mail.mail.is_empty() => tokio::task::yield_now().await,
            mail => break mail,
        }
    };
    let report = &mail.mail[0].leased.message;
    assert!(report.body.contains("stopped by the human"), "{}", report.body.as_str());
    assert!(open(&world).await.is_empty(), "the operator knows");
}

async fn the_failure_of_an_agents_worker_is_the_agents(world: World) {
    let (workers, boss) = employs(&world).await;
    let assigned = world.hub.assign(wish(&boss, "build")).await.expect("assigned");
    workers.runs(assigned.instance.id).await;
    workers.fails(&world.hub, assigned.instance.id, 3, "").await;
    assert!(open(&world).await.is_empty());
    // Unless nobody but the operator is left to hear of it.
    let assigned = world.hub.assign(wish(&boss, "build")).await.expect("assigned");
    workers.runs(assigned.instance.id).await;
    world.hub.end(boss.id(), Status::Stopped, false).await.expect("ended");
    while world.hub.open_needs() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(kinds(&open(&world).await), [NeedKind::Failed]);
    let told = world.operator().takes().await;
    assert_eq!(
        told.mail[0].leased.mailbox,
        posthaste_core::address::Mailbox::of(Principal::Operator)
    );
}
