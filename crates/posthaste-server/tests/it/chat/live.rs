//! Following a conversation live.

use posthaste_api::client::{Client, Following, Heard};
use posthaste_api::events::EventsQuery;
use serde_json::json;

use super::Talk;
use crate::house::{send, within};

/// What is heard next, in a word.
async fn next(following: &mut Following) -> String {
    match within("a line", following.next()).await.expect("a line") {
        Some(Heard::Event(event)) => {
            let text = event.message.as_ref().map_or("", |message| message.message.as_str());
            format!("{} {text}", event.kind)
        }
        Some(Heard::Tool(news)) => format!("tool {}", news.entry.state.unwrap_or_default()),
        Some(Heard::Writing(news)) => format!("writing {:?}", news.text),
        other => panic!("{other:?}"),
    }
}

async fn follow(talk: &Talk, by: &Client, types: Option<&str>) -> Following {
    let query = EventsQuery {
        topics: Some(format!("thread:{}", talk.thread)),
        types: types.map(str::to_owned),
        ..EventsQuery::default()
    };
    by.events(&query).await.expect("a stream")
}

#[tokio::test]
async fn the_operator_hears_the_conversation_in_order() {
    let talk = Talk::new().await;
    let mut following = follow(&talk, &talk.operator, None).await;
    talk.sends("count").await;
    assert_eq!(next(&mut following).await, "message.accepted count");
    talk.staff.calls(talk.who, "c-1", "began").await;
    assert_eq!(next(&mut following).await, "tool running");
    talk.staff.calls(talk.who, "c-1", "done").await;
    assert_eq!(next(&mut following).await, "tool done");
    talk.utters("answer", "one", json!({ "partial": true, "answers": [] })).await;
    assert_eq!(next(&mut following).await, "partial_response one");
    assert_eq!(next(&mut following).await, "message.accepted one");
    talk.asks("more?", false).await;
    assert_eq!(next(&mut following).await, "question more?");
    assert_eq!(next(&mut following).await, "message.accepted more?");
    talk.staff.is_writing(talk.who, "two").await;
    assert_eq!(next(&mut following).await, "writing \"two\"");
    talk.staff.is_writing(talk.who, "").await;
    assert_eq!(next(&mut following).await, "writing \"\"");
    talk.utters("answer", "two", json!({ "final": true, "answers": [] })).await;
    assert_eq!(next(&mut following).await, "response two");
    assert_eq!(next(&mut following).await, "message.accepted two");
}

#[tokio::test]
async fn whoever_comes_back_hears_what_was_said_meanwhile() {
    let talk = Talk::new().await;
    let mut following = follow(&talk, &talk.operator, Some("response")).await;
    talk.utters("answer", "one", json!({ "partial": true, "answers": [] })).await;
    talk.utters("answer", "two", json!({ "final": true, "answers": [] })).await;
    assert_eq!(next(&mut following).await, "response two");
    let after = following.last();
    assert!(after.is_some(), "the line has the number of its event");
    drop(following);
    talk.utters("answer", "three", json!({ "final": true, "answers": [] })).await;
    let query = EventsQuery {
        topics: Some(format!("thread:{}", talk.thread)),
        types: Some("response".into()),
        after,
        ..EventsQuery::default()
    };
    let mut following = talk.operator.events(&query).await.expect("a stream");
    assert_eq!(next(&mut following).await, "response three");
}

#[tokio::test]
async fn types_leave_out_the_rest() {
    let talk = Talk::new().await;
    let mut following = follow(&talk, &talk.operator, Some("tool,question")).await;
    talk.sends("count").await;
    talk.staff.is_writing(talk.who, "two").await;
    talk.staff.calls(talk.who, "c-1", "began").await;
    assert_eq!(next(&mut following).await, "tool running");
    talk.utters("answer", "one", json!({ "partial": true, "answers": [] })).await;
    talk.asks("more?", false).await;
    assert_eq!(next(&mut following).await, "question more?");
}

#[tokio::test]
async fn an_agent_that_is_not_above_hears_neither_tools_nor_writing() {
    let talk = Talk::new().await;
    let (bob, as_bob) = talk.house.agent("bob").await;
    let query = EventsQuery {
        topics: Some(format!("thread:{},agent:{}", talk.thread, bob.instance)),
        ..EventsQuery::default()
    };
    let mut following = as_bob.events(&query).await.expect("a stream");
    talk.staff.calls(talk.who, "c-1", "began").await;
    talk.staff.is_writing(talk.who, "secret").await;
    talk.utters("answer", "one", json!({ "final": true, "answers": [] })).await;
    send(&talk.operator, &bob.instance, "hello bob").await;
    assert_eq!(next(&mut following).await, "message.accepted hello bob");
}

#[tokio::test]
async fn an_agent_that_starts_later_is_heard_from_its_first_call() {
    let talk = Talk::new().await;
    let mut following = follow(&talk, &talk.operator, Some("tool,writing")).await;
    talk.staff.calls(talk.who, "c-1", "began").await;
    assert_eq!(next(&mut following).await, "tool running");
    talk.staff.is_writing(talk.who, "x").await;
    assert_eq!(next(&mut following).await, "writing \"x\"");
}
