//! Qwen Code: settings in the form of Gemini CLI's, from which it comes.

use serde_json::{Value, json};

use super::{Client, Form, Names, Place, Scope, Server, Servers, bearer, stdio};

pub(super) struct Qwen;

impl Client for Qwen {
    fn names(&self) -> &'static Names {
        &Names {
            name: "qwen",
            title: "Qwen Code",
            program: "qwen",
            package: "@qwen-code/qwen-code",
        }
    }

    fn servers(&self, scope: Scope, place: &Place<'_>) -> Servers {
        let folder = match scope {
            Scope::User => place.folder("QWEN_HOME", ".qwen"),
            Scope::Project => place.project.join(".qwen"),
        };
        Servers { files: vec![folder.join("settings.json")], form: Form::Json, list: "mcpServers" }
    }

    fn server(&self, server: &Server) -> Value {
        match server {
            Server::Stdio { program, args } => stdio(program, args),
            Server::Http { url, token } => json!({ "httpUrl": url, "headers": bearer(token) }),
        }
    }
}
