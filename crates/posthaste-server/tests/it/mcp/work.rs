//! Giving out work with tools.

mod assistants;
mod dialects;
mod handing_off;
mod spawning;
mod telling;

use posthaste_api::instances::Joined;
use posthaste_core::Limits;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_server::McpConfig;
use serde_json::{Value, json};

use super::agent::{Agent, Era};
use crate::house::{House, Plan, within};
use crate::staff::{Staff, house, staffed};

/// A worker as a client of the MCP door.
async fn at_work(house: &House, staff: &Staff, instance: &str) -> Agent {
    let start = staff.works(instance).await;
    let mut agent = Agent::silent(house, &start.token.0, Era::Old, "test");
    agent.hello().await;
    agent
}

async fn assign(by: &Agent, arguments: Value) -> Value {
    let told = by.call("assign", arguments).await;
    assert!(!told.is_error, "{told:?}");
    told.json()
}

fn id(told: &Value) -> String {
    told["instance"].as_str().expect("an instance").to_owned()
}

async fn boss(house: &House) -> (Joined, Agent) {
    let (boss, _) = house.agent("boss").await;
    let agent = Agent::old(house, &boss).await;
    (boss, agent)
}

#[tokio::test]
async fn a_supervisor_gathers_every_result_in_one_call() {
    let config = AgentsConfig { running: 50, ..AgentsConfig::default() };
    let (house, staff) = staffed(Plan::default(), config).await;
    let (boss, me) = boss(&house).await;
    let me = std::sync::Arc::new(me);
    let mut given = Vec::new();
    for n in 0..50 {
        let part = json!({ "agent": "worker", "message": "count", "label": format!("part {n}") });
        given.push(assign(&me, part).await);
    }
    assert_eq!((&given[3]["status"], &given[3]["label"]), (&json!("starting"), &json!("part 3")));
    let gathering = tokio::spawn({
        let me = std::sync::Arc::clone(&me);
        async move { me.call("check_inbox", json!({ "wait_for": "all" })).await }
    });
    house.waits(&boss.instance).await;

    for (n, one) in given.iter().enumerate() {
        match n {
            7 => staff.fails(&id(one), 3, "").await,
            _ => staff.answers(&id(one), &format!("done {n}")).await,
        }
    }

    let told = within("the gather", gathering).await.expect("no panic").json();
    assert_eq!((&told["status"], &told["missing"]), (&json!("complete"), &Value::Null), "{told}");
    let messages = told["messages"].as_array().expect("mail");
    assert_eq!(messages.len(), 50);
    let failed = messages.iter().find(|m| m["type"] == "system.agent_failed").expect("a failure");
    assert_eq!(failed["label"], "part 7");
}

