//! `assign`: starts a worker and does not wait for it.

use posthaste_api::error::ApiError;
use posthaste_api::work::AssignRequest;
use posthaste_core::messaging::message::Via;
use posthaste_core::orchestration::{Assign, Assigned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use crate::mcp::call::{Ctx, Job};
use crate::mcp::{schema, text};
use crate::words::work;

pub(crate) const TOOL: Tool = Tool {
    name: "assign",
    description: "Posthaste: start a worker and go on; its final answer comes by check_inbox. \
        Assign all parts first, then gather them with wait_for `all`.",
    schema: schema::of::<Args>,
    reads: false,
    waits: false,
    run,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// a name from find_agents
    #[serde(alias = "agent_profile", alias = "assistant_id")]
    agent: String,
    /// the whole task
    #[serde(alias = "query", alias = "content")]
    message: String,
    /// returns with the report
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    working_directory: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    team: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    worktree: Option<bool>,
    #[serde(default)]
    #[schemars(skip)]
    timeout: Option<f64>,
}

#[derive(Debug, Serialize)]
struct AssignResult {
    instance: String,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    status: &'static str,
    task: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => give(&ctx, args).await,
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}

async fn give(ctx: &Ctx, args: Args) -> Result<AssignResult, ApiError> {
    let Args { agent, message, label, team, working_directory, worktree, timeout } = args;
    let request = AssignRequest {
        agent,
        message,
        label: label.clone(),
        team,
        working_directory,
        worktree,
        timeout,
        idempotency_key: None,
    };
    let Assigned { instance, task, duplicate } = assign(ctx, request).await?;
    Ok(AssignResult {
        instance: instance.id.to_string(),
        address: instance.address.to_string(),
        label,
        status: instance.status.as_str(),
        task: task.0,
        duplicate,
    })
}

pub(crate) async fn assign(ctx: &Ctx, request: AssignRequest) -> Result<Assigned, ApiError> {
    Ok(ctx.app.hub.assign(wish(ctx, request)?).await?)
}

/// Reads an assignment. The key of the call makes a repeated call the same assignment.
pub(crate) fn wish(ctx: &Ctx, request: AssignRequest) -> Result<Assign, ApiError> {
    let request = AssignRequest { idempotency_key: ctx.key.clone(), ..request };
    work::wish(ctx.me, Via::Mcp, request)
}
