//! Steps: work and its answer in one call.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::stage::{Stage, id, stage};
use crate::house::{read_reply, request, until, within};

fn step(prompt: &str) -> Value {
    json!({"provider": "mock_cli", "agent": "developer", "prompt": prompt})
}

fn with(mut step: Value, more: &Value) -> Value {
    let all = step.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    step
}

const RUN: &str = "POST /terminals/run-step";

/// The terminal that works on this task, once there is one.
async fn terminal_of(stage: &Stage, task: &str) -> String {
    let found = || {
        let at_work = stage.staff.at_work();
        let its = at_work.iter().find(|start| start.task.as_ref().is_some_and(|t| t.text == task));
        its.map(|start| start.worker.id.to_string())
    };
    until("a terminal works on it", async || found().is_some()).await;
    found().expect("found")
}

#[tokio::test]
async fn a_step_answers_with_the_result_and_ends_its_terminal() {
    let stage = stage().await;
    let body = step("lay bricks");
    let run = stage.call(RUN, &body);
    let play = async {
        let terminal = terminal_of(&stage, "lay bricks").await;
        stage.reports(&terminal, "they lie").await;
        terminal
    };
    let ((status, done), terminal) = tokio::join!(run, play);

    assert_eq!(status, 200, "{done}");
    let expected = json!({
        "terminal_id": terminal, "last_message": "they lie", "status": "completed", "replayed": false,
    });
    assert_eq!(done, expected);
    let (status, _) = stage.call(&format!("GET /terminals/{terminal}"), &Value::Null).await;
    assert_eq!(status, 404);
    until("it ends", async || stage.staff.at_work().is_empty()).await;
    let unread = stage.house.operator().inbox(&crate::house::now()).await.expect("an inbox");
    assert!(unread.messages.is_empty(), "the answer was its delivery: {unread:?}");
}

#[tokio::test]
async fn a_step_of_a_terminal_is_its_childs_and_its_report_comes_once() {
    let stage = stage().await;
    let boss = id(&stage.session("dev", Value::Null).await);
    stage.works(&boss).await;
    let more = json!({"session_name": "cao-dev", "caller_id": boss, "teardown": false});
    let body = with(step("dig"), &more);

    let run = stage.call(RUN, &body);
    let play = async {
        let terminal = terminal_of(&stage, "dig").await;
        stage.reports(&terminal, "dug").await;
        terminal
    };
    let ((status, done), terminal) = tokio::join!(run, play);

    assert_eq!((status, &done["last_message"]), (200, &json!("dug")), "{done}");
    let child = stage.get(&format!("/terminals/{terminal}")).await;
    assert_eq!((&child["caller_id"], &child["session_name"]), (&json!(boss), &json!("cao-dev")));
    // What comes next is the next thing that the giver is told.
    let call = format!("POST /terminals/{boss}/inbox/messages?sender_id={terminal}&message=next");
    stage.call(&call, &Value::Null).await;
    let told = stage.staff.has_told(1).await;
    assert_eq!(told.iter().map(|t| &*t.1).collect::<Vec<_>>(), ["next"]);
}

#[tokio::test]
async fn a_step_for_a_terminal_that_is_here_waits_for_its_next_answer() {
    let stage = stage().await;
    let here = id(&stage.session("dev", Value::Null).await);
    stage.works(&here).await;
    for (prompt, answer) in [("one", "first"), ("two", "second")] {
        let body = with(step(prompt), &json!({"reuse_terminal_id": here}));
        let (run, ()) = tokio::join!(stage.call(RUN, &body), stage.reports(&here, answer));
        assert_eq!((run.0, &run.1["last_message"]), (200, &json!(answer)), "{run:?}");
        assert_eq!(run.1["terminal_id"], here);
    }
    stage.becomes(&here, "completed").await;
}

#[tokio::test]
async fn the_same_job_is_done_once_and_its_result_is_kept() {
    let stage = stage().await;
    let body = with(step("dig"), &json!({"job_id": "0123abcd"}));
    let job = async || stage.call("GET /handoff-results/0123abcd", &Value::Null).await;
    assert_eq!(job().await.0, 404);
    let play = async {
        let terminal = terminal_of(&stage, "dig").await;
        let (status, running) = job().await;
        assert_eq!((status, &running["state"]), (200, &json!("running")), "{running}");
        stage.reports(&terminal, "dug").await;
        terminal
    };
    let ((_, first), terminal) = tokio::join!(stage.call(RUN, &body), play);
    assert_eq!(first["last_message"], "dug", "{first}");

    let (status, again) = stage.call(RUN, &body).await;

    assert_eq!((status, &again["replayed"]), (200, &json!(true)), "{again}");
    assert_eq!((&again["last_message"], &again["terminal_id"]), (&json!("dug"), &json!(terminal)));
    assert_eq!(stage.staff.began(), 1);
    let (_, kept) = job().await;
    let expected = json!({
        "job_id": "0123abcd", "state": "completed", "terminal_id": terminal,
        "last_message": "dug", "error_message": null,
    });
    assert_eq!(kept, expected);
}

#[tokio::test]
async fn a_step_that_fails_and_one_that_takes_too_long_are_told_apart() {
    let stage = stage().await;
    let body = with(step("fall"), &json!({"job_id": "j1"}));
    let play = async {
        let terminal = terminal_of(&stage, "fall").await;
        stage.staff.fails(&terminal, 3, "oh no").await;
        terminal
    };
    let ((status, failed), terminal) = tokio::join!(stage.call(RUN, &body), play);
    assert_eq!(status, 502, "{failed}");
    assert_eq!(
        (&failed["detail"]["kind"], &failed["detail"]["terminal_id"]),
        (&json!("error"), &json!(terminal))
    );
    assert!(failed["detail"]["message"].as_str().is_some_and(|m| m.contains("exit code 3")));
    let (_, job) = stage.call("GET /handoff-results/j1", &Value::Null).await;
    assert_eq!(job["state"], "error", "{job}");

    let (status, late) = stage.call(RUN, &with(step("dally"), &json!({"timeout": 0}))).await;
    assert_eq!((status, &late["detail"]["kind"]), (504, &json!("timeout")), "{late}");
    let dallies = late["detail"]["terminal_id"].as_str().expect("an id").to_owned();
    stage.works(&dallies).await;
    assert_eq!(stage.get(&format!("/terminals/{dallies}")).await["status"], "processing");
}

#[tokio::test]
async fn a_caller_that_hangs_up_loses_nothing() {
    let stage = stage().await;
    let body = with(step("dig"), &json!({"job_id": "j2"})).to_string();
    let mut socket = stage.house.dial().await;
    socket.write_all(request(RUN, None, &[], &body).as_bytes()).await.expect("sent");
    let terminal = terminal_of(&stage, "dig").await;
    drop(socket);

    stage.reports(&terminal, "dug").await;

    until("its terminal ends", async || stage.staff.at_work().is_empty()).await;
    let (_, job) = stage.call("GET /handoff-results/j2", &Value::Null).await;
    assert_eq!((&job["state"], &job["last_message"]), (&json!("completed"), &json!("dug")));
    // A waiting call of the same name gets the answer, too.
    let mut socket = stage.house.dial().await;
    socket.write_all(request(RUN, None, &[], &body).as_bytes()).await.expect("sent");
    let reply = within("an answer", read_reply(&mut socket)).await.expect("an answer").json();
    assert_eq!((&reply["last_message"], &reply["replayed"]), (&json!("dug"), &json!(true)));
}
