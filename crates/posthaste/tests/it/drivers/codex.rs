//! Codex, driven by its app-server.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::Cast;
use super::stage::{Stage, Worker};
use crate::clients;
use crate::world::{BINARY, Started};

pub(super) const CAST: Cast = Cast {
    driver: "codex",
    config,
    surround: |command, model, home| surround(command, home, &provider(model)),
    dangerous: || {
        let why = "May I make a file?";
        let arguments = json!({
            "cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": why,
        });
        ("exec_command", arguments)
    },
    denied: "rejected by user",
    steers: true,
};

pub(super) const CONNECTED: Cast = Cast {
    surround: |command, model, home| {
        let hub = format!("[mcp_servers.posthaste]\ncommand = {BINARY:?}\nargs = [\"mcp\"]\n");
        surround(command, home, &(provider(model) + &hub));
    },
    ..CAST
};

const LOGGED_OUT: Cast = Cast { surround: |command, _, home| surround(command, home, ""), ..CAST };

const WRITING: Cast = Cast {
    config: |tools| {
        let mut config = config(tools);
        config["permission_mode"] = json!("workspace-write never");
        config
    },
    ..CAST
};

fn config(tools: &Path) -> Value {
    json!({ "command": [clients::codex_binary(tools)] })
}

/// The configuration of a user whose model is the test's.
pub(super) fn provider(model: &str) -> String {
    format!(
        r#"model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
"#
    )
}

pub(super) fn surround(command: &mut Command, home: &Path, config: &str) {
    command.env("SCRIPTED_KEY", "test-key");
    std::fs::write(home.join("codex/config.toml"), config).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_codex_that_is_not_logged_in_fails_its_task_and_says_what_to_do() {
    let Some(stage) = Stage::set(LOGGED_OUT).await else { return };
    let worker = stage.assign("You cannot do this.");
    let report = stage.alice_reads();
    assert_eq!(report["type"], "system.agent_failed", "{report}");
    let told = report["message"].as_str().unwrap_or_default();
    assert!(told.contains("`codex login`"), "{report}");
    assert_eq!(stage.look(&worker).status, "failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_leaves_the_configuration_as_it_was_and_its_token_nowhere() {
    let Some(mut stage) = Stage::set(WRITING).await else { return };
    let home = clients::home(&stage.world);
    let settings = || std::fs::read_to_string(home.join("codex/config.toml")).expect("readable");
    let before = settings();
    // Codex notes that it trusts a repository, if it is told so for a whole conversation.
    let repository = stage.world.scratch().join("repository");
    let path = repository.to_str().expect("a plain path");
    let made = Started::new(stage.world.program("git", &["init", "--quiet", path])).end();
    assert_eq!(made.code, Some(0), "{made:?}");
    let worker = stage.assign_in(&repository, "Write a file.");
    stage.turn().await.call("exec_command", json!({ "cmd": "echo done > written" }));
    let turn = stage.turn().await;
    assert!(repository.join("written").exists(), "its sandbox lets it: {}", turn.result());

    let (words, token) = of_process(&stage, &worker);
    assert!(!words.contains(&token), "{words:?}");
    assert_eq!(files_with(&home, token.as_bytes()), Vec::<String>::new());
    turn.say("It is written.");
    stage.alice_reads();
    assert_eq!(settings(), before);
}

/// The command line of a worker's program, and the token in its environment.
fn of_process(stage: &Stage, worker: &Worker) -> (String, String) {
    let pid = stage.pid(worker).as_raw_nonzero();
    let read = |what: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{what}")).expect("it runs");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let variables = read("environ");
    let token = variables.split('\0').find_map(|each| each.strip_prefix("POSTHASTE_TOKEN="));
    (read("cmdline"), token.expect("a token").to_owned())
}

/// The files below a folder that hold these bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files_with(&entry.path(), bytes),
        Ok(kind) if kind.is_file() => {
            let content = std::fs::read(entry.path()).unwrap_or_default();
            let holds = content.windows(bytes.len()).any(|window| window == bytes);
            holds.then(|| entry.path().display().to_string()).into_iter().collect()
        }
        _ => Vec::new(),
    });
    found.collect()
}
