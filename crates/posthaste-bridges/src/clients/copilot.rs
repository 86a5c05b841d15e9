//! Copilot CLI: servers in a file of their own, hooks in a folder of files.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::hooks::Written;
use super::{Client, Context, Event, Form, Hooks, Names, Place, Scope, Server, Servers, bearer};

const FOLDER: &str = "COPILOT_HOME";

static HOOKS: Hooks = Hooks {
    events: &[
        (Event::SessionStart, "sessionStart"),
        (Event::Prompt, "userPromptSubmitted"),
        (Event::BeforeTool, "preToolUse"),
        (Event::Tool, "postToolUse"),
        (Event::Tool, "postToolUseFailure"),
        (Event::Stop, "agentStop"),
    ],
    unheard: &[],
    context: Context::Top,
    refuses: "block",
    written: Written::Commands,
};

pub(super) struct Copilot;

impl Client for Copilot {
    fn names(&self) -> &'static Names {
        &Names {
            name: "copilot",
            title: "Copilot CLI",
            program: "copilot",
            package: "@github/copilot",
        }
    }

    /// Of the two files that it reads in a folder, the one that is not Claude Code's.
    fn servers(&self, scope: Scope, place: &Place<'_>) -> Servers {
        let file = match scope {
            Scope::User => place.folder(FOLDER, ".copilot").join("mcp-config.json"),
            Scope::Project => place.project.join(".github/mcp.json"),
        };
        Servers { files: vec![file], form: Form::Json, list: "mcpServers" }
    }

    /// It offers only the tools that are named here.
    fn server(&self, server: &Server) -> Value {
        match server {
            Server::Stdio { program, args } => {
                json!({ "type": "local", "command": program, "args": args, "tools": ["*"] })
            }
            Server::Http { url, token } => {
                json!({ "type": "http", "url": url, "headers": bearer(token), "tools": ["*"] })
            }
        }
    }

    fn hooks(&self) -> &'static Hooks {
        &HOOKS
    }

    /// Hooks of a repository do not run in every mode, so there are none.
    fn hooks_file(&self, scope: Scope, place: &Place<'_>) -> Option<PathBuf> {
        match scope {
            Scope::User => Some(place.folder(FOLDER, ".copilot").join("hooks/posthaste.json")),
            Scope::Project => None,
        }
    }

    fn advice(&self, scope: Scope, _hooks: bool) -> Option<&'static str> {
        match scope {
            Scope::User => None,
            Scope::Project => {
                Some("Copilot CLI reads the servers of a folder only if you trust the folder")
            }
        }
    }
}
