//! Giving out work: `/v1/assign`, `/v1/handoff`, a worker's output, and what an agent
//! is told of its own part in the whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{
    self, CannotStart, Conflict, Internal, InvalidAddress, KeyReused, LineFull, MailboxFull,
    NotFound, RateLimited,
};
use crate::instances::INSTANCE;
use crate::openapi::{Who, call_table, get, json, of, post};

const NOBODY_HAS_IT: &[ErrorCode] = &[
    NotFound,
    KeyReused,
    Conflict,
    InvalidAddress,
    MailboxFull,
    RateLimited,
    CannotStart,
    LineFull,
];

call_table![
    ASSIGN = post(
        "/v1/assign",
        "Give an agent work and go on; its report comes by mail",
        Who::Anybody,
        &[json(201, "Who has the work.", of::<Assigned>)],
    )
    .body(of::<AssignRequest>)
    .fails(NOBODY_HAS_IT),
    HANDOFF = post(
        "/v1/handoff",
        "Give an agent work and wait for its report; a job if that takes longer",
        Who::Anybody,
        &[json(200, "The report, leased until its receipt comes back; or a job.", of::<HandedOff>)],
    )
    .body(of::<HandoffRequest>)
    .fails(NOBODY_HAS_IT),
    CONTEXT = get(
        "/v1/context",
        "Who works for the caller, and what waits: as a prompt and as data",
        Who::Anybody,
        &[json(200, "As it is now.", of::<ContextView>)],
    ),
    OUTPUT = get(
        "/v1/instances/{id}/output",
        "What a worker wrote; for those above it and the operator",
        Who::Anybody,
        &[json(200, "A stretch of it, and where the next begins.", of::<OutputView>)],
    )
    .part(INSTANCE)
    .query(of::<OutputQuery>)
    .fails(&[NotFound, InvalidAddress, Internal]),
];

/// `POST /v1/assign`: starts a worker and returns at once. Its report comes by mail.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AssignRequest {
    /// A profile's name, or `name@team`.
    pub agent: String,
    /// The task.
    pub message: String,
    /// What the report carries, so that the giver can tell one from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The giver's own if it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Where to work: an absolute path. The giver's own if it is a worker itself, else as
    /// the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// A git worktree of its own, made from that directory; default: as the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<bool>,
    /// Seconds that the worker may run. Then it is ended, and the report is
    /// `system.agent_failed`: timed out. Default: as the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// The same key gives the same worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// 201: who has the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Assigned {
    /// Who has the work: 8 hex digits.
    pub instance: String,
    /// Its whole address.
    pub address: String,
    /// Its name.
    pub agent: String,
    /// Its team.
    pub team: String,
    /// Its own thread.
    pub thread_id: String,
    /// The label of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// `starting`: it stands in line or begins; `running` for one that was here.
    pub status: String,
    /// The number of the task: the assignment's name.
    pub task: u64,
    /// The key was accepted before, as this.
    #[serde(default)]
    pub duplicate: bool,
}

/// `POST /v1/handoff`: starts a worker and waits for its report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoffRequest {
    /// A profile's name, or `name@team`.
    pub agent: String,
    /// The task.
    pub message: String,
    /// What the report carries, so that the giver can tell one from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The giver's own if it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// An absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// A git worktree of its own; default: as the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<bool>,
    /// The same key is the same worker: waits on for its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Seconds to wait for the report, 0 to 600 (`limits.wait`); default 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
}

impl HandoffRequest {
    /// The work and the wait, apart.
    pub fn split(self) -> (AssignRequest, Option<f64>) {
        let Self { agent, message, label, team, working_directory, worktree, .. } = self;
        let idempotency_key = self.idempotency_key;
        let assign = AssignRequest {
            agent,
            message,
            label,
            team,
            working_directory,
            worktree,
            // Its own is how long the giver waits.
            timeout: None,
            idempotency_key,
        };
        (assign, self.timeout)
    }
}

/// What became of a handoff within its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandedOff {
    /// `complete`, `failed`, or `job`: the work goes on, and its report comes by mail.
    pub status: String,
    /// Who has the work: 8 hex digits.
    pub instance: String,
    /// Its whole address.
    pub address: String,
    /// The number of the task: the assignment's name.
    pub task: u64,
    /// The label of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The report's text: the result, or what is known of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// `result` or `system.agent_failed`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The report's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The same number, under its older name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The exit code of the worker's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The report may have been seen before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redelivered: bool,
    /// Give it back to `POST /v1/inbox/ack` to prove that the report arrived. Absent if
    /// there is none, or it was proved before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// The wait was ended by a question, urgent or human mail, which waits in the inbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// What to do next, where there is something to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The key was accepted before, as this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
}

/// Work that somebody was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssignmentView {
    /// The number of the task.
    pub task: u64,
    /// Who gave it: an address, or `human`.
    pub by: String,
    /// Who has it.
    pub worker: String,
    /// The label of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// `open` or `settled`.
    pub status: String,
    /// When it was given.
    pub opened_at: String,
    /// The number of the report that settled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<u64>,
}

/// `GET /v1/instances/{id}/output`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputQuery {
    /// `stdout` (default) or `stderr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The byte to begin at: 0, or `next` of the answer before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Most bytes, 16 to 1048576; default 65536.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
    /// `text` (default), or `base64` for the bytes as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

/// A stretch of what a worker wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputView {
    /// What is no UTF-8 is replaced. Empty with `encoding=base64`.
    pub text: String,
    /// The bytes as they are, with `encoding=base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Where the next stretch begins.
    pub next: u64,
    /// How long it is now.
    pub total: u64,
    /// How much was written beyond the bound (`agents.output_bytes`) and is not kept.
    pub dropped: u64,
    /// The worker has ended: there will be no more.
    pub ended: bool,
    /// Its driver holds a conversation with it: `stream` shows it, and there is no output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transcript: bool,
}

/// `GET /v1/context`: who works for the caller, and what waits, for a model and for a
/// program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextView {
    /// The same as text for a model.
    pub context_prompt: String,
    /// The same as data.
    pub structured_state: ContextState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextState {
    /// The caller's own workers that have not ended.
    pub running: Vec<RunningView>,
    /// Unread mail that only it could take.
    pub pending_msgs: usize,
    /// What it gave out and has no report on yet.
    pub open_assignments: Vec<AssignmentView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunningView {
    /// The worker.
    pub instance: String,
    /// Its address.
    pub address: String,
    /// The label of its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its status.
    pub status: String,
}
