//! Hooks: mail at the boundaries of a client's work.

use std::time::Duration;

use posthaste_api::instances::Joined;
use posthaste_api::messages::{MessageRef, SendRequest};
use posthaste_core::Limits;
use serde_json::{Value, json};

use crate::house::{House, JOIN, SECRET, by_ids, request, send};
use crate::mcp::agent::{Agent, Era};

fn at_once() -> Limits {
    Limits { proof_grace: Duration::ZERO, hook_grace: Duration::ZERO, ..Limits::default() }
}

async fn fires(house: &House, who: &Joined, event: &str, body: Value) -> Value {
    let call = format!("POST /v1/hooks/{event}");
    let (status, answer) = house.call(&call, Some(&who.token), &body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The mail in the text of a hook.
fn mail(answer: &Value) -> Value {
    let text = answer["text"].as_str().unwrap_or_else(|| panic!("a text: {answer}"));
    let block = text.lines().last().expect("a line");
    serde_json::from_str::<Value>(block).expect("JSON")["_pending_messages"].clone()
}

#[tokio::test]
async fn a_hook_brings_mail_once_and_the_next_tool_that_begins_proves_it() {
    for event in ["session_start", "prompt", "tool"] {
        let house = House::with(at_once()).await;
        let (bob, _) = house.agent("bob").await;
        assert_eq!(fires(&house, &bob, event, json!({})).await["text"], Value::Null);
        let sent = send(&house.operator(), &bob.instance, "hello").await;
        let told = fires(&house, &bob, event, json!({})).await;
        assert_eq!((&told["messages"], &told["refuse"]), (&json!(1), &json!(false)));
        assert_eq!(mail(&told)[0]["message"], "hello");
        assert_eq!(house.standing(sent.seq).await.state, "leased");

        let next = fires(&house, &bob, "before_tool", json!({ "tool": "Bash" })).await;
        assert_eq!((&next["messages"], &next["text"]), (&json!(0), &Value::Null));
        let standing = house.becomes(sent.seq, "acked").await;
        assert_eq!(standing.proof.as_deref(), Some("hook"));
    }
}

#[tokio::test]
async fn every_hook_brings_all_mail_to_the_name_while_one_lives_and_one_at_a_time_while_two_do() {
    for event in ["session_start", "prompt", "tool", "stop"] {
        let house = House::new().await;
        let (bob, as_bob) = house.agent("bob").await;
        send(&house.operator(), "bob", "one").await;
        send(&house.operator(), &bob.instance, "two").await;
        send(&house.operator(), "bob@main", "three").await;
        let told = fires(&house, &bob, event, json!({})).await;
        assert_eq!((&told["messages"], &told["remaining"]), (&json!(3), &json!(0)), "{event}");
        let mail = mail(&told);
        assert_eq!((&mail[0]["message"], &mail[2]["message"]), (&json!("one"), &json!("three")));
        assert_eq!(told["refuse"], event == "stop");
        let seqs: Vec<u64> = (0..3).filter_map(|n| mail[n]["id"].as_u64()).collect();
        as_bob.ack(&by_ids(&seqs)).await.expect("proved");

        let (_other, _) = house.agent("bob").await;
        for text in ["four", "five"] {
            send(&house.operator(), "bob", text).await;
        }
        let told = fires(&house, &bob, event, json!({})).await;
        assert_eq!((&told["messages"], &told["remaining"]), (&json!(1), &json!(1)), "{event}");
    }
}

#[tokio::test]
async fn the_hook_after_a_call_proves_nothing_and_the_stop_or_the_next_call_does() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let first = send(&house.operator(), &bob.instance, "one").await;
    assert_eq!(me.check(5.0).await.texts(), ["one"]);
    let after = json!({ "tool": "mcp__posthaste__check_inbox" });
    assert_eq!(fires(&house, &bob, "tool", after.clone()).await["messages"], 0);
    assert_eq!(house.standing(first.seq).await.state, "leased", "a kill would lose it now");
    assert_eq!(fires(&house, &bob, "stop", json!({})).await["refuse"], false);
    assert_eq!(house.becomes(first.seq, "acked").await.proof.as_deref(), Some("hook"));
    let second = send(&house.operator(), &bob.instance, "two").await;
    let bash = json!({ "tool": "Bash" });
    assert_eq!(mail(&fires(&house, &bob, "tool", bash).await)[0]["message"], "two");
    me.call("whoami", json!({})).await;
    assert_eq!(house.becomes(second.seq, "acked").await.proof.as_deref(), Some("next_call"));
}

#[tokio::test]
async fn a_stop_with_unread_mail_is_refused_once_for_each_message() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    assert_eq!(fires(&house, &bob, "stop", json!({})).await["refuse"], false);
    let sent = send(&house.operator(), &bob.instance, "wait!").await;
    let told = fires(&house, &bob, "stop", json!({})).await;
    assert_eq!(told["refuse"], true);
    assert_eq!(mail(&told)[0]["id"], sent.seq);
    let more = send(&house.operator(), &bob.instance, "and this").await;
    // Programs disagree about this flag, so it says nothing.
    let again = fires(&house, &bob, "stop", json!({ "stop_active": true })).await;
    assert_eq!(again["refuse"], true);
    assert_eq!((mail(&again)[0]["id"].as_u64(), &again["messages"]), (Some(more.seq), &json!(1)));
    house.becomes(sent.seq, "acked").await;
    assert_eq!(fires(&house, &bob, "stop", json!({})).await["refuse"], false);
    house.becomes(more.seq, "acked").await;
}

