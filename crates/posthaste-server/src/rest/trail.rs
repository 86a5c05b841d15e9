//! `/v1/messages/{id}/trail`: what happened to a message.

use axum::Json as Answer;
use axum::extract::State;
use posthaste_api::trail::TrailView;

use crate::App;
use crate::auth::Caller;
use crate::extract::PathPart;
use crate::failure::{Failure, not_found};

/// `GET /v1/messages/{id or seq}/trail`
pub(crate) async fn trail(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Answer<TrailView>, Failure> {
    let trail = app.hub.trail(caller, id.parse()?).await?;
    Ok(Answer(trail.ok_or_else(|| not_found("message"))?.into()))
}
