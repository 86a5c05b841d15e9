//! Workers whose stdin stays open: what comes for them while they run.

use std::sync::Arc;

use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::{Details, Draft, MessageRef, Principal, Receipt, Via};
use posthaste_core::orchestration::{AgentsConfig, AtShutdown};
use posthaste_core::ports::RecordState;
use serde_json::{Value, json};

use super::{Office, quick, until};

/// Notes its task, then answers with the next line that it hears.
const LISTENS: &str = "read -r task; printf '%s' \"$task\" > new; mv new task.json; \
                       read -r more; printf '%s' \"$more\"";

async fn writes(office: &Office, to: &str, text: &str) -> Receipt {
    let to = to.parse().expect("an address");
    let limits = office.hub.limits();
    let from = Principal::Operator;
    let draft = Draft::new(from, to, text.into(), Details::default(), Via::Rest, limits);
    office.hub.send(draft.expect("within the limits")).await.expect("accepted")
}

#[tokio::test]
async fn a_worker_hears_of_its_mail_on_its_stdin_while_it_runs() {
    let office = Office::open(quick()).await;
    office.profile("worker", json!({ "command": LISTENS, "stdin": "mail" })).await;
    let assigned = office.assign("worker", "listen\nwell").await.expect("assigned");
    let noted = office.folder(&assigned).join("work/task.json");
    until(|| noted.exists()).await;
    let task: Value = serde_json::from_slice(&std::fs::read(&noted).expect("text")).expect("JSON");
    assert_eq!((&task["message"], &task["from"]), (&json!("listen\nwell"), &json!("human")));
    assert_eq!(task["id"], assigned.task.0);

    let sent = writes(&office, &assigned.instance.id.to_string(), "faster \"now\"").await;
    let (kind, answer) = office.told(&assigned).await;
    let heard: Value = serde_json::from_str(&answer).expect("a line of JSON");
    assert_eq!((kind.as_str(), &heard["message"]), ("result", &json!("faster \"now\"")));
    assert_eq!(heard["id"], sent.seq.0);
    // It came to its end by itself: that proves what it was told.
    let which = MessageRef::Seq(sent.seq);
    let record = office.hub.message(Principal::Operator, which).await.expect("a look");
    let record = record.expect("kept");
    assert_eq!(record.deliveries[0].state, RecordState::Acked(Proof::End));
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_was_found_again_still_hears() {
    let leave = AgentsConfig { shutdown: AtShutdown::Leave, ..quick() };
    let office = Office::open(leave.clone()).await;
    office.profile("worker", json!({ "command": LISTENS, "stdin": "mail" })).await;
    let assigned = office.assign("worker", "listen").await.expect("assigned");
    let noted = office.folder(&assigned).join("work/task.json");
    until(|| noted.exists()).await;
    let scratch = office.close().await;

    let office = Office::open_in(Arc::clone(&scratch), leave).await;
    writes(&office, &assigned.instance.id.to_string(), "are you there?").await;
    let (_, answer) = office.told(&assigned).await;
    let heard: Value = serde_json::from_str(&answer).expect("a line of JSON");
    assert_eq!(heard["message"], "are you there?");
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_does_not_listen_costs_nobody_anything() {
    let office = Office::open(quick()).await;
    let deaf = "exec <&-; until [ -e go ]; do sleep 0.02; done; echo done";
    office.profile("worker", json!({ "command": deaf, "stdin": "mail" })).await;
    let assigned = office.assign("worker", "x").await.expect("assigned");
    let folder = office.folder(&assigned);
    until(|| folder.join("started").exists()).await;
    let sent = writes(&office, &assigned.instance.id.to_string(), "hello?").await;
    let said = || std::fs::read_to_string(folder.join("mail")).expect("it is there");
    until(|| said().contains("hello?")).await;
    std::fs::write(folder.join("work/go"), "").expect("written");
    assert_eq!(office.told(&assigned).await, ("result".to_owned(), "done".to_owned()));
    let state = |seq| {
        let look = office.hub.message(Principal::Operator, MessageRef::Seq(seq));
        async { look.await.expect("a look").expect("kept").deliveries[0].state }
    };
    assert_eq!(state(assigned.task).await, RecordState::Acked(Proof::End));
    let unheard = state(sent.seq).await;
    assert!(matches!(unheard, RecordState::Dead { .. }), "nobody heard it: {unheard:?}");
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_puts_a_pipe_where_its_mail_comes_from_holds_nobody_up() {
    let office = Office::open(quick()).await;
    let script = "rm ../mail; mkfifo ../mail; echo > ready; \
                  until [ -e go ]; do sleep 0.05; done; echo done";
    office.profile("worker", json!({ "command": script, "stdin": "mail" })).await;
    let assigned = office.assign("worker", "x").await.expect("assigned");
    let work = office.folder(&assigned).join("work");
    until(|| work.join("ready").exists()).await;
    let sent = writes(&office, &assigned.instance.id.to_string(), "hello?").await;
    std::fs::write(work.join("go"), "").expect("written");
    assert_eq!(office.told(&assigned).await, ("result".to_owned(), "done".to_owned()));
    let which = MessageRef::Seq(sent.seq);
    let record = office.hub.message(Principal::Operator, which).await.expect("a look");
    let state = record.expect("kept").deliveries[0].state;
    assert!(matches!(state, RecordState::Dead { .. }), "nobody heard it: {state:?}");
    office.close().await;
}
