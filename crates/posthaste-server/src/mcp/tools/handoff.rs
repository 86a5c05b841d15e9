//! Start one worker and wait for its answer, as long as the client endures.

use std::time::Duration;

use posthaste_api::error::ApiError;
use posthaste_api::work::AssignRequest;
use posthaste_core::messaging::receive::{Batch, Budget};
use posthaste_core::orchestration::{Assigned, Waited};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use super::assign::assign;
use crate::failure::Failure;
use crate::mcp::call::{Ctx, Done, Job, done, refusal, text as json};
use crate::mcp::{mail, schema, text};
use crate::rest::inbox::seconds;
use crate::work::{self, Report};

pub(crate) const TOOL: Tool = Tool {
    name: "handoff",
    description: "Posthaste: start one worker and wait for its final answer. A `job` means that the \
        work goes on, and its answer comes by check_inbox.",
    schema: schema::of::<Args>,
    reads: false,
    waits: true,
    run,
};

/// Seconds that a handoff waits if it does not say.
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

/// The report is here.
#[derive(Debug, Serialize)]
struct Reported {
    status: &'static str,
    instance: String,
    task: u64,
    /// The report's own number.
    id: u64,
    result: String,
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

/// The work goes on.
#[derive(Debug, Serialize)]
struct Running {
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
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let begun = match args {
            Ok(args) => begin(&ctx, args).await,
            Err(error) => Err(error),
        };
        let (assigned, timeout) = match begun {
            Ok(begun) => begun,
            Err(error) => return ctx.reply::<()>(Err(error)).await,
        };
        match heard(ctx, &assigned, timeout).await {
            Heard::Report { report, batch } => told(&assigned, report, batch),
            Heard::NotYet { ctx, interrupted } => {
                let worker = ctx.app.hub.instance(assigned.instance.id);
                let running = Running {
                    job: assigned.instance.id.to_string(),
                    task: assigned.task.0,
                    status: worker.map_or("running", |view| view.instance.status.as_str()),
                    note: if interrupted { INTERRUPTED } else { GOES_ON },
                };
                ctx.reply(Ok(running)).await
            }
            Heard::Failed(error) => done(refusal(&error), true, None),
        }
    })
}

async fn begin(ctx: &Ctx, args: Args) -> Result<(Assigned, Duration), ApiError> {
    let most = ctx.app.hub.limits().wait;
    let timeout = seconds("timeout", args.timeout, TIMEOUT, most).map_err(|Failure(e)| e)?;
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
    Ok((assign(ctx, request).await?, timeout))
}

/// What a wait for a report came to.
pub(crate) enum Heard {
    /// It is in this answer, and proven like any other mail.
    Report {
        report: Report,
        batch: Batch,
    },
    /// Patience ended, or something came first. The call can still be answered.
    NotYet {
        ctx: Ctx,
        interrupted: bool,
    },
    Failed(ApiError),
}

/// Waits for the report within what the client endures, and takes it.
pub(crate) async fn heard(mut ctx: Ctx, assigned: &Assigned, timeout: Duration) -> Heard {
    let timeout = timeout.min(ctx.client.patience(ctx.hears));
    let seq = match ctx.await_report(assigned.task, timeout).await {
        Ok(Waited::Reported(seq)) => seq,
        Ok(Waited::Interrupted) => return Heard::NotYet { ctx, interrupted: true },
        Ok(Waited::TimeUp) => return Heard::NotYet { ctx, interrupted: false },
        Err(error) => return Heard::Failed(error),
    };
    let (hub, me, client) = (std::sync::Arc::clone(&ctx.app.hub), ctx.me, ctx.client);
    let room = client.chars.saturating_sub(mail::WRAPPER);
    let budget = Budget::Json { chars: room, beside: mail::beside };
    let began = ctx.began;
    let batch = match ctx.receive(work::take_report(me, seq, budget)).await {
        Ok(batch) => batch,
        Err(error) => return Heard::Failed(error.into()),
    };
    batch.handed.waited(began.elapsed());
    match Report::read(&hub, me, seq, &batch, room).await {
        Ok(report) => Heard::Report { report, batch },
        Err(error) => Heard::Failed(error),
    }
}

fn told(assigned: &Assigned, report: Report, batch: Batch) -> Done {
    let reported = Reported {
        status: if report.failed() { "failed" } else { "complete" },
        instance: assigned.instance.id.to_string(),
        task: assigned.task.0,
        id: report.id,
        exit_code: report.exit_code,
        redelivered: report.redelivered,
        truncated: report.next_offset.is_some(),
        next_offset: report.next_offset,
        result: report.text,
        settled: batch.settled.iter().map(|seq| seq.0).collect(),
    };
    match json(&reported) {
        Ok(told) => done(told, false, Some(batch.handed)),
        Err(error) => done(refusal(&error), true, None),
    }
}
