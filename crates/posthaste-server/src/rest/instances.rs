//! `/v1/instances` and `/v1/join`: who is here.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::instances::{
    CreateInstance, InstanceView, Instances, InstancesQuery, JoinRequest, Joined,
};
use posthaste_core::address::{InstanceId, Name};
use posthaste_core::messaging::message::Principal;
use posthaste_core::registry::{self, InstanceFilter, NewInstance, Status};

use crate::App;
use crate::auth::{Caller, Joiner, Operator, digest};
use crate::extract::{Json, Params, PathPart};
use crate::failure::{Failure, invalid, not_found};

type Created = (StatusCode, Answer<Joined>);

/// `POST /v1/instances`
pub(crate) async fn create(
    State(app): State<App>,
    _: Operator,
    Json(request): Json<CreateInstance>,
) -> Result<Created, Failure> {
    let new = NewInstance {
        agent: name(&request.agent)?,
        team: request.team.as_deref().map(name).transpose()?,
        label: request.label,
        parent: request.parent.as_deref().map(str::parse::<InstanceId>).transpose()?,
        kind: request.kind.as_deref().map(str::parse).transpose()?,
        key: None,
        token: [0; 32],
    };
    admit(&app, new).await
}

/// `POST /v1/join`
pub(crate) async fn join(
    State(app): State<App>,
    _: Joiner,
    Json(request): Json<JoinRequest>,
) -> Result<Created, Failure> {
    let new = NewInstance {
        agent: name(&request.agent)?,
        team: request.team.as_deref().map(name).transpose()?,
        label: None,
        parent: None,
        kind: None,
        key: Some(request.key),
        token: [0; 32],
    };
    admit(&app, new).await
}

fn name(text: &str) -> Result<Name, Failure> {
    Ok(text.parse::<Name>()?)
}

/// The token is made here, told once, and kept only as its hash.
async fn admit(app: &App, new: NewInstance) -> Result<Created, Failure> {
    let random: [u8; 32] = rand::random();
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let joined = app.hub.join(NewInstance { token: digest(&token), ..new }).await?;
    let i = joined.instance;
    let answer = Joined {
        instance: i.id.to_string(),
        address: i.address.to_string(),
        team: i.team.to_string(),
        thread_id: i.thread.to_string(),
        token,
        resumed: joined.resumed,
    };
    Ok((StatusCode::CREATED, Answer(answer)))
}

/// `GET /v1/instances`
pub(crate) async fn list(
    State(app): State<App>,
    Caller(caller): Caller,
    Params(query): Params<InstancesQuery>,
) -> Result<Answer<Instances>, Failure> {
    let limit = query.limit.unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(invalid("limit", "it lies between 1 and 1000"));
    }
    let statuses = match query.status.as_deref() {
        None | Some("active") => vec![Status::Starting, Status::Running, Status::Lost],
        Some("all") => Vec::new(),
        Some(one) => vec![one.parse()?],
    };
    let after = query.cursor.as_deref().map(str::parse).transpose();
    let filter = InstanceFilter {
        agent: query.agent.as_deref().map(name).transpose()?,
        team: query.team.as_deref().map(name).transpose()?,
        statuses,
        limit: limit as usize,
        after: after.map_err(|_| invalid("cursor", "take it from an answer"))?,
    };
    let found = app.hub.instances(&filter);
    let full = found.len() == limit as usize;
    let cursor = found.last().filter(|_| full).map(|v| v.instance.id.to_string());
    let instances = found.into_iter().map(|v| view(&app, caller, v)).collect();
    Ok(Answer(Instances { instances, cursor }))
}

/// `GET /v1/instances/{id}`
pub(crate) async fn show(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Answer<InstanceView>, Failure> {
    let found = app.hub.instance(id.parse()?).ok_or_else(|| not_found("instance"))?;
    Ok(Answer(view(&app, caller, found)))
}

/// `DELETE /v1/instances/{id}`: an agent ends itself, the operator anyone.
pub(crate) async fn leave(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Answer<InstanceView>, Failure> {
    let id: InstanceId = id.parse()?;
    if caller != Principal::Operator && caller != Principal::Instance(id) {
        let error = ApiError::new(ErrorCode::Forbidden, "an agent can end only itself");
        return Err(error.into());
    }
    app.hub.end(id, Status::Stopped, false).await?;
    let found = app.hub.instance(id).ok_or_else(|| not_found("instance"))?;
    Ok(Answer(view(&app, caller, found)))
}

fn view(app: &App, caller: Principal, found: registry::InstanceView) -> InstanceView {
    let i = found.instance;
    let waiting = !i.status.has_ended() && app.hub.is_waiting(i.id);
    InstanceView {
        instance: i.id.to_string(),
        address: i.address.to_string(),
        agent: i.agent.to_string(),
        team: i.team.to_string(),
        kind: i.kind.as_str().to_owned(),
        status: i.status.as_str().to_owned(),
        activity: match (app.hub.is_asking(Principal::Instance(i.id)), waiting) {
            (true, _) => "waiting_user",
            (false, true) => "waiting_inbox",
            (false, false) => "unknown",
        }
        .to_owned(),
        // Beside the join token it opens the mailbox.
        key: i.key.filter(|_| caller == Principal::Operator),
        parent: i.parent.map(|p| p.to_string()),
        label: i.label,
        thread_id: i.thread.to_string(),
        unread: found.unread,
        created_at: i.created_at.to_string(),
        last_seen: i.last_seen.to_string(),
        ended_at: i.ended_at.map(|t| t.to_string()),
    }
}
