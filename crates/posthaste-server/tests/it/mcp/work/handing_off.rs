//! `handoff`: one worker, and its answer in the same call.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_server::McpConfig;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::super::agent::{Agent, Told};
use super::{at_work, boss};
use crate::house::{Plan, send, within};
use crate::staff::{house, only_worker, staffed};

fn handoff(me: &Arc<Agent>, timeout: f64) -> JoinHandle<Told> {
    let me = Arc::clone(me);
    let arguments = json!({ "agent": "worker", "message": "count", "timeout": timeout });
    tokio::spawn(async move { me.call("handoff", arguments).await })
}

#[tokio::test]
async fn the_answer_of_a_worker_comes_in_the_same_call_and_the_next_call_proves_it() {
    let limits = Limits { proof_grace: Duration::ZERO, ..Limits::default() };
    let (house, staff) = staffed(limits, AgentsConfig::default()).await;
    let (boss, me) = boss(&house).await;
    let me = Arc::new(me);
    let call = handoff(&me, 60.0);
    let worker = only_worker(&house).await;
    house.waits(&boss.instance).await;

    staff.answers(&worker, "4711 words").await;

    let told = within("the answer", call).await.expect("no panic").json();
    assert_eq!((&told["status"], &told["result"]), (&json!("complete"), &json!("4711 words")));
    assert_eq!((&told["instance"], &told["exit_code"]), (&json!(worker), &json!(0)));
    let report = told["id"].as_u64().expect("a number");
    assert_eq!(house.standing(report).await.state, "leased");
    assert!(me.call("whoami", json!({})).await.pending().is_empty(), "it is not told twice");
    let proved = house.becomes(report, "acked").await;
    assert_eq!(proved.proof.as_deref(), Some("next_call"));
}

#[tokio::test]
async fn a_failed_worker_is_an_answer_and_says_how_it_ended() {
    let (house, staff) = house().await;
    let (_, me) = boss(&house).await;
    let call = handoff(&Arc::new(me), 60.0);
    let worker = only_worker(&house).await;

    staff.fails(&worker, 3, "no such file").await;

    let told = within("the answer", call).await.expect("no panic");
    assert!(!told.is_error, "the call itself did what it should");
    let told = told.json();
    assert_eq!((&told["status"], &told["exit_code"]), (&json!("failed"), &json!(3)));
    assert!(told["result"].as_str().expect("a text").contains("no such file"));
}

#[tokio::test]
async fn when_patience_ends_the_work_goes_on_as_a_job_that_the_inbox_resolves() {
    let brief = Duration::from_millis(50);
    let mcp = McpConfig { patience: brief, ..McpConfig::default() };
    let (house, staff) = staffed(mcp, AgentsConfig::default()).await;
    let (_, me) = boss(&house).await;
    let me = Arc::new(me);

    let told = within("a job", handoff(&me, 600.0)).await.expect("no panic").json();

    let worker = told["job"].as_str().expect("a job").to_owned();
    assert!(["starting", "running"].contains(&told["status"].as_str().expect("a status")));
    assert!(told["note"].as_str().expect("a note").contains("check_inbox"));
    staff.answers(&worker, "at last").await;
    let gathered = me.call("check_inbox", json!({ "wait_for": "all", "timeout": 10 })).await;
    assert_eq!(
        (gathered.status().as_str(), gathered.texts()),
        ("complete", vec!["at last".into()])
    );
    assert_eq!(gathered.json()["messages"][0]["in_reply_to"], told["task"]);
}

#[tokio::test]
async fn a_question_of_the_worker_ends_the_wait_and_comes_beside_the_job() {
    let (house, staff) = house().await;
    let (boss, me) = boss(&house).await;
    let me = Arc::new(me);
    let call = handoff(&me, 60.0);
    let worker = only_worker(&house).await;
    let at_work = at_work(&house, &staff, &worker).await;
    house.waits(&boss.instance).await;

    let question = json!({ "message": "which book?", "type": "question" });
    assert!(!at_work.call("send_message", question).await.is_error, "to whoever assigned it");

    let told = within("the job", call).await.expect("no panic");
    assert_eq!(told.json()["job"], json!(worker));
    let pending: Vec<String> = told.pending().into_iter().map(|(_, text, _)| text).collect();
    assert_eq!(pending, ["which book?"]);
}

