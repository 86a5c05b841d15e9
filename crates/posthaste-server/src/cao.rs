//! CAO's inbox routes, translated: its MCP server and tools run against the hub
//! unchanged. Thin words over the same calls; nothing is implemented twice.
//!
//! CAO believes any `sender_id`. Here a token is believed first; without one, a
//! loopback caller is, while `compat.cao` is on, and its mail is marked `via: cao`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json as Answer, Router};
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::{Address, InstanceId, Mailbox};
use posthaste_core::messaging::message::{Details, Draft, Principal, Via};
use posthaste_core::messaging::receive::Ask;
use posthaste_core::ports::{DeliveryRecord, HistoryQuery, Record};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::App;
use crate::auth::MaybeCaller;
use crate::extract::{Params, PathPart, Whole, parse, query, small_body, whole_body};
use crate::failure::{Failure, invalid, not_found};
use crate::rest::inbox::seconds;
use crate::written::{Outgoing, watched};

/// Seconds for which CAO collects more after the first message.
pub(crate) const WINDOW: f64 = 2.0;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/terminals/{id}/inbox/messages", get(list).post(post))
        .route("/terminals/{id}/inbox/messages/wait", get(wait))
}

#[derive(Debug, Default, Deserialize)]
struct Post {
    sender_id: Option<String>,
    message: Option<String>,
}

/// `POST /terminals/{receiver}/inbox/messages`: words in the query or the body.
async fn post(
    State(app): State<App>,
    MaybeCaller(caller): MaybeCaller,
    PathPart(receiver): PathPart,
    request: Request,
) -> Result<Response, Failure> {
    let receiver = terminal(&receiver)?;
    let mut given: Post = query(request.uri())?;
    // The share is held until the message is kept.
    let Whole { bytes, share: _share } = match caller {
        Some(_) => whole_body(request.into_body(), &app).await?,
        None if app.cao => small_body(request.into_body(), &app).await?,
        None => return Err(nameless()),
    };
    if !bytes.is_empty() {
        let Post { sender_id, message } = parse(&bytes)?;
        given.sender_id = given.sender_id.or(sender_id);
        given.message = given.message.or(message);
    }
    let sender = given.sender_id.ok_or_else(|| invalid("sender_id", "it is missing"))?;
    let message = given.message.ok_or_else(|| invalid("message", "it is missing"))?;
    let sender = terminal(&sender)?;
    let from = act_as(&app, caller, sender)?;
    let to = Address::Exact { name: None, instance: receiver, team: None };
    let draft =
        Draft::new(from, to, message.into(), Details::default(), Via::Cao, app.hub.limits())?;
    let receipt = app.hub.send(draft).await?;
    let record = app
        .hub
        .message(
            Principal::Operator,
            posthaste_core::messaging::message::MessageRef::Seq(receipt.seq),
        )
        .await?;
    let created_at = record.map(|r| r.message.created_at.to_string());
    let answer = json!({
        "success": true,
        "message_id": receipt.seq.0,
        "sender_id": sender.to_string(),
        "receiver_id": receiver.to_string(),
        "created_at": created_at,
    });
    Ok(Answer(answer).into_response())
}

#[derive(Debug, Deserialize)]
struct List {
    limit: Option<usize>,
    status: Option<String>,
}

/// CAO's statuses, by ours.
fn cao_status(d: &DeliveryRecord) -> &'static str {
    match d.state.as_str() {
        "queued" => "pending",
        "leased" => "delivered",
        "acked" => "consumed",
        _ => "failed",
    }
}

