//! OpenCode: servers in its configuration, which has one of several names.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Client, Form, Names, Place, Scope, Server, Servers, bearer};

pub(super) struct OpenCode;

impl Client for OpenCode {
    fn names(&self) -> &'static Names {
        &Names { name: "opencode", title: "OpenCode", program: "opencode", package: "opencode-ai" }
    }

    fn servers(&self, scope: Scope, place: &Place<'_>) -> Servers {
        let files = match (scope, (place.variable)("OPENCODE_CONFIG")) {
            (Scope::Project, _) => either(place.project),
            (Scope::User, Some(file)) => vec![place.project.join(file)],
            (Scope::User, None) => {
                either(&place.folder("XDG_CONFIG_HOME", ".config").join("opencode"))
            }
        };
        Servers { files, form: Form::Json, list: "mcp" }
    }

    fn server(&self, server: &Server) -> Value {
        match server {
            Server::Stdio { program, args } => {
                let line: Vec<&String> = std::iter::once(program).chain(args).collect();
                json!({ "type": "local", "command": line })
            }
            Server::Http { url, token } => {
                json!({ "type": "remote", "url": url, "headers": bearer(token), "oauth": false })
            }
        }
    }
}

fn either(folder: &Path) -> Vec<PathBuf> {
    ["opencode.json", "opencode.jsonc"].iter().map(|name| folder.join(name)).collect()
}
