//! Codex, headless.

use std::path::Path;
use std::process::Command;

use crate::world::{BINARY, World};

use super::program::{Line, Task, write};

pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let binary = tools.join("@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex");
    let mut config = format!(
        r#"
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
"#,
        task.model
    );
    if let Some(door) = task.door {
        let line = match door.line {
            Line::Http => format!(
                r#"url = "{}/mcp"
http_headers = {{ Authorization = "Bearer {}" }}"#,
                door.url, door.token
            ),
            Line::Stdio => format!(
                r#"command = "{BINARY}"
args = ["mcp"]
env = {{ POSTHASTE_DATA = "{}", POSTHASTE_TOKEN = "{}" }}"#,
                door.data.display(),
                door.token
            ),
        };
        let patience = door.patience_s.map(|s| format!("tool_timeout_sec = {s}"));
        config.push_str(&format!(
            r#"
[mcp_servers.hub]
{line}
default_tools_approval_mode = "approve"
{}
"#,
            patience.unwrap_or_default()
        ));
    }
    let home = task.home.join("codex");
    std::fs::create_dir_all(&home).expect("a home");
    write(&home.join("config.toml"), &config);

    let prompt = task.prompt.expect("one turn has one prompt");
    let args = ["exec", "--json", "--skip-git-repo-check", prompt];
    let mut command = world.program(binary.to_str().expect("a plain path"), &args);
    command.env("CODEX_HOME", home).env("SCRIPTED_KEY", "test-key");
    command
}
