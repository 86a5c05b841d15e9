//! `/v1/teams`: address scopes with leaders.

use axum::Router;
use axum::extract::State;
use posthaste_api::teams::{self as wire, PutTeam, TeamView, Teams};
use posthaste_core::address::Name;
use posthaste_core::registry::{Instance, Team};

use crate::App;
use crate::auth::{Caller, Operator};
use crate::extract::{Json, PathPart};
use crate::failure::Failure;
use crate::routes::Routes;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::LIST, list).on(&wire::SHOW, show).on(&wire::PUT, put)
}

fn view((team, members): (Team, Vec<Instance>)) -> TeamView {
    TeamView {
        name: team.name.to_string(),
        leaders: team.leaders.iter().map(ToString::to_string).collect(),
        members: members.iter().map(|i| i.address.to_string()).collect(),
    }
}

/// `GET /v1/teams`
async fn list(State(app): State<App>, _: Caller) -> Json<Teams> {
    let names = app.hub.teams();
    Json(Teams { teams: names.iter().filter_map(|n| app.hub.team(n)).map(view).collect() })
}

/// `GET /v1/teams/{name}`
async fn show(
    State(app): State<App>,
    _: Caller,
    PathPart(name): PathPart,
) -> Result<Json<TeamView>, Failure> {
    let name: Name = name.parse()?;
    Ok(Json(view(app.hub.team(&name).ok_or_else(|| app.hub.no_such_team(&name))?)))
}

/// `PUT /v1/teams/{name}`
async fn put(
    State(app): State<App>,
    _: Operator,
    PathPart(name): PathPart,
    Json(request): Json<PutTeam>,
) -> Result<Json<TeamView>, Failure> {
    let name: Name = name.parse()?;
    let leaders = request.leaders.iter().map(|l| l.parse()).collect::<Result<_, _>>()?;
    app.hub.put_team(Team { name: name.clone(), leaders }).await?;
    Ok(Json(view(app.hub.team(&name).ok_or_else(|| app.hub.no_such_team(&name))?)))
}
