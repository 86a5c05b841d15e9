//! OpenCode: servers in its configuration, which has one of several names, and a plugin
//! instead of hooks.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::hooks::Written;
use super::{
    Client, ClientEnv, Context, Event, Form, Hooks, Names, Scope, Server, Servers, bearer,
};

/// The names of the events are those that the plugin uses.
static HOOKS: Hooks = Hooks {
    events: &[
        (Event::SessionStart, "session.created"),
        (Event::Prompt, "chat.message"),
        (Event::BeforeTool, "tool.execute.before"),
        (Event::Tool, "tool.execute.after"),
        (Event::Stop, "session.idle"),
    ],
    unheard: &[Event::SessionStart],
    context: Context::Top,
    refuses: "block",
    written: Written::Plugin {
        text: include_str!("opencode/posthaste.js"),
        // OpenCode installs a package of its own before it loads any plugin. Offline, that
        // takes more than a minute unless it may fail at once.
        npm: &[("fetch-retries", "0"), ("fetch-timeout", "10000")],
    },
};

pub(super) struct OpenCode;

impl OpenCode {
    fn folder(&self, env: &ClientEnv<'_>) -> PathBuf {
        env.folder("XDG_CONFIG_HOME", ".config").join("opencode")
    }
}

impl Client for OpenCode {
    fn names(&self) -> &'static Names {
        &Names { name: "opencode", title: "OpenCode", program: "opencode", package: "opencode-ai" }
    }

    fn servers(&self, scope: Scope, env: &ClientEnv<'_>) -> Servers {
        let files = match (scope, (env.variable)("OPENCODE_CONFIG")) {
            (Scope::Project, _) => either(env.project),
            (Scope::User, Some(file)) => vec![env.project.join(file)],
            (Scope::User, None) => either(&self.folder(env)),
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

    fn hooks(&self) -> &'static Hooks {
        &HOOKS
    }

    fn hooks_file(&self, scope: Scope, env: &ClientEnv<'_>) -> Option<PathBuf> {
        let folder = match scope {
            Scope::User => self.folder(env),
            Scope::Project => env.project.join(".opencode"),
        };
        Some(folder.join("plugins/posthaste.js"))
    }
}

fn either(folder: &Path) -> Vec<PathBuf> {
    ["opencode.json", "opencode.jsonc"].iter().map(|name| folder.join(name)).collect()
}
