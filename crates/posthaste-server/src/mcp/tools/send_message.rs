//! `send_message`: sends a message to an agent, a team or the human.

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::messages::{SendRequest, To};
use posthaste_core::messaging::message::{MessageRef, Principal, Receipt, Via};
use posthaste_core::messaging::send::SendError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use crate::mcp::call::{Ctx, Job};
use crate::mcp::{schema, text};
use crate::words::draft::{self, Author};

pub(crate) const TOOL: Tool = Tool {
    name: "send_message",
    description: "Posthaste: write to an agent, a team or the human. Without `to`: to the sender of \
        in_reply_to, else to whoever assigned you. An answer comes by check_inbox. Type `result` \
        reports a finished assignment.",
    schema: schema::of::<Args>,
    reads: false,
    waits: false,
    run,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[serde(alias = "content")]
    message: String,
    /// `name`, `name@team`, `name.1a2b3c4d`, `@anyone`, `@everyone[@team]`, `human`
    #[serde(default, alias = "receiver_id", alias = "to_assistant_id")]
    #[schemars(with = "Option<String>")]
    to: Option<To>,
    /// id of what you answer
    #[serde(default, deserialize_with = "text::word")]
    #[schemars(with = "Option<String>")]
    in_reply_to: Option<String>,
    /// text, result, question, answer, inform, progress
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// normal or urgent
    #[serde(default)]
    priority: Option<String>,
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => write(&ctx, args).await,
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}

async fn write(ctx: &Ctx, args: Args) -> Result<SendResult, ApiError> {
    let in_reply_to = text::message(args.in_reply_to);
    let to = match args.to {
        Some(to) => to,
        None => To::One(recipient(ctx, in_reply_to.as_ref()).await?),
    };
    let request = SendRequest {
        to,
        priority: args.priority,
        kind: args.kind,
        in_reply_to,
        ..SendRequest::new("", args.message)
    };
    send(ctx, request).await
}

/// Finds the recipient when the caller names none.
async fn recipient(
    ctx: &Ctx,
    in_reply_to: Option<&posthaste_api::messages::MessageRef>,
) -> Result<String, ApiError> {
    if let Some(which) = in_reply_to {
        let which: MessageRef = which.try_into()?;
        // The send decides whether the caller may see the message; it recognizes repeats
        // first.
        let record = ctx.app.hub.message(Principal::Operator, which).await?;
        let record = record.ok_or(SendError::NoSuchMessage(which))?;
        return Ok(record.message.from.id());
    }
    giver(ctx).ok_or_else(|| {
        let why = "to: it is missing, and nobody assigned you";
        ApiError::new(ErrorCode::InvalidArgument, why)
            .hint("name an address (find_agents tells who is here), or `human`")
    })
}

/// Returns the giver of the caller's oldest open task, else the caller's parent.
fn giver(ctx: &Ctx) -> Option<String> {
    let (hub, me) = (&ctx.app.hub, ctx.me.instance()?);
    let open = hub.taken_on(me).into_iter().find(|given| given.report.is_none());
    match open.map(|given| given.by) {
        Some(Principal::Operator) => Some("human".to_owned()),
        Some(Principal::Instance(id)) => Some(id.to_string()),
        None => hub.instance(me)?.instance.parent.map(|id| id.to_string()),
    }
}

/// The answer to a sender.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum SendResult {
    One(Sent),
    Many { results: Vec<OneOfMany> },
}

#[derive(Debug, Serialize)]
pub(crate) struct Sent {
    pub(crate) id: u64,
    status: &'static str,
    /// Number of agents that could read the message now.
    active: u32,
    /// Number of those agents that wait for mail now.
    waiting: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct OneOfMany {
    to: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Outcome {
    Sent(Sent),
    Refused { error: ApiError },
}

impl From<Receipt> for Sent {
    fn from(receipt: Receipt) -> Self {
        let active = receipt.recipients.iter().map(|r| r.active).sum();
        let waiting = receipt.recipients.iter().map(|r| r.waiting).sum();
        let human =
            receipt.recipients.iter().any(|r| r.mailbox == posthaste_core::address::Mailbox::Human);
        let note = (active == 0 && !human)
            .then_some("nobody who could read it is active: it waits until somebody comes");
        Self {
            id: receipt.seq.0,
            status: "queued",
            active,
            waiting,
            duplicate: receipt.duplicate,
            skipped: receipt.skipped.iter().map(ToString::to_string).collect(),
            note,
        }
    }
}

/// Sends to one address or to each of a list, in order; one failure does not stop the
/// rest.
pub(crate) async fn send(ctx: &Ctx, mut request: SendRequest) -> Result<SendResult, ApiError> {
    request.idempotency_key = ctx.key.clone();
    let app = &ctx.app;
    let from = Author { who: ctx.me, via: Via::Mcp, trace: ctx.trace };
    let details = draft::details(app, ctx.me, &mut request).await?;
    match request.to {
        To::One(to) => {
            let sent = draft::start(app, &from, &to, request.message.into(), details)?;
            Ok(SendResult::One(sent.await?.into()))
        }
        To::Many(list) => {
            let sent = draft::send_to_each(app, &from, list, request.message, details).await?;
            let outcome = |receipt: Result<Receipt, ApiError>| match receipt {
                Ok(receipt) => Outcome::Sent(receipt.into()),
                Err(error) => Outcome::Refused { error },
            };
            let results = sent.into_iter().map(|(to, r)| OneOfMany { to, outcome: outcome(r) });
            Ok(SendResult::Many { results: results.collect() })
        }
    }
}
