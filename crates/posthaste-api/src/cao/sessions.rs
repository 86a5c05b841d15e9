//! Sessions: making terminals, and ending all terminals of a name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SESSION;
use super::terminals::CaoTerminal;
use crate::error::ErrorCode::{
    self, CannotStart, Conflict, InvalidAddress, InvalidArgument, KeyReused, LineFull, MailboxFull,
    NotFound, RateLimited, RecipientGone,
};
use crate::openapi::{Who, call_table, delete, get, json, of, post};

/// No terminal was made.
pub(super) const NO_TERMINAL: &[ErrorCode] = &[
    NotFound,
    KeyReused,
    Conflict,
    RecipientGone,
    InvalidAddress,
    MailboxFull,
    RateLimited,
    CannotStart,
    LineFull,
];

call_table![
    CREATE = post(
        "/sessions",
        "Make a session and its first terminal",
        Who::Neighbour,
        &[json(201, "The terminal.", of::<CaoTerminal>)],
    )
    .query(of::<CaoCreate>)
    .optional_body(of::<CaoCreateBody>)
    .fails(NO_TERMINAL),
    LIST = get(
        "/sessions",
        "All sessions",
        Who::Neighbour,
        &[json(200, "By name.", of::<Vec<CaoSession>>)],
    ),
    SHOW = get(
        "/sessions/{name}",
        "A session with its terminals",
        Who::Neighbour,
        &[json(200, "As it is now.", of::<CaoSessionView>)],
    )
    .part(SESSION)
    .fails(&[NotFound, InvalidArgument]),
    DELETE = delete(
        "/sessions/{name}",
        "End all terminals of a session, with all that they started, and forget them",
        Who::Neighbour,
        &[json(200, "They end.", of::<CaoSessionDeleted>)],
    )
    .part(SESSION)
    .fails(&[NotFound, InvalidArgument]),
    ADD = post(
        "/sessions/{name}/terminals",
        "Make a terminal in a session",
        Who::Neighbour,
        &[json(201, "The terminal.", of::<CaoTerminal>)],
    )
    .part(SESSION)
    .query(of::<CaoCreate>)
    .optional_body(of::<CaoCreateBody>)
    .fails(NO_TERMINAL),
    TERMINALS = get(
        "/sessions/{name}/terminals",
        "The terminals of a session, the oldest first",
        Who::Neighbour,
        &[json(200, "As they are now.", of::<Vec<CaoTerminal>>)],
    )
    .part(SESSION)
    .fails(&[InvalidArgument]),
];

/// `POST /sessions` and `POST /sessions/{name}/terminals`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaoCreate {
    /// The profile: needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_profile: Option<String>,
    /// The program that runs it, by CAO's name. A profile with `driver: command`, `runner`
    /// or `external` is run as the profile says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The name of a new session; `cao-` is put before it if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// Where to work: an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Tools that it may use, in CAO's words, with commas between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<String>,
    /// The model, in the words of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The terminal that makes it, in an existing session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_id: Option<String>,
    /// The call answers before the terminal has started; it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer_init: Option<bool>,
    /// A git worktree of its own, made from that directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_worktree: Option<bool>,
    /// The same key gives the same terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// A conversation of Claude Code to resume: refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_session_id: Option<String>,
    /// A terminal that keeps a memory: refused if it is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_manager: Option<bool>,
    /// The engine of Kiro: `v2`, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

/// The words that CAO keeps out of the address line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaoCreateBody {
    /// Variables for the environment of the terminal and of all later ones of its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// Its task. Without one it waits for its first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_message: Option<String>,
    /// `assign`, `handoff` or `send_message`; it changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_message_orchestration_type: Option<String>,
    /// What it is there for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it tells its siblings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Its place among its siblings, from the general to the special; its session if it is
    /// missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Vec<String>>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoSession {
    /// Its name.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `active` while one of its terminals lives, else `terminated`.
    pub status: String,
    /// Where its first terminal works; null before it has started.
    #[schemars(extend("x-nullable" = true))]
    pub working_directory: Option<String>,
    /// The profile of its first terminal.
    pub agent_profile: String,
}

/// A session with its terminals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaoSessionView {
    /// The session.
    pub session: CaoSession,
    /// The oldest first.
    pub terminals: Vec<CaoTerminal>,
}

/// The terminals of a session end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoSessionDeleted {
    /// Always `true`.
    pub success: bool,
    /// The session.
    pub deleted: Vec<String>,
    /// Always empty.
    pub errors: Vec<String>,
}
