//! What the operator writes, judged before the agent reads it.

use posthaste_api::ErrorCode;
use posthaste_api::chat::{ChatSay, ChatStart};
use posthaste_api::needs::AnswerRequest;
use posthaste_core::needs::Verdict;
use posthaste_core::orchestration::TurnActivity;
use serde_json::json;

use super::{Talk, refused, verdict, words};
use crate::house::until;

#[tokio::test]
async fn a_plain_text_answers_the_blocking_question_and_the_next_one_is_a_message() {
    let talk = Talk::new().await;
    let side = talk.asks("which tests?", false).await;
    let waits = talk.asks("which branch?", true).await;
    let said = talk.say("main").await;
    let need = said.need.expect("it was a question");
    assert_eq!((need.message, need.outcome.as_deref()), (Some(waits), Some("answered")));
    let answer = talk.entry(said.receipt.expect("a message").seq).await;
    assert_eq!((answer.in_reply_to, answer.text.as_str()), (Some(waits), "main"));
    assert_eq!(talk.entry(waits).await.state.as_deref(), Some("answered"));
    // Nobody waits for the other one.
    let said = talk.say("hello").await;
    assert!(said.need.is_none() && said.receipt.is_some());
    assert_eq!(talk.entry(side).await.state.as_deref(), Some("open"));
}

#[tokio::test]
async fn an_answer_that_says_so_goes_to_the_question_or_to_the_one_that_it_names() {
    let talk = Talk::new().await;
    let side = talk.asks("which tests?", false).await;
    let waits = talk.asks("which branch?", true).await;
    let need = talk.entry(side).await.need.expect("an open need");
    let said = talk.say(&format!("/answer {need} all of them")).await;
    assert_eq!(said.need.expect("a need").message, Some(side));
    let sent = said.receipt.expect("a message").seq;
    assert_eq!(talk.entry(sent).await.text, "all of them");
    let said = talk.say("/answer 42").await;
    assert_eq!(said.need.expect("a need").message, Some(waits));
    let error =
        refused(talk.operator.say(&talk.id, &words("/answer no")).await, ErrorCode::Conflict);
    assert!(error.message.contains("waits for no answer"), "{error:?}");
    let late = words(&format!("/answer {need} some"));
    refused(talk.operator.say(&talk.id, &late).await, ErrorCode::AlreadyAnswered);
}

#[tokio::test]
async fn a_question_of_another_agent_is_not_answered_here() {
    let talk = Talk::new().await;
    let (_, as_bob) = talk.house.agent("bob").await;
    let mut question = posthaste_api::messages::SendRequest::new("human", "red?");
    question.kind = Some("question".into());
    as_bob.send(&question).await.expect("asked");
    let open = talk.operator.needs(&Default::default()).await.expect("needs").needs;
    let text = words(&format!("/answer {} red", open[0].id));
    let error = refused(talk.operator.say(&talk.id, &text).await, ErrorCode::Conflict);
    assert!(error.message.contains("is not one of helper"), "{error:?}");
}

#[tokio::test]
async fn a_plain_yes_or_no_is_the_verdict_on_the_oldest_request_and_no_message() {
    let talk = Talk::new().await;
    let first = talk.wants("make").await;
    let second = talk.wants("make install").await;
    let waits = talk.asks("which branch?", true).await;
    let view = talk.look().await;
    let requests: Vec<_> = view.entries.iter().filter(|e| e.kind == "permission").collect();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].text, "Bash: make");
    let said = talk.say("Yes!").await;
    assert!(said.receipt.is_none(), "a verdict is no message");
    assert_eq!(said.need.expect("a need").outcome.as_deref(), Some("allowed"));
    assert_eq!(verdict(first).await, Verdict::Allow);
    let said = talk.say("n").await;
    assert_eq!(said.need.expect("a need").outcome.as_deref(), Some("denied"));
    assert!(matches!(verdict(second).await, Verdict::Deny { .. }));
    // Nothing is left to allow: it answers the question.
    assert_eq!(talk.say("yes").await.need.expect("a need").message, Some(waits));
    assert!(talk.say("yes").await.need.is_none(), "a message like any other");
}

