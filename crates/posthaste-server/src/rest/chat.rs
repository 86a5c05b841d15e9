//! `/v1/chat`: the operator's conversation with one agent.

use std::path::Path;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use posthaste_api::chat::{
    self as wire, ChatCancelled, ChatQuery, ChatSaid, ChatSay, ChatStart, ChatStarted, ChatView,
};
use posthaste_core::address::Address;
use posthaste_core::chat::{Say, StartChat};
use posthaste_core::messaging::message::Seq;

use crate::App;
use crate::auth::{self, Operator};
use crate::extract::{Json, Params, PathPart};
use crate::failure::{Failure, invalid};
use crate::routes::Routes;
use crate::words::params::last_n;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .on(&wire::START, start)
        .on(&wire::READ, read)
        .on(&wire::SAY, say)
        .on(&wire::CANCEL, cancel)
}

/// `POST /v1/chat`
async fn start(
    State(app): State<App>,
    _: Operator,
    headers: HeaderMap,
    Json(request): Json<ChatStart>,
) -> Result<(StatusCode, Json<ChatStarted>), Failure> {
    let (agent, at) = match request.agent.parse()? {
        Address::Named { name, team } => (name, team),
        _ => {
            let why = "it is the name of a profile; POST /v1/chat/{instance} writes to an agent \
                       that is here";
            return Err(invalid("agent", why));
        }
    };
    let team = match (request.team.as_deref().map(str::parse).transpose()?, at) {
        (Some(team), Some(at)) if team != at => {
            return Err(invalid("team", "`agent` names another one: give one of them"));
        }
        (team, at) => team.or(at),
    };
    let directory = request.working_directory;
    if directory.as_ref().is_some_and(|path| !Path::new(path).is_absolute()) {
        return Err(invalid("working_directory", "it is an absolute path, like /home/you/project"));
    }
    let start = StartChat {
        agent,
        team,
        label: request.label,
        directory,
        message: request.message,
        idempotency_key: request.idempotency_key,
        via: auth::via(&headers),
    };
    Ok((StatusCode::CREATED, Json(app.hub.start_chat(start).await?.into())))
}

/// `GET /v1/chat/{instance}`
async fn read(
    State(app): State<App>,
    _: Operator,
    PathPart(agent): PathPart,
    Params(query): Params<ChatQuery>,
) -> Result<Json<ChatView>, Failure> {
    let last = last_n(query.last_n)?;
    if query.before.is_some_and(|before| i64::try_from(before).is_err()) {
        return Err(invalid("before", "take it from an answer"));
    }
    let who = app.hub.chat_partner(&agent)?.instance.id;
    Ok(Json(app.hub.chat(who, last, query.before.map(Seq)).await?.into()))
}

/// `POST /v1/chat/{instance}`
async fn say(
    State(app): State<App>,
    _: Operator,
    PathPart(agent): PathPart,
    headers: HeaderMap,
    Json(request): Json<ChatSay>,
) -> Result<(StatusCode, Json<ChatSaid>), Failure> {
    let who = app.hub.chat_partner(&agent)?.instance.id;
    let ChatSay { message: text, idempotency_key } = request;
    let said =
        app.hub.chat_say(who, Say { text, idempotency_key, via: auth::via(&headers) }).await?;
    let status = if said.sent.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(said.into())))
}

/// `POST /v1/chat/{instance}/cancel`
async fn cancel(
    State(app): State<App>,
    _: Operator,
    PathPart(agent): PathPart,
) -> Result<Json<ChatCancelled>, Failure> {
    let agent = app.hub.chat_partner(&agent)?.instance;
    app.hub.chat_cancel(agent.id).await?;
    Ok(Json(ChatCancelled { instance: agent.id.to_string(), address: agent.address.to_string() }))
}
