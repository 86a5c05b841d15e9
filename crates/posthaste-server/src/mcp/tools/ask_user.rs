//! `ask_user`: sends a question to the operator, and may wait for the answer.

use posthaste_api::error::ApiError;
use posthaste_api::messages::{SendRequest, To};
use posthaste_core::messaging::message::Seq;
use posthaste_core::messaging::receive::{Ask, Budget};
use posthaste_core::ports::Filter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Tool;
use super::send_message::{SendResult, send};
use crate::mcp::call::{Ctx, Job, done, refusal, text as json};
use crate::mcp::{schema, text};
use crate::words::brief;

pub(crate) const TOOL: Tool = Tool {
    name: "ask_user",
    description: "Posthaste: ask the human. Waits; `pending` means that the answer comes by \
        check_inbox.",
    schema: schema::of::<Args>,
    reads: false,
    waits: true,
    run,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    question: String,
    /// default true
    #[serde(default)]
    blocking: Option<bool>,
    /// choices
    #[serde(default, deserialize_with = "text::list")]
    options: Vec<String>,
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let args = match args {
            Ok(args) => args,
            Err(error) => return ctx.reply::<()>(Err(error)).await,
        };
        let blocking = args.blocking != Some(false);
        let asked = ask(&ctx, args.question, args.options, blocking).await;
        let id = match asked {
            Ok(id) => id,
            Err(error) => return ctx.reply::<()>(Err(error)).await,
        };
        if !blocking {
            return ctx.reply(Ok(Asked::pending(id, "question sent, continuing"))).await;
        }
        let batch = match answer(ctx, id).await {
            Ok(batch) => batch,
            Err(error) => return done(refusal(&error), true, None),
        };
        let asked = match batch.mail.first() {
            None => Asked {
                settled: batch.settled.iter().map(|seq| seq.0).collect(),
                ..Asked::pending(id, "not answered yet: go on, the answer comes by check_inbox")
            },
            Some(reply) => Asked {
                question_id: id,
                status: "answered",
                id: Some(reply.leased.message.seq.0),
                answer: Some(reply.text().to_owned()),
                redelivered: reply.leased.redelivered,
                truncated: reply.clip.is_some(),
                next_offset: reply.clip.map(|clip| clip.chars),
                note: None,
                settled: batch.settled.iter().map(|seq| seq.0).collect(),
            },
        };
        match json(&asked) {
            Ok(told) => done(told, false, Some(batch.handed)),
            Err(error) => done(refusal(&error), true, None),
        }
    })
}

#[derive(Debug, Serialize)]
struct Asked {
    question_id: u64,
    status: &'static str,
    /// The message that answers the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// True if an earlier read may have shown the answer as an ordinary message.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redelivered: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u64>,
}

impl Asked {
    fn pending(question_id: u64, note: &'static str) -> Self {
        Self {
            question_id,
            status: "pending",
            id: None,
            answer: None,
            redelivered: false,
            truncated: false,
            next_offset: None,
            note: Some(note),
            settled: Vec::new(),
        }
    }
}

/// Sends the question, and returns its number.
pub(crate) async fn ask(
    ctx: &Ctx,
    question: String,
    options: Vec<String>,
    blocking: bool,
) -> Result<u64, ApiError> {
    let mut metadata = Map::from_iter([("blocking".to_owned(), Value::Bool(blocking))]);
    if !options.is_empty() {
        let options = options.into_iter().map(Value::String).collect();
        metadata.insert("options".to_owned(), Value::Array(options));
    }
    let request = SendRequest {
        to: To::One("human".into()),
        kind: Some("question".into()),
        metadata: Some(metadata),
        ..SendRequest::new("", question)
    };
    match send(ctx, request).await? {
        SendResult::One(sent) => Ok(sent.id),
        SendResult::Many { .. } => Ok(0),
    }
}

/// Waits for the human's answer to the question.
pub(crate) async fn answer(
    ctx: Ctx,
    question: u64,
) -> Result<posthaste_core::messaging::receive::Batch, ApiError> {
    let _asking = ctx.app.hub.asks(ctx.me);
    let room = ctx.client.chars.saturating_sub(brief::WRAPPER);
    let ask = Ask {
        timeout: ctx.app.hub.limits().wait,
        filter: Filter { answers: Some(Seq(question)), own: true, ..Filter::default() },
        budget: Budget::Json { chars: room, beside: brief::beside },
        most: 1,
        ..Ask::now(ctx.me)
    };
    Ok(ctx.receive(ask).await?)
}
