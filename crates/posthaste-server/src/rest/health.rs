//! `GET /health`: whether a hub is here. `GET /ready`: whether it takes and hands
//! out mail.

use axum::Router;
use axum::extract::State;
use posthaste_api::health::{self as wire, Health, Ready};

use crate::App;
use crate::extract::Json;
use crate::failure::Failure;
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::HEALTH, health).on(&wire::READY, ready)
}

async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health {
        status: if app.hub.is_healthy() { "ok" } else { "degraded" }.into(),
        service: "posthaste".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        durable: app.hub.is_durable(),
    })
}

async fn ready(State(app): State<App>) -> Result<Json<Ready>, Failure> {
    app.hub.ready().await?;
    Ok(Json(Ready { status: "ready".into(), connections: app.config.connections }))
}
