//! `GET /health`

use axum::Json;
use axum::extract::State;
use posthaste_api::health::Health;

use crate::App;

pub(crate) async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health {
        status: if app.hub.is_healthy() { "ok" } else { "degraded" }.into(),
        service: "posthaste".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        durable: app.hub.is_durable(),
    })
}
