//! Claude Code: servers in its own state file, hooks in its settings.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::hooks::Written;
use super::{
    Client, ClientEnv, Context, Event, Form, HOOK_PATIENCE_S, Hooks, Names, Resume, Scope, Server,
    Servers, bearer,
};

const FOLDER: &str = "CLAUDE_CONFIG_DIR";

static HOOKS: Hooks = Hooks {
    events: &[
        (Event::SessionStart, "SessionStart"),
        (Event::Prompt, "UserPromptSubmit"),
        (Event::BeforeTool, "PreToolUse"),
        (Event::Tool, "PostToolUse"),
        (Event::Tool, "PostToolUseFailure"),
        (Event::Stop, "Stop"),
    ],
    unheard: &[],
    context: Context::Nested,
    refuses: "block",
    written: Written::Groups { timeout: HOOK_PATIENCE_S, title: None },
};

pub(super) struct Claude;

impl Client for Claude {
    fn names(&self) -> &'static Names {
        &Names {
            name: "claude",
            title: "Claude Code",
            program: "claude",
            package: "@anthropic-ai/claude-code",
        }
    }

    /// With `CLAUDE_CONFIG_DIR` the state file lies in that folder, else in the home.
    fn servers(&self, scope: Scope, env: &ClientEnv<'_>) -> Servers {
        let file = match scope {
            Scope::User => env.folder(FOLDER, "").join(".claude.json"),
            Scope::Project => env.project.join(".mcp.json"),
        };
        Servers { files: vec![file], form: Form::Json, list: "mcpServers" }
    }

    fn server(&self, server: &Server) -> Value {
        match server {
            Server::Stdio { program, args } => {
                json!({ "type": "stdio", "command": program, "args": args })
            }
            Server::Http { url, token } => {
                json!({ "type": "http", "url": url, "headers": bearer(token) })
            }
        }
    }

    fn hooks(&self) -> &'static Hooks {
        &HOOKS
    }

    fn hooks_file(&self, scope: Scope, env: &ClientEnv<'_>) -> Option<PathBuf> {
        let folder = match scope {
            Scope::User => env.folder(FOLDER, ".claude"),
            Scope::Project => env.project.join(".claude"),
        };
        Some(folder.join("settings.json"))
    }

    fn resume(&self, env: &ClientEnv<'_>) -> Option<Resume> {
        Some(Resume {
            transcripts: env.folder(FOLDER, ".claude").join("projects"),
            named: "$key.jsonl",
            // In a process without a window nobody can allow a tool.
            words: r#"-p "$say" --resume "$key" --allowedTools mcp__posthaste"#,
            variable: FOLDER,
        })
    }

    fn advice(&self, scope: Scope, _hooks: bool) -> Option<&'static str> {
        Some(match scope {
            Scope::User => {
                "Claude Code sees it in its next window; close open ones first, they may write their own state over it"
            }
            Scope::Project => "Claude Code asks once whether it may use the servers of this folder",
        })
    }
}
