//! Claude Code, headless.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::world::{BINARY, World};

use super::program::{Door, Line, Task, home};

pub(crate) fn binary(tools: &Path) -> PathBuf {
    tools.join("@anthropic-ai/claude-code-linux-x64/claude")
}

pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let binary = binary(tools);
    let mut command = world.program(binary.to_str().expect("a plain path"), &["-p"]);
    match task.prompt {
        Some(prompt) => command.arg(prompt),
        None => command.args(["--input-format", "stream-json"]).stdin(Stdio::piped()),
    };
    if let Some(door) = task.door {
        let config = home(world).join("mcp.json");
        let servers = json!({ "mcpServers": { "hub": server(door) } });
        std::fs::write(&config, servers.to_string()).expect("written");
        command.arg("--mcp-config").arg(config).arg("--strict-mcp-config");
    }
    if let Some(conversation) = task.resumes {
        command.args(["--resume", conversation]);
    }
    if task.continues {
        command.arg("--continue");
    }
    command
        .args(["--allowedTools", "mcp__hub,mcp__posthaste,Bash"])
        .args(["--output-format", "stream-json", "--verbose"])
        .env("ANTHROPIC_BASE_URL", task.model)
        .env("ANTHROPIC_API_KEY", "test-key")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_TELEMETRY", "1")
        .env("DISABLE_AUTOUPDATER", "1");
    command
}

/// The hub among its servers.
fn server(door: &Door) -> Value {
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
    hub
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
