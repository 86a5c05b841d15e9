//! `check_inbox`: returns new mail, and waits for it within the client's patience.

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::messaging::receive::{
    Already as HandedBefore, Ask, Batch, BatchStatus, Budget, Missing as Absent, WaitFor,
};
use posthaste_core::ports::Filter;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Tool;
use crate::mcp::call::{Ctx, Done, Job, done, refusal, text as json};
use crate::mcp::{schema, text};
use crate::words::brief::{self, BriefEntry};
use crate::words::params::{seconds, wait_for};

pub(crate) const TOOL: Tool = Tool {
    name: "check_inbox",
    description: "Posthaste: your new mail; waits up to `timeout` seconds. Call it before you finish \
        and when you need an answer, never in a loop. After assign use wait_for `all`. On \
        `call_again` call again, with its `after`.",
    schema: schema::of::<Args>,
    reads: true,
    waits: true,
    run,
};

const TIMEOUT: f64 = 60.0;
/// Characters of a missing sender in an answer beside its name.
const MISSING: usize = 60;
/// Characters of the names of the two lists.
const NAMES_OF_LISTS: usize = 30;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// seconds, default 60; 0 only looks
    #[serde(default)]
    timeout: Option<f64>,
    /// any (default), all, or a number
    #[serde(default, deserialize_with = "text::word")]
    #[schemars(with = "Option<String>")]
    wait_for: Option<String>,
    /// agents or labels
    #[serde(default, deserialize_with = "text::list")]
    from: Vec<String>,
    // Any value: it only makes a repeated call differ.
    #[serde(default, rename = "after")]
    #[schemars(with = "Option<u64>")]
    _after: IgnoredAny,
}

fn run(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Args>(given).and_then(|args| asked(&ctx, args));
    Box::pin(async move {
        match args {
            Ok(ask) => read(ctx, ask).await,
            Err(error) => ctx.reply_without_mail::<()>(Err(error)).await,
        }
    })
}

fn asked(ctx: &Ctx, args: Args) -> Result<Ask, ApiError> {
    let limits = ctx.app.hub.limits();
    let named: usize = args.from.iter().map(|who| who.len() + MISSING).sum();
    let long = args.from.iter().any(|who| who.chars().count() > limits.label_chars);
    let most = limits.recipients;
    if args.from.len() > most || long || named > ctx.client.chars / 2 {
        let why = format!(
            "from: at most {most} agents or labels of {} characters, and fewer if they are long",
            limits.label_chars
        );
        return Err(ApiError::new(ErrorCode::InvalidArgument, why));
    }
    let timeout = seconds("timeout", args.timeout, TIMEOUT, limits.wait)?;
    let wait_for = wait_for(args.wait_for.as_deref())?;
    let room = ctx.client.chars.saturating_sub(brief::WRAPPER + named);
    let budget = Budget::Json { chars: room, beside: brief::beside };
    Ok(Ask {
        timeout,
        window: ctx.app.hub.batch_window(ctx.me),
        wait_for,
        filter: Filter {
            from: args.from.into(),
            or_ends_wait: wait_for != WaitFor::Any,
            ..Filter::default()
        },
        budget,
        ..Ask::now(ctx.me)
    })
}

/// Returns the call to make if the wait was cut short. Its number differs each time: some
/// programs stop a model that makes the same call over and over.
pub(crate) fn call_again(batch: &Batch) -> Option<String> {
    let after = batch.handed.number();
    (batch.status == BatchStatus::CallAgain)
        .then(|| format!("check_inbox again, same arguments and after={after}"))
}

#[derive(Debug, Serialize)]
struct Inbox<'a> {
    messages: Vec<BriefEntry<'a>>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_again: Option<String>,
    waited_s: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<Missing<'a>>,
    /// Number of missing senders that there is no room to name.
    #[serde(skip_serializing_if = "is_zero")]
    more_missing: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    already: Vec<Already<'a>>,
    /// Number of reports handed over before that there is no room to name.
    #[serde(skip_serializing_if = "is_zero")]
    more_already: usize,
    #[serde(skip_serializing_if = "is_zero")]
    remaining: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settled: Vec<u64>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[derive(Debug, Serialize)]
struct Missing<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    status: &'static str,
}

/// A report that an earlier answer held.
#[derive(Debug, Serialize)]
struct Already<'a> {
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
}

async fn read(ctx: Ctx, ask: Ask) -> Done {
    let chars = ctx.client.chars;
    let batch = match ctx.receive(ask).await {
        Ok(batch) => batch,
        Err(error) => return done(refusal(&error.into()), true, None),
    };
    let mut inbox = Inbox {
        messages: batch.mail.iter().map(BriefEntry::new).collect(),
        status: batch.status.as_str(),
        call_again: call_again(&batch),
        waited_s: (batch.waited.as_secs_f64() * 10.0).round() / 10.0,
        missing: Vec::new(),
        more_missing: batch.missing.len(),
        already: Vec::new(),
        more_already: batch.already.len(),
        remaining: batch.remaining,
        settled: batch.settled.iter().map(|seq| seq.0).collect(),
    };
    // Mail comes first: missing senders and reports handed over before are named as far as
    // there is room.
    if !batch.missing.is_empty() || !batch.already.is_empty() {
        let used = json(&inbox).map_or(chars, |told| told.len());
        let mut left = chars.saturating_sub(used + NAMES_OF_LISTS);
        inbox.missing = named(batch.missing.iter().map(Missing::from), &mut left);
        inbox.more_missing -= inbox.missing.len();
        inbox.already = named(batch.already.iter().map(Already::from), &mut left);
        inbox.more_already -= inbox.already.len();
    }
    match json(&inbox) {
        Ok(told) => done(told, false, Some(batch.handed)),
        // The answer is not written, so its mail goes back.
        Err(error) => done(refusal(&error), true, None),
    }
}

/// Returns as many entries as fit into `left` characters.
fn named<T: Serialize>(entries: impl Iterator<Item = T>, left: &mut usize) -> Vec<T> {
    let fits = |entry: &T| {
        let cost = json(entry).map_or(usize::MAX, |told| told.len() + 1);
        let fits = cost <= *left;
        *left = if fits { *left - cost } else { 0 };
        fits
    };
    entries.take_while(fits).collect()
}

impl<'a> From<&'a Absent> for Missing<'a> {
    fn from(m: &'a Absent) -> Self {
        let instance = m.instance.map(|id| id.to_string());
        Self { instance, label: m.label.as_deref(), status: m.status }
    }
}

impl<'a> From<&'a HandedBefore> for Already<'a> {
    fn from(a: &'a HandedBefore) -> Self {
        Self { id: a.id.0, label: a.label.as_deref() }
    }
}
