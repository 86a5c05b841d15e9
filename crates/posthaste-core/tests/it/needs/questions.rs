//! Questions: asked by mail, answered by mail.

use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::message::{Details, Kind, Seq};
use posthaste_core::needs::{Answer, AnswerError, NeedKind, Outcome};
use posthaste_core::registry::Status;
use posthaste_testkit::world::World;

use super::{
    all, allow, answers, one, open, option, outcome, question, refused, reply, stories, text,
};

stories![
    a_question_to_the_operator_opens_a_need_and_the_answer_goes_back_linked,
    the_offered_answers_and_whether_somebody_waits_come_from_the_metadata,
    a_reply_through_any_door_answers_the_question,
    of_two_answers_at_the_same_time_one_is_sent,
    a_question_ends_with_its_asker,
    an_answer_of_the_wrong_form_is_refused_and_changes_nothing,
    other_mail_opens_and_answers_nothing,
    whoever_asked_is_not_forgotten_before_the_answer,
];

async fn a_question_to_the_operator_opens_a_need_and_the_answer_goes_back_linked(world: World) {
    let alice = world.agent("alice").await;
    let asked = alice.sends_with("human", "red or blue?", question(None)).await;
    let need = one(&world).await;
    assert_eq!(
        (need.kind, need.blocking, &*need.text),
        (NeedKind::Question, false, "red or blue?")
    );
    assert_eq!((need.message, need.from.instance), (Some(asked.seq), Some(alice.id())));
    assert_eq!(&*need.from.address, alice.address);

    let answered = answers(&world, &need, text("red")).await.expect("answered");
    let sent = answered.sent.expect("a message");
    let closed = answered.need.closed.expect("closed");
    assert_eq!((closed.outcome, closed.message), (Outcome::Answered, Some(sent.seq)));
    assert_eq!(closed.text.as_deref(), Some("red"));
    let mail = alice.takes().await;
    let message = &mail.mail[0].leased.message;
    assert_eq!((mail.texts(), message.in_reply_to), (vec!["red"], Some(asked.seq)));
    assert_eq!((&message.kind, &*message.from.address), (&Kind::ANSWER, "human"));
    assert!(open(&world).await.is_empty());
    let again = answers(&world, &need, text("blue")).await;
    assert!(matches!(again, Err(AnswerError::Closed(_))), "{again:?}");
    assert!(alice.takes().await.mail.is_empty());
}

