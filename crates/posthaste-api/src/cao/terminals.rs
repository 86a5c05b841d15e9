//! Terminals: looking at them, prompting them and ending them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::TERMINAL;
use crate::error::ErrorCode::{
    Conflict, Internal, InvalidArgument, MailboxFull, NotFound, RateLimited, RecipientGone,
};
use crate::openapi::{Who, call_table, delete, get, json, of, patch, post};

call_table![
    SHOW = get(
        "/terminals/{id}",
        "A terminal, and what it does",
        Who::Neighbour,
        &[json(200, "As it is now.", of::<CaoTerminal>)],
    )
    .part(TERMINAL)
    .fails(&[NotFound, InvalidArgument]),
    DELETE = delete(
        "/terminals/{id}",
        "End a terminal, with all that it started, and forget it",
        Who::Neighbour,
        &[json(200, "It ends.", of::<CaoDone>)],
    )
    .part(TERMINAL)
    .fails(&[NotFound, InvalidArgument]),
    EXIT = post(
        "/terminals/{id}/exit",
        "End a terminal; its output stays readable",
        Who::Neighbour,
        &[json(200, "It ends.", of::<CaoDone>)],
    )
    .part(TERMINAL)
    .fails(&[NotFound, InvalidArgument]),
    INPUT = post(
        "/terminals/{id}/input",
        "Prompt a terminal; its answer is its next output",
        Who::Neighbour,
        &[json(200, "Accepted: it is on disk.", of::<CaoDone>)],
    )
    .part(TERMINAL)
    .query(of::<CaoInput>)
    .fails(&[NotFound, Conflict, RecipientGone, MailboxFull, RateLimited]),
    OUTPUT = get(
        "/terminals/{id}/output",
        "What a terminal answered last, or all that it wrote",
        Who::Neighbour,
        &[json(200, "The text.", of::<CaoOutput>)],
    )
    .part(TERMINAL)
    .query(of::<CaoOutputQuery>)
    .fails(&[NotFound, Internal]),
    DIRECTORY = get(
        "/terminals/{id}/working-directory",
        "Where a terminal works",
        Who::Neighbour,
        &[json(200, "The folder, if it has one.", of::<CaoDirectory>)],
    )
    .part(TERMINAL)
    .fails(&[NotFound, InvalidArgument]),
    SIBLINGS = get(
        "/terminals/{id}/siblings",
        "The other terminals of the same group, by default of the same session",
        Who::Neighbour,
        &[json(200, "The living ones.", of::<Vec<CaoSibling>>)],
    )
    .part(TERMINAL)
    .query(of::<CaoSiblingsQuery>)
    .fails(&[NotFound]),
    METADATA = patch(
        "/terminals/{id}/metadata",
        "Replace what a terminal tells its siblings",
        Who::Neighbour,
        &[json(200, "As it is now.", of::<CaoTerminal>)],
    )
    .part(TERMINAL)
    .body(of::<CaoMetadata>)
    .fails(&[NotFound]),
];

/// A terminal in CAO's words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaoTerminal {
    /// 8 lower-case hex digits: the instance.
    pub id: String,
    /// Its name among the windows of its session.
    pub name: String,
    /// The program that runs it, by CAO's name.
    pub provider: String,
    /// The session that it belongs to.
    pub session_name: String,
    /// The profile that it was made from.
    pub agent_profile: String,
    /// The model that its maker asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The terminal that made it, and to which its report goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_id: Option<String>,
    /// The tools that it may use, in CAO's words; `*` is every tool.
    pub allowed_tools: Vec<String>,
    /// Its place among its siblings, from the general to the special.
    pub group: Vec<String>,
    /// What it is there for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it tells its siblings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Where the message stands with which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_delivery: Option<CaoInitialDelivery>,
    /// `unknown`, `idle`, `processing`, `completed`, `waiting_user_answer` or `error`.
    pub status: String,
    /// Its last sign of life.
    pub last_active: String,
}

/// Where the message stands with which a terminal was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoInitialDelivery {
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// Why it failed, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Why it failed, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// It is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoDone {
    /// Always `true`.
    pub success: bool,
}

/// `POST /terminals/{id}/input`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoInput {
    /// The prompt.
    pub message: String,
    /// The terminal that prompts; the operator if it is missing or no terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<String>,
    /// `send_message`, `assign` or `handoff`; it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestration_type: Option<String>,
}

/// `GET /terminals/{id}/output`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaoOutputQuery {
    /// `last`: its last answer; `full`, the default: all that it wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// The output of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoOutput {
    /// The text; empty if there is none yet.
    pub output: String,
    /// `last` or `full`.
    pub mode: String,
}

/// Where a terminal works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoDirectory {
    /// An absolute path; null before it has started.
    #[schemars(extend("x-nullable" = true))]
    pub working_directory: Option<String>,
}

/// `GET /terminals/{id}/siblings`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CaoSiblingsQuery {
    /// How many entries of its own group the others share, from 1; default: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// Also those of other sessions.
    pub cross_session: bool,
}

/// Another terminal of the same group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaoSibling {
    /// The terminal.
    pub id: String,
    /// Its group.
    pub group: Vec<String>,
    /// What it tells its siblings; null if it tells nothing.
    #[schemars(extend("x-nullable" = true))]
    pub metadata: Option<Map<String, Value>>,
    /// As of a terminal.
    pub status: String,
}

/// `PATCH /terminals/{id}/metadata`: the whole of it, for it replaces what was there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaoMetadata {
    /// Any object, of at most `limits.metadata_bytes`.
    pub metadata: Map<String, Value>,
}
