//! `/v1/messages`: sending, and reading again.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{self, HeaderMap, StatusCode};
use posthaste_api::error::ApiError;
use posthaste_api::messages::{
    History, HistoryQuery, MessageView, ReadQuery, Receipt, SendMany, SendOne, SendOutcome,
    SendRequest, To,
};
use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::messaging::message::{
    Body, Details, Draft, MessageRef, Principal, Receipt as Accepted, Seq, ThreadChoice, Via,
};
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::HistoryQuery as Query;
use posthaste_core::road::TraceParent;
use posthaste_core::time::Timestamp;

use crate::App;
use crate::auth::{self, Caller};
use crate::extract::{Params, PathPart, Whole, parse, whole_body};
use crate::failure::{Failure, invalid, not_found, unwritable};
use crate::unread::Inlet;
use crate::written::{Reply, json};

/// Who sends, through which door, and what it was doing.
pub(crate) struct Origin {
    pub(crate) caller: Principal,
    pub(crate) via: Via,
    pub(crate) parent: Option<TraceParent>,
}

pub(crate) fn origin(app: &App, headers: &HeaderMap) -> Result<Origin, Failure> {
    let caller = auth::caller(app, headers)?;
    Ok(Origin { caller, via: auth::via(headers), parent: auth::trace(app, headers) })
}

/// `POST /v1/messages`
pub(crate) async fn send(
    app: &App,
    from: Origin,
    body: Inlet,
) -> Result<http::Response<Reply>, Failure> {
    let Whole { bytes, share: _share } = whole_body(body, app).await?;
    let mut request: SendRequest = parse(&bytes)?;
    // Nothing of the request but its text is held while its message waits for the disk.
    drop(bytes);
    let details = details(app, from.caller, &mut request).await?;
    match request.to {
        To::One(to) => {
            let receipt = start(app, &from, &to, request.message.into(), details)?.await?;
            let receipt = Receipt::from(receipt).to_json().map_err(unwritable)?;
            Ok(json(StatusCode::CREATED, receipt))
        }
        To::Many(list) => Box::pin(send_many(app, from, list, request.message, details)).await,
    }
}

/// The same to each address of a list.
async fn send_many(
    app: &App,
    from: Origin,
    to: Vec<String>,
    message: String,
    details: Details,
) -> Result<http::Response<Reply>, Failure> {
    let most = app.hub.limits().recipients;
    if to.is_empty() || to.len() > most {
        return Err(invalid("to", format!("a list has 1 to {most} addresses (limits.recipients)")));
    }
    // However many read it, the text is held once.
    let message = Body::from(message);
    // All are under way before the first is waited for: they share a flush.
    let started: Vec<_> =
        to.iter().map(|to| start(app, &from, to, message.clone(), details.clone())).collect();
    let mut results = Vec::with_capacity(to.len());
    for (to, sent) in to.into_iter().zip(started) {
        let sent = match sent {
            Ok(sent) => sent.await.map_err(ApiError::from),
            Err(Failure(error)) => Err(error),
        };
        let (status, outcome) = match sent {
            Ok(receipt) => (201, SendOutcome::Accepted(receipt.into())),
            Err(error) => {
                app.meters.refused(error.code);
                (error.code.status(), SendOutcome::Refused { error })
            }
        };
        results.push(SendOne { to, status, outcome });
    }
    let results = serde_json::to_vec(&SendMany { results }).map_err(unwritable)?;
    Ok(json(StatusCode::MULTI_STATUS, results))
}

pub(crate) fn start(
    app: &App,
    from: &Origin,
    to: &str,
    body: Body,
    details: Details,
) -> Result<impl Future<Output = Result<Accepted, SendError>> + use<>, Failure> {
    let to = to.parse().map_err(|error| ApiError::from(app.hub.vetted(error)))?;
    let draft = Draft::new(from.caller, to, body, details, from.via, app.hub.limits())?;
    Ok(app.hub.start_send(draft, from.parent))
}