#[tokio::test]
async fn ordinary_mail_does_not_end_a_handoff() {
    let (house, staff) = house().await;
    let (boss, me) = boss(&house).await;
    let (_, as_peer) = house.agent("peer").await;
    let me = Arc::new(me);
    let call = handoff(&me, 60.0);
    let worker = only_worker(&house).await;
    house.waits(&boss.instance).await;
    send(&as_peer, &boss.instance, "by the way").await;
    staff.answers(&worker, "done").await;

    let told = within("the answer", call).await.expect("no panic");

    assert_eq!(told.json()["result"], "done");
    assert_eq!(me.check(5.0).await.texts(), ["by the way"]);
}

#[tokio::test]
async fn a_long_answer_is_clipped_and_read_on() {
    let mcp = McpConfig { answer_chars: 2_000, ..McpConfig::default() };
    let (house, staff) = staffed(mcp, AgentsConfig::default()).await;
    let (_, me) = boss(&house).await;
    let me = Arc::new(me);
    let call = handoff(&me, 60.0);
    let worker = only_worker(&house).await;
    let text = "0123456789".repeat(500);
    staff.answers(&worker, &text).await;

    let told = within("the answer", call).await.expect("no panic");

    assert!(told.blocks[0].len() <= 2_000, "{}", told.blocks[0].len());
    let told = told.json();
    assert_eq!(told["truncated"], true);
    let begun = told["result"].as_str().expect("a text");
    let offset = told["next_offset"].as_u64().expect("an offset");
    assert_eq!((begun.len() as u64, text.starts_with(begun)), (offset, true));
    let rest = json!({ "id": told["id"], "offset": offset });
    let rest = me.call("read_messages", rest).await.json();
    let more = rest["message"].as_str().unwrap_or_else(|| panic!("a text: {rest}"));
    assert!(text[begun.len()..].starts_with(more) && !more.is_empty());
}

#[tokio::test]
async fn a_client_that_listens_hears_of_progress_meanwhile() {
    let mcp = McpConfig { progress_every: Duration::from_millis(20), ..McpConfig::default() };
    let (house, staff) = staffed(mcp, AgentsConfig::default()).await;
    let (_, me) = boss(&house).await;
    let me = Arc::new(me);
    let call = tokio::spawn({
        let me = Arc::clone(&me);
        let params = json!({
            "name": "handoff",
            "arguments": { "agent": "worker", "message": "count" },
            "_meta": { "progressToken": "tick" },
        });
        async move { me.call_with(7, params).await }
    });
    let worker = only_worker(&house).await;
    staff.works(&worker).await;
    me.hears_progress().await;
    staff.answers(&worker, "done").await;

    let told = within("the answer", call).await.expect("no panic");

    assert!(told.progress > 0, "{told:?}");
    assert_eq!(told.json()["result"], "done");
}

#[tokio::test]
async fn a_cancelled_handoff_leaves_its_report_in_the_inbox() {
    let (house, staff) = staffed(Plan::default(), AgentsConfig::default()).await;
    let (boss, me) = boss(&house).await;
    let me = Arc::new(me);
    let call = tokio::spawn({
        let me = Arc::clone(&me);
        let arguments = json!({ "agent": "worker", "message": "count" });
        async move { me.call_as(41, "handoff", arguments).await }
    });
    let worker = only_worker(&house).await;
    house.waits(&boss.instance).await;

    me.cancel(41).await;

    let told = within("the end of the call", call).await.expect("no panic");
    assert_eq!(told.json()["result"], Value::Null, "{told:?}");
    staff.answers(&worker, "for later").await;
    assert_eq!(me.check(10.0).await.texts(), ["for later"]);
}