#[tokio::test]
async fn what_a_user_interrupted_comes_again_with_the_next_prompt() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    fires(&house, &bob, "session_start", json!({})).await;
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    assert_eq!(me.check(5.0).await.texts(), ["hello"]);
    let told = fires(&house, &bob, "prompt", json!({})).await;
    assert_eq!(mail(&told)[0]["redelivered"], true);
    assert_eq!(fires(&house, &bob, "stop", json!({})).await["refuse"], false);
    house.becomes(sent.seq, "acked").await;
}

#[tokio::test]
async fn a_failed_tool_and_a_sub_agent_bring_no_mail() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    fires(&house, &bob, "session_start", json!({})).await;
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    for hook in
        [json!({ "tool": "Bash", "failed": true }), json!({ "tool": "Bash", "quiet": true })]
    {
        assert_eq!(fires(&house, &bob, "tool", hook.clone()).await["messages"], 0, "{hook}");
    }
    let gemini = |tool: &str| json!({ "tool": tool, "client": "gemini" });
    fires(&house, &bob, "before_tool", gemini("invoke_agent")).await;
    assert_eq!(fires(&house, &bob, "tool", gemini("ls")).await["messages"], 0);
    assert_eq!(house.standing(sent.seq).await.state, "queued");
    assert_eq!(fires(&house, &bob, "tool", gemini("invoke_agent")).await["messages"], 1);
}

#[tokio::test]
async fn a_stop_before_an_answer_is_refused_once_for_each_question() {
    let house = House::with(at_once()).await;
    let (bob, as_bob) = house.agent("bob").await;
    let (alice, as_alice) = house.agent("alice").await;
    let question = SendRequest {
        kind: Some("question".into()),
        ..SendRequest::new(bob.instance.clone(), "which way?")
    };
    let asked = as_alice.send(&question).await.expect("accepted");
    assert_eq!(mail(&fires(&house, &bob, "tool", json!({})).await)[0]["id"], asked.seq);

    let told = fires(&house, &bob, "stop", json!({})).await;
    assert_eq!(told["refuse"], true);
    let text = told["text"].as_str().expect("why");
    assert!(text.contains(&format!("id {}", asked.seq)) && text.contains("which way?"), "{text}");
    assert_eq!(fires(&house, &bob, "stop", json!({})).await["refuse"], false, "once");

    let asked = as_alice.send(&question).await.expect("accepted");
    fires(&house, &bob, "tool", json!({})).await;
    let reply = SendRequest {
        in_reply_to: Some(MessageRef::Seq(asked.seq)),
        ..SendRequest::new(alice.instance, "left")
    };
    as_bob.send(&reply).await.expect("accepted");
    assert_eq!(fires(&house, &bob, "stop", json!({})).await["refuse"], false, "answered");
}

#[tokio::test]
async fn a_session_that_starts_gets_again_marked_what_the_one_before_did_not_prove() {
    let house = House::with(Limits::default()).await;
    let (bob, _) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    assert_eq!(mail(&fires(&house, &bob, "tool", json!({})).await)[0]["id"], sent.seq);
    let compact = fires(&house, &bob, "session_start", json!({ "source": "compact" })).await;
    assert_eq!(compact["messages"], 0, "the same process goes on");
    let told = fires(&house, &bob, "session_start", json!({ "source": "startup" })).await;
    assert_eq!(mail(&told)[0]["redelivered"], true);
}