async fn the_offered_answers_and_whether_somebody_waits_come_from_the_metadata(world: World) {
    let alice = world.agent("alice").await;
    let facts = question(Some(r#"{"blocking":true,"options":["red","blue"]}"#));
    alice.sends_with("human", "which?", facts).await;
    let need = one(&world).await;
    assert!(need.blocking);
    assert_eq!(need.options, ["red", "blue"]);
    assert_eq!(refused(answers(&world, &need, option("green")).await), "option");
    answers(&world, &need, option("blue")).await.expect("offered");
    assert_eq!(alice.takes().await.texts(), ["blue"]);

    // Any other answer is a text.
    let facts = question(Some(r#"{"blocking":7,"options":["red"]}"#));
    alice.sends_with("human", "which now?", facts).await;
    let need = one(&world).await;
    assert!(!need.blocking);
    answers(&world, &need, text("green")).await.expect("taken");
}

async fn a_reply_through_any_door_answers_the_question(world: World) {
    let alice = world.agent("alice").await;
    let asked = alice.sends_with("human", "red?", question(None)).await;
    let need = one(&world).await;
    let operator = world.operator();
    let mail = operator.reads().await;
    assert_eq!(mail.texts(), ["red?"]);
    operator.acks(&mail).await;
    assert_eq!(one(&world).await.id, need.id, "reading answers nothing");
    let details = reply(&world, &operator, asked.seq).await;
    let sent = operator.sends_with(&alice, "yes", details).await;
    assert!(open(&world).await.is_empty());
    let closed = all(&world).await[0].closed.clone().expect("closed");
    assert_eq!((closed.outcome, closed.message), (Outcome::Answered, Some(sent.seq)));
}

async fn of_two_answers_at_the_same_time_one_is_sent(world: World) {
    let alice = world.agent("alice").await;
    alice.sends_with("human", "red?", question(None)).await;
    let need = one(&world).await;
    let (one, other) =
        tokio::join!(answers(&world, &need, text("yes")), answers(&world, &need, text("no")));
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    let refused = one.err().or(other.err());
    assert!(matches!(refused, Some(AnswerError::Closed(_))), "{refused:?}");
    assert_eq!(alice.takes().await.mail.len(), 1);
}

async fn a_question_ends_with_its_asker(world: World) {
    let alice = world.agent("alice").await;
    alice.sends_with("human", "red?", question(None)).await;
    let need = one(&world).await;
    world.hub.end(alice.id(), Status::Stopped, false).await.expect("ended");
    assert!(open(&world).await.is_empty());
    assert_eq!(outcome(&world, need.id).await, Some(Outcome::Withdrawn));
    let late = answers(&world, &need, text("yes")).await;
    assert!(matches!(late, Err(AnswerError::Closed(_))), "{late:?}");
}

async fn an_answer_of_the_wrong_form_is_refused_and_changes_nothing(world: World) {
    let alice = world.agent("alice").await;
    alice.sends_with("human", "red?", question(None)).await;
    let need = one(&world).await;
    let both = Answer { option: Some("x".into()), ..text("y") };
    let remember = Answer { remember: true, ..text("y") };
    for (answer, field) in [
        (allow(true), "allow"),
        (both, "option"),
        (remember, "remember"),
        (option("x"), "option"),
        (Answer::default(), "text"),
        (text(""), "text"),
        (text(" \n"), "text"),
    ] {
        assert_eq!(refused(answers(&world, &need, answer.clone()).await), field, "{answer:?}");
    }
    let nobody = world.hub.answer_need(
        posthaste_core::needs::NeedId(99),
        text("x"),
        posthaste_core::messaging::message::Via::Cli,
    );
    assert!(matches!(nobody.await, Err(AnswerError::NotFound(_))));
    assert_eq!(open(&world).await, [need]);
    assert!(alice.takes().await.mail.is_empty());
}

async fn other_mail_opens_and_answers_nothing(world: World) {
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    alice.sends("human", "hello").await;
    alice.sends_with(&bob, "lunch?", question(None)).await;
    world.operator().sends_with(&bob, "and you?", question(None)).await;
    assert!(all(&world).await.is_empty());

    let asked = alice.sends_with("human", "red?", question(None)).await;
    // The operator's mail without a link, and somebody else's reply.
    world.operator().sends(&alice, "yes").await;
    let link = Details { in_reply_to: Some(asked.seq), ..Details::default() };
    bob.sends_with(&alice, "yes", link).await;
    let other = Details { in_reply_to: Some(Seq(1)), ..Details::default() };
    world.operator().sends_with(&alice, "yes", other).await;
    assert_eq!(one(&world).await.message, Some(asked.seq));
}

async fn whoever_asked_is_not_forgotten_before_the_answer(world: World) {
    let alice = world.agent("alice").await;
    alice.sends_with("human", "red?", question(None)).await;
    tokio::time::sleep(Limits::default().away_after * 2).await;
    assert_eq!(world.status(&alice), Status::Away);
    world.hub.forget_all_gone().await.expect("looked");
    let need = one(&world).await;
    answers(&world, &need, text("yes")).await.expect("it is still an address");
    assert_eq!(alice.takes().await.texts(), ["yes"]);
    tokio::time::sleep(Limits::default().away_after * 2).await;
    world.hub.forget_all_gone().await.expect("looked");
    assert!(!world.hub.lives(alice.id()), "and now it is gone");
    assert_eq!(&*all(&world).await[0].from.address, alice.address, "it is still named");
}

#[tokio::test(start_paused = true)]
async fn an_answer_reaches_the_asker_when_the_question_itself_is_pruned() {
    let world = World::new();
    let alice = world.agent("alice").await;
    let asked = alice.sends_with("human", "red?", question(None)).await;
    world.operator().takes().await;
    tokio::time::sleep(Limits::default().settled_retention + Duration::from_secs(120)).await;
    world.engine.sweep().await.expect("swept");
    assert!(world.record(asked.seq).await.is_none(), "it is pruned");
    let need = one(&world).await;
    answers(&world, &need, text("yes")).await.expect("answered");
    let mail = alice.takes().await;
    assert_eq!(mail.mail[0].leased.message.in_reply_to, Some(asked.seq));
}

#[tokio::test(start_paused = true)]
async fn a_long_question_is_kept_in_part_and_answered_needs_are_forgotten_in_time() {
    let limits = Limits { need_text_chars: 3, ..Limits::default() };
    let world = World::with(limits.clone());
    let alice = world.agent("alice").await;
    alice.sends_with("human", "übermut?", question(None)).await;
    alice.sends_with("human", "short", question(None)).await;
    let open_needs = open(&world).await;
    assert_eq!(open_needs[0].text, "übe…");
    answers(&world, &open_needs[0], text("yes, indeed")).await.expect("answered");
    assert_eq!(all(&world).await[0].closed.as_ref().expect("closed").text.as_deref(), Some("yes…"));
    tokio::time::sleep(limits.need_retention + Duration::from_secs(120)).await;
    world.engine.sweep().await.expect("swept");
    let left: Vec<_> = all(&world).await.iter().map(|need| need.id.0).collect();
    assert_eq!(left, [2], "an open one is never forgotten");
}