/// `GET /terminals/{id}/inbox/messages`: history, which consumes nothing.
async fn list(
    State(app): State<App>,
    MaybeCaller(caller): MaybeCaller,
    PathPart(id): PathPart,
    Params(query): Params<List>,
) -> Result<Answer<Vec<serde_json::Value>>, Failure> {
    let id = terminal(&id)?;
    let reader = act_as(&app, caller, id)?;
    let limit = query.limit.unwrap_or(10);
    if !(1..=100).contains(&limit) {
        return Err(invalid("limit", "it lies between 1 and 100"));
    }
    let status = match query.status.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None => None,
        Some("pending") => Some("queued"),
        Some("delivered") => Some("leased"),
        Some("consumed") => Some("acked"),
        Some("failed") => Some("dead"),
        Some(_) => {
            let why = "status is pending, delivered, consumed or failed";
            return Err(ApiError::new(ErrorCode::BadRequest, why).into());
        }
    };
    let mailbox = Mailbox::Instance(id);
    let query = HistoryQuery {
        mailbox: Some(mailbox.clone()),
        status,
        last: limit,
        ..HistoryQuery::default()
    };
    let records = app.hub.history(reader, query).await?.records;
    let entry = |r: &Record| {
        let delivery = r.deliveries.iter().find(|d| d.mailbox == mailbox)?;
        Some(json!({
            "id": r.message.seq.0,
            "sender_id": r.message.from.id(),
            "receiver_id": id.to_string(),
            "message": r.message.body.as_str(),
            "status": cao_status(delivery),
            "created_at": r.message.created_at.to_string(),
        }))
    };
    Ok(Answer(records.iter().filter_map(entry).collect()))
}

#[derive(Debug, Deserialize)]
struct Wait {
    timeout: Option<u32>,
    batch_window: Option<f64>,
}

/// What seed clients get: no more than they know.
#[derive(Debug, Serialize)]
struct Waited<'a> {
    id: u64,
    sender_id: String,
    message: &'a str,
    created_at: String,
}

/// `GET /terminals/{id}/inbox/messages/wait`: consumed once written.
async fn wait(
    State(app): State<App>,
    MaybeCaller(caller): MaybeCaller,
    Extension(outgoing): Extension<Arc<Outgoing>>,
    PathPart(id): PathPart,
    Params(query): Params<Wait>,
) -> Result<Response, Failure> {
    let id = terminal(&id)?;
    let reader = act_as(&app, caller, id)?;
    let limits = app.hub.limits();
    let timeout = query.timeout.map(f64::from);
    let ask = Ask {
        timeout: seconds("timeout", timeout, 60.0, limits.wait)?,
        window: seconds("batch_window", query.batch_window, WINDOW, limits.batch_window)?,
        auto_ack: true,
        ..Ask::now(reader)
    };
    let batch = app.hub.receive(ask).await?;
    let list: Vec<Waited<'_>> = batch
        .mail
        .iter()
        .map(|e| {
            let m = &e.leased.message;
            Waited {
                id: m.seq.0,
                sender_id: m.from.id(),
                message: e.text(),
                created_at: m.created_at.to_string(),
            }
        })
        .collect();
    let json =
        serde_json::to_vec(&list).map_err(|e| ApiError::new(ErrorCode::Internal, e.to_string()))?;
    Ok(watched(json, batch.handed, outgoing).map(Body::new))
}

/// CAO knows ids in one form only.
fn terminal(text: &str) -> Result<InstanceId, Failure> {
    let id = text.parse().ok().filter(|id: &InstanceId| id.to_string() == text);
    id.ok_or_else(|| invalid("terminal id", "it has 8 lower-case hex digits"))
}

fn nameless() -> Failure {
    let error = ApiError::new(ErrorCode::Unauthorized, "this call needs a token")
        .hint("send `Authorization: Bearer TOKEN`, or set compat.cao on loopback");
    error.into()
}

/// On whose behalf: the token's own instance, anyone for the operator, and anyone
/// for a loopback caller without a token where that is allowed.
fn act_as(app: &App, caller: Option<Principal>, id: InstanceId) -> Result<Principal, Failure> {
    let me = Principal::Instance(id);
    match caller {
        Some(principal) if principal == me => {}
        Some(Principal::Operator) => {}
        Some(Principal::Instance(_)) => {
            let why = "the terminal is not the one that the token belongs to";
            return Err(ApiError::new(ErrorCode::Forbidden, why).into());
        }
        None if app.cao => {}
        None => return Err(nameless()),
    }
    match app.hub.instance(id) {
        Some(found) if !found.instance.status.has_ended() => {
            app.hub.seen(me);
            Ok(me)
        }
        _ => Err(not_found("terminal")),
    }
}
