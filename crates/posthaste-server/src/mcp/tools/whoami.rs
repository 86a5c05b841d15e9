//! `whoami`: tells the caller its address, its unread mail and its tasks.

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::messaging::message::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use crate::mcp::call::{Ctx, Job};
use crate::mcp::{schema, text};
use crate::words::work::address;

pub(crate) const TOOL: Tool = Tool {
    name: "whoami",
    description: "Posthaste: your own address, team and parent, your open tasks and workers.",
    schema: schema::of::<Args>,
    reads: true,
    waits: false,
    run,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let told = args.and_then(|Args {}| me(&ctx));
        ctx.reply(told).await
    })
}

#[derive(Debug, Serialize)]
struct Me {
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<usize>,
    /// Number of messages to the caller's name or to anyone that others could take as
    /// well.
    #[serde(skip_serializing_if = "is_zero")]
    unread_shared: usize,
    /// The caller's tasks without a report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<Task>,
    /// Tasks that the caller gave out and that have no report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assigned: Vec<Task>,
    #[serde(skip_serializing_if = "is_zero")]
    more_assigned: usize,
    /// Number of the caller's workers that have not ended.
    running: usize,
    context: String,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A task, with its giver or its worker.
#[derive(Debug, Serialize)]
struct Task {
    task: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

/// Most tasks of either kind that are named.
const NAMED: usize = 50;

fn me(ctx: &Ctx) -> Result<Me, ApiError> {
    let hub = &ctx.app.hub;
    let context = hub.context(ctx.me);
    let open = context.given.iter().filter(|given| given.assignment.report.is_none());
    let mut assigned: Vec<Task> = open
        .map(|given| Task {
            task: given.assignment.task.0,
            by: None,
            worker: Some(given.assignment.worker.to_string()),
            label: given.assignment.label.as_deref().map(str::to_owned),
        })
        .collect();
    let more_assigned = assigned.len().saturating_sub(NAMED);
    assigned.truncate(NAMED);
    let nobody = Me {
        address: "human".into(),
        instance: None,
        team: None,
        parent: None,
        label: None,
        thread_id: None,
        unread: None,
        unread_shared: 0,
        tasks: Vec::new(),
        assigned,
        more_assigned,
        running: context.running.len(),
        context: context.prompt(),
    };
    let Principal::Instance(id) = ctx.me else { return Ok(nobody) };
    let view = hub.instance(id);
    let view = view.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "you have been forgotten"))?;
    let me = view.instance;
    let taken = hub.taken_on(id).into_iter().filter(|given| given.report.is_none());
    let tasks = taken.take(NAMED).map(|given| Task {
        task: given.task.0,
        by: Some(address(hub, given.by)),
        worker: None,
        label: given.label.as_deref().map(str::to_owned),
    });
    Ok(Me {
        address: me.address.to_string(),
        instance: Some(id.to_string()),
        team: Some(me.team.to_string()),
        parent: me.parent.map(|id| address(hub, Principal::Instance(id))),
        label: me.label,
        thread_id: Some(me.thread.to_string()),
        unread: Some(view.unread),
        unread_shared: view.unread_shared,
        tasks: tasks.collect(),
        ..nobody
    })
}
