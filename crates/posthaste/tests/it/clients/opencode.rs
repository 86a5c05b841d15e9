//! OpenCode, headless.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::world::World;

use super::program::{Program, Task};

pub(crate) fn binary(tools: &Path) -> PathBuf {
    tools.join("opencode-linux-x64/bin/opencode")
}

pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let mut command = match task.prompt {
        Some(prompt) => {
            let mut command = subcommand(tools, world, task.model, &["run"]);
            command.args(["--format", "json", "-m", "scripted/m"]);
            if task.continues {
                command.arg("--continue");
            }
            command.arg(prompt);
            command
        }
        None => {
            let mut command = subcommand(tools, world, task.model, &["acp"]);
            command.stdin(Stdio::piped());
            command
        }
    };
    if !task.hooked {
        command.arg("--pure");
    }
    command
}

/// Settings go by a variable, so that its file is the user's own.
pub(super) fn subcommand(tools: &Path, world: &World, model: &str, args: &[&str]) -> Command {
    let models = json!({ "m": { "name": "m", "tool_call": true } });
    let options = json!({ "baseURL": format!("{model}/v1"), "apiKey": "test-key" });
    let provider =
        json!({ "npm": "@ai-sdk/openai-compatible", "options": options, "models": models });
    let settings = json!({
        "provider": { "scripted": provider }, "model": "scripted/m", "permission": "allow",
    });
    let (binary, _) = Program::OpenCode.binary(tools);
    let mut command = world.program(binary.to_str().expect("a plain path"), args);
    command.env("OPENCODE_CONFIG_CONTENT", settings.to_string());
    for switch in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
        command.env(format!("OPENCODE_DISABLE_{switch}"), "1");
    }
    command
}
