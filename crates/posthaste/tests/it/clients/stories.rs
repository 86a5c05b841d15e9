//! What must be true for whoever adds the hub to an agent program: told once, played
//! with every program over every transport.

use posthaste_testkit::model_server::Asked;
use serde_json::{Value, json};

use crate::world::eventually;

use super::stage::Stage;

/// The hub's tools, as a model must find them in its first request.
const TOOLS: [&str; 7] = [
    "send_message",
    "check_inbox",
    "read_messages",
    "find_agents",
    "whoami",
    "ask_user",
    "respond_to_user",
];

/// The mail in the last result: what a model reads, whatever stands around it.
#[track_caller]
fn mail(turn: &Asked, text: &str) -> Value {
    find(turn, text).unwrap_or_else(|| panic!("no {text:?} in {}", turn.result()))
}

#[track_caller]
fn find(turn: &Asked, text: &str) -> Option<Value> {
    documents(&turn.result()).iter().find_map(|document| entry(document, text))
}

/// Programs put words of their own around a result: only whole JSON objects count.
fn documents(result: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = result;
    while let Some(start) = rest.find('{') {
        rest = &rest[start..];
        let mut read = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match read.next() {
            Some(Ok(document)) => {
                rest = &rest[read.byte_offset()..];
                found.push(document);
            }
            _ => rest = &rest[1..],
        }
    }
    found
}

/// The entry with this text, under whatever name the list of mail has.
fn entry(value: &Value, text: &str) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.get("message").is_some_and(|m| m == text) => {
            Some(value.clone())
        }
        Value::Object(fields) => fields.values().find_map(|field| entry(field, text)),
        Value::Array(items) => items.iter().find_map(|item| entry(item, text)),
        _ => None,
    }
}

#[track_caller]
fn is_from_alice(entry: &Value) {
    let from = entry["from"].as_str().unwrap_or_default();
    assert!(from.starts_with("alice."), "{entry}");
}

/// The model knows from its first request on what the hub is for.
pub(super) async fn the_model_is_offered_the_tools_and_told_the_etiquette(mut stage: Stage) {
    let agent = stage.start();
    let turn = stage.turn().await;
    let offered = turn.tools();
    for name in TOOLS {
        let tool = offered.iter().find(|tool| tool.name == name);
        let tool = tool.unwrap_or_else(|| panic!("{name} is not offered: {offered:?}"));
        assert!(!tool.description.is_empty(), "{tool:?}");
    }
    let etiquette = "Call check_inbox before you finish";
    assert!(turn.saw(etiquette), "{}", turn.request);
    turn.say("ready");
    assert_eq!(agent.end().code, Some(0));
}

