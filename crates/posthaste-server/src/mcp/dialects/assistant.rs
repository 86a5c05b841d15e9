//! The dialect of the registry of assistants: list, search, spawn, poll, write and read.
//! `recv_message` with `mark_as_read` leases messages, and is proven like any read.

mod process;

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::messages::{SendRequest, To};
use posthaste_core::Hub;
use posthaste_core::address::Address;
use posthaste_core::history::ThreadAsk;
use posthaste_core::messaging::message::{Principal, Seq};
use posthaste_core::messaging::receive::{Ask, Batch, json_cost};
use posthaste_core::ports::{Filter, Record};
use posthaste_core::profiles::Profile;
use posthaste_core::time::Timestamp;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::mcp::call::{Ctx, Done, Job, done, done_beside, refusal, text as json};
use crate::mcp::tools::Tool;
use crate::mcp::tools::send_message::send;
use crate::mcp::{schema, text};
use crate::words::brief;
use crate::words::params::{last_n, within};

/// Prefix by which some callers name the tools: the service that has them.
pub(crate) const PREFIX: &str = "builtin_assistant__";

/// The characters of a message beside its text, with the longest names.
const BESIDE: usize = 300;
/// Most assistants in one answer.
const MOST: u32 = 100;

pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        name: "list_assistant",
        description: "List the assistants that there are, page by page.",
        schema: schema::of::<List>,
        reads: true,
        waits: false,
        run: list,
    },
    Tool {
        name: "search_assistant",
        description: "Find assistants by what they are for; best first.",
        schema: schema::of::<Search>,
        reads: true,
        waits: false,
        run: search,
    },
    Tool {
        name: "spawn_assistant",
        description: "Start an assistant on a task. Its result comes as a message in its thread; \
            with run_mode sync this call waits for it.",
        schema: schema::of::<process::Spawn>,
        reads: false,
        waits: true,
        run: process::spawn,
    },
    Tool {
        name: "poll_assistant",
        description: "The status of a process and the counts of its messages, never their content.",
        schema: schema::of::<process::Poll>,
        reads: true,
        waits: false,
        run: process::poll,
    },
    Tool {
        name: "send_message",
        description: "Send a message to an assistant in a thread: the one whose thread it is, or \
            whoever spawned it.",
        schema: schema::of::<Send>,
        reads: false,
        waits: false,
        run: write,
    },
    Tool {
        name: "recv_message",
        description: "Fetch the messages of a thread, oldest first: unread ones, recent ones, or \
            those since a time; mark_as_read takes what is addressed to you.",
        schema: schema::of::<Recv>,
        reads: true,
        waits: false,
        run: recv,
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    /// default 1
    #[serde(default)]
    page: Option<u32>,
    /// 1 to 100, default 20
    #[serde(default)]
    page_size: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    /// 1 to 100, default 10
    #[serde(default)]
    limit: Option<u32>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    items: Vec<Assistant>,
    total_items: u64,
}

/// A profile without its prompt, which costs tokens.
#[derive(Debug, Serialize)]
struct Assistant {
    id: String,
    name: String,
    description: String,
    tags: Vec<String>,
    created_at: i64,
    updated_at: i64,
}

impl From<Profile> for Assistant {
    fn from(profile: Profile) -> Self {
        let template = profile.template;
        let id = template.name.to_string();
        Self {
            name: template.title.unwrap_or_else(|| id.clone()),
            id,
            description: template.description,
            tags: template.tags,
            created_at: profile.created_at.0,
            updated_at: profile.updated_at.0,
        }
    }
}

fn list(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<List>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => listed(&ctx, args).await,
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}

async fn listed(ctx: &Ctx, args: List) -> Result<Listed, ApiError> {
    let page = args.page.unwrap_or(1);
    if page < 1 {
        return Err(ApiError::new(ErrorCode::InvalidArgument, "page: it counts from 1"));
    }
    let size = within("pageSize", args.page_size.unwrap_or(20), 1..=MOST)?;
    let found = ctx.app.hub.profiles(page, size).await?;
    Ok(Listed { items: within_budget(ctx, found.items), total_items: found.total })
}

