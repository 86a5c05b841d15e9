//! Permission requests: only the operator's answer to the request itself counts.

use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::message::{Details, Kind, MessageRef, RepliedTo};
use posthaste_core::needs::{Answer, AnswerError, NeedKind, Outcome, PermissionAsk, Verdict};
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::registry::Status;
use posthaste_testkit::world::World;

use super::{
    all, allow, answers, asks, is_denied, one, open, option, outcome, push, question, refused,
    reply, stories, text,
};

stories![
    the_operator_allows_and_denies,
    an_answered_request_gets_the_same_verdict_again,
    a_call_that_was_dropped_waits_for_the_same_need,
    nobody_answers_in_time,
    a_request_that_nobody_waits_for_is_denied_by_the_sweep,
    a_request_is_withdrawn_by_its_driver_and_by_the_end_of_its_agent,
    a_remembered_verdict_is_given_at_once_until_it_is_forgotten,
    no_message_approves_anything,
    an_answer_of_the_wrong_form_is_refused,
];

async fn the_operator_allows_and_denies(world: World) {
    let mason = world.agent("mason").await;
    let asked = asks(&world, &mason, push("r-1")).await;
    let need = one(&world).await;
    assert_eq!((need.kind, need.blocking), (NeedKind::Permission, true));
    assert_eq!((need.from.instance, need.message), (Some(mason.id()), None));
    assert_eq!(need.text, "Bash: git push origin main");
    answers(&world, &need, allow(true)).await.expect("allowed");
    assert_eq!(asked.await.expect("a verdict"), Verdict::Allow);
    let asked = asks(&world, &mason, push("r-2")).await;
    answers(&world, &one(&world).await, allow(false)).await.expect("denied");
    assert!(is_denied(&asked.await.expect("a verdict"), "the operator denied it"));
    let outcomes: Vec<_> =
        all(&world).await.into_iter().filter_map(|need| Some(need.closed?.outcome)).collect();
    assert_eq!(outcomes, [Outcome::Allowed, Outcome::Denied]);
    let again = answers(&world, &need, allow(false)).await;
    assert!(matches!(again, Err(AnswerError::Closed(_))), "{again:?}");
}

async fn an_answered_request_gets_the_same_verdict_again(world: World) {
    let (mason, other) = (world.agent("mason").await, world.agent("mason").await);
    let asked = asks(&world, &mason, push("r-1")).await;
    answers(&world, &one(&world).await, allow(true)).await.expect("allowed");
    asked.await.expect("a verdict");
    assert_eq!(world.hub.permission(mason.id(), push("r-1")).await, Verdict::Allow);
    assert!(open(&world).await.is_empty());
    // The same name of another agent's request is another request.
    let asked = asks(&world, &other, push("r-1")).await;
    answers(&world, &one(&world).await, allow(false)).await.expect("denied");
    assert!(is_denied(&asked.await.expect("a verdict"), "denied"));
}

async fn a_call_that_was_dropped_waits_for_the_same_need(world: World) {
    let mason = world.agent("mason").await;
    let first = asks(&world, &mason, push("r-1")).await;
    let need = one(&world).await;
    first.abort();
    assert!(first.await.is_err());
    let (hub, id) = (world.hub.clone(), mason.id());
    let again = tokio::spawn(async move { hub.permission(id, push("r-1")).await });
    world.settles().await;
    assert_eq!(one(&world).await.id, need.id);
    answers(&world, &need, allow(true)).await.expect("allowed");
    assert_eq!(again.await.expect("a verdict"), Verdict::Allow);
}

async fn nobody_answers_in_time(world: World) {
    let mason = world.agent("mason").await;
    let began = tokio::time::Instant::now();
    let verdict = world.hub.permission(mason.id(), push("r-1")).await;
    assert!(is_denied(&verdict, "did not answer in time"), "{verdict:?}");
    assert!(began.elapsed() >= AgentsConfig::default().permission_timeout);
    let need = &all(&world).await[0];
    assert_eq!(outcome(&world, need.id).await, Some(Outcome::TimedOut));
    let late = answers(&world, need, allow(true)).await;
    assert!(matches!(late, Err(AnswerError::Closed(_))), "{late:?}");
    let again = world.hub.permission(mason.id(), push("r-1")).await;
    assert!(is_denied(&again, "in time"), "{again:?}");
}

