//! An agent and the human talk: what is said stays, and finds what it answers.

use std::sync::Arc;

use posthaste_api::messages::{MessageRef, SendRequest};
use posthaste_api::threads::ThreadQuery;
use posthaste_store::{Place, StoreConfig};
use serde_json::json;

use super::agent::Agent;
use crate::house::{House, Plan, by_ids, read, receipt_of, send, texts, until};

#[tokio::test]
async fn what_was_said_to_the_user_stays_in_the_conversation_for_both() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (_, as_stranger) = house.agent("stranger").await;
    let chat = Agent::speaking(&house, &bob, "chat").await;
    let operator = house.operator();
    let asked = send(&operator, &bob.instance, "how is the weather?").await;
    let linked = json!({ "message": "sunny", "inReplyTo": asked.seq.to_string() });
    assert_eq!(chat.call("respondToUser", linked).await.blocks[0], "delivered");
    let more = json!({ "message": "and 15 degrees" });
    assert_eq!(chat.call("respondToUser", more).await.blocks[0], "delivered");
    operator.ack(&receipt_of(&read(&operator).await)).await.expect("read and proved");
    send(&operator, &bob.instance, "thanks").await;

    let said = ["how is the weather?", "sunny", "and 15 degrees", "thanks"];
    for by in [&operator, &as_bob] {
        let page = by.thread(&bob.thread_id, &ThreadQuery::default()).await.expect("a page");
        let texts: Vec<_> = page.messages.iter().map(|m| &*m.view.message).collect();
        assert_eq!(texts, said);
        assert_eq!(page.messages[1].view.in_reply_to, Some(asked.seq));
        assert_eq!((&*page.messages[2].view.kind, page.messages[2].view.read), ("answer", true));
    }
    // A model that has lost its context reads it again with a tool.
    let native = Agent::old(&house, &bob).await;
    let again = native.call("read_messages", json!({ "thread_id": bob.thread_id })).await.json();
    let again: Vec<_> = again["messages"].as_array().expect("a list").iter().collect();
    assert_eq!(again.iter().map(|m| &m["message"]).collect::<Vec<_>>(), said);
    let page = as_stranger.thread(&bob.thread_id, &ThreadQuery::default()).await.expect("a page");
    assert!(page.messages.is_empty(), "it is theirs");
}

#[tokio::test]
async fn an_empty_response_is_refused_and_nobody_hears_of_it() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let native = Agent::old(&house, &bob).await;
    let chat = Agent::speaking(&house, &bob, "chat").await;
    let before = *house.hub.last_event().borrow();
    for (me, tool) in [(&native, "respond_to_user"), (&chat, "respondToUser")] {
        let told = me.call(tool, json!({ "message": "" })).await;
        assert!(told.is_error, "{tool}: {told:?}");
        assert!(told.blocks[0].contains("empty"), "{tool}: {told:?}");
    }
    assert_eq!(*house.hub.last_event().borrow(), before, "no event tells of it");
    assert!(read(&house.operator()).await.messages.is_empty());
}

#[tokio::test]
async fn a_response_that_cannot_be_stored_is_an_error_and_nobody_hears_of_it() {
    let store = StoreConfig { wal_bytes: 0, max_bytes: 400 << 10, ..StoreConfig::default() };
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = Place::File(folder.path().to_owned());
    let house = House::with(Plan { place, store, ..Plan::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let chat = Agent::speaking(&house, &bob, "chat").await;
    let large = json!({ "message": "x".repeat(50_000) });
    let mut delivered = 0;
    let (before, refused) = loop {
        let before = *house.hub.last_event().borrow();
        let told = chat.call("respondToUser", large.clone()).await;
        if told.is_error {
            break (before, told);
        }
        assert_eq!(told.blocks[0], "delivered");
        delivered += 1;
        assert!(delivered < 20, "the store never fills");
    };
    assert!(delivered > 0 && refused.code() == "unavailable", "{refused:?}");
    assert_eq!(*house.hub.last_event().borrow(), before, "no event tells of it");
    assert_eq!(read(&house.operator()).await.messages.len(), delivered, "as often as it was said");
}

#[tokio::test]
async fn of_two_open_questions_a_plain_reply_answers_the_blocking_one() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let me = Arc::new(Agent::old(&house, &bob).await);
    let operator = house.operator();
    let aside = json!({ "question": "which colour?", "blocking": false });
    let aside = me.call("ask_user", aside).await.json()["question_id"].clone();
    let aside = aside.as_u64().expect("a number");
    let blocking = tokio::spawn({
        let me = Arc::clone(&me);
        async move { me.call("ask_user", json!({ "question": "delete it?" })).await }
    });
    until("the operator is asked", async || {
        operator.instance(&bob.instance).await.expect("known").activity == "waiting_user"
    })
    .await;

    let colour = SendRequest {
        in_reply_to: Some(MessageRef::Seq(aside)),
        ..SendRequest::new(bob.instance.clone(), "blue")
    };
    operator.send(&colour).await.expect("accepted");
    send(&operator, &bob.instance, "yes").await;

    let told = blocking.await.expect("no panic");
    assert_eq!(told.json()["answer"], "yes", "{told:?}");
    // The other reply comes by the inbox, or beside this answer.
    let inbox = me.check(0.0).await;
    let rest: Vec<String> =
        told.pending().into_iter().chain(inbox.mail()).map(|(_, text, _)| text).collect();
    assert_eq!(rest, ["blue"]);
}

#[tokio::test]
async fn an_agent_writes_to_the_dashboard_reads_the_answer_and_proves_it() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let told = me.call("send_message", json!({ "to": "dashboard", "message": "done" })).await;
    assert!(!told.is_error, "{told:?}");
    let operator = house.operator();
    let mail = read(&operator).await;
    assert_eq!((texts(&mail), &*mail.messages[0].from), (vec!["done"], &*bob.address));

    let reply = SendRequest {
        in_reply_to: Some(MessageRef::Seq(mail.messages[0].id)),
        ..SendRequest::new(bob.instance.clone(), "well done")
    };
    let reply = operator.send(&reply).await.expect("accepted");
    assert_eq!(me.check(5.0).await.texts(), ["well done"]);
    as_bob.ack(&by_ids(&[reply.seq])).await.expect("acked");
    let standing = house.standing(reply.seq).await;
    assert_eq!((&*standing.state, standing.proof.as_deref()), ("acked", Some("receipt")));
}
