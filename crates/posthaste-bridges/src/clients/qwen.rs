//! Qwen Code: settings in the form of Gemini CLI's, of which it is a fork.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::hooks::Written;
use super::{
    Client, ClientEnv, Context, Event, Form, HOOK_PATIENCE_S, Hooks, Names, OURS, Scope, Server,
    Servers, bearer, stdio,
};

/// Qwen Code does not mark the hooks of a subagent. It tells when a subagent begins and
/// ends, which the hub treats as a tool at work.
static HOOKS: Hooks = Hooks {
    events: &[
        (Event::SessionStart, "SessionStart"),
        (Event::Prompt, "UserPromptSubmit"),
        (Event::BeforeTool, "PreToolUse"),
        (Event::Tool, "PostToolUse"),
        (Event::Tool, "PostToolUseFailure"),
        (Event::BeforeTool, "SubagentStart"),
        (Event::Tool, "SubagentStop"),
        (Event::Stop, "Stop"),
    ],
    unheard: &[Event::SessionStart],
    context: Context::Nested,
    refuses: "block",
    // Qwen Code counts the timeout in milliseconds.
    written: Written::Groups { timeout: HOOK_PATIENCE_S * 1000, title: Some(OURS) },
};

pub(super) struct Qwen;

impl Qwen {
    fn settings(&self, scope: Scope, env: &ClientEnv<'_>) -> PathBuf {
        let folder = match scope {
            Scope::User => env.folder("QWEN_HOME", ".qwen"),
            Scope::Project => env.project.join(".qwen"),
        };
        folder.join("settings.json")
    }
}

impl Client for Qwen {
    fn names(&self) -> &'static Names {
        &Names {
            name: "qwen",
            title: "Qwen Code",
            program: "qwen",
            package: "@qwen-code/qwen-code",
        }
    }

    fn servers(&self, scope: Scope, env: &ClientEnv<'_>) -> Servers {
        let file = self.settings(scope, env);
        Servers { files: vec![file], form: Form::Json, list: "mcpServers" }
    }

    fn server(&self, server: &Server) -> Value {
        match server {
            Server::Stdio { program, args } => stdio(program, args),
            Server::Http { url, token } => json!({ "httpUrl": url, "headers": bearer(token) }),
        }
    }
    fn hooks(&self) -> &'static Hooks {
        &HOOKS
    }

    fn hooks_file(&self, scope: Scope, env: &ClientEnv<'_>) -> Option<PathBuf> {
        Some(self.settings(scope, env))
    }
}