pub(crate) async fn details(
    app: &App,
    caller: Principal,
    request: &mut SendRequest,
) -> Result<Details, Failure> {
    // As text it takes little, and it is not read again.
    let metadata = request.metadata.take();
    let metadata = metadata.map(|map| serde_json::to_string(&map));
    let metadata = metadata.transpose().map_err(|e| invalid("metadata", e.to_string()))?;
    let parsed = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
    let mut thread = ThreadChoice { named: parsed(&request.thread_id)?, replied_to: None };
    let (mut in_reply_to, mut hop) = (None, 0);
    if let Some(which) = &request.in_reply_to {
        let answered = app.hub.answered_message(caller, which.try_into()?).await?;
        (in_reply_to, hop) = (answered.seq, answered.hop);
        thread.replied_to = Some(answered.replied_to);
    }
    Ok(Details {
        priority: request.priority.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
        kind: request.kind.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
        label: request.label.take(),
        in_reply_to,
        hop,
        thread,
        metadata,
        ttl: request.ttl_s.map(Duration::from_secs),
        idempotency_key: request.idempotency_key.take(),
    })
}

/// `GET /v1/messages/{id or seq}`
pub(crate) async fn read(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
    Params(query): Params<ReadQuery>,
) -> Result<Answer<MessageView>, Failure> {
    let which: MessageRef = id.parse()?;
    if query.max_chars == Some(0) {
        return Err(invalid("max_chars", "it is at least 1"));
    }
    let record = app.hub.message(caller, which).await?.ok_or_else(|| not_found("message"))?;
    let view = MessageView::from(record);
    Ok(Answer(match (query.offset, query.max_chars) {
        (None, None) => view,
        (offset, most) => view.part(offset.unwrap_or(0), most.unwrap_or(usize::MAX)),
    }))
}

/// `GET /v1/messages`
pub(crate) async fn history(
    State(app): State<App>,
    Caller(caller): Caller,
    Params(query): Params<HistoryQuery>,
) -> Result<Answer<History>, Failure> {
    let last = last_n(query.last_n)?;
    if query.cursor.is_some() && query.after.is_some() {
        return Err(invalid("after", "it goes forward and `cursor` goes back: give one of them"));
    }
    let before = query.cursor.as_deref().map(|text| cursor("cursor", text)).transpose()?;
    let after = query.after.as_deref().map(|text| cursor("after", text)).transpose()?;
    let query = Query {
        mailbox: query.mailbox.as_deref().map(mailbox).transpose()?,
        thread: query.thread_id.as_deref().map(str::parse).transpose()?,
        team: query.team.as_deref().map(str::parse).transpose()?,
        from: query.from,
        label: query.label,
        kind: query.kind,
        status: query.status.as_deref().map(status).transpose()?,
        since: query.since.map(Timestamp),
        before,
        after,
        last,
        ..Query::default()
    };
    let page = app.hub.history(caller, query).await?;
    let next = page.next.map(|seq| seq.to_string());
    let (cursor, after) = if after.is_some() { (None, next) } else { (next, None) };
    let messages = page.records.into_iter().map(MessageView::from).collect();
    Ok(Answer(History { messages, cursor, after }))
}

/// How many of the newest are wanted.
pub(crate) fn last_n(given: Option<u32>) -> Result<usize, Failure> {
    match given.unwrap_or(20) {
        last @ 1..=200 => Ok(last as usize),
        _ => Err(invalid("last_n", "it lies between 1 and 200")),
    }
}

fn cursor(field: &'static str, text: &str) -> Result<Seq, Failure> {
    let number = text.parse().ok().filter(|n| i64::try_from(*n).is_ok());
    number.map(Seq).ok_or_else(|| invalid(field, "take it from an answer"))
}

/// A mailbox key, or an instance's id for its own mailbox.
fn mailbox(text: &str) -> Result<Mailbox, Failure> {
    if let Ok(id) = text.parse::<InstanceId>() {
        return Ok(Mailbox::Instance(id));
    }
    Ok(text.parse::<Mailbox>()?)
}

pub(crate) fn status(text: &str) -> Result<&'static str, Failure> {
    let known = ["queued", "leased", "acked", "dead"];
    let found = known.into_iter().find(|word| *word == text);
    found.ok_or_else(|| invalid("status", "it is queued, leased, acked or dead"))
}

/// `POST /v1/messages/{id}/cancel`
pub(crate) async fn cancel(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Answer<MessageView>, Failure> {
    Ok(Answer(app.hub.cancel(caller, id.parse()?).await?.into()))
}

/// `POST /v1/messages/{id}/requeue`
pub(crate) async fn requeue(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Answer<MessageView>, Failure> {
    Ok(Answer(app.hub.requeue(caller, id.parse()?).await?.into()))
}
