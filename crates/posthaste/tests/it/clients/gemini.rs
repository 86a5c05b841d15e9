//! Gemini CLI, headless.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::world::World;

use super::program::{Program, Task, home};

pub(crate) fn script(tools: &Path) -> PathBuf {
    tools.join("@google/gemini-cli/bundle/gemini.js")
}

pub(super) fn workplace(world: &World) -> PathBuf {
    home(world).join("work")
}

/// Settings go by the file of the folder that it works in, so that the user's is the
/// user's own.
pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let settings = workplace(world).join(".gemini/settings.json");
    let given = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "model": { "name": "gemini-2.5-flash" },
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false },
    });
    std::fs::create_dir_all(settings.with_file_name("")).expect("a folder");
    std::fs::write(&settings, given.to_string()).expect("written");
    let (node, script) = Program::Gemini.binary(tools);
    let mut command = world.program(node.to_str().expect("a plain path"), &[]);
    command
        .args(script)
        .args(["-m", "gemini-2.5-flash", "--approval-mode", "yolo", "--skip-trust"])
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .env("GEMINI_API_KEY", "test-key")
        .env("GOOGLE_GEMINI_BASE_URL", task.model)
        .env("GEMINI_TELEMETRY_ENABLED", "false");
    match task.prompt {
        Some(prompt) => command.args(["-o", "stream-json", "-p", prompt]),
        None => command.arg("--acp").stdin(Stdio::piped()),
    };
    if task.continues {
        command.args(["--resume", "latest"]);
    }
    command
}

/// Its user's own file.
pub(super) fn settings(world: &World) -> PathBuf {
    home(world).join(".gemini/settings.json")
}
