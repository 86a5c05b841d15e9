//! `/v1/messages/{id}/trail`: what happened to a message.

use axum::Router;
use axum::extract::State;
use posthaste_api::trail::{self as wire, TrailView};

use crate::App;
use crate::auth::Caller;
use crate::extract::{Json, PathPart};
use crate::failure::{Failure, not_found};
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::TRAIL, trail)
}

/// `GET /v1/messages/{id or seq}/trail`
async fn trail(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Json<TrailView>, Failure> {
    let trail = app.hub.trail(caller, id.parse()?).await?;
    Ok(Json(trail.ok_or_else(|| not_found("message"))?.into()))
}
