//! Conversations whose window is closed: the hub resumes them in a process of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{Machine, Program};
use crate::clients::program::{Task, home};
use crate::clients::user;
use crate::world::eventually;

/// So that nobody has to wait for a minute.
const SOON: &str =
    "[agents]\nwake_after = \"1s\"\n[limits]\nsweep = \"500ms\"\naway_after = \"1s\"\n";

/// The program on the path knows the scripted model, whoever starts it.
fn knows_its_model(machine: &Machine) {
    let model = machine.model.url();
    let task = Task { model, hooked: true, ..Task::default() };
    let command = machine.program.command(&machine.tools, &machine.world, &task);
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_str().expect("text"));
    let mut script = String::from("#!/bin/sh\n");
    for (name, value) in command.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        script += &format!("export {}={}\n", name.to_str().expect("text"), quoted(value));
    }
    script += &format!("exec {}", quoted(command.get_program()));
    if machine.program == Program::Codex {
        for word in command.get_args().take_while(|word| *word != "app-server") {
            script += &format!(" {}", quoted(word));
        }
    }
    script += " \"$@\"\n";
    let file = home(&machine.world).join("bin").join(machine.program.name());
    fs::write(&file, script).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
}

async fn mail_resumes_a_conversation_whose_window_is_closed(program: Program) {
    let scratch = tempfile::TempDir::new().expect("a scratch folder");
    let config = scratch.path().join("config.toml");
    fs::write(&config, SOON).expect("written");
    let hub = ["--config", config.to_str().expect("a plain path")];
    let Some(mut machine) = Machine::set_up_with(program, true, &hub).await else { return };
    user::says(&machine.world, &["connect", program.name(), "--wake", "--yes"]);
    knows_its_model(&machine);

    let window = machine.start(None);
    let turn = machine.model.asked().await;
    let address = machine.agent();
    turn.say("good night");
    assert_eq!(window.end().code, Some(0));
    let status = || machine.world.json(&["agents"])["instances"][0]["status"].clone();
    eventually(|| status() == "away");
    let seq = machine.send(&address, "good morning");

    let turn = machine.model.asked().await;
    turn.assert_saw("good night");
    turn.assert_saw_once("good morning");
    turn.say("Good morning.");
    machine.until_acked(seq);
    assert_eq!(machine.record(seq).1.as_deref(), Some("hook"));
    eventually(|| status() == "away");
    assert!(machine.model.is_idle(), "it came once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_resumes_a_conversation_of_claude_code_whose_window_is_closed() {
    mail_resumes_a_conversation_whose_window_is_closed(Program::ClaudeCode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_resumes_a_conversation_of_codex_whose_window_is_closed() {
    mail_resumes_a_conversation_whose_window_is_closed(Program::Codex).await;
}
