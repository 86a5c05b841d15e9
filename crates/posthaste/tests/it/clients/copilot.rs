//! Copilot CLI, headless.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::World;

use super::program::{Program, Task};

pub(super) fn binary(tools: &Path) -> PathBuf {
    tools.join("@github/copilot-linux-x64/copilot")
}

pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let (binary, _) = Program::Copilot.binary(tools);
    let mut command = world.program(binary.to_str().expect("a plain path"), &["--allow-all"]);
    command
        .args(["--no-auto-update", "--disable-builtin-mcps"])
        .env("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", task.model))
        .env("COPILOT_PROVIDER_API_KEY", "test-key")
        .env("COPILOT_MODEL", "scripted")
        .env("COPILOT_OFFLINE", "true");
    match task.prompt {
        Some(prompt) => command.args(["--output-format", "json", "-p", prompt]),
        None => command.arg("--acp").stdin(Stdio::piped()),
    };
    if task.continues {
        command.arg("--continue");
    }
    command
}
