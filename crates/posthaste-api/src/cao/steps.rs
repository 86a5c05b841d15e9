//! One step of work: a terminal, its prompt, its answer and its end in one call.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{
    CannotStart, Conflict, InvalidAddress, KeyReused, LineFull, MailboxFull, NotFound, RateLimited,
    RecipientGone, WorkerFailed, WorkerTimeout,
};
use crate::openapi::{Who, call_table, get, json, of, post};

call_table![
    RUN_STEP = post(
        "/terminals/run-step",
        "Give a terminal work and wait for its answer",
        Who::Neighbour,
        &[json(200, "The answer.", of::<CaoStepDone>)],
    )
    .body(of::<CaoStep>)
    .fails(&[
        NotFound,
        KeyReused,
        Conflict,
        RecipientGone,
        InvalidAddress,
        MailboxFull,
        RateLimited,
        CannotStart,
        LineFull,
        WorkerFailed,
        WorkerTimeout,
    ]),
    RESULT = get(
        "/handoff-results/{job_id}",
        "What became of a step, by the id that its caller gave it",
        Who::Neighbour,
        &[json(200, "As it is now.", of::<CaoJob>)],
    )
    .part("The `job_id` of a step.")
    .fails(&[NotFound]),
];

/// `POST /terminals/run-step`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaoStep {
    /// The program that runs it, by CAO's name.
    pub provider: String,
    /// The profile.
    pub agent: String,
    /// The task.
    pub prompt: String,
    /// An existing session; a new one if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// A terminal that is here, in place of a new one. It is not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse_terminal_id: Option<String>,
    /// End the new terminal once it has answered; default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<bool>,
    /// Seconds to wait for the answer, up to a day; default 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Where to work: an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// The terminal that hands the work over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_id: Option<String>,
    /// Tools that it may use, in CAO's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// A git worktree of its own, made from that directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_worktree: Option<bool>,
    /// Variables for its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// The model, in the words of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A name for this step. The same name means the same step: the work is not done twice,
    /// and `GET /handoff-results/{job_id}` tells what became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// What the terminal is there for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// 200: the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoStepDone {
    /// The terminal that did it.
    pub terminal_id: String,
    /// Its answer.
    pub last_message: String,
    /// Always `completed`.
    pub status: String,
    /// The step was begun by an earlier call with the same `job_id`.
    pub replayed: bool,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaoJob {
    /// The name that its caller gave it.
    pub job_id: String,
    /// `running`, `completed` or `error`.
    pub state: String,
    /// The terminal that does it.
    pub terminal_id: String,
    /// Its answer; null before it is completed.
    #[schemars(extend("x-nullable" = true))]
    pub last_message: Option<String>,
    /// Why it failed; null unless it did.
    #[schemars(extend("x-nullable" = true))]
    pub error_message: Option<String>,
}
