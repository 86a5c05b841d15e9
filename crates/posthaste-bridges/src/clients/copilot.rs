//! Copilot CLI: servers in a file of their own.

use serde_json::{Value, json};

use super::{Client, Form, Names, Place, Scope, Server, Servers, bearer};

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
            Scope::User => place.folder("COPILOT_HOME", ".copilot").join("mcp-config.json"),
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

    fn advice(&self, scope: Scope, _hooks: bool) -> Option<&'static str> {
        match scope {
            Scope::User => None,
            Scope::Project => {
                Some("Copilot CLI reads the servers of a folder only if you trust the folder")
            }
        }
    }
}
