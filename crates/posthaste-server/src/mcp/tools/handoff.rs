//! `handoff`: starts one worker and waits for its report, within the client's patience.

use std::time::Duration;

use posthaste_api::error::ApiError;
use posthaste_api::work::AssignRequest;
use posthaste_core::messaging::receive::Batch;
use posthaste_core::orchestration::{Assign, Assigned, WorkerReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use super::assign::wish;
use crate::mcp::call::{Ctx, Done, HandoffResult, Job, done, refusal, text as json};
use crate::mcp::{schema, text};
use crate::words::params::seconds;

pub(crate) const TOOL: Tool = Tool {
    name: "handoff",
    description: "Posthaste: start one worker and wait for its final answer. A `job` means that the \
        work goes on, and its answer comes by check_inbox.",
    schema: schema::of::<Args>,
    reads: false,
    waits: true,
    run,
};

/// Seconds that a handoff waits by default.
const TIMEOUT: f64 = 600.0;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(alias = "agent_profile", alias = "assistant_id")]
    agent: String,
    #[serde(alias = "query", alias = "content")]
    message: String,
    /// seconds, default 600
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    #[schemars(skip)]
    label: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    working_directory: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    team: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    worktree: Option<bool>,
}

/// The answer with a report.
#[derive(Debug, Serialize)]
struct Reported<'a> {
    status: &'static str,
    instance: String,
    task: u64,
    /// The number of the report.
    id: u64,
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redelivered: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u64>,
}

/// The answer while the work goes on.
#[derive(Debug, Serialize)]
struct JobView {
    job: String,
    task: u64,
    status: &'static str,
    note: &'static str,
}

const GOES_ON: &str =
    "it still works: go on, and get its answer with check_inbox(wait_for=\"all\")";
const INTERRUPTED: &str = "mail that comes first is waiting (beside this, or by check_inbox): see \
     to it, then get the answer with check_inbox(wait_for=\"all\")";

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let asked = text::arguments::<Args>(given).and_then(|args| asked(&ctx, args));
    Box::pin(async move {
        let (assign, timeout) = match asked {
            Ok(asked) => asked,
            Err(error) => return ctx.reply::<()>(Err(error)).await,
        };
        match ctx.handoff(assign, timeout).await {
            HandoffResult::Report { assigned, report, batch, .. } => {
                told(&assigned, &report, batch)
            }
            HandoffResult::Job { ctx, assigned, status, interrupted } => {
                let running = JobView {
                    job: assigned.instance.id.to_string(),
                    task: assigned.task.0,
                    status: status.as_str(),
                    note: if interrupted { INTERRUPTED } else { GOES_ON },
                };
                ctx.reply(Ok(running)).await
            }
            HandoffResult::Refused { ctx, error } => ctx.reply::<()>(Err(error)).await,
            HandoffResult::Failed(error) => done(refusal(&error), true, None),
        }
    })
}

fn asked(ctx: &Ctx, args: Args) -> Result<(Assign, Duration), ApiError> {
    let most = ctx.app.hub.limits().wait;
    let timeout = seconds("timeout", args.timeout, TIMEOUT, most)?;
    let Args { agent, message, label, working_directory, team, worktree, .. } = args;
    let request = AssignRequest {
        agent,
        message,
        label,
        team,
        working_directory,
        worktree,
        ..AssignRequest::default()
    };
    Ok((wish(ctx, request)?, timeout))
}

fn told(assigned: &Assigned, report: &WorkerReport, batch: Batch) -> Done {
    let reported = Reported {
        status: if report.failed() { "failed" } else { "complete" },
        instance: assigned.instance.id.to_string(),
        task: assigned.task.0,
        id: report.message.seq.0,
        exit_code: report.exit_code,
        redelivered: report.redelivered,
        truncated: report.clip.is_some(),
        next_offset: report.next_offset(),
        result: report.text(),
        settled: batch.settled.iter().map(|seq| seq.0).collect(),
    };
    match json(&reported) {
        Ok(told) => done(told, false, Some(batch.handed)),
        Err(error) => done(refusal(&error), true, None),
    }
}
