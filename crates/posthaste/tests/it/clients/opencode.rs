//! OpenCode, headless.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::world::World;

use super::program::{Program, Task};

pub(super) fn binary(tools: &Path) -> PathBuf {
    tools.join("opencode-linux-x64/bin/opencode")
}

/// Settings go by a variable, so that its file is the user's own.
pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let model = json!({ "m": { "name": "m", "tool_call": true } });
    let options = json!({ "baseURL": format!("{}/v1", task.model), "apiKey": "test-key" });
    let provider =
        json!({ "npm": "@ai-sdk/openai-compatible", "options": options, "models": model });
    let settings = json!({ "provider": { "scripted": provider }, "permission": "allow", "model": "scripted/m" });
    let (binary, _) = Program::OpenCode.binary(tools);
    let mut command = world.program(binary.to_str().expect("a plain path"), &[]);
    match task.prompt {
        Some(prompt) => {
            command.args(["run", "--format", "json", "-m", "scripted/m"]);
            if task.continues {
                command.arg("--continue");
            }
            command.arg(prompt)
        }
        None => command.arg("acp").stdin(Stdio::piped()),
    };
    if !task.hooked {
        command.arg("--pure");
    }
    command.env("OPENCODE_CONFIG_CONTENT", settings.to_string());
    for switch in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
        command.env(format!("OPENCODE_DISABLE_{switch}"), "1");
    }
    command
}
