//! The MCP servers of profiles, which all assistants share.
//!
//! [`McpServers`] holds one [`Server`] for each definition; the same command in another
//! folder or with another environment is another server. [`ServersOfOne`] is the view of
//! one assistant: its servers by name, and the names of their tools.

mod connection;
mod definition;
#[cfg(test)]
mod fuzz;
pub(crate) mod names;
mod secrets;
mod server;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_runner::protocol::ToolSpec;
use rmcp::model::Tool;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::Http;
pub(crate) use self::definition::Definition;
use self::server::Server;
use super::trees::Trees;
use crate::conversation::one_line;
use crate::environment::Environment;
use crate::user::WorkerUser;

/// Number of characters of a tool's description that the model gets.
const DESCRIPTION: usize = 4_000;
/// Number of bytes of the schema of a tool's arguments; a larger one is left out.
const SCHEMA: usize = 64 * 1024;
/// Number of characters of a name that a note shows.
const NAME: usize = 60;

/// A server that has just started is not idle before.
const SHORTEST_IDLE: Duration = Duration::from_millis(100);

/// The limits of servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerLimits {
    pub(crate) start: Duration,
    pub(crate) idle: Duration,
    /// The longest time of a call.
    pub(crate) call: Duration,
    /// Number of bytes that one result shows.
    pub(crate) shown: usize,
}

/// Everything that servers share.
struct Common {
    trees: Arc<Trees>,
    limits: ServerLimits,
    http: Http,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// The way to start or reach a server. Equal ones are the same server.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Launch {
    Stdio {
        command: String,
        args: Vec<String>,
        environment: Environment,
        directory: PathBuf,
        user: Option<WorkerUser>,
    },
    Http {
        url: String,
        headers: BTreeMap<String, String>,
    },
}

/// The servers of all assistants.
pub(crate) struct McpServers {
    common: Arc<Common>,
    /// The URL of the hub, which is no server of its own assistants.
    hub: String,
    all: Mutex<Vec<(Launch, Weak<Server>)>>,
}

/// The surroundings in which the servers of one assistant run.
pub(crate) struct ServerPlace<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) environment: &'a Environment,
    pub(crate) user: Option<&'a WorkerUser>,
}

impl McpServers {
    pub(crate) fn new(trees: Arc<Trees>, limits: ServerLimits, hub: String) -> Self {
        let (http, tasks, closing) = (Http::new(), TaskTracker::new(), CancellationToken::new());
        let limits = ServerLimits { idle: limits.idle.max(SHORTEST_IDLE), ..limits };
        let common = Common { trees, limits, http, tasks, closing };
        Self { common: Arc::new(common), hub, all: Mutex::default() }
    }

    /// Returns the servers of one assistant, as its profile defines them.
    pub(crate) fn of(&self, servers: &Map<String, Value>, place: &ServerPlace<'_>) -> ServersOfOne {
        let (mut list, mut notes) = (BTreeMap::new(), Vec::new());
        for (name, server) in servers {
            let shown = one_line(name, NAME);
            match Definition::read(server) {
                Err(why) => notes.push(format!("the MCP server {shown} {why}; it is left out")),
                Ok(definition) if definition.is_hub(&self.hub) => notes.push(format!(
                    "the MCP server {shown} is the hub itself, whose tools the assistant has \
                     anyway; it is left out"
                )),
                Ok(definition) => {
                    list.insert(name.clone(), self.server(launch(definition, place)));
                }
            }
        }
        let (notes, told) = (Mutex::new(notes), Mutex::default());
        ServersOfOne { list, notes, told, names: Mutex::default() }
    }

    fn server(&self, launch: Launch) -> Arc<Server> {
        let mut all = self.all.lock();
        all.retain(|(_, server)| server.strong_count() > 0);
        let known = all.iter().find(|(known, _)| *known == launch);
        if let Some(server) = known.and_then(|(_, server)| server.upgrade()) {
            return server;
        }
        let server = Server::new(Arc::clone(&self.common), launch.clone());
        all.push((launch, Arc::downgrade(&server)));
        server
    }

    /// Ends all servers, and waits until they have ended.
    pub(crate) async fn close(&self) {
        self.common.closing.cancel();
        self.common.tasks.close();
        self.common.tasks.wait().await;
    }
}

