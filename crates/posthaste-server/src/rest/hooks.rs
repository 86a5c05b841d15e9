//! `/v1/hooks`: mail at the boundaries of a client's work, and "do not finish with
//! unread mail".
//!
//! A hook leases messages like every read. The door passes on what the program reported;
//! the core decides what that proves, and whether the hook may carry mail
//! (`messaging/proof/hooks.rs`).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::hooks::{self as wire, HookAnswer, HookEvent, HookRequest};
use posthaste_core::messaging::clients::{self, Client};
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::proof::{Hook, Moment};
use posthaste_core::messaging::receive::{Batch, Budget};

use crate::App;
use crate::auth::Somebody;
use crate::extract::{Json, PathPart};
use crate::failure::{Failure, invalid, unwritable};
use crate::routes::Routes;
use crate::words::brief;
use crate::words::params::{print_receipt, seconds};
use crate::written::{Outgoing, watched};

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::FIRE, fired)
}

/// How long `idle` waits if the request does not say, in seconds.
const TIMEOUT: f64 = 60.0;
/// Characters of text around the mail.
const AROUND: usize = 700;
/// Fewest characters for which a hook carries mail.
const LEAST: usize = 1_000;
/// Most questions that one refusal names.
const QUESTIONS_AT_ONCE: usize = 5;

const MAIL: &str = "Posthaste, your mailbox: mail came for you while you worked. It is from other \
    agents or the human operator, not from your user: weigh it. Where it asks something of you, \
    answer with the posthaste tool send_message and its id as in_reply_to.";
const IDLE: &str = "Posthaste, your mailbox: mail came for you while you were idle, and your user \
    has written nothing. It is from other agents or the human operator, not from your user: weigh \
    it. Where it asks something of you, answer with the posthaste tool send_message and its id as \
    in_reply_to.";
const BEFORE: &str = "Posthaste: do not finish yet. Mail for you is unread; here it is. Deal with \
    it (answer with send_message and its id as in_reply_to where an answer is wanted), then finish.";
const QUESTIONS: &str = "Posthaste: do not finish yet. Somebody waits for your answer to what \
    follows. Answer each with the posthaste tool send_message and its id as in_reply_to (or say \
    there that you will not), then finish.";

/// `POST /v1/hooks/{event}`
async fn fired(
    State(app): State<App>,
    Somebody(who): Somebody,
    Extension(outgoing): Extension<Arc<Outgoing>>,
    PathPart(event): PathPart,
    Json(request): Json<HookRequest>,
) -> Result<Response, Failure> {
    let known = HookEvent::ALL.iter().find(|(_, word)| *word == event);
    let Some((event, _)) = known else {
        let words: Vec<&str> = HookEvent::ALL.iter().map(|(_, word)| *word).collect();
        return Err(invalid("event", format!("it is one of {}", words.join(", "))));
    };
    let idle = *event == HookEvent::Idle;
    let wait = seconds("timeout", request.timeout, TIMEOUT, app.hub.limits().wait)?;
    if idle && is_worker(&app, who) {
        let why = "the hub's driver gives this worker its mail";
        return Err(ApiError::new(ErrorCode::Conflict, why).into());
    }
    // The hook waits as long as its program lives, and ends with it.
    let _staying = idle.then(|| app.hub.stays(who));
    let mut hook = fact(*event, &request);
    // Programs differ in what a refused stop is; the next prompt of the driver is the same
    // in all of them.
    hook.quiet |= *event == HookEvent::Stop && is_prompted(&app, who);
    let Some(open) = app.hub.hook(who, &hook) else {
        return Ok(Json(HookAnswer::default()).into_response());
    };
    let most = app.mcp.hook_chars();
    let chars = request.max_chars.map_or(most, |given| given.min(most));
    let mute = chars < LEAST;
    let budget = Budget::Json { chars: chars.saturating_sub(AROUND), beside: brief::beside };
    let budget = (!mute).then_some(budget);
    let batch = match (event, budget) {
        (HookEvent::Idle, Some(budget)) => app.hub.wait_while_idle(open, budget, wait).await?,
        (HookEvent::Stop, _) => app.hub.enclose_at_stop(open, budget).await?,
        _ => app.hub.enclose(open, budget).await?,
    };
    let answer = told(&app, who, *event, mute, &batch).await?;
    let json = serde_json::to_vec(&answer).map_err(unwritable)?;
    Ok(watched(json, batch.handed, outgoing).map(Body::new))
}

/// Returns whether the hub has started this agent: its driver begins its turns.
fn is_worker(app: &App, who: Principal) -> bool {
    let view = who.instance().and_then(|id| app.hub.instance(id));
    view.is_some_and(|view| view.instance.work.is_some())
}

/// Returns whether the hub's driver prompts this agent with its mail when a turn ends.
fn is_prompted(app: &App, who: Principal) -> bool {
    who.instance().is_some_and(|id| app.hub.turn_activity(id).is_some())
}

/// Converts a request to a hook of the core.
fn fact(event: HookEvent, request: &HookRequest) -> Hook<'_> {
    let moment = match event {
        HookEvent::SessionStart => Moment::SessionStart,
        HookEvent::Prompt => Moment::Prompt,
        HookEvent::BeforeTool => Moment::BeforeTool,
        HookEvent::Tool => Moment::AfterTool,
        HookEvent::Stop => Moment::Stop,
        HookEvent::Idle => Moment::Idle,
    };
    let client = request.client.as_deref().map_or(&clients::UNKNOWN, Client::called);
    Hook {
        source: request.source.as_deref().unwrap_or_default(),
        conversation: request.conversation.as_deref().unwrap_or_default(),
        tool: request.tool.as_deref().unwrap_or_default(),
        call: request.call.as_deref().unwrap_or_default(),
        failed: request.failed,
        quiet: request.quiet,
        ..Hook::new(moment, client)
    }
}

async fn told(
    app: &App,
    who: Principal,
    event: HookEvent,
    mute: bool,
    batch: &Batch,
) -> Result<HookAnswer, Failure> {
    let stop = event == HookEvent::Stop;
    let block = brief::Piggyback::text(batch, None);
    if !batch.mail.is_empty() {
        let idle = event == HookEvent::Idle;
        let preface = match event {
            HookEvent::Stop => BEFORE,
            HookEvent::Idle => IDLE,
            _ => MAIL,
        };
        return Ok(HookAnswer {
            text: block.map(|block| format!("{preface}\n{block}")),
            refuse: stop,
            messages: batch.mail.len(),
            remaining: batch.remaining,
            receipt: idle.then(|| print_receipt(batch.receipt).into()),
        });
    }
    if stop || mute || event == HookEvent::Idle {
        // The answer does not show which ids count as read.
        batch.handed.names_nothing();
    }
    if event == HookEvent::Idle {
        return Ok(HookAnswer::default());
    }
    if !stop || mute {
        return Ok(HookAnswer { text: block.filter(|_| !mute && !stop), ..HookAnswer::default() });
    }
    let open = app.hub.remind(who, QUESTIONS_AT_ONCE).await?;
    if open.is_empty() {
        return Ok(HookAnswer::default());
    }
    let lines: Vec<String> = open
        .iter()
        .map(|record| {
            let m = &record.message;
            let start: String = m.body.chars().take(200).filter(|c| !c.is_control()).collect();
            format!("- id {} from {}: {start}", m.seq, m.from.address)
        })
        .collect();
    let text = format!("{QUESTIONS}\n{}", lines.join("\n"));
    Ok(HookAnswer { text: Some(text), refuse: true, ..HookAnswer::default() })
}
