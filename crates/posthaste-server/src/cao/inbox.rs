//! The inbox of a terminal.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::{Extension, Router};
use posthaste_api::cao::inbox::{
    self as wire, CaoList, CaoMessage, CaoPost, CaoPosted, CaoReceived, CaoWait,
};
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::{Address, Mailbox};
use posthaste_core::messaging::message::{Details, Draft, Kind, MessageRef, Principal, Via};
use posthaste_core::messaging::receive::Ask;
use posthaste_core::ports::{DeliveryRecord, HistoryQuery, Record};

use super::caller::CaoCaller;
use super::{WINDOW, terminal_id};
use crate::App;
use crate::extract::{Json, Params, PathPart, Whole, parse, query, whole_body};
use crate::failure::{Failure, invalid};
use crate::routes::Routes;
use crate::words::params::{seconds, within};
use crate::words::work::reports_to;
use crate::written::{Outgoing, watched};

pub(super) fn routes() -> Router<App> {
    Router::new().on(&wire::POST, post).on(&wire::LIST, list).on(&wire::WAIT, wait)
}

/// `POST /terminals/{receiver}/inbox/messages`: parameters in the query or the body.
async fn post(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(receiver): PathPart,
    request: Request,
) -> Result<Json<CaoPosted>, Failure> {
    let receiver = terminal_id(&receiver)?;
    let mut given: CaoPost = query(request.uri())?;
    // A caller that names its sender in the address line is judged before its body is read.
    if let Some(sender) = &given.sender_id {
        caller.sends_as(&app, sender)?;
    }
    // The share is held until the message is kept.
    let Whole { bytes, share: _share } = whole_body(request.into_body(), &app).await?;
    if !bytes.is_empty() {
        let CaoPost { sender_id, message } = parse(&bytes)?;
        given.sender_id = given.sender_id.or(sender_id);
        given.message = given.message.or(message);
    }
    let sender = given.sender_id.ok_or_else(|| invalid("sender_id", "it is missing"))?;
    let message = given.message.ok_or_else(|| invalid("message", "it is missing"))?;
    let from = caller.sends_as(&app, &sender)?;
    let to = Address::Exact { name: None, instance: receiver, team: None };
    let mut details = Details::default();
    let reports = |id| reports_to(&app.hub, id, Principal::Instance(receiver));
    if from.instance().is_some_and(reports) {
        details.kind = Kind::RESULT;
    }
    let draft = Draft::new(from, to, message.into(), details, Via::Cao, app.hub.limits())?;
    let receipt = app.hub.send(draft).await?;
    let record = app.hub.message(Principal::Operator, MessageRef::Seq(receipt.seq)).await?;
    Ok(Json(CaoPosted {
        success: true,
        message_id: receipt.seq.0,
        sender_id: sender,
        receiver_id: receiver.to_string(),
        created_at: record.map(|r| r.message.created_at.to_string()),
    }))
}

/// Returns CAO's word for the state of a delivery.
fn cao_status(d: &DeliveryRecord) -> &'static str {
    match d.state.as_str() {
        "queued" => "pending",
        "leased" => "delivered",
        "acked" => "consumed",
        _ => "failed",
    }
}

/// `GET /terminals/{id}/inbox/messages`: the history, which leases nothing.
async fn list(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(id): PathPart,
    Params(query): Params<CaoList>,
) -> Result<Json<Vec<CaoMessage>>, Failure> {
    let id = terminal_id(&id)?;
    let reader = caller.acts_as(&app, id)?;
    let limit = within("limit", query.limit.unwrap_or(10), 1..=100)?;
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
        Some(CaoMessage {
            id: r.message.seq.0,
            sender_id: r.message.from.id(),
            receiver_id: id.to_string(),
            message: r.message.body.as_str().to_owned(),
            status: cao_status(delivery).to_owned(),
            created_at: r.message.created_at.to_string(),
            via: r.message.via.as_str().to_owned(),
        })
    };
    Ok(Json(records.iter().filter_map(entry).collect()))
}

/// `GET /terminals/{id}/inbox/messages/wait`: messages are consumed once they are written.
async fn wait(
    State(app): State<App>,
    caller: CaoCaller,
    Extension(outgoing): Extension<Arc<Outgoing>>,
    PathPart(id): PathPart,
    Params(query): Params<CaoWait>,
) -> Result<Response, Failure> {
    let id = terminal_id(&id)?;
    let reader = caller.acts_as(&app, id)?;
    let limits = app.hub.limits();
    let timeout = query.timeout.map(f64::from);
    let ask = Ask {
        timeout: seconds("timeout", timeout, 60.0, limits.wait)?,
        window: seconds("batch_window", query.batch_window, WINDOW, limits.batch_window)?,
        auto_ack: true,
        ..Ask::now(reader)
    };
    let batch = app.hub.receive(ask).await?;
    let list: Vec<CaoReceived<'_>> = batch
        .mail
        .iter()
        .map(|e| {
            let m = &e.leased.message;
            CaoReceived {
                id: m.seq.0,
                sender_id: m.from.id().into(),
                message: Cow::Borrowed(e.text()),
                created_at: m.created_at.to_string().into(),
                via: Cow::Borrowed(m.via.as_str()),
            }
        })
        .collect();
    let json =
        serde_json::to_vec(&list).map_err(|e| ApiError::new(ErrorCode::Internal, e.to_string()))?;
    Ok(watched(json, batch.handed, outgoing).map(Body::new))
}
