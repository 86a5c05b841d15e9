//! CAO's routes: the MCP server and the command line of CLI Agent Orchestrator run against
//! the hub unchanged. The routes translate to the hub's own calls and implement nothing
//! themselves. A terminal is an instance; a session is a name that terminals share.
//!
//! CAO believes any `sender_id`; the hub does not ([`caller`]). Messages that come this
//! way are marked `via: cao`.

mod asked;
mod caller;
mod inbox;
mod making;
mod neighbour;
mod output;
mod sessions;
mod steps;
mod terminal;
mod terminals;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::middleware;
use axum::response::Response;
use posthaste_api::error::{ApiError, ErrorBody, ErrorCode};
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::Principal;
use posthaste_core::orchestration::StopError;
use posthaste_core::registry::RegistryError;

use self::terminal::{CaoRecord, Terminal};
use crate::App;
use crate::failure::{Failure, invalid};

/// Seconds for which CAO collects more messages after the first.
pub(crate) const WINDOW: f64 = 2.0;

/// Largest body of a failure.
const FAILURE_BYTES: usize = 64 * 1024;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .merge(sessions::routes())
        .merge(terminals::routes())
        .merge(inbox::routes())
        .merge(steps::routes())
        .layer(middleware::map_response(with_detail))
}

/// Adds CAO's form of an error beside the hub's own: `detail`, which its programs show.
async fn with_detail(response: Response) -> Response {
    if response.extensions().get::<ErrorCode>().is_none() {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, FAILURE_BYTES).await else {
        return Response::from_parts(head, Body::empty());
    };
    let told = serde_json::from_slice::<ErrorBody>(&bytes).ok().and_then(|ErrorBody { error }| {
        let ApiError { message, hint, .. } = &error;
        let detail = match hint {
            Some(hint) => format!("{message}; {hint}"),
            None => message.clone(),
        };
        serde_json::to_vec(&serde_json::json!({ "detail": detail, "error": error })).ok()
    });
    head.headers.remove(axum::http::header::CONTENT_LENGTH);
    Response::from_parts(head, told.map_or_else(|| Body::from(bytes), Body::from))
}

/// Reads a terminal id, which CAO writes in one form only.
fn terminal_id(text: &str) -> Result<InstanceId, Failure> {
    let id = text.parse().ok().filter(|id: &InstanceId| id.to_string() == text);
    id.ok_or_else(|| invalid("terminal id", "it has 8 lower-case hex digits"))
}

/// Ends a terminal, with all below it, and shows none of them any more.
async fn forget(app: &App, by: Principal, terminal: &Terminal) -> Result<(), Failure> {
    let top = Principal::Instance(terminal.id());
    let mut gone = vec![terminal.clone()];
    gone.extend(Terminal::all(app).into_iter().filter(|t| app.hub.is_above(top, t.id())));
    match app.hub.stop(by, terminal.id()).await {
        Ok(_) | Err(StopError::Registry(RegistryError::Ended(_))) => {}
        Err(error) => return Err(error.into()),
    }
    for terminal in gone {
        if let Some(record) = terminal.record.clone() {
            let record = CaoRecord { deleted: true, ..record };
            app.hub.put_record(terminal.id(), record.to_text()?).await?;
        }
    }
    Ok(())
}
