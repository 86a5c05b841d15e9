//! One call of a tool, from its first byte to its answer.
//!
//! Every call of a tool proves the answers before it, and its answer carries the queued
//! mail of the caller. Reads carry the mail that they were asked for and nothing else.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Response, StatusCode};
use posthaste_api::error::ApiError;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::proof::{Call, Door};
use posthaste_core::messaging::receive::{Ask, Batch, Budget, Handed, OpenCall};
use posthaste_core::orchestration::{
    Assign, Assigned, HandedOff, Handoff, HandoffEnd, HandoffError, WorkerReport,
};
use posthaste_core::ports::{Filter, OwnCall, StoreError, Survey};
use posthaste_core::registry::Status;
use posthaste_core::road::TraceParent;
use serde::Serialize;
use serde_json::value::RawValue;

use super::asker::Asker;
use super::clients::Endurance;
use super::events::Events;
use super::rpc::{self, Block, Era, Params};
use crate::App;
use crate::auth;
use crate::bodies::Share;
use crate::words::brief::{self, Piggyback, Unopened};
use crate::written::{Outgoing, Reply, json, watched};

/// The work of a tool.
pub(crate) type Job = Pin<Box<dyn Future<Output = Done> + Send>>;

/// The result of a tool.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) blocks: Vec<Block>,
    pub(crate) is_error: bool,
    /// Hand-over of the mail in the result, or of the ids that it names.
    pub(crate) handed: Option<Handed>,
}

/// Fewer characters than this are no room for mail.
const LITTLE: usize = 600;

/// The call of a tool: its caller, its client, and the answer to be made.
pub(crate) struct Ctx {
    pub(crate) app: App,
    pub(crate) me: Principal,
    pub(crate) client: Endurance,
    /// True if the client listens to progress.
    pub(crate) hears: bool,
    /// The client's own name for the call: a repeated send is the same send.
    pub(crate) key: Option<String>,
    /// The trace of the caller, if traces are followed.
    pub(crate) trace: Option<TraceParent>,
    /// The share of the request in the budget for bodies, until the call waits or is
    /// answered.
    share: Option<Share>,
    /// The door decides the proof of the mail in the answer, and whether it may carry mail
    /// beside the tool's own result.
    door: Door,
    open: OpenCall,
}

/// Opens a call by an assistant whose model the hub calls itself.
pub(crate) fn open_for_assistant(app: &App, call: &OwnCall, tool: &'static str) -> Ctx {
    let who = Principal::Instance(call.who);
    let through = Call { tool, ..Call::through(Door::Driver) };
    Ctx {
        me: who,
        client: Endurance::of_assistant(call.chars),
        hears: false,
        key: Some(key(&call.key, app.hub.limits().key_chars)),
        trace: None,
        share: None,
        door: Door::Driver,
        open: app.hub.open(who, &through),
        app: app.clone(),
    }
}

/// Opens the call of a tool.
pub(crate) fn open(
    app: &App,
    who: Principal,
    asker: &Asker,
    id: &RawValue,
    params: &Params<'_>,
    tool: &'static str,
    share: Option<Share>,
) -> Ctx {
    let meta = params.meta.as_ref();
    let client = Endurance::new(params.client().or(asker.client.as_deref()), &app.mcp.config);
    let call = Call {
        door: Door::Mcp,
        client: client.program,
        process: asker.process(),
        request: Some(id.get()),
        call_id: meta.and_then(|meta| meta.call_id()),
        tool,
    };
    Ctx {
        me: who,
        client,
        hears: meta.is_some_and(|meta| meta.progress.is_some()),
        key: call.unique_name().map(|name| key(&name, app.hub.limits().key_chars)),
        trace: asker.trace,
        share,
        door: Door::Mcp,
        open: app.hub.open(who, &call),
        app: app.clone(),
    }
}

/// Makes the idempotency key of a call that has an id of its own. A long id becomes its
/// fingerprint, which is the same each time.
fn key(name: &str, most: usize) -> String {
    let whole = format!("mcp:{name}");
    match whole.chars().count() > most {
        true => format!("mcp:{}", auth::fingerprint(name)),
        false => whole,
    }
}

/// A call that is plainly right, with all that it needs of its request.
pub(crate) struct Begun {
    job: Job,
    id: Box<RawValue>,
    era: Era,
    /// The progress token of the client, and the interval of reports.
    progress: Option<(Box<RawValue>, Duration)>,
}

