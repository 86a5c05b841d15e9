//! The same under the names that others know.

use serde_json::{Value, json};

use super::super::agent::{Agent, Era};
use crate::house::{House, read, texts, until, within};
use crate::staff::house;

async fn speaks(house: &House, token: &str, dialect: &str) -> Agent {
    let mut agent = Agent::silent(house, token, Era::Old, "test");
    agent.url = format!("{}?dialect={dialect}", agent.url);
    agent.hello().await;
    agent
}

fn terminal(told: &Value) -> String {
    told["terminal_id"].as_str().expect("a terminal").to_owned()
}

#[tokio::test]
async fn cao_assigns_and_whatever_the_worker_sends_back_is_its_result() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let me = speaks(&house, &boss.token, "cao").await;

    let told = me.call("assign", json!({ "agent_profile": "worker", "message": "count" })).await;
    let told = told.json();
    assert_eq!(told["success"], true, "{told}");
    assert!(told["message"].as_str().expect("words").contains("worker"));
    let token = staff.works(&terminal(&told)).await.token.0;
    let worker = speaks(&house, &token, "cao").await;
    let back = json!({ "receiver_id": boss.instance, "message": "42" });
    assert_eq!(worker.call("send_message", back).await.json()["success"], true);

    let inbox = read(&as_boss).await;
    assert_eq!((texts(&inbox), &*inbox.messages[0].kind), (vec!["42"], "result"));
    let settled = &house.instance(&terminal(&told)).await.assignments[0];
    assert_eq!((&*settled.status, settled.report), ("settled", Some(inbox.messages[0].id)));
    let more = json!({ "receiver_id": boss.instance, "message": "and this" });
    assert_eq!(worker.call("send_message", more).await.json()["success"], true);
    assert_eq!(read(&as_boss).await.messages[0].kind, "text", "nothing is open any more");
}

#[tokio::test]
async fn cao_hands_off_and_gets_the_output() {
    let (house, staff) = house().await;
    let (boss, _) = house.agent("boss").await;
    let me = std::sync::Arc::new(speaks(&house, &boss.token, "cao").await);
    let call = tokio::spawn({
        let me = std::sync::Arc::clone(&me);
        let work = json!({ "agent_profile": "worker", "message": "count", "timeout": 60 });
        async move { me.call("handoff", work).await }
    });
    until("it began", async || staff.began() == 1).await;
    let worker = house.operator().context().await.expect("a context");
    assert!(worker.structured_state.running.is_empty(), "it is the boss's");
    let its = house.client(&boss.token).context().await.expect("a context");
    staff.answers(&its.structured_state.running[0].instance, "4711 words").await;

    let told = within("the answer", call).await.expect("no panic").json();
    assert_eq!((&told["success"], &told["output"]), (&json!(true), &json!("4711 words")));
    assert_eq!(terminal(&told), its.structured_state.running[0].instance);

    let patient = json!({ "agent_profile": "worker", "message": "again", "timeout": 0 });
    let told = me.call("handoff", patient).await.json();
    assert_eq!((&told["success"], &told["output"]), (&json!(true), &Value::Null));
    assert!(told["message"].as_str().expect("words").contains("check_inbox"), "{told}");
    staff.fails(&terminal(&told), 3, "it broke").await;
    let inbox = me.call("check_inbox", json!({ "timeout": 10 })).await.json();
    assert_eq!(inbox["messages"][0]["sender_id"], told["terminal_id"], "{inbox}");
}

#[tokio::test]
async fn cao_is_told_what_is_wrong_in_its_own_form() {
    let (house, _staff) = house().await;
    let (boss, _) = house.agent("boss").await;
    let me = speaks(&house, &boss.token, "cao").await;
    for tool in ["assign", "handoff"] {
        let told = me.call(tool, json!({ "agent_profile": "wroker", "message": "x" })).await;
        assert!(told.is_error);
        let told = told.json();
        assert_eq!((&told["success"], &told["terminal_id"]), (&json!(false), &Value::Null));
        assert!(told["message"].as_str().expect("words").contains("did you mean worker"), "{told}");
    }
}

