//! `GET /health`: whether a hub is here. `GET /ready`: whether it takes and hands
//! out mail.

use axum::Json;
use axum::extract::State;
use posthaste_api::health::{Health, Ready};

use crate::App;
use crate::failure::Failure;

pub(crate) async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health {
        status: if app.hub.is_healthy() { "ok" } else { "degraded" }.into(),
        service: "posthaste".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        durable: app.hub.is_durable(),
    })
}

pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Ready>, Failure> {
    app.hub.ready().await?;
    Ok(Json(Ready { status: "ready".into(), connections: app.config.connections }))
}
