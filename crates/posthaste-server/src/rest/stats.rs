//! `/v1/stats`: counts, and mail that does not move.

use axum::Router;
use axum::extract::State;
use posthaste_api::stats::{self as wire, AgentsStats, MailboxStats, Stuck, TeamsStats};

use crate::App;
use crate::auth::Caller;
use crate::extract::Json;
use crate::failure::Failure;
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .on(&wire::MAILBOXES, mailboxes)
        .on(&wire::AGENTS, agents)
        .on(&wire::TEAMS, teams)
        .on(&wire::STUCK, stuck)
}

/// `GET /v1/stats/mailboxes`
async fn mailboxes(
    State(app): State<App>,
    Caller(caller): Caller,
) -> Result<Json<Vec<MailboxStats>>, Failure> {
    let list = app.hub.mailbox_stats(caller).await?;
    Ok(Json(list.into_iter().map(MailboxStats::from).collect()))
}

/// `GET /v1/stats/agents`
async fn agents(
    State(app): State<App>,
    Caller(caller): Caller,
) -> Result<Json<AgentsStats>, Failure> {
    Ok(Json(app.hub.agent_stats(caller).await?.into()))
}

/// `GET /v1/stats/teams`
async fn teams(
    State(app): State<App>,
    Caller(caller): Caller,
) -> Result<Json<TeamsStats>, Failure> {
    Ok(Json(app.hub.team_stats(caller).await?.into()))
}

/// `GET /v1/stats/stuck`
async fn stuck(
    State(app): State<App>,
    Caller(caller): Caller,
) -> Result<Json<Vec<Stuck>>, Failure> {
    let list = app.hub.stuck(caller).await?;
    Ok(Json(list.into_iter().map(Stuck::from).collect()))
}