#[tokio::test]
async fn an_assistant_is_spawned_polled_and_read() {
    let (house, staff) = house().await;
    let (boss, _) = house.agent("boss").await;
    let me = speaks(&house, &boss.token, "assistant").await;
    let task = json!({ "assistant_id": "worker", "query": "a secret task" });

    let spawned = me.call("builtin_assistant__spawn_assistant", task).await.json();
    assert_eq!(spawned["status"], "starting");
    let keys: Vec<&String> = spawned.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["process_id", "thread_id", "status"]);
    let process = spawned["process_id"].as_str().expect("a process").to_owned();
    staff.works(&process).await;
    until("it runs", async || house.instance(&process).await.status == "running").await;
    let poll = json!({ "process_id": process });
    let told = me.call("poll_assistant", poll.clone()).await;
    let polled = told.json();
    assert_eq!(polled["process"]["status"], "running");
    assert_eq!(polled["process"]["assistant_id"], "worker");
    assert_eq!(polled["process"]["thread_id"], spawned["thread_id"]);
    assert!(polled["process"]["started_at"].as_i64().is_some_and(|at| at > 1_600_000_000_000));
    assert!(polled["process"].get("finished_at").is_none());
    let summary = &polled["message_summary"];
    assert_eq!((&summary["total_messages"], &summary["unread_messages"]), (&json!(1), &json!(0)));
    assert!(summary["last_message_at"].is_i64());

    staff.answers(&process, "secret words").await;
    let told = me.call("builtin_assistant__poll_assistant", poll.clone()).await;
    let polled = told.json();
    assert_eq!(polled["process"]["status"], "finished");
    assert_eq!(polled["process"]["exit_code"], 0);
    assert!(polled["process"]["finished_at"].is_i64());
    let summary = &polled["message_summary"];
    assert_eq!((&summary["total_messages"], &summary["unread_messages"]), (&json!(2), &json!(1)));
    assert!(!told.blocks[0].contains("secret"), "{polled}");
    let bare = json!({ "process_id": process, "include_summary": false });
    assert!(me.call("poll_assistant", bare).await.json().get("message_summary").is_none());
}

#[tokio::test]
async fn an_assistant_that_is_waited_for_answers_with_its_result() {
    let (house, staff) = house().await;
    let (boss, _) = house.agent("boss").await;
    let me = speaks(&house, &boss.token, "assistant").await;
    let call = tokio::spawn(async move {
        let task = json!({ "assistant_id": "worker", "query": "count", "run_mode": "sync" });
        (me.call("spawn_assistant", task).await, me)
    });
    until("it began", async || staff.began() == 1).await;
    let its = house.client(&boss.token).context().await.expect("a context");
    staff.fails(&its.structured_state.running[0].instance, 3, "it broke").await;

    let (told, me) = within("the answer", call).await.expect("no panic");

    let told = told.json();
    assert_eq!((&told["status"], &told["exit_code"]), (&json!("failed"), &json!(3)));
    assert!(told["result"].as_str().expect("a text").contains("it broke"));
    let wrong = json!({ "assistant_id": "worker", "query": "x", "run_mode": "later" });
    assert_eq!(me.call("spawn_assistant", wrong).await.code(), "invalid_argument");
}

#[tokio::test]
async fn a_stopped_assistant_reads_as_failed_and_an_unknown_one_is_an_error() {
    let (house, staff) = house().await;
    let (boss, _) = house.agent("boss").await;
    let me = speaks(&house, &boss.token, "assistant").await;
    let unknown = json!({ "assistant_id": "wroker", "query": "x" });
    assert_eq!(me.call("spawn_assistant", unknown).await.code(), "not_found");
    assert_eq!(staff.began(), 0, "no process");
    let spawned =
        me.call("spawn_assistant", json!({ "assistant_id": "worker", "query": "x" })).await.json();
    let process = spawned["process_id"].as_str().expect("a process").to_owned();
    staff.works(&process).await;
    house.operator().stop(&process).await.expect("asked");
    until("it ends", async || house.instance(&process).await.status == "stopped").await;

    let polled = me.call("poll_assistant", json!({ "process_id": process })).await.json();

    assert_eq!(polled["process"]["status"], "failed");
    assert_eq!(
        me.call("poll_assistant", json!({ "process_id": "00000000" })).await.code(),
        "not_found"
    );
}
