//! Tools of assistants beside the hub's own: built-in services.
//!
//! A service is a group of tools, `builtin_<service>__<tool>`, which a profile must allow by
//! name (`allowed_builtin_service_aliases`). A tool that fails is a result for the model, and
//! never an error of the hub.

mod shell;
mod workspace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posthaste_runner::protocol::{ToolReply, ToolSpec};
use serde_json::{Map, Value};

use self::shell::Shell;
use self::workspace::Workspace;
use crate::environment::Environment;
use crate::user::WorkerUser;

/// The prefix of every tool of a built-in service.
const BUILTIN: &str = "builtin_";
/// Stands between the service and its tool.
const BETWEEN: &str = "__";

/// The limits of all tools.
pub(crate) struct Tools {
    timeout: Duration,
    result_chars: usize,
}

/// The facts from which the tools of one assistant are made.
pub(crate) struct ToolboxSpec {
    /// The services that its profile allows.
    pub(crate) services: Vec<String>,
    pub(crate) directory: PathBuf,
    /// The environment of its commands, without tokens and keys.
    pub(crate) environment: Environment,
    pub(crate) user: Option<WorkerUser>,
}

/// The tools of one assistant.
pub(crate) struct Toolbox {
    services: Vec<String>,
    workspace: Arc<Workspace>,
    shell: Shell,
    has_user: bool,
}

impl Tools {
    pub(crate) fn new(timeout: Duration, result_chars: usize) -> Self {
        Self { timeout, result_chars }
    }

    pub(crate) fn toolbox(&self, of: ToolboxSpec) -> Toolbox {
        let ToolboxSpec { services, directory, environment, user } = of;
        // What one result shows, and the room for an error beside it.
        let bytes = self.result_chars.saturating_mul(4);
        Toolbox {
            services,
            workspace: Arc::new(Workspace::new(directory.clone(), bytes)),
            has_user: user.is_some(),
            shell: Shell::new(directory, environment, user, self.timeout, bytes),
        }
    }
}

impl Toolbox {
    pub(crate) fn list(&self) -> Vec<ToolSpec> {
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
            Some((workspace::NAME, tool)) => {
                let (workspace, tool) = (Arc::clone(&self.workspace), tool.to_owned());
                let work = move || workspace.call(&tool, arguments);
                let done = tokio::task::spawn_blocking(work).await;
                done.unwrap_or_else(|error| Err(error.to_string()))
            }
            Some((shell::NAME, tool)) => self.shell.call(tool, arguments).await,
            _ => Err(self.unknown(name)),
        };
        match done {
            Ok(text) => ToolReply::of(text, false),
            Err(why) => ToolReply::of(why, true),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<String> = self.list().into_iter().map(|tool| tool.name).collect();
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
