//! `/v1/instances` and `/v1/join`: the known instances, and joining.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use posthaste_api::instances::{
    self as wire, CreateInstance, Forgotten, InstanceView, Instances, InstancesQuery, JoinRequest,
    Joined, Pruned, Stopped, StoppedAll, UsageView,
};
use posthaste_core::address::{DEFAULT_TEAM, InstanceId, Name};
use posthaste_core::messaging::message::Principal;
use posthaste_core::ports::ModelUse;
use posthaste_core::registry::{
    self, Instance, InstanceFilter, JoinKey, NewInstance, Origin, Status, joined_token,
};

use crate::App;
use crate::auth::{Caller, Joiner, Operator, digest, hex, secret_of, seed_of};
use crate::extract::{Json, Params, PathPart};
use crate::failure::{Failure, invalid, not_found};
use crate::routes::Routes;
use crate::words::params::within;
use crate::words::work::{activity, assignment};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .on(&wire::JOIN, join)
        .on(&wire::CREATE, create)
        .on(&wire::LIST, list)
        .on(&wire::SHOW, show)
        .on(&wire::STOP, stop)
        .on(&wire::PRUNE, prune)
        .on(&wire::STOP_ALL, stop_all)
}

type Created = (StatusCode, Json<Joined>);

/// `POST /v1/instances`
async fn create(
    State(app): State<App>,
    _: Operator,
    Json(request): Json<CreateInstance>,
) -> Result<Created, Failure> {
    let token = random();
    let new = NewInstance {
        agent: name(&request.agent)?,
        team: request.team.as_deref().map(name).transpose()?,
        label: request.label,
        parent: request.parent.as_deref().map(str::parse::<InstanceId>).transpose()?,
        kind: request.kind.as_deref().map(str::parse).transpose()?,
        key: None,
        origin: Origin::Operator,
        token: digest(&token),
    };
    admit(&app, new, |_| token, None).await
}

/// `POST /v1/join`
async fn join(
    State(app): State<App>,
    _: Joiner,
    Json(request): Json<JoinRequest>,
) -> Result<Created, Failure> {
    let secret = request.secret.unwrap_or_else(random);
    let hash = secret_of(&app, "secret", &secret)?;
    let agent = name(&request.agent)?;
    let team = name(request.team.as_deref().unwrap_or(DEFAULT_TEAM))?;
    let seed = seed_of(&app, &agent, &team, &request.key, &secret);
    let new = NewInstance {
        agent,
        team: Some(team),
        label: None,
        parent: None,
        kind: None,
        key: Some(JoinKey { key: request.key, secret: hash }),
        origin: Origin::Join,
        token: seed,
    };
    admit(&app, new, |id| joined_token(&seed, id), Some(secret)).await
}

/// Reads the name of a session: the instance at its top, or `human`.
fn top(text: &str) -> Result<Principal, Failure> {
    match text {
        "human" => Ok(Principal::Operator),
        id => Ok(Principal::Instance(id.parse()?)),
    }
}

fn name(text: &str) -> Result<Name, Failure> {
    Ok(text.parse::<Name>()?)
}

/// Returns 256 random bits.
fn random() -> String {
    hex(&rand::random::<[u8; 32]>())
}

/// Lets an instance join. The answer tells token and secret; the hub keeps only their
/// hashes.
async fn admit(
    app: &App,
    new: NewInstance,
    token: impl FnOnce(InstanceId) -> String,
    secret: Option<String>,
) -> Result<Created, Failure> {
    let joined = app.hub.join(new).await?;
    let i = joined.instance;
    let answer = Joined {
        instance: i.id.to_string(),
        address: i.address.to_string(),
        team: i.team.to_string(),
        thread_id: i.thread.to_string(),
        token: token(i.id),
        resumed: joined.resumed,
        secret: secret.filter(|_| joined.secret_kept),
    };
    Ok((StatusCode::CREATED, Json(answer)))
}

