//! `/v1/stats`: counts, and what does not move.

use axum::Json as Answer;
use axum::extract::State;
use posthaste_api::stats::{AgentsStats, MailboxStats, Stuck, TeamsStats};

use crate::App;
use crate::auth::Caller;
use crate::failure::Failure;

/// `GET /v1/stats/mailboxes`
pub(crate) async fn mailboxes(
    State(app): State<App>,
    Caller(caller): Caller,
) -> Result<Answer<Vec<MailboxStats>>, Failure> {
    let list = app.hub.mailbox_stats(caller).await?;
    Ok(Answer(list.into_iter().map(MailboxStats::from).collect()))
}

/// `GET /v1/stats/agents`
pub(crate) async fn agents(
    State(app): State<App>,
    Caller(caller): Caller,
) -> Result<Answer<AgentsStats>, Failure> {
    Ok(Answer(app.hub.agent_stats(caller).await?.into()))
}

/// `GET /v1/stats/teams`
pub(crate) async fn teams(
    State(app): State<App>,
    Caller(caller): Caller,
) -> Result<Answer<TeamsStats>, Failure> {
    Ok(Answer(app.hub.team_stats(caller).await?.into()))
}

/// `GET /v1/stats/stuck`
pub(crate) async fn stuck(
    State(app): State<App>,
    Caller(caller): Caller,
) -> Result<Answer<Vec<Stuck>>, Failure> {
    let list = app.hub.stuck(caller).await?;
    Ok(Answer(list.into_iter().map(Stuck::from).collect()))
}
