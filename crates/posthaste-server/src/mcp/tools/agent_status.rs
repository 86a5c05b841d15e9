//! `agent_status`: the state of an agent in counts and times, never content.

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::{Address, InstanceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use crate::mcp::call::{Ctx, Job};
use crate::mcp::{schema, text};
use crate::words::work::activity;

pub(crate) const TOOL: Tool = Tool {
    name: "agent_status",
    description: "Posthaste: how an agent is doing, in counts. To wait use check_inbox.",
    schema: schema::of::<Args>,
    reads: true,
    waits: false,
    run,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[serde(alias = "process_id", alias = "terminal_id", alias = "job")]
    pub(crate) instance: String,
}

#[derive(Debug, Serialize)]
struct Doing {
    address: String,
    status: &'static str,
    activity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// Number of the agent's tasks without a report.
    open: usize,
    /// Number of messages that wait for the agent alone.
    unread: usize,
    /// Number of messages that the agent or others could take.
    #[serde(skip_serializing_if = "is_zero")]
    unread_shared: usize,
    messages: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_message_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    last_seen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => look(&ctx, &args.instance).await,
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}

async fn look(ctx: &Ctx, who: &str) -> Result<Doing, ApiError> {
    let hub = &ctx.app.hub;
    let id = exactly(who)?;
    let view = hub.instance(id).ok_or_else(|| unknown(who))?;
    let taken = hub.taken_on(id);
    let activity = activity(hub, &view, &taken);
    let i = view.instance;
    let thread = hub.thread_summary(ctx.me, i.thread).await?;
    let work = i.work.as_deref().cloned().unwrap_or_default();
    Ok(Doing {
        activity,
        address: i.address.to_string(),
        status: i.status.as_str(),
        label: i.label,
        open: taken.iter().filter(|given| given.report.is_none()).count(),
        unread: view.unread,
        unread_shared: view.unread_shared,
        messages: thread.total,
        last_message_at: thread.last_at.map(|at| at.to_string()),
        started_at: work.started_at.map(|at| at.to_string()),
        last_seen: i.last_seen.to_string(),
        ended_at: i.ended_at.map(|at| at.to_string()),
        exit_code: work.exit_code,
        branch: work.branch,
    })
}

/// Reads the id of one instance, or an address that has it.
pub(crate) fn exactly(who: &str) -> Result<InstanceId, ApiError> {
    match who.parse::<Address>()? {
        Address::Exact { instance, .. } => Ok(instance),
        _ => {
            let why = "instance: it is the id of one agent, 8 hex digits";
            Err(ApiError::new(ErrorCode::InvalidArgument, why)
                .hint("assign and handoff tell it; find_agents names who is active"))
        }
    }
}

pub(crate) fn unknown(who: &str) -> ApiError {
    let who: String = who.chars().take(64).collect();
    ApiError::new(ErrorCode::NotFound, format!("no such agent: {who}"))
        .hint("assign and handoff tell the id; find_agents names who is active")
}
