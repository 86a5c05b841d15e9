//! Who the caller is to everybody else.

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::messaging::message::Principal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use crate::mcp::call::{Ctx, Job};
use crate::mcp::{schema, text};

pub(crate) const TOOL: Tool = Tool {
    name: "whoami",
    description: "Posthaste: your own address, team, parent and how much mail waits for you.",
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
}

fn me(ctx: &Ctx) -> Result<Me, ApiError> {
    let Principal::Instance(id) = ctx.me else {
        return Ok(Me {
            address: "human".into(),
            instance: None,
            team: None,
            parent: None,
            label: None,
            thread_id: None,
            unread: None,
        });
    };
    let view = ctx.app.hub.instance(id);
    let view = view.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "you have been forgotten"))?;
    let me = view.instance;
    let parent = me.parent.map(|id| match ctx.app.hub.instance(id) {
        Some(parent) => parent.instance.address.to_string(),
        None => id.to_string(),
    });
    Ok(Me {
        address: me.address.to_string(),
        instance: Some(id.to_string()),
        team: Some(me.team.to_string()),
        parent,
        label: me.label,
        thread_id: Some(me.thread.to_string()),
        unread: Some(view.unread),
    })
}
