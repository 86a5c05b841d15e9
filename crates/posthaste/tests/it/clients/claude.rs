//! Claude Code, headless.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Map, json};

use crate::world::{BINARY, World};

use super::program::{Line, Task, write_json};

pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let binary = tools.join("@anthropic-ai/claude-code-linux-x64/claude");
    let mut servers = Map::new();
    if let Some(door) = task.door {
        let mut hub = match door.line {
            Line::Http => json!({
                "type": "http",
                "url": format!("{}/mcp", door.url),
                "headers": { "Authorization": format!("Bearer {}", door.token) },
            }),
            Line::Stdio => json!({
                "type": "stdio",
                "command": BINARY,
                "args": ["mcp"],
                "env": { "POSTHASTE_DATA": door.data, "POSTHASTE_TOKEN": door.token },
            }),
        };
        if let Some(seconds) = door.patience_s {
            hub["timeout"] = json!(seconds * 1000);
        }
        servers.insert("hub".to_owned(), hub);
    }
    let config = task.home.join("mcp.json");
    write_json(&config, &json!({ "mcpServers": servers }));

    let mut command = world.program(binary.to_str().expect("a plain path"), &["-p"]);
    match task.prompt {
        Some(prompt) => command.arg(prompt),
        None => command.args(["--input-format", "stream-json"]).stdin(Stdio::piped()),
    };
    command
        .arg("--mcp-config")
        .arg(&config)
        .args(["--strict-mcp-config", "--allowedTools", "mcp__hub"])
        .args(["--output-format", "stream-json", "--verbose"])
        .env("ANTHROPIC_BASE_URL", task.model)
        .env("ANTHROPIC_API_KEY", "test-key")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_TELEMETRY", "1")
        .env("DISABLE_AUTOUPDATER", "1");
    command
}

/// What a user says in a conversation. It may break into whatever is going on.
pub(super) fn said(text: &str, breaks_in: bool) -> String {
    let message = json!({ "role": "user", "content": text });
    let mut line = json!({ "type": "user", "message": message });
    if breaks_in {
        line["priority"] = json!("now");
    }
    line.to_string()
}
