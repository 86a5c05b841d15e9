//! `/v1/messages`: sending, and reading again.

use axum::Router;
use axum::extract::State;
use axum::http::{self, HeaderMap, StatusCode};
use posthaste_api::messages::{
    self as wire, History, HistoryQuery, MessageView, ReadQuery, Receipt, SendMany, SendOne,
    SendOutcome, SendRequest, To,
};
use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::messaging::message::{Details, MessageRef, Seq};
use posthaste_core::ports::HistoryQuery as Query;
use posthaste_core::time::Timestamp;

use super::unknown_method;
use crate::App;
use crate::auth::{self, Caller};
use crate::extract::{Json, Params, PathPart, Whole, parse, whole_body};
use crate::failure::{Failure, invalid, not_found, unwritable};
use crate::routes::Routes;
use crate::unread::Inlet;
use crate::words::draft::{self, Author};
use crate::words::params::last_n;
use crate::written::{Reply, json};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .on(&wire::HISTORY, history)
        .on(&wire::READ, read)
        .on(&wire::CANCEL, cancel)
        .on(&wire::REQUEUE, requeue)
        // A send goes around the router.
        .on(&wire::SEND, unknown_method)
}

pub(crate) fn author(app: &App, headers: &HeaderMap) -> Result<Author, Failure> {
    let who = auth::caller(app, headers)?;
    Ok(Author { who, via: auth::via(headers), trace: auth::trace(app, headers) })
}

/// `POST /v1/messages`
pub(crate) async fn send(
    app: &App,
    from: Author,
    body: Inlet,
) -> Result<http::Response<Reply>, Failure> {
    let Whole { bytes, share: _share } = whole_body(body, app).await?;
    let mut request: SendRequest = parse(&bytes)?;
    // Nothing of the request but its text is held while its message waits for the disk.
    drop(bytes);
    let details = draft::details(app, from.who, &mut request).await?;
    match request.to {
        To::One(to) => {
            let receipt = draft::start(app, &from, &to, request.message.into(), details)?.await?;
            let receipt = Receipt::from(receipt).to_json().map_err(unwritable)?;
            Ok(json(StatusCode::CREATED, receipt))
        }
        To::Many(list) => Box::pin(send_many(app, from, list, request.message, details)).await,
    }
}

/// Sends the same message to each address of a list.
async fn send_many(
    app: &App,
    from: Author,
    to: Vec<String>,
    message: String,
    details: Details,
) -> Result<http::Response<Reply>, Failure> {
    let sent = draft::send_to_each(app, &from, to, message, details).await?;
    let results = sent.into_iter().map(|(to, receipt)| match receipt {
        Ok(receipt) => SendOne { to, status: 201, outcome: SendOutcome::Accepted(receipt.into()) },
        Err(error) => {
            SendOne { to, status: error.code.status(), outcome: SendOutcome::Refused { error } }
        }
    });
    let results = SendMany { results: results.collect() };
    let results = serde_json::to_vec(&results).map_err(unwritable)?;
    Ok(json(StatusCode::MULTI_STATUS, results))
}

/// `GET /v1/messages/{id or seq}`
async fn read(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
    Params(query): Params<ReadQuery>,
) -> Result<Json<MessageView>, Failure> {
    let which: MessageRef = id.parse()?;
    if query.max_chars == Some(0) {
        return Err(invalid("max_chars", "it is at least 1"));
    }
    let record = app.hub.message(caller, which).await?.ok_or_else(|| not_found("message"))?;
    let view = MessageView::from(record);
    Ok(Json(match (query.offset, query.max_chars) {
        (None, None) => view,
        (offset, most) => view.part(offset.unwrap_or(0), most.unwrap_or(usize::MAX)),
    }))
}

/// `GET /v1/messages`
async fn history(
    State(app): State<App>,
    Caller(caller): Caller,
    Params(query): Params<HistoryQuery>,
) -> Result<Json<History>, Failure> {
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
    Ok(Json(History { messages, cursor, after }))
}

fn cursor(field: &'static str, text: &str) -> Result<Seq, Failure> {
    let number = text.parse().ok().filter(|n| i64::try_from(*n).is_ok());
    number.map(Seq).ok_or_else(|| invalid(field, "take it from an answer"))
}

/// Reads a mailbox key, or the id of an instance for its own mailbox.
fn mailbox(text: &str) -> Result<Mailbox, Failure> {
    if let Ok(id) = text.parse::<InstanceId>() {
        return Ok(Mailbox::Instance(id));
    }
    Ok(text.parse::<Mailbox>()?)
}

fn status(text: &str) -> Result<&'static str, Failure> {
    let known = ["queued", "leased", "acked", "dead"];
    let found = known.into_iter().find(|word| *word == text);
    found.ok_or_else(|| invalid("status", "it is queued, leased, acked or dead"))
}

/// `POST /v1/messages/{id}/cancel`
async fn cancel(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Json<MessageView>, Failure> {
    Ok(Json(app.hub.cancel(caller, id.parse()?).await?.into()))
}

/// `POST /v1/messages/{id}/requeue`
async fn requeue(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Json<MessageView>, Failure> {
    Ok(Json(app.hub.requeue(caller, id.parse()?).await?.into()))
}
