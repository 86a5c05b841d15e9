//! Gemini CLI, headless.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::world::World;

use super::program::{Program, Task, home};

pub(super) fn script(tools: &Path) -> PathBuf {
    tools.join("@google/gemini-cli/bundle/gemini.js")
}

/// Settings go by the machine's own file, so that the user's is the user's own.
pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let settings = home(world).join("system.json");
    let given = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "model": { "name": "gemini-2.5-flash" },
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "enableAutoUpdate": false },
    });
    std::fs::write(&settings, given.to_string()).expect("written");
    let (node, script) = Program::Gemini.binary(tools);
    let mut command = world.program(node.to_str().expect("a plain path"), &[]);
    command
        .args(script)
        .args(["-m", "gemini-2.5-flash", "--approval-mode", "yolo", "--skip-trust"])
        .args(["-o", "stream-json", "-p", task.prompt.expect("one turn has one prompt")])
        .env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", settings)
        .env("GEMINI_API_KEY", "test-key")
        .env("GOOGLE_GEMINI_BASE_URL", task.model)
        .env("GEMINI_TELEMETRY_ENABLED", "false");
    command
}
