//! Gemini CLI: servers and hooks in one file of settings.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::hooks::Written;
use super::{
    Client, Context, Event, Form, HOOK_PATIENCE_S, Hooks, Names, OURS, Place, Scope, Server,
    Servers, bearer, stdio,
};

static HOOKS: Hooks = Hooks {
    events: &[
        (Event::SessionStart, "SessionStart"),
        (Event::Prompt, "BeforeAgent"),
        (Event::BeforeTool, "BeforeTool"),
        (Event::Tool, "AfterTool"),
        (Event::Stop, "AfterAgent"),
    ],
    unheard: &[],
    context: Context::Nested,
    refuses: "deny",
    // It counts in milliseconds.
    written: Written::Groups { timeout: HOOK_PATIENCE_S * 1000, title: Some(OURS) },
};

pub(super) struct Gemini;

impl Gemini {
    fn settings(&self, scope: Scope, place: &Place<'_>) -> PathBuf {
        let above = match scope {
            Scope::User => place.folder("GEMINI_CLI_HOME", ""),
            Scope::Project => place.project.to_owned(),
        };
        above.join(".gemini/settings.json")
    }
}

impl Client for Gemini {
    fn names(&self) -> &'static Names {
        &Names {
            name: "gemini",
            title: "Gemini CLI",
            program: "gemini",
            package: "@google/gemini-cli",
        }
    }

    fn servers(&self, scope: Scope, place: &Place<'_>) -> Servers {
        let file = self.settings(scope, place);
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

    fn hooks_file(&self, scope: Scope, place: &Place<'_>) -> Option<PathBuf> {
        Some(self.settings(scope, place))
    }

    fn advice(&self, scope: Scope, _hooks: bool) -> Option<&'static str> {
        match scope {
            Scope::User => None,
            Scope::Project => {
                Some("Gemini CLI reads the settings of a folder only if you trust the folder")
            }
        }
    }
}