fn launch(definition: Definition, place: &ServerPlace<'_>) -> Launch {
    match definition {
        Definition::Http { url, headers } => Launch::Http { url, headers },
        Definition::Stdio { command, args, env, cwd } => {
            let mut environment = place.environment.clone();
            env.iter().for_each(|(name, value)| environment.set(name, value));
            let directory = cwd.map_or(place.directory.to_owned(), |cwd| place.directory.join(cwd));
            Launch::Stdio { command, args, environment, directory, user: place.user.cloned() }
        }
    }
}

/// The servers of one assistant.
pub(crate) struct ServersOfOne {
    list: BTreeMap<String, Arc<Server>>,
    notes: Mutex<Vec<String>>,
    /// The notes that were told already.
    told: Mutex<HashSet<String>>,
    /// The server and the tool behind each name that the model was told.
    names: Mutex<HashMap<String, (String, String)>>,
}

impl ServersOfOne {
    /// Begins to start all servers in the background.
    pub(crate) fn begin(&self) {
        for server in self.list.values() {
            drop(server.begin());
        }
    }

    /// Returns the tools of all servers that run, with the names of their servers.
    pub(crate) async fn list(&self) -> Vec<ToolSpec> {
        self.begin();
        let mut lists = Vec::new();
        for (name, server) in &self.list {
            lists.push((name.as_str(), server.tools().await));
            if let Some(why) = server.why() {
                let shown = one_line(name, NAME);
                self.notes.lock().push(format!("the MCP server {shown} {why}"));
            }
        }
        let mut names = HashMap::new();
        let mut specs = Vec::new();
        for (server, tools) in &lists {
            let mut seen = HashSet::new();
            for tool in tools.iter().flat_map(|tools| tools.iter()) {
                // A server that lists a tool twice has it once.
                if !seen.insert(tool.name.as_ref()) {
                    continue;
                }
                let (mut name, mut time) = (names::named(server, &tool.name), 0);
                while names.contains_key(&name) {
                    time += 1;
                    name = names::another(server, &tool.name, time);
                }
                specs.push(spec(name.clone(), tool));
                names.insert(name, ((*server).to_owned(), tool.name.to_string()));
            }
        }
        *self.names.lock() = names;
        specs
    }

    /// Returns the server whose tool has this name.
    pub(crate) async fn server_of(&self, name: &str) -> Option<String> {
        let known = || self.names.lock().get(name).map(|(server, _)| server.clone());
        let found = known();
        if found.is_some() || !name.starts_with(names::PREFIX) || self.list.is_empty() {
            return found;
        }
        // The tool is new, or a hub that was restarted has not listed the tools yet.
        drop(self.list().await);
        known()
    }

    /// Returns what the operator has not been told yet about servers that do not work.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        let notes = std::mem::take(&mut *self.notes.lock());
        let mut told = self.told.lock();
        notes.into_iter().filter(|note| told.insert(note.clone())).collect()
    }

    /// Calls a tool; `None` if the name is none of a server's.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Option<Result<String, String>> {
        if !name.starts_with(names::PREFIX) || self.list.is_empty() {
            return None;
        }
        drop(self.server_of(name).await);
        let known = self.names.lock().get(name).cloned();
        let Some((server, tool)) = known else { return self.missing(name) };
        let shown = one_line(&server, NAME);
        let found = self.list.get(&server)?;
        let done = found.call(&tool, arguments).await;
        if let Some(why) = found.why() {
            self.notes.lock().push(format!("the MCP server {shown} {why}"));
        }
        Some(done.unwrap_or_else(|why| Err(format!("the MCP server {shown} {why}"))))
    }

    /// Explains why a server does not have a tool.
    fn missing(&self, name: &str) -> Option<Result<String, String>> {
        let of_server = |server: &&String| name.starts_with(&names::begins(server));
        let server = self.list.keys().filter(of_server).max_by_key(|server| server.len())?;
        let shown = one_line(server, NAME);
        let why = match self.list.get(server).and_then(|server| server.why()) {
            Some(why) => format!("the MCP server {shown} {why}"),
            None => format!("the MCP server {shown} has no tool `{}`", one_line(name, NAME)),
        };
        Some(Err(why))
    }
}

fn spec(name: String, tool: &Tool) -> ToolSpec {
    let description = tool.description.as_deref().unwrap_or_default();
    let description = description.chars().take(DESCRIPTION).collect();
    let schema = Value::Object(tool.input_schema.as_ref().clone());
    let input_schema = match schema.to_string().len() > SCHEMA {
        true => serde_json::json!({ "type": "object" }),
        false => schema,
    };
    ToolSpec { name, description, input_schema }
}
