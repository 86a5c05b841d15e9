//! Codex: servers in TOML, hooks in a file of JSON beside it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::hooks::Written;
use super::{
    Client, ClientEnv, Context, Distrust, Event, Form, HOOK_PATIENCE_S, Hooks, Names, Resume,
    Scope, Server, Servers, bearer, stdio,
};
use crate::edit;

/// Codex has no hook for a failed tool of an MCP server.
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
    fn folder(&self, scope: Scope, env: &ClientEnv<'_>) -> PathBuf {
        match scope {
            Scope::User => env.folder("CODEX_HOME", ".codex"),
            Scope::Project => env.project.join(".codex"),
        }
    }
}

impl Client for Codex {
    fn names(&self) -> &'static Names {
        &Names { name: "codex", title: "Codex", program: "codex", package: "@openai/codex" }
    }

    fn servers(&self, scope: Scope, env: &ClientEnv<'_>) -> Servers {
        let file = self.folder(scope, env).join("config.toml");
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

    fn hooks_file(&self, scope: Scope, env: &ClientEnv<'_>) -> Option<PathBuf> {
        Some(self.folder(scope, env).join("hooks.json"))
    }

    /// Codex reads nothing of a folder that it does not trust.
    fn distrust(
        &self,
        scope: Scope,
        env: &ClientEnv<'_>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Option<Distrust> {
        let file = self.folder(Scope::User, env).join("config.toml");
        let config = edit::value(Form::Toml, &read(&file).unwrap_or_default()).unwrap_or_default();
        let trusts = |folder: &Path| {
            let folder = folder.to_string_lossy();
            let level = edit::at(&config, &["projects", folder.as_ref(), "trust_level"]);
            level.is_some_and(|level| level == "trusted")
        };
        (scope == Scope::Project && !env.project.ancestors().any(trusts)).then_some(Distrust {
            told: "Codex does not trust this folder, so it reads nothing of what is written here",
            hint: "start `codex` here and say that you trust the folder",
        })
    }

    fn resume(&self, env: &ClientEnv<'_>) -> Option<Resume> {
        Some(Resume {
            transcripts: self.folder(Scope::User, env).join("sessions"),
            named: "*-$key.jsonl",
            words: r#"exec --skip-git-repo-check resume "$key" "$say""#,
            variable: "CODEX_HOME",
        })
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
