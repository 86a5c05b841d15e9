//! Qwen Code, headless.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::World;

use super::program::{Program, Task};

pub(super) fn script(tools: &Path) -> PathBuf {
    tools.join("@qwen-code/qwen-code/cli.js")
}

pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let (node, script) = Program::Qwen.binary(tools);
    let mut command = world.program(node.to_str().expect("a plain path"), &[]);
    command
        .args(script)
        .args(["-m", "scripted", "--auth-type", "openai", "--approval-mode", "yolo"])
        .env("OPENAI_API_KEY", "test-key")
        .env("OPENAI_BASE_URL", format!("{}/v1", task.model))
        .env("OPENAI_MODEL", "scripted");
    match task.prompt {
        Some(prompt) => command.args(["-o", "stream-json", "-p", prompt]),
        None => command.arg("--acp").stdin(Stdio::piped()),
    };
    if task.continues {
        command.arg("--continue");
    }
    command
}
