//! The agent programs that can be connected, and the configuration written for each.
//!
//! A client is one file, which holds all that is special about that program. To add a
//! client, add a file and a line in [`ALL`].

mod claude;
mod codex;
mod copilot;
mod gemini;
mod hooks;
mod opencode;
mod qwen;
#[cfg(test)]
mod tests;
mod wake;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::edit::{self, Broken, Entry, Form};
pub use hooks::{Context, Event, HookLine, Hooks};
pub use wake::{Resume, is_ours, wake};

/// The name of our server in every client's list.
pub const OURS: &str = "posthaste";

/// Seconds after which a client may give up a hook; the hub answers in milliseconds, and
/// the command line of a hook has a shorter limit of its own.
const HOOK_PATIENCE_S: u64 = 10;

/// An agent program.
pub trait Client: Send + Sync {
    /// The names of the program.
    fn names(&self) -> &'static Names;
    /// The files in which the program lists its MCP servers.
    fn servers(&self, scope: Scope, env: &ClientEnv<'_>) -> Servers;
    /// Our server as it stands in that list.
    fn server(&self, server: &Server) -> Value;
    /// The names and forms that the program uses for hooks.
    fn hooks(&self) -> &'static Hooks;
    /// The file in which the program reads hooks, if it reads one for this scope.
    fn hooks_file(&self, scope: Scope, env: &ClientEnv<'_>) -> Option<PathBuf>;
    /// Returns why the program does not use what is written here, if it does not trust
    /// the folder. `read` returns the text of a file.
    fn distrust(
        &self,
        _scope: Scope,
        _env: &ClientEnv<'_>,
        _read: &dyn Fn(&Path) -> Option<String>,
    ) -> Option<Distrust> {
        None
    }
    /// How the program resumes a conversation without a window, if it can.
    fn resume(&self, _env: &ClientEnv<'_>) -> Option<Resume> {
        None
    }
    /// Advice for the user of the program once it is connected.
    fn advice(&self, _scope: Scope, _hooks: bool) -> Option<&'static str> {
        None
    }
}

/// A folder that a program does not trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distrust {
    pub told: &'static str,
    pub hint: &'static str,
}

/// The names of a program, by who uses them.
pub struct Names {
    /// The name in `posthaste connect`.
    pub name: &'static str,
    /// The name that its makers use.
    pub title: &'static str,
    /// The command that starts it.
    pub program: &'static str,
    /// Its package in the npm registry.
    pub package: &'static str,
}

impl dyn Client + '_ {
    pub fn name(&self) -> &'static str {
        self.names().name
    }

    pub fn title(&self) -> &'static str {
        self.names().title
    }

    pub fn program(&self) -> &'static str {
        self.names().program
    }

    pub fn package(&self) -> &'static str {
        self.names().package
    }
}

/// Every client, in the order in which they are listed.
pub const ALL: [&dyn Client; 6] = [
    &claude::Claude,
    &codex::Codex,
    &gemini::Gemini,
    &opencode::OpenCode,
    &copilot::Copilot,
    &qwen::Qwen,
];

pub fn by_name(name: &str) -> Option<&'static dyn Client> {
    ALL.into_iter().find(|client| client.name() == name)
}

/// The scope of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything that this user does.
    User,
    /// Every user who works in this folder.
    Project,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// The places from which the paths of a client's files are made.
pub struct ClientEnv<'a> {
    pub home: &'a Path,
    pub project: &'a Path,
    /// Looks up a variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl ClientEnv<'_> {
    /// Returns the folder that a variable names, or else this folder of the home.
    fn folder(&self, variable: &str, otherwise: &str) -> PathBuf {
        match (self.variable)(variable) {
            Some(folder) => self.project.join(folder),
            None => self.home.join(otherwise),
        }
    }
}

/// A list of servers in a file.
pub struct Servers {
    /// The candidates: the first file that exists is used, or else the first.
    pub files: Vec<PathBuf>,
    pub form: Form,
    /// The key of the list.
    pub list: &'static str,
}

/// The way in which a client reaches the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// The client starts this program and speaks to it.
    Stdio { program: String, args: Vec<String> },
    /// The client calls this address.
    Http { url: String, token: String },
}

impl Server {
    /// Reads what [`Client::server`] wrote, in the form of any client.
    pub fn read(value: &Value) -> Option<Self> {
        let words = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
        };
        let url = ["url", "httpUrl"].iter().find_map(|key| value[key].as_str());
        if let Some(url) = url {
            let headers = ["headers", "http_headers"].iter().find_map(|key| value.get(key));
            let header = headers.and_then(|headers| headers["Authorization"].as_str());
            let token =
                header.and_then(|header| header.strip_prefix("Bearer ")).unwrap_or_default();
            return Some(Self::Http { url: url.to_owned(), token: token.to_owned() });
        }
        let mut line = match &value["command"] {
            Value::String(program) => vec![program.clone()],
            list => words(list)?,
        };
        line.extend(value.get("args").and_then(words).unwrap_or_default());
        let mut line = line.into_iter();
        Some(Self::Stdio { program: line.next()?, args: line.collect() })
    }
}

/// The changes to one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The candidates: the first file that exists is used, or else the first.
    pub files: Vec<PathBuf>,
    pub form: Form,
    pub entries: Vec<Entry>,
    /// Entries that we wrote earlier and that are not wanted any more.
    pub unwanted: Vec<Entry>,
}

impl Edit {
    /// Returns the text of the file with our entries, and without the unwanted ones.
    pub fn put(&self, text: &str, before: &str) -> Result<String, Broken> {
        let text = edit::take(self.form, text, before, &self.unwanted)?;
        edit::put(self.form, &text, &self.entries)
    }

    /// Returns the text of the file without our entries.
    pub fn take(&self, text: &str, before: &str) -> Result<String, Broken> {
        let all = [self.entries.as_slice(), &self.unwanted].concat();
        edit::take(self.form, text, before, &all)
    }
}

/// Returns all edits that connect this client.
pub fn plan(
    client: &dyn Client,
    scope: Scope,
    env: &ClientEnv<'_>,
    server: &Server,
    hook: HookLine<'_>,
    with_hooks: bool,
) -> Vec<Edit> {
    let servers = client.servers(scope, env);
    let mut edits = vec![Edit {
        files: servers.files,
        form: servers.form,
        entries: vec![Entry::key(&[servers.list, OURS], client.server(server))],
        unwanted: Vec::new(),
    }];
    let file = client.hooks_file(scope, env);
    for mut edit in file.iter().flat_map(|file| client.hooks().edits(client.name(), file, hook)) {
        if !with_hooks {
            std::mem::swap(&mut edit.entries, &mut edit.unwanted);
        }
        match edits.iter_mut().find(|known| known.files == edit.files) {
            Some(known) => {
                known.entries.extend(edit.entries);
                known.unwanted.extend(edit.unwanted);
            }
            None => edits.push(edit),
        }
    }
    edits
}

/// The form in which most clients write a server that they start.
fn stdio(program: &str, args: &[String]) -> Value {
    json!({ "command": program, "args": args })
}

fn bearer(token: &str) -> Value {
    json!({ "Authorization": format!("Bearer {token}") })
}