#[tokio::test]
async fn a_request_that_is_named_takes_yes_or_no_and_nothing_else() {
    let talk = Talk::new().await;
    let first = talk.wants("make").await;
    let second = talk.wants("make install").await;
    let view = talk.look().await;
    let ids: Vec<u64> = view.entries.iter().filter_map(|entry| entry.need).collect();
    let maybe = words(&format!("/answer {} maybe", ids[1]));
    let error = refused(talk.operator.say(&talk.id, &maybe).await, ErrorCode::InvalidArgument);
    assert!(error.hint.is_some_and(|hint| hint.contains("yes")));
    talk.say(&format!("/answer {} no", ids[1])).await;
    assert!(matches!(verdict(second).await, Verdict::Deny { .. }));
    talk.say("/answer allow").await;
    assert_eq!(verdict(first).await, Verdict::Allow);
}

#[tokio::test]
async fn a_text_that_is_not_plainly_yes_allows_nothing() {
    let talk = Talk::new().await;
    let asked = talk.wants("make").await;
    for text in ["yes please", "yes, and then deploy", "sure", "ok"] {
        assert!(talk.say(text).await.need.is_none(), "{text}");
    }
    assert_eq!(talk.house.hub.open_needs(), 1);
    talk.say("deny.").await;
    assert!(matches!(verdict(asked).await, Verdict::Deny { .. }));
}

#[tokio::test]
async fn the_same_key_sends_once_also_when_it_answered_a_question() {
    let talk = Talk::new().await;
    let waits = talk.asks("which branch?", true).await;
    for (text, key) in [("/answer main", "k-1"), ("hello", "k-2")] {
        let say = ChatSay { message: text.into(), idempotency_key: Some(key.into()) };
        let first = talk.operator.say(&talk.id, &say).await.expect("said").receipt;
        let second = talk.operator.say(&talk.id, &say).await.expect("said").receipt;
        let (first, second) = (first.expect("a message"), second.expect("a message"));
        assert_eq!((first.seq, second.duplicate), (second.seq, true), "{text}");
    }
    assert_eq!(talk.entry(waits).await.state.as_deref(), Some("answered"));
}

#[tokio::test]
async fn a_question_that_was_answered_elsewhere_is_answered_in_the_conversation() {
    let talk = Talk::new().await;
    let seq = talk.asks("which branch?", true).await;
    let need = talk.entry(seq).await.need.expect("open").to_string();
    let answer = AnswerRequest { text: Some("main".into()), ..AnswerRequest::default() };
    talk.operator.answer_need(&need, &answer).await.expect("answered");
    let entry = talk.entry(seq).await;
    assert_eq!((entry.need, entry.state.as_deref()), (None, Some("answered")));
}

#[tokio::test]
async fn a_cancelled_turn_takes_its_question_back_and_leaves_the_agent() {
    let talk = Talk::new().await;
    let (visitor, _) = talk.house.agent("visitor").await;
    let refusal = talk.operator.cancel_turn(&visitor.instance).await;
    let error = refused(refusal, ErrorCode::Conflict);
    assert!(error.message.contains("cannot cancel a turn"), "{error:?}");
    talk.staff.is_writing(talk.who, "").await;
    let error = refused(talk.operator.cancel_turn(&talk.id).await, ErrorCode::Conflict);
    assert!(error.message.contains("not at work"), "{error:?}");
    talk.house.hub.note_activity(talk.who, Some(TurnActivity::Busy));
    let asked = talk.asks("which branch?", true).await;
    let side = talk.asks("which tests?", false).await;
    talk.operator.cancel_turn(&talk.id).await.expect("cancelled");
    assert_eq!(talk.staff.cancelled(), [talk.who]);
    assert_eq!(talk.entry(asked).await.state.as_deref(), Some("withdrawn"));
    assert_eq!(talk.entry(side).await.state.as_deref(), Some("open"));
    let end = json!({ "final": true, "answers": [], "cancelled": true });
    let end = talk.utters("answer", "(cancelled)", end).await;
    assert_eq!(talk.entry(end).await.state.as_deref(), Some("cancelled"));
    assert_eq!(talk.look().await.status, "running");
}

