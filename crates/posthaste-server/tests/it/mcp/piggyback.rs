//! Mail that comes with the answers of other tools.

use serde_json::{Value, json};

use super::agent::{Agent, Era};
use crate::house::{House, Plan, send};
use posthaste_core::Limits;
use posthaste_server::McpConfig;

#[tokio::test]
async fn a_model_that_forgets_to_check_still_gets_its_mail_in_both_eras() {
    for era in [Era::Old, Era::New] {
        let house = House::new().await;
        let (bob, _) = house.agent("bob").await;
        let me = Agent::begin(&house, &bob, era, "test").await;
        let alone = me.call("whoami", json!({})).await;
        assert_eq!(alone.blocks.len(), 1, "nothing when there is none: {alone:?}");

        let sent = send(&house.operator(), &bob.instance, "by the way").await;
        for (tool, arguments) in [("whoami", json!({})), ("send_message", json!({ "to": 7 }))] {
            let told = me.call(tool, arguments).await;
            if tool == "whoami" {
                assert_eq!(told.pending(), [(sent.seq, "by the way".to_owned(), false)]);
                let entry = &told.beside()["_pending_messages"][0];
                assert_eq!(entry["from"], "human");
                let mut own = told.json();
                own["unread"] = json!(0);
                own["context"] = alone.json()["context"].clone();
                assert_eq!(own, alone.json(), "the tool's own answer is untouched");
            } else {
                assert!(told.is_error && told.pending().is_empty(), "not twice: {told:?}");
            }
        }
        assert_eq!(house.standing(sent.seq).await.state, "leased", "not proven yet");
    }
}

#[tokio::test]
async fn errors_carry_mail_too_and_reads_do_not() {
    for era in [Era::Old, Era::New] {
        let house = House::new().await;
        let (bob, _) = house.agent("bob").await;
        let me = Agent::begin(&house, &bob, era, "test").await;
        let sent = send(&house.operator(), &bob.instance, "hello").await;
        let seen = me.call("read_messages", json!({})).await;
        assert_eq!(seen.blocks.len(), 1);
        assert_eq!(house.standing(sent.seq).await.state, "queued");
        let told = me.call("send_message", json!({ "to": "nobody", "message": "x" })).await;
        assert_eq!(told.code(), "no_recipient");
        assert_eq!(told.pending(), [(sent.seq, "hello".to_owned(), false)]);
    }
}

#[tokio::test]
async fn mail_to_the_name_comes_along_while_one_lives() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    for to in ["bob", "bob@main", "@anyone", "@anyone@main", "bob"] {
        send(&house.operator(), to, "for one of you").await;
    }
    let told = me.call("whoami", json!({})).await;
    assert_eq!(told.json()["unread"], 5);
    assert_eq!(told.pending().len(), 5);
    assert!(me.check(0.0).await.mail().is_empty());
}

#[tokio::test]
async fn of_mail_for_several_one_message_of_each_mailbox_comes_along() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let (other, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    for to in ["bob", "bob@main", "@anyone", "@anyone@main", "bob", "@anyone"] {
        send(&house.operator(), to, "for one of you").await;
    }
    let told = me.call("whoami", json!({})).await;
    assert_eq!((&told.json()["unread"], &told.json()["unread_shared"]), (&json!(0), &json!(6)));
    assert_eq!((told.pending().len(), &told.beside()["remaining"]), (4, &json!(2)));
    let status = me.call("agent_status", json!({ "instance": other.instance })).await.json();
    assert_eq!((&status["unread"], &status["unread_shared"]), (&json!(0), &json!(2)));
    assert!(me.check(0.0).await.mail().is_empty(), "the rest came with the last answer");
}

#[tokio::test]
async fn what_comes_along_is_bounded_and_the_rest_is_counted() {
    let limits = Limits { mailbox_messages: 500, ..Limits::default() };
    let house = House::with(Plan::from(limits)).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    for n in 0..100 {
        send(&house.operator(), &bob.instance, &format!("{n} {}", "y".repeat(2_000))).await;
    }
    let told = me.call("whoami", json!({})).await;
    let block = &told.blocks[1];
    assert!(block.chars().count() <= 4_000, "{}", block.chars().count());
    let beside = told.beside();
    let shown = beside["_pending_messages"].as_array().expect("mail").len() as u64;
    assert!(shown > 1);
    assert_eq!(shown + beside["remaining"].as_u64().expect("a count"), 100);
    assert_eq!(beside["_pending_messages"][0]["truncated"], true);
}

#[tokio::test]
async fn without_room_only_counts_and_senders_are_told_and_nothing_is_taken() {
    let small = McpConfig { answer_chars: 700, ..McpConfig::default() };
    let house = House::with(small).await;
    let (bob, _) = house.agent("bob").await;
    let (alice, as_alice) = house.agent("alice").await;
    let me = Agent::old(&house, &bob).await;
    let sent = send(&as_alice, &bob.instance, "are you there?").await;
    let told = me.call("find_agents", json!({})).await;
    assert!(told.blocks[0].len() > 100, "{told:?}");
    let beside: Value = told.beside();
    assert!(beside["_pending_messages"].is_null());
    assert_eq!(beside["_pending"]["count"], 1, "{beside}");
    assert_eq!(beside["_pending"]["from"], json!([alice.address]));
    assert_eq!(house.standing(sent.seq).await.state, "queued");
}

#[tokio::test]
async fn one_way_only_what_came_along_does_not_come_by_check_inbox() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    send(&house.operator(), &bob.instance, "once").await;
    assert_eq!(me.call("whoami", json!({})).await.pending().len(), 1);
    assert!(me.check(0.0).await.mail().is_empty());
    assert!(crate::house::read(&as_bob).await.messages.is_empty());
}
