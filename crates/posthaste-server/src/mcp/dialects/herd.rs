//! The dialect of the addressed bus: one tool, which sends; mail comes by piggyback.

use posthaste_api::messages::{SendRequest, To};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::mcp::call::{Ctx, Job};
use crate::mcp::tools::Tool;
use crate::mcp::tools::send_message::send;
use crate::mcp::{schema, text};

pub(crate) const TOOLS: &[Tool] = &[Tool {
    name: "herd_send",
    description: "Send a message to an agent: `agent`, `agent@team`, `agent.instance@team`, \
        `@anyone`, `@everyone`, or these with `@team`. Mail for you comes as _pending_messages \
        with the next result.",
    schema: schema::of::<Args>,
    reads: false,
    waits: false,
    run,
}];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(with = "String")]
    to: To,
    message: String,
    /// normal or urgent
    #[serde(default)]
    priority: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let told = match args {
            Ok(Args { to, message, priority, kind }) => {
                let request = SendRequest { to, priority, kind, ..SendRequest::new("", message) };
                send(&ctx, request).await
            }
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}
