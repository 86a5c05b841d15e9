//! An agent that gives out work: everything in one turn of its model's user.

use serde_json::{Value, json};

use super::documents;
use crate::clients::stage::Stage;

/// Seed of the whole thing: a supervisor dispatches, gathers once, and has it all.
pub(crate) async fn a_supervisor_gathers_all_its_workers_in_the_same_turn(mut stage: Stage) {
    stage.profile("counter", "set -- $(wc -w); [ $1 -ne 3 ] || exit 9; echo $1 words");
    let agent = stage.start();
    let part = |n: usize| {
        let text = vec!["word"; n].join(" ");
        ("assign", json!({ "agent": "counter", "message": text, "label": format!("part {n}") }))
    };
    stage.turn().await.call_all(&[part(1), part(2), part(3)]);
    let turn = stage.turn().await;
    assert_eq!(turn.results().len(), 3, "{turn:?}");
    turn.call("check_inbox", json!({ "timeout": 60, "wait_for": "all" }));

    let turn = stage.turn().await;
    let inbox: Value = documents(&turn.result()).into_iter().next().expect("one document");
    assert_eq!(inbox["status"], "complete", "{inbox}");
    let of = |label: &str| {
        let all = inbox["messages"].as_array().expect("a list");
        all.iter().find(|m| m["label"] == label).cloned().unwrap_or_default()
    };
    assert_eq!(of("part 1")["message"], "1 words", "{inbox}");
    assert_eq!(of("part 2")["message"], "2 words");
    assert_eq!(of("part 3")["type"], "system.agent_failed");
    turn.say("two counted, one failed");
    let ran = agent.end();
    assert!(ran.code == Some(0) && ran.out.contains("two counted, one failed"), "{ran:?}");
}

/// One task, one call, its answer.
pub(crate) async fn a_handoff_brings_the_answer_as_its_own_result(mut stage: Stage) {
    stage.profile("counter", "set -- $(wc -w); echo $1 words");
    let agent = stage.start();
    stage.turn().await.call("handoff", json!({ "agent": "counter", "message": "one two three" }));
    let turn = stage.turn().await;
    let told: Value = documents(&turn.result()).into_iter().next().expect("one document");
    assert_eq!((&told["status"], &told["result"]), (&json!("complete"), &json!("3 words")));
    turn.say("three");
    assert_eq!(agent.end().code, Some(0));
}
