//! What a conversation shows.

use posthaste_api::chat::ChatQuery;
use posthaste_api::error::ErrorCode;
use posthaste_api::messages::SendRequest;
use posthaste_core::orchestration::TurnActivity;
use serde_json::json;

use super::{Talk, refused};

#[tokio::test]
async fn the_state_of_a_message_moves_from_queued_to_answered() {
    let talk = Talk::new().await;
    let (first, second) = (talk.sends("fix the login").await, talk.sends("and the logout").await);
    let view = talk.look().await;
    assert_eq!(view.open, [first, second]);
    assert!(view.working, "it has mail that it has not taken");
    assert_eq!(talk.entry(first).await.state.as_deref(), Some("queued"));
    talk.has_read(&[first, second]).await;
    assert_eq!(talk.entry(first).await.state.as_deref(), Some("read"));
    talk.house.hub.note_activity(talk.who, Some(TurnActivity::Busy));
    assert_eq!(talk.entry(first).await.state.as_deref(), Some("working"));
    let facts = json!({ "partial": true, "answers": [first], "quote": "the login" });
    let partial = talk.utters("answer", "the login works", facts).await;
    let view = talk.look().await;
    assert_eq!((view.open, view.working), (vec![second], true));
    let shown = talk.entry(partial).await;
    assert_eq!((shown.kind.as_str(), shown.answers), ("partial", vec![first]));
    assert_eq!(shown.quote.as_deref(), Some("the login"));
    assert_eq!(talk.entry(first).await.state.as_deref(), Some("answered"));
    talk.utters("answer", "all done", json!({ "final": true, "answers": [second] })).await;
    talk.house.hub.note_activity(talk.who, Some(TurnActivity::Idle));
    let view = talk.look().await;
    assert!(view.open.is_empty() && !view.working);
    let kinds: Vec<&str> = view.entries.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["user", "user", "partial", "answer"]);
}

#[tokio::test]
async fn a_final_answer_closes_also_a_message_that_it_does_not_name() {
    let talk = Talk::new().await;
    let hello = talk.sends("hello").await;
    talk.has_read(&[hello]).await;
    talk.utters("answer", "Hello!", json!({ "final": true, "answers": [] })).await;
    talk.until_state(hello, "answered").await;
    let later = talk.sends("and now?").await;
    assert_eq!(talk.look().await.open, [later]);
}

#[tokio::test]
async fn a_message_about_which_a_turn_says_nothing_is_not_open_after_it() {
    let talk = Talk::new().await;
    let is = |activity| talk.house.hub.note_activity(talk.who, Some(activity));
    is(TurnActivity::Idle);
    let thanks = talk.sends("thanks!").await;
    assert_eq!(talk.look().await.open, [thanks]);
    is(TurnActivity::Busy);
    talk.has_read(&[thanks]).await;
    assert_eq!(talk.look().await.open, [thanks]);
    is(TurnActivity::Idle);
    let view = talk.look().await;
    assert_eq!((view.open, view.working), (vec![], false));
    assert_eq!(view.entries[0].state.as_deref(), Some("read"));
}

#[tokio::test]
async fn a_message_that_is_dead_has_failed_and_says_why() {
    let talk = Talk::new().await;
    let (visitor, _) = talk.house.agent("visitor").await;
    let said = talk.operator.say(&visitor.instance, &super::words("hello")).await.expect("said");
    let seq = said.receipt.expect("a message").seq;
    talk.operator.cancel(&seq.to_string()).await.expect("taken back");
    let query = ChatQuery::default();
    let view = talk.operator.chat(&visitor.instance, &query).await.expect("a view");
    let entry = &view.entries[0];
    assert_eq!((entry.seq, entry.state.as_deref()), (Some(seq), Some("failed")));
    assert_eq!(entry.reason.as_deref(), Some("cancelled"));
    assert!(view.open.is_empty() && !view.working);
}

#[tokio::test]
async fn tools_stand_once_each_between_the_messages_with_their_state() {
    let talk = Talk::new().await;
    let first = talk.sends("count").await;
    talk.staff.calls(talk.who, "c-1", "began").await;
    let running = talk.look().await.entries;
    let [_, tool] = running.as_slice() else { panic!("{running:?}") };
    assert_eq!((tool.kind.as_str(), tool.state.as_deref()), ("tool", Some("running")));
    talk.staff.calls(talk.who, "c-1", "done").await;
    talk.staff.calls(talk.who, "c-2", "began").await;
    talk.staff.calls(talk.who, "c-2", "failed").await;
    let entries = talk.look().await.entries;
    let shown: Vec<_> = entries.iter().map(|e| (e.seq, e.state.as_deref().unwrap_or(""))).collect();
    assert_eq!(shown, [(Some(first), "queued"), (None, "done"), (None, "failed")]);
    assert_eq!(entries[1].name.as_deref(), Some("count"));
}

