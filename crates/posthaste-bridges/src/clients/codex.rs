//! Codex: servers in TOML, hooks in a file of JSON beside it.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::hooks::Written;
use super::{
    Client, Context, Event, Form, HOOK_PATIENCE_S, Hooks, Names, Place, Scope, Server, Servers,
    bearer, stdio,
};

/// It has no hook for a failed tool of an MCP server.
static HOOKS: Hooks = Hooks {
    events: &[
        (Event::SessionStart, "SessionStart"),
        (Event::Prompt, "UserPromptSubmit"),
        (Event::BeforeTool, "PreToolUse"),
        (Event::Tool, "PostToolUse"),
        (Event::Stop, "Stop"),
    ],
    unheard: &[],
    context: Context::Nested,
    refuses: "block",
    written: Written::Groups { timeout: HOOK_PATIENCE_S, title: None },
};

pub(super) struct Codex;

impl Codex {
    fn folder(&self, scope: Scope, place: &Place<'_>) -> PathBuf {
        match scope {
            Scope::User => place.folder("CODEX_HOME", ".codex"),
            Scope::Project => place.project.join(".codex"),
        }
    }
}

impl Client for Codex {
    fn names(&self) -> &'static Names {
        &Names { name: "codex", title: "Codex", program: "codex", package: "@openai/codex" }
    }

    fn servers(&self, scope: Scope, place: &Place<'_>) -> Servers {
        let file = self.folder(scope, place).join("config.toml");
        Servers { files: vec![file], form: Form::Toml, list: "mcp_servers" }
    }

    fn server(&self, server: &Server) -> Value {
        match server {
            Server::Stdio { program, args } => stdio(program, args),
            Server::Http { url, token } => json!({ "url": url, "http_headers": bearer(token) }),
        }
    }

    fn hooks(&self) -> &'static Hooks {
        &HOOKS
    }

    fn hooks_file(&self, scope: Scope, place: &Place<'_>) -> Option<PathBuf> {
        Some(self.folder(scope, place).join("hooks.json"))
    }

    fn advice(&self, scope: Scope, hooks: bool) -> Option<&'static str> {
        match (scope, hooks) {
            (_, true) => Some(
                "Codex runs new or changed hooks only after you have trusted them, and says nothing \
                 until then: start `codex`, type /hooks, and trust those of posthaste",
            ),
            (Scope::Project, false) => {
                Some("Codex reads the configuration of a folder only if you trust the folder")
            }
            (Scope::User, false) => None,
        }
    }
}
