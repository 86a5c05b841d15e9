//! How much of what waits an answer holds, and what it says when it is cut short.

use std::collections::HashSet;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_server::McpConfig;
use serde_json::{Value, json};

use super::agent::Agent;
use crate::house::{House, Plan, send};
use crate::staff::staffed;

/// Nobody is slowed down who sends a lot.
fn unhurried() -> Limits {
    Limits { pair_per_minute: 0, sender_per_minute: 0, ..Limits::default() }
}

#[tokio::test]
async fn two_hundred_short_messages_come_whole_and_in_order_in_as_many_answers_as_it_takes() {
    let house = House::with(unhurried()).await;
    let (bob, _) = house.agent("bob").await;
    let (_, as_alice) = house.agent("alice").await;
    let me = Agent::old(&house, &bob).await;
    let sent: Vec<String> = (0..202).map(|n| format!("{n:<4}{}", "m".repeat(110))).collect();
    for text in &sent {
        send(&as_alice, &bob.instance, text).await;
    }

    let (mut got, mut answers) = (Vec::new(), 0);
    while got.len() < 202 {
        let told = me.check(0.0).await;
        let mail = told.mail();
        assert!(!mail.is_empty() && told.blocks[0].len() <= 10_000, "{}", told.blocks[0].len());
        assert!(!told.blocks[0].contains("truncated"), "{told:?}");
        assert!(mail.iter().all(|(.., marked)| !marked), "nobody was shown what was left out");
        got.extend(told.texts());
        let left = told.json()["remaining"].as_u64().unwrap_or(0);
        assert_eq!(got.len() as u64 + left, 202);
        answers += 1;
    }

    assert_eq!(got, sent);
    assert!(answers <= 5, "an answer is filled: {answers}");
}

#[tokio::test]
async fn fifty_results_of_a_hundred_characters_are_gathered_in_one_answer() {
    let config = AgentsConfig { running: 50, ..AgentsConfig::default() };
    let (house, staff) = staffed(Plan::default(), config).await;
    let (boss, _) = house.agent("boss").await;
    let me = Agent::old(&house, &boss).await;
    for n in 0..50 {
        let part = json!({ "agent": "worker", "message": "count", "label": format!("part {n}") });
        let given = me.call("assign", part).await.json();
        staff.answers(given["instance"].as_str().expect("an id"), &"r".repeat(100)).await;
    }

    let told = me.call("check_inbox", json!({ "wait_for": "all" })).await;

    assert_eq!((told.status().as_str(), told.mail().len()), ("complete", 50), "{told:?}");
    assert!(told.texts().iter().all(|text| text.len() == 100), "none is cut");
    assert!(told.blocks[0].len() <= 10_000, "{}", told.blocks[0].len());
}

#[tokio::test]
async fn reports_come_first_when_not_all_fits() {
    let mcp = McpConfig { answer_chars: 2_000, ..McpConfig::default() };
    let plan = Plan { mcp, limits: unhurried(), ..Plan::default() };
    let (house, staff) = staffed(plan, AgentsConfig::default()).await;
    let (boss, _) = house.agent("boss").await;
    let (_, as_alice) = house.agent("alice").await;
    let me = Agent::old(&house, &boss).await;
    let given = me.call("assign", json!({ "agent": "worker", "message": "x" })).await.json();
    for n in 0..20 {
        send(&as_alice, &boss.instance, &format!("{n} {}", "c".repeat(300))).await;
    }
    staff.answers(given["instance"].as_str().expect("an id"), "the report").await;

    let told = me.check(5.0).await;

    assert_eq!(told.texts()[0], "the report");
    assert!(told.texts()[1].starts_with("0 "), "then by order: {told:?}");
}

#[tokio::test]
async fn mail_that_does_not_fit_beside_a_result_stays_whole_for_check_inbox() {
    let mcp = McpConfig { piggyback_chars: 1_000, ..McpConfig::default() };
    let house = House::with(mcp).await;
    let (bob, _) = house.agent("bob").await;
    let (alice, as_alice) = house.agent("alice").await;
    let me = Agent::old(&house, &bob).await;
    let sent = send(&as_alice, &bob.instance, &"w".repeat(900)).await;

    let told = me.call("find_agents", json!({})).await;

    assert!(told.pending().is_empty(), "{told:?}");
    assert_eq!(told.beside()["_pending"]["from"], json!([alice.address]), "{told:?}");
    assert_eq!(house.standing(sent.seq).await.state, "queued");
    assert_eq!(me.check(0.0).await.texts(), ["w".repeat(900)]);
}

#[tokio::test]
async fn call_again_names_another_call_each_time_in_every_dialect_that_waits() {
    let brief = Duration::from_millis(20);
    let house = House::with(McpConfig { patience: brief, ..McpConfig::default() }).await;
    let (bob, _) = house.agent("bob").await;
    for dialect in ["", "?dialect=cao"] {
        let mut me = Agent::silent(&house, &bob.token, super::agent::Era::Old, "test");
        me.url.push_str(dialect);
        me.hello().await;
        let (mut arguments, mut named) = (json!({ "timeout": 60 }), HashSet::new());
        for _ in 0..4 {
            let told = me.call("check_inbox", arguments.clone()).await.json();
            let again = told["call_again"].as_str().unwrap_or_else(|| panic!("{told}"));
            let (_, after) = again.rsplit_once("after=").expect("a number");
            arguments["after"] = json!(after.parse::<u64>().expect("a number"));
            assert!(named.insert(after.to_owned()), "{after} again");
        }
        let told = me.call("check_inbox", json!({ "timeout": 0 })).await.json();
        assert_eq!(told["call_again"], Value::Null, "that was all that was asked for");
    }
}

#[tokio::test]
async fn whatever_after_says_is_ignored() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let thread = house.instance(&bob.instance).await.thread_id;
    for after in [json!(17), json!("17"), json!(-1.5), json!(null), json!([1]), json!({ "x": 1 })] {
        for (dialect, tool, mut arguments) in [
            ("", "check_inbox", json!({ "timeout": 0 })),
            ("?dialect=cao", "check_inbox", json!({ "timeout": 0 })),
            ("?dialect=assistant", "recv_message", json!({ "thread_id": thread })),
        ] {
            let mut me = Agent::silent(&house, &bob.token, super::agent::Era::Old, "test");
            me.url.push_str(dialect);
            me.hello().await;
            arguments["after"] = after.clone();
            let told = me.call(tool, arguments).await;
            assert!(!told.is_error, "{dialect} {after}: {told:?}");
        }
    }
}