#[tokio::test]
async fn quick_reports_wait_for_the_gather_while_other_mail_comes_along() {
    let (house, staff) = house().await;
    let (boss, me) = boss(&house).await;
    let (_, as_peer) = house.agent("peer").await;
    let first = assign(&me, json!({ "agent": "worker", "message": "a" })).await;
    staff.answers(&id(&first), "quick").await;
    crate::house::send(&as_peer, &boss.instance, "hello").await;

    let beside = me.call("assign", json!({ "agent": "worker", "message": "b" })).await;
    let along: Vec<String> = beside.pending().into_iter().map(|(_, text, _)| text).collect();
    assert_eq!(along, ["hello"], "{beside:?}");
    assert_eq!(beside.beside()["remaining"], Value::Null, "nothing was left out for want of room");
    staff.answers(&id(&beside.json()), "quick, too").await;
    assert_eq!(me.call("whoami", json!({})).await.blocks.len(), 1, "no tool brings them");
    let told = me.call("check_inbox", json!({ "wait_for": "all", "timeout": 10 })).await;
    assert_eq!(
        (told.status().as_str(), told.texts()),
        ("complete", texts(["quick", "quick, too"]))
    );
    assert_eq!(told.json()["already"], Value::Null);
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

#[tokio::test]
async fn reports_that_nobody_gathers_come_along_and_the_gather_names_them() {
    let at_once = std::time::Duration::ZERO;
    let limits = Limits { report_hold: at_once, proof_grace: at_once, ..Limits::default() };
    let (house, staff) = staffed(limits, AgentsConfig::default()).await;
    let (_, me) = boss(&house).await;
    let given = assign(&me, json!({ "agent": "worker", "message": "a", "label": "docs" })).await;
    let open = assign(&me, json!({ "agent": "worker", "message": "b" })).await;
    staff.answers(&id(&given), "the docs").await;
    let along = me.call("whoami", json!({})).await;
    let [(report, text, _)] = &along.pending()[..] else { panic!("{along:?}") };
    assert_eq!(text, "the docs");
    // The next call is the proof that it was read.
    me.call("find_agents", json!({})).await;
    house.becomes(*report, "acked").await;
    staff.answers(&id(&open), "the rest").await;

    let told = me.call("check_inbox", json!({ "wait_for": "all" })).await;

    assert_eq!((told.status().as_str(), told.texts()), ("complete", texts(["the rest"])));
    assert_eq!(told.json()["already"], json!([{ "id": report, "label": "docs" }]));
}

#[tokio::test]
async fn while_work_is_open_the_inbox_collects_and_closes_when_all_is_here() {
    // Nobody waits this long: the window closes because everything is settled.
    let long = std::time::Duration::from_secs(25);
    let limits = Limits { gather_window: long, ..Limits::default() };
    let (house, staff) = staffed(limits, AgentsConfig::default()).await;
    let (_, me) = boss(&house).await;
    let one = assign(&me, json!({ "agent": "worker", "message": "a" })).await;
    let two = assign(&me, json!({ "agent": "worker", "message": "b" })).await;
    staff.answers(&id(&one), "one").await;
    let me = std::sync::Arc::new(me);
    let reading = tokio::spawn({
        let me = std::sync::Arc::clone(&me);
        async move { me.check(20.0).await }
    });
    staff.answers(&id(&two), "two").await;

    let told = within("the answer", reading).await.expect("no panic");

    assert_eq!(told.texts(), ["one", "two"]);
}

#[tokio::test]
async fn who_is_missing_is_named_by_label_and_within_the_budget() {
    let mcp = McpConfig { answer_chars: 1_000, ..McpConfig::default() };
    let (house, staff) = staffed(mcp, AgentsConfig::default()).await;
    let (_, me) = boss(&house).await;
    let part =
        |n: usize| json!({ "agent": "worker", "message": "x", "label": format!("part {n}") });
    let first = assign(&me, part(0)).await;
    for n in 1..20 {
        assign(&me, part(n)).await;
    }
    staff.answers(&id(&first), "done").await;

    let told = me.call("check_inbox", json!({ "timeout": 0.1, "wait_for": "all" })).await;

    let told_json = told.json();
    assert_eq!((told.status().as_str(), told.texts()), ("partial", vec!["done".to_owned()]));
    let named = told_json["missing"].as_array().expect("missing").len();
    assert_eq!(told_json["missing"][0]["label"], "part 1");
    assert_eq!(told_json["more_missing"], 19 - named, "{told_json}");
    assert!(named < 19 && told.blocks[0].len() <= 1_000, "{}", told.blocks[0].len());
}

#[tokio::test]
async fn a_repeated_call_is_the_same_assignment() {
    let (house, staff) = house().await;
    let (_, me) = boss(&house).await;
    let params = || {
        json!({
            "name": "assign",
            "arguments": { "agent": "worker", "message": "count" },
            "_meta": { "claudecode/toolUseId": "toolu_9" },
        })
    };
    let first = me.call_with(1, params()).await.json();
    let again = me.call_with(2, params()).await.json();
    assert_eq!((&first["duplicate"], &again["duplicate"]), (&Value::Null, &json!(true)));
    assert_eq!(first["instance"], again["instance"]);
    staff.works(&id(&first)).await;
    assert_eq!(staff.began(), 1);
}

#[tokio::test]
async fn what_cannot_be_assigned_is_a_tool_error_with_a_hint() {
    let (house, staff) = house().await;
    let (_, me) = boss(&house).await;
    for (arguments, code, hint) in [
        (json!({ "agent": "wroker", "message": "x" }), "not_found", "worker"),
        (json!({ "agent": "broken", "message": "x" }), "cannot_start", "install"),
        (json!({ "agent": "visitor", "message": "x" }), "conflict", "connect"),
        (json!({ "agent": "@anyone", "message": "x" }), "invalid_argument", "send a message"),
        (json!({ "agent": "worker" }), "invalid_argument", "schema"),
        (
            json!({ "agent": "worker", "message": "x", "working_directory": "src" }),
            "invalid_argument",
            "leave it out",
        ),
    ] {
        for tool in ["assign", "handoff"] {
            let told = me.call(tool, arguments.clone()).await;
            assert_eq!(told.code(), code, "{tool} {arguments}");
            let told = told.json()["error"]["hint"].as_str().expect("a hint").to_owned();
            assert!(told.contains(hint), "{told}");
        }
    }
    let told =
        me.call("handoff", json!({ "agent": "worker", "message": "x", "timeout": 1e6 })).await;
    assert_eq!(told.code(), "invalid_argument");
    assert_eq!(staff.began(), 0);
}

#[tokio::test]
async fn more_than_the_schema_says_is_taken_silently() {
    let (house, staff) = house().await;
    let (_, me) = boss(&house).await;
    let given = assign(
        &me,
        json!({
            "agent_profile": "worker", "query": "count", "team": "avalon", "worktree": true,
            "working_directory": "/tmp/books",
        }),
    )
    .await;
    let start = staff.works(&id(&given)).await;
    assert_eq!(start.worker.team.to_string(), "avalon");
    assert!(start.place.branch.is_some() && start.place.directory.ends_with("books"));
}