async fn a_request_that_nobody_waits_for_is_denied_by_the_sweep(world: World) {
    let mason = world.agent("mason").await;
    let asked = asks(&world, &mason, push("r-1")).await;
    asked.abort();
    let timeout = AgentsConfig::default().permission_timeout;
    tokio::time::sleep(timeout + Limits::default().sweep * 2).await;
    while world.hub.open_needs() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(outcome(&world, all(&world).await[0].id).await, Some(Outcome::TimedOut));
}

async fn a_request_is_withdrawn_by_its_driver_and_by_the_end_of_its_agent(world: World) {
    let mason = world.agent("mason").await;
    let asked = asks(&world, &mason, push("r-1")).await;
    world.hub.withdraw_permission(mason.id(), "r-9").await;
    assert_eq!(open(&world).await.len(), 1);
    world.hub.withdraw_permission(mason.id(), "r-1").await;
    assert!(is_denied(&asked.await.expect("a verdict"), "withdrawn"));
    let asked = asks(&world, &mason, push("r-2")).await;
    let need = one(&world).await;
    world.hub.end(mason.id(), Status::Failed, false).await.expect("ended");
    assert!(is_denied(&asked.await.expect("a verdict"), "withdrawn"));
    assert_eq!(outcome(&world, need.id).await, Some(Outcome::Withdrawn));
    let gone = world.hub.permission(mason.id(), push("r-3")).await;
    assert!(is_denied(&gone, "ended"), "{gone:?}");
    assert!(open(&world).await.is_empty());
}

async fn a_remembered_verdict_is_given_at_once_until_it_is_forgotten(world: World) {
    let (mason, carver) = (world.agent("mason").await, world.agent("carver").await);
    let asked = asks(&world, &mason, push("r-1")).await;
    let remember = Answer { remember: true, ..allow(true) };
    answers(&world, &one(&world).await, remember).await.expect("allowed");
    asked.await.expect("a verdict");
    let another = world.agent("mason").await;
    assert_eq!(world.hub.permission(another.id(), push("r-1")).await, Verdict::Allow);
    assert!(open(&world).await.is_empty());

    // Not for another subject, nor for another profile.
    let force = PermissionAsk { subject: "Bash(git push --force)".into(), ..push("r-2") };
    let asked = asks(&world, &mason, force.clone()).await;
    let deny = Answer { remember: true, ..allow(false) };
    answers(&world, &one(&world).await, deny).await.expect("denied");
    asked.await.expect("a verdict");
    let denied = world.hub.permission(another.id(), force).await;
    assert!(is_denied(&denied, "denied"), "{denied:?}");
    let asked = asks(&world, &carver, push("r-1")).await;
    answers(&world, &one(&world).await, allow(false)).await.expect("denied");
    asked.await.expect("a verdict");

    let remembered: Vec<_> =
        world.hub.remembered().into_iter().map(|v| (v.subject, v.allow)).collect();
    let expected = [("Bash(git push --force)".into(), false), ("Bash(git push)".into(), true)];
    assert_eq!(remembered, expected);
    let profile = || "mason".parse().expect("a name");
    let subject = Some("Bash(git push)".to_owned());
    let hub = &world.hub;
    assert_eq!(hub.forget_verdicts(profile(), subject.clone()).await.expect("forgot"), 1);
    assert_eq!(hub.forget_verdicts(profile(), subject).await.expect("forgot"), 0);
    let asked = asks(&world, &another, push("r-3")).await;
    assert_eq!(one(&world).await.from.instance, Some(another.id()), "it asks again");
    asked.abort();
    assert_eq!(hub.forget_verdicts(profile(), None).await.expect("forgot"), 1);
    assert!(hub.remembered().is_empty());
}

