//! Codex, headless.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::{BINARY, World};

use super::program::{Door, Line, Task};

pub(crate) fn binary(tools: &Path) -> PathBuf {
    tools.join("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
}

/// Settings go by flags, so that its file is the user's own.
pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let provider = format!(
        r#"{{ name = "scripted", base_url = "{}/v1", wire_api = "responses", env_key = "SCRIPTED_KEY" }}"#,
        task.model
    );
    let mut settings = vec![
        r#"model="scripted""#.to_owned(),
        r#"model_provider="scripted""#.to_owned(),
        format!("model_providers.scripted={provider}"),
        r#"approval_policy="never""#.to_owned(),
        "check_for_update_on_startup=false".to_owned(),
        "analytics.enabled=false".to_owned(),
    ];
    if task.hooked {
        // Its shell works in the scratch folder; it then notes in its file that it trusts it.
        settings.push(r#"sandbox_mode="danger-full-access""#.to_owned());
    }
    settings.extend(task.door.map(|door| format!("mcp_servers.hub={}", server(door))));

    let binary = binary(tools);
    let mut command = world.program(binary.to_str().expect("a plain path"), &[]);
    command.env("SCRIPTED_KEY", "test-key");
    if task.hooked {
        command.arg("--dangerously-bypass-hook-trust");
    }
    for setting in settings {
        command.args(["-c", &setting]);
    }
    let Some(prompt) = task.prompt else {
        command.arg("app-server").stdin(Stdio::piped());
        return command;
    };
    command.args(["exec", "--json", "--skip-git-repo-check"]);
    if let Some(conversation) = task.resumes {
        command.args(["resume", conversation]);
    }
    if task.continues {
        command.args(["resume", "--last"]);
    }
    command.arg(prompt);
    command
}

/// The hub among its servers, as TOML.
fn server(door: &Door) -> String {
    let line = match door.line {
        Line::Http => format!(
            r#"url = "{}/mcp", http_headers = {{ Authorization = "Bearer {}" }}"#,
            door.url, door.token
        ),
        Line::Stdio => format!(
            r#"command = "{BINARY}", args = ["mcp"], env = {{ POSTHASTE_DATA = "{}", POSTHASTE_TOKEN = "{}" }}"#,
            door.data.display(),
            door.token
        ),
    };
    let patience = door.patience_s.map(|s| format!(", tool_timeout_sec = {s}")).unwrap_or_default();
    format!("{{ {line}{patience} }}")
}
