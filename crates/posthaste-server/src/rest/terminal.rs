//! `/v1/instances/{id}/terminal`: where a person attaches to a worker.

use axum::Router;
use axum::extract::State;
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::terminal::{self as wire, TerminalView};
use posthaste_core::address::InstanceId;

use crate::App;
use crate::auth::Caller;
use crate::extract::{Json, PathPart};
use crate::failure::{Failure, not_found};
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::TERMINAL, terminal)
}

/// `GET /v1/instances/{id}/terminal`
async fn terminal(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Json<TerminalView>, Failure> {
    let id: InstanceId = id.parse()?;
    let worker = app.hub.instance(id).ok_or_else(|| not_found("instance"))?.instance;
    if !app.hub.is_above(caller, id) {
        let why =
            "only those above a worker, the leaders of its team and the human see its terminal";
        return Err(ApiError::new(ErrorCode::Forbidden, why).into());
    }
    match app.hub.terminal(id) {
        Some(terminal) => Ok(Json(TerminalView {
            socket: terminal.socket.to_string_lossy().into_owned(),
            session: terminal.session,
            pane: terminal.pane,
        })),
        None => Err(ApiError::new(ErrorCode::NotFound, format!("{} has no terminal", worker.address))
            .hint("a worker whose profile says `driver: terminal` has one while it runs; `posthaste logs` shows what any worker does")
            .into()),
    }
}
