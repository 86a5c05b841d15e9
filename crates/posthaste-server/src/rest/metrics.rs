//! `GET /metrics`: metrics in Prometheus' text format. They name no agent, so a caller on
//! this machine needs no token; from elsewhere only the operator sees them.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::{Extension, Router};
use posthaste_api::pages;
use posthaste_core::messaging::message::Principal;

use crate::App;
use crate::auth::{self, Peer};
use crate::failure::Failure;
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&pages::METRICS, metrics)
}

async fn metrics(
    State(app): State<App>,
    Extension(Peer { from, .. }): Extension<Peer>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Failure> {
    if !from.ip().is_loopback() && auth::caller(&app, &headers)? != Principal::Operator {
        return Err(auth::forbidden("only the operator may do this"));
    }
    let page = app.meters.page(&app).await;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page))
}