#[tokio::test]
async fn the_same_key_gives_a_verdict_once_and_is_no_message_later() {
    let talk = Talk::new().await;
    let asked = talk.wants("make").await;
    let yes = ChatSay { message: "yes".into(), idempotency_key: Some("k-1".into()) };
    let first = talk.operator.say(&talk.id, &yes).await.expect("said").need.expect("a need");
    assert_eq!(verdict(asked).await, Verdict::Allow);
    let again = talk.wants("make install").await;
    let second = talk.operator.say(&talk.id, &yes).await.expect("said");
    assert!(second.receipt.is_none(), "no message either");
    let second = second.need.expect("a need");
    assert_eq!((second.id, second.answer), (first.id, None), "a verdict has no words");
    assert!(talk.look().await.entries.iter().any(|entry| entry.text == "Bash: make install"));
    talk.say("no").await;
    assert!(matches!(verdict(again).await, Verdict::Deny { .. }));
}

#[tokio::test]
async fn a_request_that_was_closed_elsewhere_stays_in_the_conversation_with_its_state() {
    let talk = Talk::new().await;
    let first = talk.wants("make").await;
    let id = talk.look().await.entries[0].need.expect("an open need");
    let yes = AnswerRequest { allow: Some(true), ..AnswerRequest::default() };
    talk.operator.answer_need(&id.to_string(), &yes).await.expect("allowed");
    assert_eq!(verdict(first).await, Verdict::Allow);
    let second = talk.wants("make install").await;
    talk.house.hub.withdraw_permission(talk.who, "make install").await;
    assert!(matches!(verdict(second).await, Verdict::Deny { .. }));
    let third = talk.wants("make clean").await;
    let shown = async || {
        let entries = talk.look().await.entries;
        let requests = entries.into_iter().filter(|entry| entry.kind == "permission");
        requests.map(|entry| (entry.text, entry.state.unwrap_or_default())).collect::<Vec<_>>()
    };
    let expected = [
        ("Bash: make", "answered"),
        ("Bash: make install", "withdrawn"),
        ("Bash: make clean", "open"),
    ];
    let expected = |last: &str| {
        let mut all = expected.map(|(text, state)| (text.to_owned(), state.to_owned()));
        all[2].1 = last.to_owned();
        all
    };
    assert_eq!(shown().await, expected("open"));
    talk.operator.stop(&talk.id).await.expect("stopped");
    verdict(third).await;
    until("it is withdrawn", async || shown().await == expected("withdrawn")).await;
}

#[tokio::test]
async fn a_text_without_words_is_no_message_and_no_answer() {
    let talk = Talk::new().await;
    let waits = talk.asks("which branch?", true).await;
    for text in ["", " ", "\n\t ", "\u{a0}", "/answer", "/answer \n"] {
        let said = talk.operator.say(&talk.id, &words(text)).await;
        refused(said, ErrorCode::InvalidArgument);
        let start = ChatStart {
            agent: "helper".into(),
            message: Some(text.into()),
            ..ChatStart::default()
        };
        if !text.starts_with('/') {
            refused(talk.operator.start_chat(&start).await, ErrorCode::InvalidArgument);
        }
    }
    let need = talk.entry(waits).await.need.expect("it is open").to_string();
    let blank = AnswerRequest { text: Some(" \n".into()), ..AnswerRequest::default() };
    let error = refused(talk.operator.answer_need(&need, &blank).await, ErrorCode::InvalidArgument);
    assert!(error.message.contains("no words"), "{error:?}");
    assert_eq!(talk.look().await.entries.len(), 1, "nothing was sent");
}
