//! Long mail, several tools at once, cleared conversations, tokens.

use posthaste_testkit::model_server::Asked;
use serde_json::{Value, json};

use super::{Machine, Program, Task, works};
use crate::clients::claude;

/// Every list of mail that a hook put before the model, in whole documents.
fn lists(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::String(text) => {
            let lines =
                text.lines().filter_map(|line| line.find("{\"_pending").map(|at| &line[at..]));
            let first = |line| serde_json::Deserializer::from_str(line).into_iter().next();
            found.extend(lines.filter_map(first).filter_map(Result::ok));
        }
        Value::Array(items) => items.iter().for_each(|item| lists(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| lists(field, found)),
        _ => (),
    }
}

fn mail(turn: &Asked) -> Vec<Value> {
    let mut found = Vec::new();
    lists(turn.request(), &mut found);
    let entries = found.iter().filter_map(|list| list["_pending_messages"].as_array());
    entries.flatten().cloned().collect()
}

/// What the hub gives to a hook passes through the program without a cut of its own.
async fn long_mail_reaches_the_model_as_the_hub_gave_it(program: Program) {
    let Some(mut machine) = Machine::set_up(program, false).await else { return };
    let agent = machine.start(None);
    let turn = machine.model.asked().await;
    let address = machine.agent();
    let tool = machine.send(&address, &"größer 漢字 ".repeat(2_000));
    works(program, turn);

    let turn = machine.model.asked().await;
    let entry = mail(&turn).into_iter().find(|m| m["id"] == tool).expect("it is there, and whole");
    assert_eq!(entry["truncated"], true, "{entry}");
    assert!(entry["message"].as_str().expect("a text").chars().count() > 500, "{entry}");
    let stop = machine.send(&address, &"x".repeat(30_000));
    turn.say("I am done.");

    let turn = machine.model.asked().await;
    let entry = mail(&turn).into_iter().find(|m| m["id"] == stop).expect("it is there, and whole");
    assert!(entry["message"].as_str().expect("a text").len() > 2_000, "{entry}");
    turn.say("Now I am.");
    assert_eq!(agent.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_mail_passes_through_claude_code() {
    long_mail_reaches_the_model_as_the_hub_gave_it(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_mail_passes_through_codex() {
    long_mail_reaches_the_model_as_the_hub_gave_it(Program::Codex).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_mail_passes_through_gemini_cli() {
    long_mail_reaches_the_model_as_the_hub_gave_it(Program::Gemini).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_mail_passes_through_qwen_code() {
    long_mail_reaches_the_model_as_the_hub_gave_it(Program::Qwen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_mail_passes_through_copilot_cli() {
    long_mail_reaches_the_model_as_the_hub_gave_it(Program::Copilot).await;
}

/// Three tools in one turn are three hooks at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_comes_once_when_several_tools_run_at_once() {
    let Some(mut machine) = Machine::set_up(Program::ClaudeCode, false).await else { return };
    let agent = machine.start(None);
    let turn = machine.model.asked().await;
    let seq = machine.send(&machine.agent(), "to be read once");
    let echo = |n: u32| ("Bash", json!({ "command": format!("echo {n}"), "description": "x" }));
    turn.call_all(&[echo(1), echo(2), echo(3)]);
    let turn = machine.model.asked().await;
    assert_eq!(turn.results().len(), 3, "{turn:?}");
    turn.assert_saw_once("to be read once");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
    machine.until_acked(seq);
}

/// OpenCode's plugin hears of it in another way than of a tool that has run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hub_is_told_of_a_failed_tool_of_opencode_once() {
    let Some(mut machine) = Machine::set_up(Program::OpenCode, false).await else { return };
    machine.hub.take().expect("a hub").kill();
    let agent = machine.start(None);
    let turn = machine.model.asked().await;
    turn.call("read", json!({ "filePath": "/nowhere/at/all" }));
    let turn = machine.model.asked().await;
    assert!(turn.result().contains("not found"), "{turn:?}");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
    // There is no hub to tell, so there is a line for each that was told.
    let log = std::fs::read_to_string(machine.world.file("hooks.log")).expect("a log");
    for event in ["before-tool", "tool"] {
        assert_eq!(log.matches(&format!(" opencode {event}: ")).count(), 1, "{log}");
    }
}

/// The user clears the conversation: Claude Code gives it a new name, and its tools
/// stay. So does the agent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_of_claude_code_that_was_cleared_is_the_same_agent() {
    let program = Program::ClaudeCode;
    let Some(mut machine) = Machine::set_up(program, true).await else { return };
    let task = Task { model: machine.model.url(), hooked: true, ..Task::default() };
    let mut agent = program.start(&machine.tools, &machine.world, &task);
    agent.tell(&claude::said("hello", false));
    machine.model.asked().await.say("the first words");
    agent.tell(&claude::said("/clear", false));
    agent.tell(&claude::said("hello again", false));

    let turn = machine.model.asked().await;
    turn.assert_never_saw("the first words");
    let seq = machine.send(&machine.agent(), "after the first words");
    works(program, turn);
    let turn = machine.model.asked().await;
    turn.assert_saw_once("after the first words");
    turn.say("done");
    machine.until_acked(seq);
    agent.hang_up();
    assert_eq!(agent.end().code, Some(0));
    machine.agent();
}

/// A token in the user's environment reaches the hooks of every program.
async fn a_token_in_the_environment_is_who_the_hooks_are(program: Program) {
    let Some(mut machine) = Machine::set_up(program, false).await else { return };
    let bob = machine.world.json(&["join", "bob"]);
    let text = |field: &str| bob[field].as_str().expect("a text").to_owned();
    let (token, seq) = (text("token"), machine.send(&text("address"), "hello, bob"));
    let (model, prompt, token) = (machine.model.url(), Some("Begin."), Some(token.as_str()));
    let task = Task { model, prompt, token, hooked: true, ..Task::default() };
    let agent = program.start(&machine.tools, &machine.world, &task);
    let turn = machine.model.asked().await;
    turn.assert_saw_once("hello, bob");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
    machine.until_acked(seq);
    let here = machine.world.json(&["agents"]);
    assert_eq!(here["instances"].as_array().map(Vec::len), Some(1), "{here}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_the_environment_is_who_the_hooks_of_claude_code_are() {
    a_token_in_the_environment_is_who_the_hooks_are(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_the_environment_is_who_the_hooks_of_codex_are() {
    a_token_in_the_environment_is_who_the_hooks_are(Program::Codex).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_the_environment_is_who_the_hooks_of_gemini_cli_are() {
    a_token_in_the_environment_is_who_the_hooks_are(Program::Gemini).await;
}