/// Begins a call that is plainly right; an error is the answer to it.
pub(crate) fn begin(
    app: &App,
    who: Principal,
    asker: &Asker,
    id: &RawValue,
    params: &Params<'_>,
    share: Share,
) -> Result<Begun, Box<Response<Reply>>> {
    let name = params.name.as_deref().unwrap_or_default();
    let Some(tool) = asker.dialect.tool(name) else {
        let json_text = rpc::fault(id, rpc::INVALID_PARAMS, &unknown(name));
        return Err(Box::new(json(StatusCode::OK, json_text)));
    };
    let ctx = open(app, who, asker, id, params, tool.name, Some(share));
    let token = params.meta.as_ref().and_then(|meta| meta.progress).filter(|_| tool.waits);
    Ok(Begun {
        job: (tool.run)(ctx, params.arguments),
        id: id.to_owned(),
        era: params.era(),
        progress: token.map(|token| (token.to_owned(), app.mcp.config.progress_every)),
    })
}

impl Begun {
    pub(crate) async fn answer(self, outgoing: Arc<Outgoing>) -> Response<Reply> {
        let Self { mut job, id, era, progress } = self;
        let done = match progress {
            None => job.await,
            Some((token, each)) => match tokio::time::timeout(each, &mut job).await {
                Ok(done) => done,
                Err(_) => return Events::answer(job, id, era, token, each, outgoing),
            },
        };
        let text = rpc::result(&id, era, &done.blocks, done.is_error);
        match done.handed {
            Some(handed) => watched(text, handed, outgoing),
            None => json(StatusCode::OK, text),
        }
    }
}

pub(crate) fn unknown(name: &str) -> String {
    let name: String = name.chars().take(64).collect();
    format!("there is no tool `{name}` here: ask tools/list")
}

impl Ctx {
    /// Makes an answer, with the caller's queued mail as a second block.
    pub(crate) async fn reply<T: Serialize>(self, told: Result<T, ApiError>) -> Done {
        let told = told.and_then(|told| text(&told));
        self.reply_text(told).await
    }

    /// Like [`reply`](Self::reply), for plain text.
    pub(crate) async fn reply_text(self, told: Result<String, ApiError>) -> Done {
        self.finish(told, true).await
    }

    /// Makes an answer without mail: to a look at old messages, or to a refused read.
    pub(crate) async fn reply_without_mail<T: Serialize>(self, told: Result<T, ApiError>) -> Done {
        let told = told.and_then(|told| text(&told));
        self.finish(told, false).await
    }

    /// Like [`reply`](Self::reply), with a dialect's own form of errors.
    pub(crate) async fn reply_as<T: Serialize>(
        self,
        told: Result<T, ApiError>,
        refused: fn(&ApiError) -> String,
    ) -> Done {
        let told = told.and_then(|told| text(&told));
        self.finish_as(told, true, refused).await
    }

    /// Refuses a read in a dialect's own form of errors; the answer carries no mail.
    pub(crate) async fn refuse(self, error: ApiError, refused: fn(&ApiError) -> String) -> Done {
        self.finish_as(Err(error), false, refused).await
    }

    async fn finish(self, told: Result<String, ApiError>, with_mail: bool) -> Done {
        self.finish_as(told, with_mail, refusal).await
    }

    async fn finish_as(
        self,
        told: Result<String, ApiError>,
        with_mail: bool,
        refused: fn(&ApiError) -> String,
    ) -> Done {
        let (first, is_error) = match told {
            Ok(text) => (text, false),
            Err(error) => {
                self.app.meters.refused(error.code);
                (refused(&error), true)
            }
        };
        // The runner of an assistant fetches its other mail itself.
        let with_mail =
            with_mail && self.door == Door::Mcp && self.app.hub.may_enclose(self.me, is_error);
        let mut blocks = vec![Block::from(first)];
        let room = self.client.chars.saturating_sub(blocks[0].text.len());
        let room = room.min(self.app.mcp.config.piggyback_chars);
        let hub = Arc::clone(&self.app.hub);
        let me = self.me;
        let budget =
            Budget::Json { chars: room.saturating_sub(brief::WRAPPER), beside: brief::beside };
        let fits = room >= LITTLE;
        let batch = match hub.enclose(self.open, (with_mail && fits).then_some(budget)).await {
            Ok(batch) => batch,
            // A failed read of mail must not lose the tool's own result.
            Err(error) => {
                tracing::debug!(%error, "an answer goes without its mail");
                return Done { blocks, is_error, handed: None };
            }
        };
        // If there is no room for mail, the answer counts it and names its senders.
        let left_out = batch.mail.is_empty() && batch.remaining > 0;
        let unopened = match with_mail && (!fits || left_out) {
            true => hub.glance(me).await.ok().and_then(|survey: Survey| Unopened::new(&survey)),
            false => None,
        };
        if let Some(text) = Piggyback::text(&batch, unopened) {
            blocks.push(Block::from(text));
        }
        if is_error {
            batch.handed.erred();
        }
        Done { blocks, is_error, handed: Some(batch.handed) }
    }

