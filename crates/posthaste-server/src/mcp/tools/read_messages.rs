//! `read_messages`: shows messages again, or the rest of a long one; leases nothing.

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::messages::MessageRef;
use posthaste_core::messaging::message::MessageRef as Which;
use posthaste_core::ports::{HistoryQuery, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use crate::mcp::call::{Ctx, Job};
use crate::mcp::{schema, text};
use crate::words::params::last_n;

pub(crate) const TOOL: Tool = Tool {
    name: "read_messages",
    description: "Posthaste: read mail again; takes none. `id`: one message, from character `offset` \
        on; else the last ones, of a thread or (leaders) a team.",
    schema: schema::of::<Args>,
    reads: true,
    waits: false,
    run,
};

/// Characters around a part of one message.
const AROUND: usize = 700;
/// Characters around a list.
const AROUND_LIST: usize = 100;
/// Most characters of a common list entry beside its text.
const BESIDE: usize = 160;
/// Fewest characters that a listed message shows of its text.
const SHARE: usize = 40;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default, deserialize_with = "text::word")]
    #[schemars(with = "Option<String>")]
    id: Option<String>,
    #[serde(default)]
    offset: Option<usize>,
    #[serde(default)]
    thread_id: Option<String>,
    #[serde(default)]
    team: Option<String>,
    /// default 20
    #[serde(default)]
    last_n: Option<u32>,
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => look(&ctx, args).await,
            Err(error) => Err(error),
        };
        ctx.reply_without_mail(told).await
    })
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ReadResult {
    One(Box<MessagePart>),
    Some {
        messages: Vec<MessagePart>,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
}

#[derive(Debug, Serialize)]
struct MessagePart {
    id: u64,
    from: String,
    to: String,
    message: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<u64>,
    created_at: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_chars: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

async fn look(ctx: &Ctx, args: Args) -> Result<ReadResult, ApiError> {
    let hub = &ctx.app.hub;
    if let Some(id) = args.id {
        if args.thread_id.is_some() || args.team.is_some() || args.last_n.is_some() {
            let why = "id: it names one message; leave thread_id, team and last_n out";
            return Err(ApiError::new(ErrorCode::InvalidArgument, why));
        }
        let which: Which = (&MessageRef::Text(id)).try_into()?;
        let record = hub.message(ctx.me, which).await?.ok_or_else(|| {
            let why = format!("there is no message {which} that you may read");
            ApiError::new(ErrorCode::NotFound, why)
                .hint("settled mail is kept for 24 hours; read_messages() shows the last ones")
        })?;
        let room = ctx.client.chars.saturating_sub(AROUND);
        return Ok(ReadResult::One(Box::new(seen(&record, args.offset.unwrap_or(0), room))));
    }
    if args.offset.is_some() {
        return Err(ApiError::new(ErrorCode::InvalidArgument, "offset: it needs an id"));
    }
    let last = last_n(args.last_n)?;
    let query = HistoryQuery {
        thread: args.thread_id.as_deref().map(str::parse).transpose()?,
        team: args.team.as_deref().map(str::parse).transpose()?,
        last,
        ..HistoryQuery::default()
    };
    let page = hub.history(ctx.me, query).await?;
    // The newest messages matter most: if not all fit, the oldest are left out.
    let fit = ctx.client.chars / (BESIDE + SHARE);
    let hidden = page.records.len().saturating_sub(fit);
    let shown = &page.records[hidden..];
    let share = (ctx.client.chars / shown.len().max(1)).saturating_sub(BESIDE).max(SHARE);
    let mut messages: Vec<MessagePart> =
        shown.iter().map(|record| seen(record, 0, share)).collect();
    let fit = text::last_that_fit(&messages, ctx.client.chars.saturating_sub(AROUND_LIST));
    let hidden = hidden + messages.len() - fit;
    messages.drain(..messages.len() - fit);
    let note = (hidden > 0).then(|| format!("{hidden} older ones did not fit: ask for fewer"));
    Ok(ReadResult::Some { messages, note })
}

/// Returns a part of a message that takes at most `room` characters.
fn seen(record: &Record, offset: usize, room: usize) -> MessagePart {
    let m = &record.message;
    let total = m.body.chars().count();
    let mut left = room;
    let fits = |c: &char| {
        let cost = if *c == '"' || *c == '\\' || c.is_control() { 6 } else { c.len_utf8() };
        left = left.saturating_sub(cost);
        left > 0
    };
    let part: String = m.body.chars().skip(offset).take_while(fits).collect();
    let end = offset.saturating_add(part.chars().count());
    let cut = end < total;
    let kind = m.kind.as_str();
    MessagePart {
        id: m.seq.0,
        from: m.from.address.to_string(),
        to: m.to.clone(),
        message: part,
        kind: (kind != "text").then(|| kind.to_owned()),
        label: m.label.clone(),
        thread_id: m.thread.to_string(),
        in_reply_to: m.in_reply_to.map(|seq| seq.0),
        created_at: m.created_at.to_string(),
        state: state(record),
        offset: (offset > 0).then_some(offset),
        truncated: cut,
        total_chars: (cut || offset > 0).then_some(total),
        next_offset: cut.then_some(end),
    }
}

/// Returns the state of a message; of many deliveries, that of the one furthest behind.
fn state(record: &Record) -> &'static str {
    let states = || record.deliveries.iter().map(|d| d.state.as_str());
    let order = ["queued", "leased", "dead", "acked"];
    order.into_iter().find(|word| states().any(|s| s == *word)).unwrap_or("acked")
}
