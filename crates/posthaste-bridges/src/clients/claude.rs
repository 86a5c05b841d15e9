//! Claude Code: servers in its own state file, hooks in its settings.

use serde_json::{Value, json};

use super::{Client, Event, Form, HOOK_PATIENCE_S, Hooks, Place, Scope, Server, Servers, bearer};

const FOLDER: &str = "CLAUDE_CONFIG_DIR";

pub(super) struct Claude;

impl Client for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn program(&self) -> &'static str {
        "claude"
    }

    fn package(&self) -> &'static str {
        "@anthropic-ai/claude-code"
    }

    /// A folder of its own has the state file inside; without one it lies beside.
    fn servers(&self, scope: Scope, place: &Place<'_>) -> Servers {
        let file = match scope {
            Scope::User => place.folder(FOLDER, "").join(".claude.json"),
            Scope::Project => place.project.join(".mcp.json"),
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

    fn hooks(&self, scope: Scope, place: &Place<'_>) -> Option<Hooks> {
        let folder = match scope {
            Scope::User => place.folder(FOLDER, ".claude"),
            Scope::Project => place.project.join(".claude"),
        };
        Some(Hooks {
            file: folder.join("settings.json"),
            events: [
                (Event::SessionStart, "SessionStart"),
                (Event::Prompt, "UserPromptSubmit"),
                (Event::Tool, "PostToolUse"),
                (Event::Stop, "Stop"),
            ],
            title: None,
            timeout: HOOK_PATIENCE_S,
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
