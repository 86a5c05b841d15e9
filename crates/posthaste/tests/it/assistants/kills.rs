//! Hubs and runners that are killed at the worst moment.

use std::io::Write;

use serde_json::{Value, json};

use super::stage::Stage;
use crate::world::eventually;

pub(super) async fn a_hub_killed_during_a_call_of_the_model_asks_it_again_and_loses_nothing(
    mut stage: Stage,
) {
    let helper = stage.assign("fix the login bug");
    let turn = stage.turn().await;
    let talk = turn.talk();
    let weather = stage.says(&helper, "what is the weather?");
    stage.kill_the_hub_and_start_it_again();
    drop(turn);
    let turn = stage.turn().await;
    assert_eq!(turn.talk(), talk, "the same request");
    turn.say("Fixed.");
    // The message that was accepted before the kill is answered, too.
    assert_eq!(stage.hears()["message"], "Fixed.");
    let turn = stage.turn().await;
    assert_eq!(turn.talk().pop(), Some(("user".into(), "what is the weather?".into())));
    stage.until_stored(weather);
    turn.say("Sunny.");
    assert_eq!(stage.hears()["message"], "Sunny.");
    stage.until_status(&helper, "finished");
    assert!(stage.has_said_all());
}

pub(super) async fn a_hub_killed_after_each_step_repeats_no_answer_and_no_tool(mut stage: Stage) {
    let helper = stage.assign("count");
    let place = stage.world.scratch().join("count");
    let count = json!({ "command": format!("echo one >> '{}'", place.display()) });
    stage.turn().await.call("builtin_shell__run", count);
    let turn = stage.turn().await;
    stage.kill_the_hub_and_start_it_again();
    drop(turn);
    let turn = stage.turn().await;
    turn.call("respondToUser", json!({ "message": "I have counted." }));
    let turn = stage.turn().await;
    stage.kill_the_hub_and_start_it_again();
    drop(turn);
    let turn = stage.turn().await;
    assert_eq!(turn.talk().len(), 5, "{:?}", turn.talk());
    turn.say("One.");
    stage.until_status(&helper, "finished");

    assert_eq!(std::fs::read_to_string(&place).expect("written"), "one\n");
    let inbox = stage.world.json(&["inbox", "--timeout", "0"]);
    let texts: Vec<_> =
        inbox["messages"].as_array().expect("a list").iter().map(|m| &m["message"]).collect();
    assert_eq!(texts, ["I have counted.", "One."]);
}

pub(super) async fn a_hub_killed_during_a_blocking_question_still_gets_the_answer(
    mut stage: Stage,
) {
    let helper = stage.assign("set up auth");
    stage.turn().await.call("askUser", json!({ "question": "OAuth or JWT?" }));
    let asked = stage.hears()["id"].to_string();
    stage.kill_the_hub_and_start_it_again();
    eventually(|| stage.look(&helper)["activity"] == "waiting_user");
    let needs = stage.world.json(&["needs"]);
    assert_eq!(needs["open"], 1, "it is asked once: {needs}");
    assert_eq!(needs["needs"][0]["message"].to_string(), asked);
    // A reply that names nothing answers the question that blocks.
    let reply = stage.says(&helper, "JWT");
    let turn = stage.turn().await;
    turn.assert_talk(&[("user", "set up auth"), ("assistant", "<askUser>"), ("tool", "JWT")]);
    stage.until_stored(reply);
    turn.say("It is JWT.");
    stage.until_status(&helper, "finished");
}

pub(super) async fn mail_that_was_stored_with_a_result_before_a_kill_comes_once(mut stage: Stage) {
    stage.world.say(&["join", "alice"]);
    let helper = stage.assign("look around");
    stage
        .turn()
        .await
        .call("builtin_shell__run", json!({ "command": "cat < /dev/zero > /dev/null" }));
    let folder = stage.folder(&helper);
    let mut call = None;
    eventually(|| {
        let kept = std::fs::read(folder.join("session.json")).expect("a state");
        let kept: Value = serde_json::from_slice(&kept).expect("JSON");
        let calls = kept["calls"].as_array().cloned().unwrap_or_default();
        call = calls.into_iter().find(|call| call["method"] == "on_tool_call");
        call.is_some()
    });
    let roof = stage.world.json(&["send", &helper.id, "the roof leaks", "--as", "alice"]);
    let roof = roof["seq"].as_u64().expect("a number");
    // The hub is killed after it has stored the result, and before it has acked the mail.
    let call = call.expect("a call");
    let record = json!({
        "kind": "tool", "call": format!("1:{}", call["id"].as_str().expect("an id")),
        "tool_call_id": call["params"]["tool_call_id"], "name": "builtin_shell__run",
        "arguments": call["params"]["arguments"], "text": "the roof leaks", "mail": [roof],
    });
    stage.kill_the_hub_and_start_it_again_after(|| {
        let conversation =
            std::fs::OpenOptions::new().append(true).open(folder.join("conversation"));
        writeln!(conversation.expect("a conversation"), "{record}").expect("written");
    });
    let turn = stage.turn().await;
    turn.assert_talk(&[
        ("user", "look around"),
        ("assistant", "<builtin_shell__run>"),
        ("tool", "the roof leaks"),
    ]);
    stage.until_stored(roof);
    turn.say("It leaks.");
    assert_eq!(stage.hears()["message"], "It leaks.");
    stage.until_status(&helper, "finished");
}

pub(super) async fn a_runner_killed_in_mid_request_fails_its_assignment_with_a_reason(
    mut stage: Stage,
) {
    stage.world.say(&["join", "alice"]);
    let helper = stage.assign_as("alice", "fix the login bug");
    let turn = stage.turn().await;
    stage.kill_runner(&helper);
    stage.until_status(&helper, "failed");
    let inbox = stage.world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
    let report = &inbox["messages"][0];
    assert_eq!(report["type"], "system.agent_failed", "{inbox}");
    assert!(report["message"].as_str().is_some_and(|text| text.contains("signal 9")), "{report}");
    // Nobody takes what the model says now, and the hub goes on.
    turn.say("too late");
    let next = stage.assign_as("alice", "once more");
    let turn = stage.turn().await;
    assert!(turn.last().contains("once more"), "{:?}", turn.talk());
    turn.say("Done.");
    stage.until_status(&next, "finished");
}
