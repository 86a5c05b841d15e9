//! An assistant that its caller waits for.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::orchestration::AgentsConfig;
use posthaste_server::McpConfig;
use serde_json::{Value, json};

use super::super::agent::Agent;
use crate::house::{House, read, texts, within};
use crate::staff::{house, only_worker, staffed};

async fn poll(me: &Agent, process: &Value) -> Value {
    me.call("poll_assistant", json!({ "process_id": process })).await.json()
}

#[tokio::test]
async fn a_caller_that_waits_for_an_assistant_gets_its_result_when_it_is_done() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let me = Arc::new(Agent::speaking(&house, &boss, "assistant").await);
    let call = tokio::spawn({
        let me = Arc::clone(&me);
        let task = json!({ "assistant_id": "worker", "query": "count", "run_mode": "sync" });
        async move { me.call("spawn_assistant", task).await }
    });
    let worker = only_worker(&house).await;
    staff.works(&worker).await;
    house.waits(&boss.instance).await;
    assert!(!call.is_finished(), "it is not done");
    staff.answers(&worker, "4711 words").await;

    let told = within("the answer", call).await.expect("no panic");

    let expected = json!({
        "process_id": worker,
        "thread_id": house.instance(&worker).await.thread_id,
        "status": "finished",
        "result": "4711 words",
        "exit_code": 0,
    });
    assert_eq!(told.json(), expected);
    assert_eq!(poll(&me, &expected["process_id"]).await["process"]["status"], "finished");
    assert!(read(&as_boss).await.messages.is_empty(), "the result came once");
}

/// A hub whose callers lose patience at once.
async fn impatient() -> (House, Arc<crate::staff::Staff>) {
    let brief = Duration::from_millis(50);
    staffed(McpConfig { patience: brief, ..McpConfig::default() }, AgentsConfig::default()).await
}

#[tokio::test]
async fn when_patience_ends_first_the_assistant_goes_on_and_its_result_comes_as_mail() {
    let (house, staff) = impatient().await;
    let (boss, as_boss) = house.agent("boss").await;
    let me = Agent::speaking(&house, &boss, "assistant").await;
    let task = json!({ "assistant_id": "worker", "query": "count", "run_mode": "sync" });
    let told = me.call("spawn_assistant", task).await;
    let spawned = told.json();
    assert!(!told.is_error && spawned.get("result").is_none(), "{told:?}");
    let status = spawned["status"].as_str().expect("a status");
    assert!(matches!(status, "starting" | "running"), "{status}");

    let process = spawned["process_id"].as_str().expect("a process");
    staff.answers(process, "4711 words").await;
    assert_eq!(poll(&me, &spawned["process_id"]).await["process"]["exit_code"], 0);
    let inbox = read(&as_boss).await;
    assert_eq!((texts(&inbox), &*inbox.messages[0].kind), (vec!["4711 words"], "result"));
}