#[tokio::test]
async fn a_session_and_its_connection_begin_once_in_either_order() {
    for hook_first in [true, false] {
        let house = House::with(at_once()).await;
        let (bob, _) = house.agent("bob").await;
        let mut me = Agent::silent(&house, &bob.token, Era::Old, "test");
        me.more.push(("x-posthaste-bridge", "00000000000000aa".into()));
        let sent = send(&house.operator(), &bob.instance, "hello").await;
        let (told, _stream) = match hook_first {
            true => {
                let told = fires(&house, &bob, "session_start", json!({})).await;
                (told, me.listen().await)
            }
            false => {
                let stream = me.listen().await;
                (fires(&house, &bob, "session_start", json!({})).await, stream)
            }
        };
        assert_eq!(mail(&told)[0]["message"], "hello");
        me.hello().await;
        assert!(me.check(0.0).await.mail().is_empty(), "not twice; hook first: {hook_first}");
        house.becomes(sent.seq, "acked").await;
    }
}

#[tokio::test]
async fn a_session_that_is_cleared_goes_on_with_its_connection() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    let mut me = Agent::silent(&house, &bob.token, Era::Old, "test");
    me.more.push(("x-posthaste-bridge", "00000000000000aa".into()));
    let _stream = me.listen().await;
    me.hello().await;
    me.call("whoami", json!({})).await;
    let held = send(&house.operator(), &bob.instance, "forgotten").await;
    assert_eq!(mail(&fires(&house, &bob, "tool", json!({})).await)[0]["id"], held.seq);

    // Its model has forgotten everything; the process and its line are the same.
    let told = fires(&house, &bob, "session_start", json!({ "source": "clear" })).await;
    assert_eq!(mail(&told)[0]["redelivered"], true);
    fires(&house, &bob, "before_tool", json!({ "tool": "Bash" })).await;
    let standing = house.becomes(held.seq, "acked").await;
    assert_eq!(standing.proof.as_deref(), Some("hook"));
}

#[tokio::test]
async fn a_hook_is_whoever_its_key_and_secret_say() {
    let house = House::new().await;
    let keys = |key: &'static str| {
        [
            ("X-Posthaste-Agent", "claude"),
            ("X-Posthaste-Key", key),
            ("X-Posthaste-Secret", SECRET),
            ("Content-Type", "application/json"),
        ]
    };
    let fire = |key| request("POST /v1/hooks/prompt", Some(JOIN), &keys(key), "{}");
    let (status, _) = house.raw(fire("window 1")).await;
    assert_eq!(status, 200);
    let sent = send(&house.operator(), "@everyone", "all of you").await;
    assert_eq!(sent.recipients.len(), 1);
    let (_, told) = house.raw(fire("window 1")).await;
    assert_eq!(mail(&told)[0]["message"], "all of you");
    let (_, told) = house.raw(fire("window 2")).await;
    assert_eq!(told["messages"], 0);
    let alone = request("POST /v1/hooks/prompt", Some(JOIN), &[], "{}");
    assert_eq!(house.raw(alone).await.0, 403);
    let wrong = request("POST /v1/hooks/lunch", Some(JOIN), &keys("window 1"), "{}");
    let (status, told) = house.raw(wrong).await;
    assert_eq!(status, 422, "{told}");
    assert!(told["error"]["message"].as_str().expect("why").contains("session_start"));
}

#[tokio::test]
async fn the_report_of_a_worker_waits_for_the_gather_and_a_stop_brings_it() {
    let (house, staff) = crate::staff::house().await;
    let (boss, _) = house.agent("boss").await;
    let me = Agent::old(&house, &boss).await;
    let given = me.call("assign", json!({ "agent": "worker", "message": "count" })).await.json();
    staff.answers(given["instance"].as_str().expect("an id"), "42").await;
    for event in ["session_start", "prompt", "tool"] {
        let told = fires(&house, &boss, event, json!({})).await;
        assert_eq!((&told["messages"], &told["remaining"]), (&json!(0), &json!(0)), "{event}");
    }
    let told = fires(&house, &boss, "stop", json!({})).await;
    assert_eq!((&told["refuse"], &mail(&told)[0]["message"]), (&json!(true), &json!("42")));
}
