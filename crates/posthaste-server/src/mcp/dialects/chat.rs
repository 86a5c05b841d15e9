//! The dialect of the chat loop: questions and answers to the user, in plain text.

use posthaste_api::error::ApiError;
use posthaste_api::messages::{SendRequest, To};
use posthaste_core::messaging::message::MessageRef;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::mcp::call::{Ctx, Job, done, done_beside, refusal};
use crate::mcp::tools::Tool;
use crate::mcp::tools::ask_user::{answer, ask};
use crate::mcp::tools::send_message::send;
use crate::mcp::{schema, text};

pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        name: "respondToUser",
        description: "Send an intermediate response to the user while continuing to work on \
            other tasks. Use it when one task is done and others are left.",
        schema: schema::of::<Respond>,
        reads: false,
        waits: false,
        run: respond,
    },
    Tool {
        name: "askUser",
        description: "Ask the user. With blocking false you go on, and the reply arrives via \
            the inbox.",
        schema: schema::of::<Question>,
        reads: false,
        waits: true,
        run: question,
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Respond {
    /// The response text to show the user
    message: String,
    /// Quote or reference to the user message that this answers
    #[serde(default)]
    in_reply_to: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Question {
    question: String,
    /// default true
    #[serde(default)]
    blocking: Option<bool>,
}

fn respond(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Respond>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => write(&ctx, args).await,
            Err(error) => Err(error),
        };
        ctx.reply_text(told).await
    })
}

async fn write(ctx: &Ctx, args: Respond) -> Result<String, ApiError> {
    // A reference to a message is a link; anything else is a quote, kept as one.
    let which = args.in_reply_to.as_deref().and_then(|text| text.parse::<MessageRef>().ok());
    let known = match which {
        Some(which) => ctx.app.hub.message(ctx.me, which).await?.is_some(),
        None => false,
    };
    let (in_reply_to, quote) = match known {
        true => (text::message(args.in_reply_to), None),
        false => (None, args.in_reply_to),
    };
    let metadata = quote.map(|quote| Map::from_iter([("quote".to_owned(), Value::String(quote))]));
    let request = SendRequest {
        to: To::One("human".into()),
        kind: Some("answer".into()),
        in_reply_to,
        metadata,
        ..SendRequest::new("", args.message)
    };
    send(ctx, request).await?;
    Ok("delivered".to_owned())
}

fn question(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Question>(given);
    Box::pin(async move {
        let args = match args {
            Ok(args) => args,
            Err(error) => return ctx.reply_text(Err(error)).await,
        };
        let blocking = args.blocking != Some(false);
        let id = match ask(&ctx, args.question, Vec::new(), blocking).await {
            Ok(id) => id,
            Err(error) => return ctx.reply_text(Err(error)).await,
        };
        if !blocking {
            return ctx.reply_text(Ok("question sent, continuing".to_owned())).await;
        }
        let batch = match answer(ctx, id).await {
            Ok(batch) => batch,
            Err(error) => return done(refusal(&error), true, None),
        };
        let told = match batch.mail.first() {
            Some(reply) if reply.leased.redelivered => {
                format!("(this may have been read before) {}", reply.text())
            }
            Some(reply) => reply.text().to_owned(),
            None => format!("no answer yet to question {id}: it arrives via the inbox"),
        };
        done_beside(told, batch)
    })
}
