//! A real agent program in a home of its own, cut off from everything but loopback.

use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_testkit::model_server::ModelServer;
use serde_json::Value;

use crate::world::{World, is_required, quick};

use super::running::Running;
use super::{claude, codex};

/// Nobody listens there, so that nothing leaves the machine.
const CLOSED: &str = "http://127.0.0.1:9";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    ClaudeCode,
    Codex,
}

/// How a program reaches the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Http,
    /// By `posthaste mcp`.
    Stdio,
}

/// Where a program finds the hub, and as whom.
#[derive(Debug, Clone)]
pub(super) struct Door {
    pub(super) line: Line,
    pub(super) url: String,
    pub(super) token: String,
    /// The hub's data folder.
    pub(super) data: PathBuf,
    /// How long the program waits for a tool, where the test says so.
    pub(super) patience_s: Option<u64>,
}

/// What a program needs to know when it starts.
pub(super) struct Task<'a> {
    pub(super) home: &'a Path,
    pub(super) model: &'a str,
    pub(super) door: Option<&'a Door>,
    /// Nothing where the test talks to it.
    pub(super) prompt: Option<&'a str>,
}

impl Program {
    /// Starts it with this prompt, and it ends with its turn; or for a conversation.
    pub(super) fn start(
        self,
        tools: &Path,
        world: &World,
        model: &ModelServer,
        door: Option<&Door>,
        prompt: Option<&str>,
    ) -> Running {
        let home = world.scratch().join("agent");
        std::fs::create_dir_all(&home).expect("a home");
        let task = Task { home: &home, model: model.url(), door, prompt };
        let mut command = match self {
            Self::ClaudeCode => claude::command(tools, world, &task),
            Self::Codex => codex::command(tools, world, &task),
        };
        shut_in(&mut command, &home);
        Running::new(command)
    }
}

pub(super) fn shut_in(command: &mut Command, home: &Path) {
    command
        .current_dir(home)
        .env_remove("POSTHASTE_DATA")
        .env("HOME", home)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("TMPDIR", home)
        .env("HTTP_PROXY", CLOSED)
        .env("HTTPS_PROXY", CLOSED)
        .env("http_proxy", CLOSED)
        .env("https_proxy", CLOSED)
        .env("NO_PROXY", "127.0.0.1,localhost")
        .env("no_proxy", "127.0.0.1,localhost");
}

/// Where `scripts/test` put the programs, or nothing where a test may skip.
pub(super) fn tools() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = root.join(".cache/tools/agents/node_modules");
    if quick() {
        return skipped("it is slow");
    }
    if !installed.with_file_name("installed").exists() {
        assert!(!is_required(), "no agent programs: ./scripts/test installs them");
        return skipped("no agent programs here; ./scripts/test installs them");
    }
    Some(installed)
}

#[expect(clippy::print_stderr, reason = "a test that skips says so")]
fn skipped<T>(why: &str) -> Option<T> {
    eprintln!("skipped: {why}");
    None
}

/// Writes a file of configuration.
pub(super) fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
}

pub(super) fn write_json(path: &Path, value: &Value) {
    write(path, &value.to_string());
}
