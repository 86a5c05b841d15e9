//! Copilot CLI: servers in a file of their own, hooks in a folder of files.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::hooks::Written;
use super::{
    Client, ClientEnv, Context, Distrust, Event, Form, Hooks, Names, Scope, Server, Servers, bearer,
};
use crate::edit;

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

    /// Of the two files that Copilot CLI reads in a folder, returns the one that Claude
    /// Code does not read.
    fn servers(&self, scope: Scope, env: &ClientEnv<'_>) -> Servers {
        let file = match scope {
            Scope::User => env.folder(FOLDER, ".copilot").join("mcp-config.json"),
            Scope::Project => env.project.join(".github/mcp.json"),
        };
        Servers { files: vec![file], form: Form::Json, list: "mcpServers" }
    }

    /// Copilot CLI offers only the tools that are named here.
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

    /// Hooks of a repository do not run in every mode, so none are written there.
    fn hooks_file(&self, scope: Scope, env: &ClientEnv<'_>) -> Option<PathBuf> {
        match scope {
            Scope::User => Some(env.folder(FOLDER, ".copilot").join("hooks/posthaste.json")),
            Scope::Project => None,
        }
    }

    /// Copilot CLI reads the servers of a folder only where it trusts the folder.
    fn distrust(
        &self,
        scope: Scope,
        env: &ClientEnv<'_>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Option<Distrust> {
        let file = env.folder(FOLDER, ".copilot").join("config.json");
        let config = edit::value(Form::Json, &read(&file).unwrap_or_default()).unwrap_or_default();
        let lists = ["trustedFolders", "trusted_folders"].map(|name| config[name].as_array());
        let trusted = lists.into_iter().flatten().flatten().filter_map(Value::as_str);
        let trusted = trusted.into_iter().any(|folder| env.project.starts_with(folder));
        (scope == Scope::Project && !trusted).then_some(Distrust {
            told: "Copilot CLI does not trust this folder, so it reads nothing of what is written \
                   here",
            hint: "start `copilot` here and say that you trust the folder",
        })
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