#[tokio::test]
async fn a_conversation_is_read_page_by_page_and_mail_of_others_is_no_part_of_it() {
    let talk = Talk::new().await;
    let mut sent = Vec::new();
    for number in 0..7 {
        sent.push(talk.sends(&format!("message {number}")).await);
    }
    let (bob, as_bob) = talk.house.agent("bob").await;
    as_bob.send(&SendRequest::new(&talk.id, "psst")).await.expect("sent");
    talk.operator.send(&SendRequest::new(&bob.instance, "hi")).await.expect("sent");
    talk.utters("answer", "two of them", json!({ "final": true, "answers": [sent[5]] })).await;
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let query = ChatQuery { last_n: Some(3), before };
        let view = talk.operator.chat(&talk.id, &query).await.expect("a page");
        assert!(view.entries.len() <= 3);
        let states = |seq: u64| {
            let entry = view.entries.iter().find(|entry| entry.seq == Some(seq));
            entry.and_then(|entry| entry.state.clone())
        };
        if let Some(state) = states(sent[5]) {
            assert_eq!(state, "answered", "also where the answer is on another page");
        }
        let page: Vec<String> = view.entries.into_iter().map(|entry| entry.text).collect();
        seen.splice(0..0, page);
        before = view.before;
        if before.is_none() {
            break;
        }
    }
    let mut expected: Vec<String> = (0..7).map(|number| format!("message {number}")).collect();
    expected.push("two of them".to_owned());
    assert_eq!(seen, expected);
    let query = ChatQuery { last_n: Some(0), before: None };
    refused(talk.operator.chat(&talk.id, &query).await, ErrorCode::InvalidArgument);
}

#[tokio::test]
async fn what_the_model_writes_is_shown_until_it_is_written() {
    let talk = Talk::new().await;
    assert_eq!(talk.look().await.writing, None);
    talk.staff.is_writing(talk.who, "The build").await;
    assert_eq!(talk.look().await.writing.as_deref(), Some("The build"));
    talk.staff.is_writing(talk.who, "").await;
    assert_eq!(talk.look().await.writing, None);
}

#[tokio::test]
async fn a_report_on_a_task_of_the_operator_is_its_answer() {
    let talk = Talk::new().await;
    let task = posthaste_api::work::AssignRequest {
        agent: "worker".into(),
        message: "count the bricks".into(),
        ..Default::default()
    };
    let given = talk.operator.assign(&task).await.expect("assigned");
    talk.staff.answers(&given.instance, "4711").await;
    let view = talk.operator.chat(&given.instance, &ChatQuery::default()).await.expect("a view");
    let shown: Vec<_> = view.entries.iter().map(|e| (e.kind.as_str(), e.text.as_str())).collect();
    assert_eq!(shown, [("user", "count the bricks"), ("answer", "4711")]);
    assert_eq!(view.entries[0].state.as_deref(), Some("answered"));
}

#[tokio::test]
async fn messages_of_a_turn_that_failed_or_was_cancelled_have_failed_and_say_why() {
    let talk = Talk::new().await;
    let ends = [("failed", "turn_failed"), ("cancelled", "turn_cancelled")];
    for (how, why) in ends {
        let (named, other) = (talk.sends("fix it").await, talk.sends("and that").await);
        talk.has_read(&[named, other]).await;
        let end = json!({ "final": true, "answers": [named], how: true });
        talk.utters("answer", &format!("I had to stop: {how}"), end).await;
        for seq in [named, other] {
            let entry = talk.entry(seq).await;
            assert_eq!(entry.state.as_deref(), Some("failed"), "{how}");
            assert_eq!(entry.reason.as_deref(), Some(why));
        }
        assert_eq!(talk.look().await.open, Vec::<u64>::new());
    }
    // What a later answer names is answered after all.
    let again = talk.sends("go on").await;
    talk.has_read(&[again]).await;
    let first = talk.look().await.entries[0].seq.expect("a message");
    let end = json!({ "final": true, "answers": [first, again] });
    talk.utters("answer", "both are done", end).await;
    talk.until_state(first, "answered").await;
    talk.until_state(again, "answered").await;
}

#[tokio::test]
async fn a_message_that_an_agent_had_when_it_was_stopped_has_failed() {
    let talk = Talk::new().await;
    let seq = talk.sends("fix the login").await;
    talk.has_read(&[seq]).await;
    talk.operator.stop(&talk.id).await.expect("stopped");
    talk.until_state(seq, "failed").await;
    assert_eq!(talk.entry(seq).await.reason.as_deref(), Some("agent_ended"));
    assert_eq!(talk.look().await.open, Vec::<u64>::new());
}

#[tokio::test]
async fn an_open_question_is_shown_however_old_it_is() {
    let talk = Talk::new().await;
    let long = format!("which tests? {}", "x".repeat(10_000));
    let side = talk.asks(&long, false).await;
    for number in 0..4 {
        talk.sends(&format!("message {number}")).await;
    }
    let query = ChatQuery { last_n: Some(3), before: None };
    let view = talk.operator.chat(&talk.id, &query).await.expect("a view");
    let entry = &view.entries[0];
    assert_eq!((entry.seq, entry.kind.as_str()), (Some(side), "question"));
    assert_eq!((entry.text == long, entry.state.as_deref()), (true, Some("open")));
    assert_eq!((view.entries.len(), entry.need.is_some()), (4, true));
    let query = ChatQuery { last_n: Some(3), before: view.before };
    let older = talk.operator.chat(&talk.id, &query).await.expect("a view");
    assert_eq!(older.entries.iter().filter(|entry| entry.seq == Some(side)).count(), 1);
    talk.say("/answer all of them").await;
    let query = ChatQuery { last_n: Some(3), before: None };
    let view = talk.operator.chat(&talk.id, &query).await.expect("a view");
    assert!(view.entries.iter().all(|entry| entry.seq != Some(side)), "it does not wait");
}