    /// Assigns work to an agent and waits for its report, within the client's patience.
    pub(crate) async fn handoff(self, assign: Assign, timeout: Duration) -> HandoffResult {
        let Self { app, me, client, hears, key, trace, share, door, open } = self;
        let budget = Budget::Json {
            chars: client.chars.saturating_sub(brief::WRAPPER),
            beside: brief::beside,
        };
        let timeout = timeout.min(client.patience(hears));
        let handoff = Handoff { assign, timeout, budget, request: share };
        let handed_off = app.hub.handoff(open, handoff).await;
        let goes_on = |open| Self { app, me, client, hears, key, trace, share: None, door, open };
        match handed_off {
            Ok(HandedOff { assigned, status, end }) => match end {
                HandoffEnd::Reported { report, batch } => {
                    HandoffResult::Report { assigned, status, report, batch }
                }
                HandoffEnd::Job { interrupted, open } => {
                    HandoffResult::Job { ctx: goes_on(open), assigned, status, interrupted }
                }
            },
            Err(HandoffError::Refused { error, open }) => {
                HandoffResult::Refused { ctx: goes_on(*open), error: (*error).into() }
            }
            Err(error) => HandoffResult::Failed(error.into()),
        }
    }

    /// Waits for mail in this call, within the client's patience.
    pub(crate) async fn receive(self, ask: Ask) -> Result<Batch, StoreError> {
        drop(self.share);
        let patience = self.client.patience(self.hears);
        // The runner of an assistant puts the human's mail into the conversation itself.
        let leaves_human = self.door == Door::Driver;
        let filter = Filter { leaves_human, ..ask.filter };
        let ask = Ask { door: self.door, patience, filter, ..ask };
        self.app.hub.receive_on(self.open, ask).await
    }
}

/// The outcome of a handoff.
pub(crate) enum HandoffResult {
    /// The report is in this answer, and proven like any other mail.
    Report {
        assigned: Assigned,
        status: Status,
        report: WorkerReport,
        batch: Batch,
    },
    /// The patience ended, or mail that ends every wait came. The call can still be
    /// answered.
    Job {
        ctx: Ctx,
        assigned: Assigned,
        status: Status,
        interrupted: bool,
    },
    /// No worker got the work. The call can still be answered.
    Refused {
        ctx: Ctx,
        error: ApiError,
    },
    Failed(ApiError),
}

/// Writes a tool error: the code of the one table, and the hint.
pub(crate) fn refusal(error: &ApiError) -> String {
    #[derive(Serialize)]
    struct Refusal<'a> {
        error: &'a ApiError,
    }
    serde_json::to_string(&Refusal { error }).unwrap_or_else(|_| error.message.clone())
}

pub(crate) fn text<T: Serialize>(told: &T) -> Result<String, ApiError> {
    serde_json::to_string(told).map_err(|e| crate::failure::unwritable(e).0)
}

/// Makes an answer of one block.
pub(crate) fn done(text: String, is_error: bool, handed: Option<Handed>) -> Done {
    Done { blocks: vec![Block::from(text)], is_error, handed }
}

/// Makes an answer whose format has no place for the ids that count as read: they stand in
/// a second block.
pub(crate) fn done_beside(text: String, batch: Batch) -> Done {
    let mut blocks = vec![Block::from(text)];
    blocks.extend(brief::settled(&batch).map(Block::from));
    Done { blocks, is_error: false, handed: Some(batch.handed) }
}
