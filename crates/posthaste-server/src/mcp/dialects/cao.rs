//! CAO's tools: `assign`, `handoff`, `send_message` and `check_inbox`, as its agents
//! know them.

mod work;

use posthaste_api::error::ApiError;
use posthaste_api::messages::{SendRequest, To};
use posthaste_core::address::Address;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::receive::{Ask, Budget, Entry};
use posthaste_core::ports::Filter;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::cao::WINDOW;
use crate::mcp::call::{Ctx, Done, Job, done, text as json};
use crate::mcp::tools::Tool;
use crate::mcp::tools::check_inbox::call_again;
use crate::mcp::tools::send_message::{SendResult, send};
use crate::mcp::{schema, text};
use crate::words::brief;
use crate::words::params::{parse_receipt, print_receipt, seconds};
use crate::words::work::reports_to;

pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        name: "handoff",
        description: "Hand off a task to another agent and wait for its completion; returns its \
            output. If it takes too long the output comes by check_inbox.",
        schema: schema::of::<work::Handoff>,
        reads: false,
        waits: true,
        run: work::handoff,
    },
    Tool {
        name: "assign",
        description: "Assign a task to another agent without waiting. Note the terminal_id: the \
            worker's results come by check_inbox with it as sender_id.",
        schema: schema::of::<work::Assign>,
        reads: false,
        waits: false,
        run: work::assign,
    },
    Tool {
        name: "send_message",
        description: "Send a message to another terminal's inbox, for example a worker's result \
            to its supervisor. Your own id is added by itself.",
        schema: schema::of::<Send>,
        reads: false,
        waits: false,
        run: write,
    },
    Tool {
        name: "check_inbox",
        description: "Wait for messages to this terminal and return all of them, each with its \
            sender_id. After assign, call it to collect the workers' results. Returned messages \
            are consumed. An empty list means that none came in time.",
        schema: schema::of::<Check>,
        reads: true,
        waits: true,
        run: read,
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Send {
    /// terminal id, 8 hex digits
    receiver_id: String,
    message: String,
}

#[derive(Debug, Serialize)]
struct Sent {
    success: bool,
    message_id: u64,
    sender_id: String,
    receiver_id: String,
}

/// CAO's own form of an error.
#[derive(Debug, Serialize)]
struct Failed<'a> {
    success: bool,
    error: &'a str,
    code: posthaste_api::error::ErrorCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

fn failed(error: &ApiError) -> String {
    let failed = Failed {
        success: false,
        error: &error.message,
        code: error.code,
        hint: error.hint.as_deref(),
    };
    json(&failed).unwrap_or_default()
}

fn my_id(me: Principal) -> String {
    match me {
        Principal::Operator => "human".to_owned(),
        Principal::Instance(id) => id.to_string(),
    }
}

fn write(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Send>(given);
    Box::pin(async move {
        let sent = match args {
            Ok(args) => deliver(&ctx, args).await,
            Err(error) => Err(error),
        };
        ctx.reply_as(sent, failed).await
    })
}

async fn deliver(ctx: &Ctx, args: Send) -> Result<Sent, ApiError> {
    let receiver_id = args.receiver_id;
    let request = SendRequest {
        to: To::One(receiver_id.clone()),
        kind: is_report(ctx, &receiver_id).then(|| "result".to_owned()),
        ..SendRequest::new("", args.message)
    };
    let message_id = match send(ctx, request).await? {
        SendResult::One(sent) => sent.id,
        SendResult::Many { .. } => 0,
    };
    Ok(Sent { success: true, message_id, sender_id: my_id(ctx.me), receiver_id })
}

/// Returns whether a message to this receiver is a report.
fn is_report(ctx: &Ctx, receiver: &str) -> bool {
    let Some(me) = ctx.me.instance() else { return false };
    let giver = match receiver.parse::<Address>() {
        Ok(Address::Human) => Principal::Operator,
        Ok(Address::Exact { instance, .. }) => Principal::Instance(instance),
        _ => return false,
    };
    reports_to(&ctx.app.hub, me, giver)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Check {
    /// Max seconds to wait, 0 to 600, default 60; 0 = immediate check
    #[serde(default)]
    timeout: Option<f64>,
    /// Seconds to collect more after the first, default 2
    #[serde(default)]
    batch_window: Option<f64>,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    thread_id: Option<String>,
    /// Of the answer before, to confirm it
    #[serde(default)]
    receipt: Option<String>,
    /// The number that call_again names
    #[serde(default, rename = "after")]
    #[schemars(with = "Option<u64>")]
    _after: IgnoredAny,
}

#[derive(Debug, Serialize)]
struct Inbox<'a> {
    success: bool,
    terminal_id: String,
    messages: Vec<posthaste_api::inbox::Entry<'a>>,
    total: usize,
    /// The call to make if the wait was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_again: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<compact_str::CompactString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u64>,
}

/// Returns the share of a budget that a full entry takes beside its text.
fn beside(e: &Entry) -> usize {
    let empty = posthaste_api::inbox::Entry { message: "".into(), ..e.into() };
    json(&empty).map_or(brief::WRAPPER, |json| json.len() + 1)
}

fn read(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let asked = text::arguments::<Check>(given).and_then(|args| asked(&ctx, args));
    Box::pin(async move {
        match asked {
            Ok(ask) => take(ctx, ask).await,
            Err(error) => ctx.refuse(error, failed).await,
        }
    })
}

fn asked(ctx: &Ctx, args: Check) -> Result<Ask, ApiError> {
    let limits = ctx.app.hub.limits();
    let timeout = seconds("timeout", args.timeout, 60.0, limits.wait)?;
    let window = seconds("batch_window", args.batch_window, WINDOW, limits.batch_window)?;
    let room = ctx.client.chars.saturating_sub(brief::WRAPPER);
    Ok(Ask {
        timeout,
        window,
        filter: Filter {
            label: args.label,
            thread: args.thread_id.as_deref().map(str::parse).transpose()?,
            ..Filter::default()
        },
        budget: Budget::Json { chars: room, beside },
        receipt: args.receipt.as_deref().and_then(parse_receipt),
        ..Ask::now(ctx.me)
    })
}

async fn take(ctx: Ctx, ask: Ask) -> Done {
    let me = ctx.me;
    let batch = match ctx.receive(ask).await {
        Ok(batch) => batch,
        Err(error) => return done(failed(&error.into()), true, None),
    };
    let inbox = Inbox {
        success: true,
        terminal_id: my_id(me),
        messages: batch.mail.iter().map(Into::into).collect(),
        total: batch.mail.len(),
        call_again: call_again(&batch),
        receipt: (!batch.mail.is_empty()).then(|| print_receipt(batch.receipt)),
        remaining: (batch.remaining > 0).then_some(batch.remaining),
        settled: batch.settled.iter().map(|seq| seq.0).collect(),
    };
    match json(&inbox) {
        Ok(told) => done(told, false, Some(batch.handed)),
        Err(error) => done(failed(&error), true, None),
    }
}
