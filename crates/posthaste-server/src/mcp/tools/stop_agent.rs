//! `stop_agent`: ends a worker and all workers below it.

use posthaste_api::error::ApiError;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Tool;
use super::agent_status::{Args, exactly, unknown};
use crate::mcp::call::{Ctx, Job};
use crate::mcp::{schema, text};

pub(crate) const TOOL: Tool = Tool {
    name: "stop_agent",
    description: "Posthaste: end a worker of yours and all below it.",
    schema: schema::of::<Args>,
    reads: false,
    waits: false,
    run,
};

#[derive(Debug, Serialize)]
struct Stopped {
    instance: String,
    /// The status now: a process that was asked to end may still run.
    status: &'static str,
    stopped: usize,
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => stop(&ctx, &args.instance).await,
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}

async fn stop(ctx: &Ctx, who: &str) -> Result<Stopped, ApiError> {
    let id = exactly(who)?;
    let stopped = ctx.app.hub.stop(ctx.me, id).await?;
    let view = ctx.app.hub.instance(id).ok_or_else(|| unknown(who))?;
    Ok(Stopped { instance: id.to_string(), status: view.instance.status.as_str(), stopped })
}
