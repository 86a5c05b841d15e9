//! Tools of assistants beside the hub's own: built-in services, and MCP servers.
//!
//! A service is a group of tools, `builtin_<service>__<tool>`, which a profile must allow by
//! name (`allowed_builtin_service_aliases`). An MCP server is one of the profile's own
//! (`mcp_config`), with its tools as `mcp__<server>__<tool>`. A tool that fails is a result for the model, and
//! never an error of the hub.

#[cfg(test)]
mod fuzz;
mod hub_files;
pub(crate) mod servers;
mod shell;
#[cfg(test)]
mod tests;
mod trees;
mod workspace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use humantime_serde::re::humantime::format_duration;
use posthaste_runner::protocol::{ToolReply, ToolSpec};
use serde_json::{Map, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) use self::hub_files::HubFiles;
use self::servers::{McpServers, ServerLimits, ServerPlace, ServersOfOne};
use self::shell::Shell;
use self::trees::Trees;
use self::workspace::Workspace;
use crate::environment::Environment;
use crate::keeper::Manners;
use crate::runner_config::RunnerConfig;
use crate::user::WorkerUser;

/// The prefix of every tool of a built-in service.
const BUILTIN: &str = "builtin_";
/// Stands between the service and its tool.
const BETWEEN: &str = "__";

/// The services that a profile may allow; `assistant` is the hub's own.
pub(crate) const SERVICES: [&str; 3] = ["assistant", workspace::NAME, shell::NAME];

/// Everything that the tools of all assistants share.
pub(crate) struct Tools {
    timeout: Duration,
    /// Number of bytes that one result shows, with room for an error beside it.
    shown: usize,
    /// The permissions that new files do not get.
    umask: u32,
    trees: Arc<Trees>,
    servers: McpServers,
}

/// The facts from which the tools of one assistant are made.
pub(crate) struct ToolboxSpec {
    /// The services that its profile allows.
    pub(crate) services: Vec<String>,
    /// The MCP servers of its profile.
    pub(crate) servers: Map<String, Value>,
    pub(crate) directory: PathBuf,
    /// The environment of its commands, without tokens and keys.
    pub(crate) environment: Environment,
    pub(crate) user: Option<WorkerUser>,
    /// What `workspace` leaves alone.
    pub(crate) hub: HubFiles,
}

/// The tools of one assistant.
pub(crate) struct Toolbox {
    services: Vec<String>,
    /// The longest time of a call.
    timeout: Duration,
    workspace: Arc<Workspace>,
    shell: Shell,
    servers: ServersOfOne,
    has_user: bool,
}

impl Tools {
    /// Makes the tools of a hub at this URL. `keeper` is the binary that becomes a keeper.
    pub(crate) fn new(limits: &RunnerConfig, keeper: PathBuf, manners: Manners, hub: &str) -> Self {
        let trees = Arc::new(Trees::new(keeper, manners));
        let shown = limits.result_chars.saturating_mul(4);
        let of_servers = ServerLimits {
            start: limits.server_start,
            idle: limits.server_idle,
            call: limits.tool_timeout,
            shown,
        };
        let servers = McpServers::new(Arc::clone(&trees), of_servers, hub.to_owned());
        Self { timeout: limits.tool_timeout, shown, umask: manners.umask, trees, servers }
    }

    pub(crate) fn toolbox(&self, of: ToolboxSpec) -> Toolbox {
        let ToolboxSpec { services, servers, directory, environment, user, hub } = of;
        let place =
            ServerPlace { directory: &directory, environment: &environment, user: user.as_ref() };
        let servers = self.servers.of(&servers, &place);
        servers.begin();
        let trees = Arc::clone(&self.trees);
        let workspace = Workspace::new(directory.clone(), hub, self.umask, self.shown);
        Toolbox {
            services,
            timeout: self.timeout,
            workspace: Arc::new(workspace),
            has_user: user.is_some(),
            shell: Shell::new(trees, directory, environment, user, self.timeout, self.shown),
            servers,
        }
    }

    /// Ends all commands and servers, and waits until they have ended.
    pub(crate) async fn close(&self) {
        self.servers.close().await;
        self.trees.close().await;
    }
}

impl Toolbox {
    /// Returns all tools. The first time waits for the start of MCP servers.
    pub(crate) async fn list(&self) -> Vec<ToolSpec> {
        let mut all = self.services();
        all.extend(self.servers.list().await);
        all
    }

    /// Returns the name of the MCP server whose tool this is.
    pub(crate) async fn server_of(&self, name: &str) -> Option<String> {
        self.servers.server_of(name).await
    }

    /// Returns what the operator has not been told yet: MCP servers that do not work.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        self.servers.take_notes()
    }

    fn services(&self) -> Vec<ToolSpec> {
        let named = |service: &'static str, specs: Vec<ToolSpec>| {
            let allowed = self.allows(service);
            specs.into_iter().filter(move |_| allowed).map(move |spec| ToolSpec {
                name: format!("{BUILTIN}{service}{BETWEEN}{}", spec.name),
                ..spec
            })
        };
        let workspace = named(workspace::NAME, workspace::specs());
        workspace.chain(named(shell::NAME, shell::specs())).collect()
    }

    fn allows(&self, service: &str) -> bool {
        self.services.iter().any(|allowed| allowed == service)
    }

    /// Calls a tool. Every failure is a text for the model.
    pub(crate) async fn call(&self, name: &str, arguments: Map<String, Value>) -> ToolReply {
        let service = name.strip_prefix(BUILTIN).and_then(|rest| rest.split_once(BETWEEN));
        let done = match service {
            Some((service @ (workspace::NAME | shell::NAME), _)) if !self.allows(service) => {
                Err(format!(
                    "the service `{service}` is not allowed: the profile does not name it in \
                     `allowed_builtin_service_aliases`"
                ))
            }
            Some((workspace::NAME, _)) if self.has_user => {
                Err("workers run as another user here (agents.user), and the workspace service \
                 cannot act as that user: use the shell service"
                    .to_owned())
            }
            Some((workspace::NAME, tool)) => self.call_workspace(tool, arguments).await,
            Some((shell::NAME, tool)) => self.shell.call(tool, arguments).await,
            _ => match self.servers.call(name, arguments).await {
                Some(done) => done,
                None => Err(self.unknown(name)),
            },
        };
        match done {
            Ok(text) => ToolReply::of(text, false),
            Err(why) => ToolReply::of(why, true),
        }
    }

    async fn call_workspace(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<String, String> {
        let (workspace, tool) = (Arc::clone(&self.workspace), tool.to_owned());
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let work = move || workspace.call(&tool, arguments, &stop);
        match timeout(self.timeout, tokio::task::spawn_blocking(work)).await {
            Ok(done) => done.unwrap_or_else(|error| Err(error.to_string())),
            Err(_) => {
                let limit = format_duration(self.timeout);
                Err(format!(
                    "the call took longer than {limit} (runner.tool_timeout). Whether it had an \
                     effect is unknown: look before you repeat it"
                ))
            }
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<String> = self.services().into_iter().map(|tool| tool.name).collect();
        match known.is_empty() {
            true => format!("there is no tool `{name}`"),
            false => format!("there is no tool `{name}`; beside the hub's: {}", known.join(", ")),
        }
    }
}

/// Reads the arguments of a tool.
fn read<T: serde::de::DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| format!("arguments: {error}"))
}

/// Makes the description of a tool, whose properties are texts and numbers.
fn spec(name: &str, description: &str, schema: Value) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: description.to_owned(), input_schema: schema }
}
