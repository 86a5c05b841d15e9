//! Codex, by its app-server: JSON-RPC messages, one a line.
//!
//! Codex has threads (conversations), turns in them, and items in a turn: what the user
//! wrote, what the model said, a call of a tool. The hub starts one thread, and a turn for
//! each prompt. Threads of Codex's own sub-agents share the output and are left out, except
//! that their requests for permission are asked too.

#[cfg(test)]
mod fuzz;
mod item;
mod launch;
mod permission;
mod talk;
#[cfg(test)]
mod tests;
mod turns;

use posthaste_core::ports::LaunchError;
use serde_json::Value;

use self::talk::Talk;
use super::{Brief, Driver, Launch, Limit};
use crate::conversation::{Conversation, resumed};

pub(super) struct Codex;

/// The words on stderr of a Codex that has no app-server. One that takes the word for a
/// prompt wants a terminal.
const TOO_OLD: [&str; 3] = [
    "unrecognized subcommand 'app-server'",
    "unexpected argument 'app-server'",
    "stdin is not a terminal",
];

/// The version of Codex with which the hub was tried.
const TRIED: &str = "0.166";

/// The words on stderr of a Codex that lost the race for the first use of its folder.
const NO_DATABASE: &str = "failed to initialize sqlite state runtime";

impl Driver for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    /// Enforces no list: Codex knows none of tools that an agent may use.
    fn keeps(&self, limit: Limit) -> bool {
        limit == Limit::PermissionMode
    }

    fn other_limits(&self) -> Option<&'static str> {
        Some("limit Codex by its sandbox, for example `permission_mode: read-only never`")
    }

    fn asks_nothing(&self) -> Option<&'static str> {
        Some("`permission_mode: danger-full-access never`")
    }

    fn launch(&self, brief: &Brief<'_>) -> Result<Option<Launch>, LaunchError> {
        launch::launch(brief).map(Some)
    }

    fn resume(&self, state: &Value) -> Option<Box<dyn Conversation>> {
        Some(Box::new(resumed::<Talk>(state)?))
    }

    fn explains(&self, stderr: &str) -> Option<String> {
        if stderr.contains(NO_DATABASE) {
            let why = "Codex could not make its database: several began at the same time, just \
                       after it was installed or updated; give the task again";
            return Some(why.to_owned());
        }
        TOO_OLD.iter().any(|words| stderr.contains(words)).then(|| too_old("it has no app-server"))
    }
}

fn too_old(why: &str) -> String {
    format!(
        "this Codex is too old to be led by the hub, which was tried with {TRIED}: {why}; \
         npm install -g @openai/codex installs a newer one"
    )
}