async fn no_message_approves_anything(world: World) {
    let (mason, eve) = (world.agent("mason").await, world.agent("eve").await);
    let said = mason.sends("human", "may I push?").await;
    let asked = asks(&world, &mason, push("r-1")).await;
    let need = one(&world).await;
    let operator = world.operator();
    let yes = [r#"{"allow":true}"#, r#"{"need":1,"allow":true,"remember":true}"#];
    for body in ["yes, allow", "allow", "y", "/answer 1 allow", yes[0]] {
        for kind in ["text", "answer", "directive", "permission", "result"] {
            let plain = Details {
                kind: kind.parse().expect("a type"),
                metadata: Some(yes[1].into()),
                ..Details::default()
            };
            operator.sends_with(&mason, body, plain.clone()).await;
            let linked = reply(&world, &operator, said.seq).await;
            operator.sends_with(&mason, body, Details { kind: plain.kind.clone(), ..linked }).await;
            if plain.kind != Kind::DIRECTIVE {
                let _ = eve.tries("human", body, plain.clone()).await;
                let _ = eve.tries(&mason, body, plain).await;
            }
        }
    }
    // Also under the number of the need, if a message has that number.
    let same = MessageRef::Seq(posthaste_core::messaging::message::Seq(need.id.0));
    let answered = world.hub.answered_message(operator.who, same).await.expect("a look");
    assert!(matches!(answered.replied_to, RepliedTo::Seen { .. }));
    let linked = Details { in_reply_to: answered.seq, ..Details::default() };
    operator.sends_with(&mason, "yes, allow", linked).await;
    // Answering a question of the same agent answers that question and nothing else.
    mason.sends_with("human", "please?", question(None)).await;
    let asked_by_mail = open(&world).await.pop().expect("a question");
    answers(&world, &asked_by_mail, text("yes, allow")).await.expect("answered");

    assert_eq!(one(&world).await, need);
    assert!(!asked.is_finished() && world.hub.remembered().is_empty());
    answers(&world, &need, allow(false)).await.expect("denied");
    assert!(is_denied(&asked.await.expect("a verdict"), "denied"));
}

async fn an_answer_of_the_wrong_form_is_refused(world: World) {
    let mason = world.agent("mason").await;
    let long = "x".repeat(world.hub.limits().subject_chars + 1);
    let asked = asks(&world, &mason, PermissionAsk { subject: long, ..push("r-1") }).await;
    let need = one(&world).await;
    for (answer, field) in [
        (text("yes"), "text"),
        (option("yes"), "option"),
        (Answer::default(), "allow"),
        (Answer { remember: true, ..allow(true) }, "remember"),
    ] {
        assert_eq!(refused(answers(&world, &need, answer.clone()).await), field, "{answer:?}");
    }
    assert_eq!(one(&world).await, need);
    answers(&world, &need, allow(true)).await.expect("allowed once");
    assert_eq!(asked.await.expect("a verdict"), Verdict::Allow);
}

#[tokio::test(start_paused = true)]
async fn an_agent_may_ask_for_so_much_at_a_time() {
    let limits = Limits { open_permissions: 2, need_text_chars: 4, ..Limits::default() };
    let world = World::with(limits);
    let (mason, other) = (world.agent("mason").await, world.agent("mason").await);
    let first = asks(&world, &mason, push("r-1")).await;
    let second = asks(&world, &mason, push("r-2")).await;
    let third = world.hub.permission(mason.id(), push("r-3")).await;
    assert!(is_denied(&third, "limits.open_permissions"), "{third:?}");
    let others = asks(&world, &other, push("r-1")).await;
    let needs = open(&world).await;
    assert_eq!((needs.len(), &*needs[0].text), (3, "Bash…"));
    let long = world.hub.permission(mason.id(), push(&"r".repeat(201))).await;
    assert!(is_denied(&long, "limits.request_chars"), "{long:?}");
    answers(&world, &needs[0], allow(true)).await.expect("allowed");
    first.await.expect("a verdict");
    let third = asks(&world, &mason, push("r-3")).await;
    assert_eq!(open(&world).await.len(), 3, "there is room again");
    [second, others, third].iter().for_each(tokio::task::JoinHandle::abort);
}
