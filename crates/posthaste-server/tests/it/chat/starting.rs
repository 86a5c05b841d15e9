//! Starting an agent to talk to, and naming the one that is meant.

use posthaste_api::ErrorCode;
use posthaste_api::chat::{ChatQuery, ChatStart};

use super::{Talk, helper, refused, words};
use crate::house::read;
use crate::staff::house;

fn start(agent: &str) -> ChatStart {
    ChatStart { agent: agent.into(), ..ChatStart::default() }
}

#[tokio::test]
async fn an_agent_starts_with_the_first_message_and_stays_for_more() {
    let (house, staff) = house().await;
    let operator = house.operator();
    operator.create_profile(&helper()).await.expect("a profile");
    let request = ChatStart {
        message: Some("hello".into()),
        team: Some("night".into()),
        label: Some("mine".into()),
        working_directory: Some("/srv".into()),
        ..start("helper")
    };
    let started = operator.start_chat(&request).await.expect("started");
    let receipt = started.receipt.expect("a receipt");
    assert_eq!(receipt.thread_id, started.thread_id);
    let start = staff.works(&started.instance).await;
    assert_eq!(start.place.directory.to_str(), Some("/srv"));
    let view = operator.instance(&started.instance).await.expect("a view");
    assert_eq!((view.team.as_str(), view.label.as_deref()), ("night", Some("mine")));
    let told = staff.has_told(1).await;
    assert_eq!(told[0].1, "hello");
    operator.say(&started.address, &words("more")).await.expect("said");
    assert_eq!(staff.has_told(2).await[1].1, "more");
}

#[tokio::test]
async fn the_same_key_is_the_same_agent_and_one_message() {
    let (house, _staff) = house().await;
    let operator = house.operator();
    operator.create_profile(&helper()).await.expect("a profile");
    let request = ChatStart {
        message: Some("hello".into()),
        idempotency_key: Some("k-1".into()),
        ..start("helper")
    };
    let (first, second) =
        tokio::join!(operator.start_chat(&request), operator.start_chat(&request));
    let (first, second) = (first.expect("started"), second.expect("started"));
    assert_eq!(first.instance, second.instance);
    let seqs = [&first, &second].map(|started| started.receipt.as_ref().map(|r| r.seq));
    assert_eq!(seqs[0], seqs[1]);
    assert!(first.duplicate != second.duplicate, "one of them was first");
    let other = ChatStart { agent: "worker".into(), ..request };
    refused(operator.start_chat(&other).await, ErrorCode::KeyReused);
}

#[tokio::test]
async fn what_cannot_be_talked_to_is_refused_with_advice() {
    let (house, _staff) = house().await;
    let operator = house.operator();
    let error = refused(operator.start_chat(&start("nobody")).await, ErrorCode::NotFound);
    assert!(error.message.contains("no profile called nobody"), "{error:?}");
    let error = refused(operator.start_chat(&start("visitor")).await, ErrorCode::Conflict);
    assert!(error.message.contains("comes by itself, and nobody of that name"), "{error:?}");
    let error = refused(operator.start_chat(&start("worker")).await, ErrorCode::InvalidArgument);
    assert!(error.message.contains("does one task and ends"), "{error:?}");
    let relative = ChatStart { working_directory: Some("src".into()), ..start("worker") };
    refused(operator.start_chat(&relative).await, ErrorCode::InvalidArgument);
    let empty = ChatStart { message: Some(String::new()), ..start("worker") };
    refused(operator.start_chat(&empty).await, ErrorCode::InvalidArgument);
}

#[tokio::test]
async fn an_agent_that_comes_by_itself_is_talked_to_where_it_is() {
    let (house, _staff) = house().await;
    let operator = house.operator();
    let (visitor, as_visitor) = house.agent("visitor").await;
    let hello = ChatStart { message: Some("hello".into()), ..start("visitor") };
    let started = operator.start_chat(&hello).await.expect("started");
    assert_eq!(started.instance, visitor.instance);
    let inbox = read(&as_visitor).await;
    assert_eq!(inbox.messages[0].message, "hello");
}

#[tokio::test]
async fn a_name_means_the_one_living_agent_and_two_are_named() {
    let talk = Talk::new().await;
    talk.operator.say("helper", &words("one")).await.expect("said");
    let other = talk.operator.start_chat(&start("helper")).await.expect("started");
    for outcome in [
        talk.operator.say("helper", &words("two")).await.map(drop),
        talk.operator.chat("helper", &ChatQuery::default()).await.map(drop),
        talk.operator.cancel_turn("helper").await.map(drop),
    ] {
        let error = refused(outcome, ErrorCode::Conflict);
        let hint = error.hint.unwrap_or_default();
        assert!(hint.contains(&talk.id) && hint.contains(&other.instance), "{hint}");
        let candidates = error.details.expect("details")["candidates"].clone();
        assert_eq!(candidates.as_array().map(Vec::len), Some(2));
    }
    refused(talk.operator.say("@everyone", &words("x")).await, ErrorCode::InvalidAddress);
    refused(talk.operator.say("00000000", &words("x")).await, ErrorCode::NotFound);
    refused(talk.operator.say("nobody", &words("x")).await, ErrorCode::NotFound);
}

#[tokio::test]
async fn only_the_operator_talks_to_an_agent_so() {
    let talk = Talk::new().await;
    let (_, as_bob) = talk.house.agent("bob").await;
    refused(as_bob.start_chat(&start("helper")).await, ErrorCode::Forbidden);
    refused(as_bob.say(&talk.id, &words("x")).await, ErrorCode::Forbidden);
    refused(as_bob.chat(&talk.id, &ChatQuery::default()).await, ErrorCode::Forbidden);
    refused(as_bob.cancel_turn(&talk.id).await, ErrorCode::Forbidden);
}

#[tokio::test]
async fn an_agent_that_has_ended_hears_nothing_and_its_conversation_stays() {
    let talk = Talk::new().await;
    let seq = talk.sends("hello").await;
    talk.staff.answers(&talk.id, "bye").await;
    refused(talk.operator.say(&talk.id, &words("still there?")).await, ErrorCode::RecipientGone);
    refused(talk.operator.cancel_turn(&talk.id).await, ErrorCode::RecipientGone);
    let view = talk.look().await;
    assert_eq!((view.status.as_str(), view.working), ("finished", false));
    assert_eq!(view.entries[0].seq, Some(seq));
}

#[tokio::test]
async fn the_routes_of_cao_do_not_take_it_for_a_terminal_of_theirs() {
    let talk = Talk::new().await;
    let url = format!("{}/sessions", talk.operator.url().trim_end_matches('/'));
    let told = posthaste_api::http::plain().build().expect("a client").get(url).send().await;
    let told = told.expect("an answer").text().await.expect("a text");
    assert_eq!(told, "[]", "no session was made");
}
