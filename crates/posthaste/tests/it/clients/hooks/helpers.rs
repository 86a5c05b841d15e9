//! Helpers that an agent starts: what one reads, the agent never sees.

use posthaste_testkit::model_server::Asked;
use serde_json::json;

use super::{Machine, Program, works};

/// Starts a helper and waits for it.
fn starts_a_helper(program: Program, turn: Asked) {
    let (description, prompt) = ("help", "HELPER, help me.");
    match program {
        Program::ClaudeCode => turn.call(
            "Agent",
            json!({
                "description": description, "prompt": prompt,
                "subagent_type": "general-purpose", "run_in_background": false,
            }),
        ),
        Program::Copilot => turn.call(
            "task",
            json!({
                "description": description, "prompt": prompt,
                "agent_type": "general-purpose", "name": "helper", "mode": "sync",
            }),
        ),
        Program::OpenCode => turn.call(
            "task",
            json!({ "description": description, "prompt": prompt, "subagent_type": "general" }),
        ),
        Program::Qwen => turn.call(
            "agent",
            json!({
                "description": description, "prompt": prompt,
                "subagent_type": "general-purpose",
            }),
        ),
        Program::Gemini => {
            turn.call("invoke_agent", json!({ "agent_name": "generalist", "prompt": prompt }));
        }
        Program::Codex => panic!("its helpers work beside it"),
    }
}

/// A helper's last words.
fn helped(program: Program, helper: Asked) {
    match program {
        Program::Gemini => {
            helper.call("complete_task", json!({ "result": { "response": "helped" } }))
        }
        _ => helper.say("helped"),
    }
}

/// The agent's mail waits until its helper has ended.
async fn mail_is_not_given_to_a_helper(program: Program) {
    let Some(mut machine) = Machine::set_up(program, false).await else { return };
    let agent = machine.start(None);
    let turn = machine.model.asked().await;
    let seq = machine.send(&machine.agent(), "for the agent itself");
    starts_a_helper(program, turn);
    let helper = machine.model.asked().await;
    helper.assert_saw("HELPER, help me.");
    works(program, helper);
    let helper = machine.model.asked().await;
    assert!(helper.result().contains("at work"), "{helper:?}");
    helper.assert_never_saw("for the agent itself");
    assert_eq!(machine.record(seq).0, "queued");
    helped(program, helper);

    let turn = machine.model.asked().await;
    turn.assert_saw_once("for the agent itself");
    turn.say("done");
    assert_eq!(agent.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_is_not_given_to_a_helper_of_claude_code() {
    mail_is_not_given_to_a_helper(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_is_not_given_to_a_helper_of_copilot_cli() {
    mail_is_not_given_to_a_helper(Program::Copilot).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_is_not_given_to_a_helper_of_opencode() {
    mail_is_not_given_to_a_helper(Program::OpenCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_is_not_given_to_a_helper_of_gemini_cli() {
    mail_is_not_given_to_a_helper(Program::Gemini).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_is_not_given_to_a_helper_of_qwen_code() {
    mail_is_not_given_to_a_helper(Program::Qwen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_is_not_given_to_a_helper_of_codex() {
    let program = Program::Codex;
    let Some(mut machine) = Machine::set_up(program, false).await else { return };
    let agent = machine.start(None);
    let turn = machine.model.asked().await;
    turn.call("spawn_agent", json!({ "message": "HELPER, help me." }));
    // Both go on at the same time.
    let (one, other) = (machine.model.asked().await, machine.model.asked().await);
    let (turn, helper) = if one.results().is_empty() { (other, one) } else { (one, other) };
    let seq = machine.send(&machine.agent(), "for the agent itself");
    works(program, helper);

    let helper = machine.model.asked().await;
    assert!(helper.result().contains("at work"), "{helper:?}");
    helper.assert_never_saw("for the agent itself");
    assert_eq!(machine.record(seq).0, "queued");
    works(program, turn);

    let turn = machine.model.asked().await;
    turn.assert_saw_once("for the agent itself");
    // It would go on about its helper.
    agent.kill();
}
