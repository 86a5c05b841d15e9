//! `respond_to_user`: sends a message to the operator while the work goes on.

use posthaste_api::error::ApiError;
use posthaste_api::messages::{SendRequest, To};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Tool;
use super::send_message::{SendResult, send};
use crate::mcp::call::{Ctx, Job};
use crate::mcp::{schema, text};

pub(crate) const TOOL: Tool = Tool {
    name: "respond_to_user",
    description: "Posthaste: tell the human something while you go on working.",
    schema: schema::of::<Args>,
    reads: false,
    waits: false,
    run,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    message: String,
    #[serde(default, deserialize_with = "text::word")]
    #[schemars(with = "Option<String>")]
    in_reply_to: Option<String>,
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => respond(&ctx, args.message, args.in_reply_to).await,
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}

async fn respond(ctx: &Ctx, message: String, to: Option<String>) -> Result<SendResult, ApiError> {
    let in_reply_to = text::message(to);
    let request = SendRequest {
        to: To::One("human".into()),
        kind: Some("answer".into()),
        in_reply_to,
        ..SendRequest::new("", message)
    };
    send(ctx, request).await
}
