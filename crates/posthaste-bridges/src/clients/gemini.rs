//! Gemini CLI: servers and hooks in one file of settings.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::hooks::Written;
use super::{
    Client, ClientEnv, Context, Distrust, Event, Form, HOOK_PATIENCE_S, Hooks, Names, OURS, Scope,
    Server, Servers, bearer, stdio,
};
use crate::edit;

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
    // Gemini CLI counts the timeout in milliseconds.
    written: Written::Groups { timeout: HOOK_PATIENCE_S * 1000, title: Some(OURS) },
};

pub(super) struct Gemini;

impl Gemini {
    fn settings(&self, scope: Scope, env: &ClientEnv<'_>) -> PathBuf {
        let above = match scope {
            Scope::User => env.folder("GEMINI_CLI_HOME", ""),
            Scope::Project => env.project.to_owned(),
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

    /// In a folder that it does not trust, Gemini CLI runs neither servers nor hooks;
    /// without a terminal it does not run at all.
    fn distrust(
        &self,
        _scope: Scope,
        env: &ClientEnv<'_>,
        read: &dyn Fn(&Path) -> Option<String>,
    ) -> Option<Distrust> {
        let settings = self.settings(Scope::User, env);
        let json = |path: &Path| {
            let text = read(path).unwrap_or_default();
            edit::value(Form::Json, &text).unwrap_or_default()
        };
        let asks = &json(&settings)["security"]["folderTrust"]["enabled"];
        let file = match (env.variable)("GEMINI_CLI_TRUSTED_FOLDERS_PATH") {
            Some(file) => env.project.join(file),
            None => settings.with_file_name("trustedFolders.json"),
        };
        let rules = json(&file);
        let trusts = |(folder, level): (&String, &Value)| {
            let folder = Path::new(folder);
            match level.as_str() {
                Some("TRUST_FOLDER") => env.project.starts_with(folder),
                Some("TRUST_PARENT") => {
                    folder.parent().is_some_and(|parent| env.project.starts_with(parent))
                }
                _ => false,
            }
        };
        let trusted = rules.as_object().is_some_and(|rules| rules.iter().any(trusts));
        let told = (env.variable)("GEMINI_CLI_TRUST_WORKSPACE").is_some_and(|it| it == "true");
        (*asks != false && !trusted && !told).then_some(Distrust {
            told: "Gemini CLI does not trust this folder, so it runs neither our server nor our \
                   hooks here",
            hint: "start `gemini` here and say that you trust the folder",
        })
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
