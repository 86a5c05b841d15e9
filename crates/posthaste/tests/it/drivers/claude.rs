//! Claude Code, driven by streams of JSON.

use std::path::Path;
use std::process::Command;

use posthaste_testkit::model_server::HALF;
use serde_json::{Value, json};

use super::Cast;
use super::stage::{Stage, Worker};
use crate::clients;

pub(super) const CAST: Cast = Cast {
    driver: "claude",
    config,
    surround,
    dangerous: || ("Bash", json!({ "command": "touch made", "description": "make a file" })),
    denied: "denied",
    steers: true,
};

fn config(tools: &Path) -> Value {
    json!({ "command": [clients::claude_binary(tools)] })
}

pub(super) fn surround(command: &mut Command, model: &str, _: &Path) {
    command
        .env("ANTHROPIC_BASE_URL", model)
        .env("ANTHROPIC_API_KEY", "test-key")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_TELEMETRY", "1")
        .env("DISABLE_AUTOUPDATER", "1");
}

/// Its model runs this command, for which nobody is asked.
async fn runs(stage: &mut Stage, command: &str) {
    stage.turn().await.call("Bash", json!({ "command": command, "description": "as told" }));
}

/// Its model runs this command, for which the operator is asked.
async fn asks(stage: &mut Stage, worker: &Worker, command: &str) -> Value {
    runs(stage, command).await;
    stage.until_activity(worker, "waiting_user");
    let need = stage.need();
    assert!(need["text"].as_str().is_some_and(|text| text.contains(command)), "{need}");
    need
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remembered_command_does_not_allow_a_longer_one() {
    let Some(mut stage) = Stage::set(CAST).await else { return };
    let worker = stage.assign_in(stage.world.scratch(), "Make files.");
    let need = asks(&mut stage, &worker, "touch made").await;
    assert_eq!(need["subject"], "Bash(touch made)", "{need}");
    stage.world.say(&["answer", &need["id"].to_string(), "--allow", "--remember"]);
    // The same command is allowed unseen,
    runs(&mut stage, "touch made").await;
    // and one that begins with it, and then does something else, is asked for.
    let longer = "touch made && touch other";
    let need = asks(&mut stage, &worker, longer).await;
    assert_eq!(need["subject"], format!("Bash({longer})"), "{need}");
    stage.world.say(&["answer", &need["id"].to_string(), "--deny"]);
    let turn = stage.turn().await;
    turn.assert_saw(CAST.denied);
    turn.say("I was not allowed to.");
    assert_eq!(stage.alice_reads()["message"], "I was not allowed to.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_model_is_offered_no_question_that_only_its_own_screen_could_ask() {
    // The profile forbids another tool in the program's own words.
    let config = |tools: &Path| {
        let program = clients::claude_binary(tools);
        json!({ "command": [program, "--disallowedTools=Workflow"] })
    };
    let Some(mut stage) = Stage::set(Cast { config, ..CAST }).await else { return };
    stage.assign("Ask if you must.");
    let turn = stage.turn().await;
    let tools: Vec<String> = turn.tools().into_iter().map(|tool| tool.name).collect();
    for (name, offered) in
        [("ask_user", true), ("Agent", true), ("AskUserQuestion", false), ("Workflow", false)]
    {
        assert_eq!(tools.iter().any(|tool| tool == name), offered, "{name}: {tools:?}");
    }
    turn.say("I have no question.");
    stage.alice_reads();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claude_that_is_not_logged_in_fails_its_task_and_says_what_to_do() {
    let surround = |command: &mut Command, model: &str, home: &Path| {
        surround(command, model, home);
        command.env_remove("ANTHROPIC_API_KEY");
    };
    let Some(stage) = Stage::set(Cast { surround, ..CAST }).await else { return };
    let worker = stage.assign("You cannot do this.");
    let report = stage.alice_reads();
    assert_eq!(report["type"], "system.agent_failed", "{report}");
    let told = report["message"].as_str().unwrap_or_default();
    assert!(told.contains("claude is not logged in: run `claude` once"), "{report}");
    assert_eq!(stage.look(&worker).status, "failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_cut_within_a_character_is_reported() {
    let Some(mut stage) = Stage::set(CAST).await else { return };
    let worker = stage.assign("Say something.");
    stage.turn().await.say(&format!("cut {HALF} here"));
    assert_eq!(stage.alice_reads()["message"], "cut \u{fffd} here");
    stage.until_proved_by(worker.task, "turn");
    stage.until_activity(&worker, "idle");
}