fn search(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Search>(given);
    Box::pin(async move {
        let told = match args {
            Ok(args) => found(&ctx, args).await,
            Err(error) => Err(error),
        };
        ctx.reply(told).await
    })
}

async fn found(ctx: &Ctx, args: Search) -> Result<Vec<Assistant>, ApiError> {
    let limit = within("limit", args.limit.unwrap_or(10), 1..=MOST)?;
    let found = ctx.app.hub.search_profiles(args.query, limit).await?;
    Ok(within_budget(ctx, found))
}

/// Returns all profiles, with as much of their descriptions as the client can read.
fn within_budget(ctx: &Ctx, found: Vec<Profile>) -> Vec<Assistant> {
    let share = ctx.client.chars / found.len().max(1);
    let shorten = |profile| {
        let mut assistant = Assistant::from(profile);
        assistant.description = part(&assistant.description, share.saturating_sub(BESIDE).max(80));
        assistant
    };
    found.into_iter().map(shorten).collect()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Send {
    to_assistant_id: String,
    thread_id: String,
    message: String,
}

#[derive(Debug, Serialize)]
struct Success {
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Writes a refused send as an answer with its reason.
fn not_sent(error: &ApiError) -> String {
    let reason = match &error.hint {
        Some(hint) => format!("{}: {hint}", error.message),
        None => error.message.clone(),
    };
    json(&Success { success: false, reason: Some(reason) }).unwrap_or_default()
}

fn write(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Send>(given);
    Box::pin(async move {
        let sent = match args {
            Ok(args) => {
                let request = SendRequest {
                    to: To::One(args.to_assistant_id),
                    thread_id: Some(args.thread_id),
                    ..SendRequest::new("", args.message)
                };
                send(&ctx, request).await.map(|_| Success { success: true, reason: None })
            }
            Err(error) => Err(error),
        };
        ctx.reply_as(sent, not_sent).await
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Recv {
    thread_id: String,
    #[serde(default)]
    unread_only: Option<bool>,
    /// 1 to 200, default 20
    #[serde(default)]
    last_n: Option<u32>,
    /// Unix ms; only messages after it
    #[serde(default)]
    since: Option<i64>,
    #[serde(default)]
    mark_as_read: Option<bool>,
    /// any number; another one each time you ask again
    #[serde(default, rename = "after")]
    #[schemars(with = "Option<u64>")]
    _after: IgnoredAny,
}

#[derive(Debug, Serialize)]
struct Received {
    thread_id: String,
    messages: Vec<Fetched>,
    summary: Summary,
}

#[derive(Debug, Serialize)]
struct Fetched {
    id: String,
    from_assistant_id: String,
    /// Which process of that assistant wrote it; the human has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_process_id: Option<String>,
    to_assistant_id: String,
    content: String,
    created_at: i64,
    read_at: Option<i64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redelivered: bool,
}

#[derive(Debug, Serialize)]
struct Summary {
    total_fetched: usize,
    marked_as_read: usize,
}

fn recv(ctx: Ctx, given: Option<&RawValue>) -> Job {
    let args = text::arguments::<Recv>(given);
    Box::pin(async move {
        match fetch(&ctx, args).await {
            Ok((ask, page, marks)) => give(ctx, ask, page, marks).await,
            Err(error) => ctx.reply_without_mail::<()>(Err(error)).await,
        }
    })
}

async fn fetch(
    ctx: &Ctx,
    args: Result<Recv, ApiError>,
) -> Result<(ThreadAsk, Vec<Record>, bool), ApiError> {
    let args = args?;
    let ask = ThreadAsk {
        thread: args.thread_id.parse()?,
        unread_only: args.unread_only.unwrap_or(false),
        last: last_n(args.last_n)?,
        since: args.since.map(Timestamp),
        mark: false,
    };
    let mut page = ctx.app.hub.read_thread(ctx.me, ask.clone()).await?.page.records;
    // Messages that the client would cut off are not shown, and not marked.
    let mut left = ctx.client.chars.saturating_sub(brief::WRAPPER);
    let fits = |record: &&Record| {
        let m = &record.message;
        let length = m.body.chars().map(json_cost).sum::<usize>() + m.to.len() + BESIDE;
        let room = length <= left;
        left = left.saturating_sub(length);
        room
    };
    let fit = page.iter().rev().take_while(fits).count().max(1).min(page.len());
    page.drain(..page.len() - fit);
    Ok((ask, page, args.mark_as_read.unwrap_or(false)))
}

/// Leases the caller's unread messages of the page with the answer that shows them.
async fn give(ctx: Ctx, ask: ThreadAsk, page: Vec<Record>, marks: bool) -> Done {
    let (hub, me) = (std::sync::Arc::clone(&ctx.app.hub), ctx.me);
    let unread: Vec<Seq> =
        page.iter().filter(|r| r.is_unread_by(me)).map(|r| r.message.seq).collect();
    if !marks || unread.is_empty() {
        let told = received(&hub, &ask, me, &page, None, ctx.client.chars);
        return ctx.reply_without_mail(Ok(told)).await;
    }
    let wanted = Ask {
        filter: Filter { among: unread.into(), own: true, ..Filter::default() },
        ..Ask::now(me)
    };
    let chars = ctx.client.chars;
    let batch = match ctx.receive(wanted).await {
        Ok(batch) => batch,
        Err(error) => return done(refusal(&error.into()), true, None),
    };
    let told = received(&hub, &ask, me, &page, Some(&batch), chars);
    match json(&told) {
        Ok(told) => done_beside(told, batch),
        Err(error) => done(refusal(&error), true, None),
    }
}

/// Returns as much of a text as the client can read. A cut text says that it is cut.
fn part(body: &str, room: usize) -> String {
    let length: usize = body.chars().map(json_cost).sum();
    if length <= room {
        return body.to_owned();
    }
    let total = body.chars().count();
    let note = format!("… [cut: {total} characters in all]");
    let mut left = room.saturating_sub(note.len());
    let fits = |c: &char| {
        left = left.saturating_sub(json_cost(*c));
        left > 0
    };
    let mut text: String = body.chars().take_while(fits).collect();
    text.push_str(&note);
    text
}

/// Returns the id of the assistant that an address names, as `list_assistant` has it. The
/// human, the hub itself and addresses of many are no assistants and stay as they are.
fn assistant_of(hub: &Hub, address: &str) -> String {
    let name = match address.parse() {
        Ok(Address::Exact { name: Some(name), .. } | Address::Named { name, .. }) => Some(name),
        Ok(Address::Exact { name: None, instance, .. }) => {
            hub.instance(instance).map(|view| view.instance.agent)
        }
        Ok(Address::Human | Address::Anyone { .. } | Address::Everyone { .. }) | Err(_) => None,
    };
    name.map_or_else(|| address.to_owned(), |name| name.to_string())
}

fn received(
    hub: &Hub,
    ask: &ThreadAsk,
    me: Principal,
    page: &[Record],
    taken: Option<&Batch>,
    chars: usize,
) -> Received {
    let now = hub.now();
    let mine = |seq: Seq| {
        let mail = taken.into_iter().flat_map(|batch| &batch.mail);
        mail.map(|e| &e.leased).find(|leased| leased.message.seq == seq)
    };
    let messages: Vec<Fetched> = page
        .iter()
        .map(|record| {
            let m = &record.message;
            let marked = mine(m.seq);
            Fetched {
                id: m.seq.to_string(),
                from_assistant_id: assistant_of(hub, &m.from.address),
                from_process_id: m.from.instance.map(|id| id.to_string()),
                to_assistant_id: assistant_of(hub, &m.to),
                content: part(&m.body, chars.saturating_sub(brief::WRAPPER + BESIDE)),
                created_at: m.created_at.0,
                read_at: marked.map(|_| now.0).or(record.read_at(me).map(|at| at.0)),
                redelivered: marked.is_some_and(|leased| leased.redelivered),
            }
        })
        .collect();
    let marked_as_read = taken.map_or(0, |batch| batch.mail.len());
    let summary = Summary { total_fetched: messages.len(), marked_as_read };
    Received { thread_id: ask.thread.to_string(), messages, summary }
}