/// `GET /v1/instances`
async fn list(
    State(app): State<App>,
    Caller(caller): Caller,
    Params(query): Params<InstancesQuery>,
) -> Result<Json<Instances>, Failure> {
    let limit = within("limit", query.limit.unwrap_or(100), 1..=1000)?;
    let statuses = match query.status.as_deref() {
        None => vec![Status::Starting, Status::Running, Status::Away, Status::Lost],
        Some("active") => vec![Status::Starting, Status::Running],
        Some("all") => Vec::new(),
        Some(one) => vec![one.parse()?],
    };
    let after = query.cursor.as_deref().map(str::parse).transpose();
    let filter = InstanceFilter {
        agent: query.agent.as_deref().map(name).transpose()?,
        team: query.team.as_deref().map(name).transpose()?,
        statuses,
        parent: query.parent.as_deref().map(str::parse).transpose()?,
        session: query.session.as_deref().map(top).transpose()?,
        limit: limit as usize,
        after: after.map_err(|_| invalid("cursor", "take it from an answer"))?,
    };
    let found = app.hub.instances(&filter);
    let full = found.len() == limit as usize;
    let cursor = found.last().filter(|_| full).map(|v| v.instance.id.to_string());
    let instances = found.into_iter().map(|v| view(&app, caller, v)).collect();
    Ok(Json(Instances { instances, cursor }))
}

/// `GET /v1/instances/{id}`
async fn show(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Json<InstanceView>, Failure> {
    let found = app.hub.instance(id.parse()?).ok_or_else(|| not_found("instance"))?;
    let usage_of_workers = app.hub.usage_below(found.instance.id).map(usage);
    Ok(Json(InstanceView { usage_of_workers, ..view(&app, caller, found) }))
}

/// `DELETE /v1/instances/{id}`: ends the instance and all workers below it.
async fn stop(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
) -> Result<Json<Stopped>, Failure> {
    let id: InstanceId = id.parse()?;
    let stopped = app.hub.stop(caller, id).await?;
    let found = app.hub.instance(id).ok_or_else(|| not_found("instance"))?;
    Ok(Json(Stopped { instance: view(&app, caller, found), stopped }))
}

/// `POST /v1/stop`
async fn stop_all(State(app): State<App>, _: Operator) -> Result<Json<StoppedAll>, Failure> {
    Ok(Json(StoppedAll { stopped: app.hub.stop_all().await }))
}

/// `POST /v1/instances/prune`: forgets instances that are gone and have nothing to lose.
async fn prune(State(app): State<App>, _: Operator) -> Result<Json<Pruned>, Failure> {
    let gone = app.hub.forget_all_gone().await?;
    let forgotten = |i: Instance| Forgotten {
        instance: i.id.to_string(),
        address: i.address.to_string(),
        last_seen: i.last_seen.to_string(),
    };
    Ok(Json(Pruned { forgotten: gone.into_iter().map(forgotten).collect() }))
}

fn view(app: &App, caller: Principal, found: registry::InstanceView) -> InstanceView {
    let taken = app.hub.taken_on(found.instance.id);
    let activity = activity(&app.hub, &found, &taken).to_owned();
    let i = found.instance;
    let work = i.work.as_deref().cloned();
    let session = work.as_ref().map(|_| match app.hub.session(i.id) {
        Principal::Operator => "human".to_owned(),
        Principal::Instance(top) => top.to_string(),
    });
    let work = work.unwrap_or_default();
    InstanceView {
        instance: i.id.to_string(),
        address: i.address.to_string(),
        agent: i.agent.to_string(),
        team: i.team.to_string(),
        kind: i.kind.as_str().to_owned(),
        origin: i.origin.as_str().to_owned(),
        status: i.status.as_str().to_owned(),
        activity,
        // Beside the join token, key and secret open the mailbox.
        key: i.key.filter(|_| caller == Principal::Operator),
        parent: i.parent.map(|p| p.to_string()),
        label: i.label,
        thread_id: i.thread.to_string(),
        unread: found.unread,
        unread_shared: found.unread_shared,
        created_at: i.created_at.to_string(),
        last_seen: i.last_seen.to_string(),
        ended_at: i.ended_at.map(|t| t.to_string()),
        working_directory: work.directory,
        branch: work.branch,
        // A part of a second counts as one.
        timeout_s: work.timeout.map(|time| time.as_secs_f64().ceil() as u64),
        started_at: work.started_at.map(|t| t.to_string()),
        exit_code: work.exit_code,
        why: work.why,
        session,
        usage: app.hub.usage(i.id).map(usage),
        usage_of_workers: None,
        assignments: taken.iter().map(|given| assignment(&app.hub, given)).collect(),
    }
}

fn usage(used: ModelUse) -> UsageView {
    let ModelUse { calls, input_tokens, output_tokens, cost_usd } = used;
    UsageView { calls, input_tokens, output_tokens, cost_usd }
}
