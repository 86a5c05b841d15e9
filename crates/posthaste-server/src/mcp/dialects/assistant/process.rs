//! Assistants at work: `spawn_assistant` and `poll_assistant`.

use std::time::Duration;

use posthaste_api::error::ApiError;
use posthaste_api::work::AssignRequest;
use posthaste_core::registry::{Instance, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::mcp::call::{Ctx, HandoffResult, Job, done, done_beside, refusal, text as json};
use crate::mcp::text;
use crate::mcp::tools::agent_status::{exactly, unknown};
use crate::mcp::tools::assign::{assign, wish};
use crate::words::params::wrong;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Spawn {
    assistant_id: String,
    /// the task
    query: String,
    /// async (default) or sync: wait for the end
    #[serde(default)]
    run_mode: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Poll {
    process_id: String,
    /// default true
    #[serde(default)]
    include_summary: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Spawned {
    process_id: String,
    thread_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The id of the message of which `result` is only the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated_message: Option<String>,
}

impl Spawned {
    fn new(worker: &Instance, now: Status) -> Self {
        Self {
            process_id: worker.id.to_string(),
            thread_id: worker.thread.to_string(),
            status: status(now),
            result: None,
            exit_code: None,
            truncated_message: None,
        }
    }
}

#[derive(Debug, Serialize)]
struct Polled {
    process: ProcessView,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_summary: Option<Summary>,
}

#[derive(Debug, Serialize)]
struct ProcessView {
    process_id: String,
    assistant_id: String,
    thread_id: String,
    status: &'static str,
    started_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

/// A thread in counts and times, never content.
#[derive(Debug, Serialize)]
struct Summary {
    total_messages: u64,
    unread_messages: u64,
    last_message_at: Option<i64>,
}

/// Returns one of the four words that callers of this dialect know.
fn status(status: Status) -> &'static str {
    match status {
        Status::Starting => "starting",
        Status::Running | Status::Away | Status::Lost => "running",
        Status::Finished => "finished",
        Status::Failed | Status::Stopped => "failed",
    }
}

pub(super) fn spawn(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let asked = text::arguments::<Spawn>(given).and_then(|args| asked(&ctx, args));
    Box::pin(async move {
        let (request, waits) = match asked {
            Ok(asked) => asked,
            Err(error) => return ctx.reply::<()>(Err(error)).await,
        };
        let Some(longest) = waits else {
            let spawned = assign(&ctx, request).await;
            let spawned = spawned.map(|a| Spawned::new(&a.instance, a.instance.status));
            return ctx.reply(spawned).await;
        };
        let assign = match wish(&ctx, request) {
            Ok(assign) => assign,
            Err(error) => return ctx.reply::<()>(Err(error)).await,
        };
        match ctx.handoff(assign, longest).await {
            HandoffResult::Report { assigned, status, report, batch } => {
                let told = Spawned {
                    exit_code: report.exit_code,
                    truncated_message: report.clip.map(|_| report.message.seq.to_string()),
                    result: Some(report.text().to_owned()),
                    ..Spawned::new(&assigned.instance, status)
                };
                match json(&told) {
                    Ok(told) => done_beside(told, batch),
                    Err(error) => done(refusal(&error), true, None),
                }
            }
            HandoffResult::Job { ctx, assigned, status, .. } => {
                ctx.reply(Ok(Spawned::new(&assigned.instance, status))).await
            }
            HandoffResult::Refused { ctx, error } => ctx.reply::<()>(Err(error)).await,
            HandoffResult::Failed(error) => done(refusal(&error), true, None),
        }
    })
}

/// Reads the work, and the time that the caller wants to wait for it.
fn asked(ctx: &Ctx, args: Spawn) -> Result<(AssignRequest, Option<Duration>), ApiError> {
    let waits = match args.run_mode.as_deref() {
        None | Some("async") => None,
        Some("sync") => Some(ctx.app.hub.limits().wait),
        Some(_) => {
            return Err(wrong("run_mode", "it is `async` or `sync`"));
        }
    };
    let request =
        AssignRequest { agent: args.assistant_id, message: args.query, ..AssignRequest::default() };
    Ok((request, waits))
}

pub(super) fn poll(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Poll>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => polled(&ctx, args).await,
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}

async fn polled(ctx: &Ctx, args: Poll) -> Result<Polled, ApiError> {
    let hub = &ctx.app.hub;
    let view = hub.instance(exactly(&args.process_id)?);
    let i = view.ok_or_else(|| unknown(&args.process_id))?.instance;
    let message_summary = match args.include_summary {
        Some(false) => None,
        None | Some(true) => {
            let thread = hub.thread_summary(ctx.me, i.thread).await?;
            Some(Summary {
                total_messages: thread.total,
                unread_messages: thread.unread,
                last_message_at: thread.last_at.map(|at| at.0),
            })
        }
    };
    let work = i.work.as_deref();
    let process = ProcessView {
        process_id: i.id.to_string(),
        assistant_id: i.agent.to_string(),
        thread_id: i.thread.to_string(),
        status: status(i.status),
        started_at: work.and_then(|work| work.started_at).unwrap_or(i.created_at).0,
        finished_at: i.ended_at.map(|at| at.0),
        exit_code: work.and_then(|work| work.exit_code),
    };
    Ok(Polled { process, message_summary })
}