/// A user tells it to wait for mail and writes from the shell.
pub(super) async fn mail_sent_while_it_waits_arrives_in_the_same_turn(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    let seq = stage.send("the build is red");

    let turn = stage.turn().await;
    let entry = mail(&turn, "the build is red");
    is_from_alice(&entry);
    assert_eq!(entry["id"], seq);
    assert!(entry.get("redelivered").is_none(), "{entry}");
    assert_eq!(stage.record(seq).state, "leased", "nothing has proved it yet");

    // It goes on, and that is the proof.
    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    stage.until_proved_by(seq, "next_call");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// A model that forgets to check still gets its mail.
pub(super) async fn a_model_that_never_checks_gets_its_mail_with_another_result(mut stage: Stage) {
    let seq = stage.send("you forgot me");
    let agent = stage.start();
    stage.turn().await.call("whoami", json!({}));

    let turn = stage.turn().await;
    let entry = mail(&turn, "you forgot me");
    is_from_alice(&entry);
    assert!(turn.result().contains("_pending_messages"), "{}", turn.result());
    assert!(turn.result().contains("bob."), "its own result is there: {}", turn.result());

    turn.call("find_agents", json!({}));
    let turn = stage.turn().await;
    assert!(!turn.result().contains("you forgot me"), "not twice: {}", turn.result());
    stage.until_proved_by(seq, "next_call");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// The program loses patience before the hub does.
pub(super) async fn mail_after_its_own_time_out_waits_for_the_next_check(mut stage: Stage) {
    let agent = stage.start_impatient(3);
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);

    // The program has given up, the model is told so, and nobody waits any more.
    let turn = stage.turn().await;
    assert!(documents(&turn.result()).is_empty(), "no answer of the hub: {}", turn.result());
    stage.until_bob_waits(false);
    let seq = stage.send("too late for the first call");
    assert_eq!(stage.record(seq).state, "queued");

    turn.call("check_inbox", json!({ "timeout": 1 }));
    let turn = stage.turn().await;
    let entry = mail(&turn, "too late for the first call");
    assert!(entry.get("redelivered").is_none(), "nobody had it before: {entry}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// Accepted, perhaps handed out, never proved: the hub dies at the worst moment.
pub(super) async fn a_hub_killed_in_mid_wait_gives_the_mail_again_marked(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    let seq = stage.send("survive this");
    stage.kill_the_hub_and_start_it_again();

    // The model has the mail, or an error; or its program has asked again by itself.
    let mut turn = stage.turn().await;
    if find(&turn, "survive this").is_none_or(|entry| entry["redelivered"] != true) {
        turn.call("check_inbox", json!({ "timeout": 1 }));
        turn = stage.turn().await;
    }
    let entry = mail(&turn, "survive this");
    assert_eq!((&entry["id"], &entry["redelivered"]), (&json!(seq), &json!(true)));

    turn.call("whoami", json!({}));
    let turn = stage.turn().await;
    stage.until_proved_by(seq, "next_call");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// The hub goes away while nothing is there yet, and the program goes on with the next.
pub(super) async fn a_wait_that_the_hub_broke_off_loses_nothing_that_comes_later(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    stage.kill_the_hub_and_start_it_again();
    stage.send("after the storm");

    let mut turn = stage.turn().await;
    if find(&turn, "after the storm").is_none() {
        turn.call("check_inbox", json!({ "timeout": 60 }));
        turn = stage.turn().await;
    }
    let entry = mail(&turn, "after the storm");
    assert!(entry.get("redelivered").is_none(), "{entry}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// The model had the mail and died with it.
pub(super) async fn mail_of_an_agent_killed_after_the_answer_comes_again_marked(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    let seq = stage.send("remember this");
    let turn = stage.turn().await;
    mail(&turn, "remember this");
    agent.kill();

    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 1 }));
    let turn = stage.turn().await;
    let entry = mail(&turn, "remember this");
    assert_eq!((&entry["id"], &entry["redelivered"]), (&json!(seq), &json!(true)));
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// It died while it waited: nobody had the mail that comes then.
pub(super) async fn mail_for_an_agent_killed_while_it_waited_is_new_to_the_next(mut stage: Stage) {
    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 60 }));
    stage.until_bob_waits(true);
    agent.kill();
    stage.until_bob_waits(false);
    let seq = stage.send("for whoever comes");
    assert_eq!(stage.record(seq).state, "queued");

    let agent = stage.start();
    stage.turn().await.call("check_inbox", json!({ "timeout": 1 }));
    let turn = stage.turn().await;
    let entry = mail(&turn, "for whoever comes");
    assert!(entry.get("redelivered").is_none(), "{entry}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

/// Programs run the calls of one turn at the same time.
pub(super) async fn two_checks_in_one_turn_never_get_the_same_mail(mut stage: Stage) {
    let agent = stage.start();
    let check = ("check_inbox", json!({ "timeout": 60 }));
    stage.turn().await.call_all(&[check.clone(), check]);
    stage.until_bob_waits(true);
    let one = stage.send("the one");
    eventually(|| stage.record(one).state == "leased");
    stage.send("the other");

    let turn = stage.turn().await;
    let results = turn.results();
    let with = |text| results.iter().filter(|result| result.contains(text)).count();
    assert_eq!((results.len(), with("the one"), with("the other")), (2, 1, 1), "{results:?}");
    assert_eq!(with("redelivered"), 0, "{results:?}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}
