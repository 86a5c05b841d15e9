//! Sessions: making terminals, and ending all terminals of a name.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use posthaste_api::cao::sessions::{
    self as wire, CaoCreate, CaoCreateBody, CaoSession, CaoSessionDeleted, CaoSessionView,
};
use posthaste_api::cao::terminals::CaoTerminal;
use posthaste_core::address::InstanceId;

use super::caller::CaoCaller;
use super::making::{self, InSession, Wanted, session_name};
use super::terminal::{PREFIX, Terminal};
use super::{forget, terminal_id};
use crate::App;
use crate::extract::{Json, PathPart, Whole, parse, query, whole_body};
use crate::failure::{Failure, invalid, not_found};
use crate::routes::Routes;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .on(&wire::CREATE, create)
        .on(&wire::LIST, list)
        .on(&wire::SHOW, show)
        .on(&wire::DELETE, delete)
        .on(&wire::ADD, add)
        .on(&wire::TERMINALS, terminals)
}

type Created = (StatusCode, Json<CaoTerminal>);

/// `POST /sessions`
async fn create(
    State(app): State<App>,
    caller: CaoCaller,
    request: Request,
) -> Result<Created, Failure> {
    let given: CaoCreate = query(request.uri())?;
    let session = InSession::New(given.session_name.clone());
    make(&app, caller, given, session, request).await
}

/// `POST /sessions/{name}/terminals`
async fn add(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(name): PathPart,
    request: Request,
) -> Result<Created, Failure> {
    let given: CaoCreate = query(request.uri())?;
    make(&app, caller, given, InSession::Existing(name), request).await
}

/// Makes a terminal: with a task, or waiting for its first prompt.
async fn make(
    app: &App,
    caller: CaoCaller,
    given: CaoCreate,
    session: InSession,
    request: Request,
) -> Result<Created, Failure> {
    // The share is held until the task is kept.
    let Whole { bytes, share: _share } = whole_body(request.into_body(), app).await?;
    let body: CaoCreateBody = match bytes.is_empty() {
        true => CaoCreateBody::default(),
        false => parse(&bytes)?,
    };
    not_here(&given)?;
    let by = given.caller_id.as_deref().map(terminal_id).transpose()?;
    let tools = given.allowed_tools.map(|list| {
        list.split(',').map(|tool| tool.trim().to_owned()).filter(|tool| !tool.is_empty()).collect()
    });
    let message = body.initial_message;
    let wanted = Wanted {
        by: caller.on_behalf_of(app, by)?,
        agent: given.agent_profile.ok_or_else(|| invalid("agent_profile", "it is missing"))?,
        provider: given.provider,
        session,
        directory: given.working_directory,
        worktree: given.use_worktree,
        allowed_tools: tools,
        model: given.model,
        env: body.env_vars.unwrap_or_default(),
        description: body.description,
        metadata: body.metadata,
        group: body.group,
        key: given.idempotency_key,
        job: None,
        has_task: message.is_some(),
    };
    let _making = app.making.lock().await;
    let planned = making::plan(app, wanted).await?;
    let id = match message {
        Some(message) => app.hub.assign(planned.with_task(message)).await?.instance.id,
        None => planned.open(app).await?.id,
    };
    let made = Terminal::find(app, id).ok_or_else(|| not_found("terminal"))?;
    Ok((StatusCode::CREATED, Json(made.shown(app).await?)))
}

/// Refuses what CAO could do and the hub cannot: silence would be taken for consent.
fn not_here(given: &CaoCreate) -> Result<(), Failure> {
    if given.resume_session_id.is_some() {
        let why = "this hub cannot resume a conversation of Claude Code in a new terminal";
        return Err(invalid("resume_session_id", why));
    }
    if given.memory_manager == Some(true) {
        return Err(invalid("memory_manager", "this hub keeps no memory for agents"));
    }
    if given.engine.as_deref().is_some_and(|engine| engine != "v2") {
        return Err(invalid("engine", "this hub runs Kiro with the engine v2 only"));
    }
    Ok(())
}

/// `GET /sessions`
async fn list(State(app): State<App>, caller: CaoCaller) -> Result<Json<Vec<CaoSession>>, Failure> {
    let mut sessions: Vec<CaoSession> = Vec::new();
    for found in Terminal::all(&app) {
        if caller.sees(&app, found.id()).is_err() {
            continue;
        }
        let name = found.session_name();
        match sessions.iter_mut().find(|known| known.name == name) {
            Some(known) if !found.view.instance.status.has_ended() => {
                known.status = "active".to_owned();
            }
            Some(_) => {}
            None => sessions.push(session(&name, &[found])),
        }
    }
    sessions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(sessions))
}

fn session(name: &str, terminals: &[Terminal]) -> CaoSession {
    let lives = terminals.iter().any(|found| !found.view.instance.status.has_ended());
    let first = terminals.first();
    CaoSession {
        id: name.to_owned(),
        name: name.to_owned(),
        status: if lives { "active" } else { "terminated" }.to_owned(),
        working_directory: first.and_then(Terminal::directory),
        agent_profile: first.map(|t| t.view.instance.agent.to_string()).unwrap_or_default(),
    }
}

/// Returns the terminals of a session that the caller may look at.
fn seen(app: &App, caller: CaoCaller, name: &str) -> Vec<Terminal> {
    let mut found = Terminal::of_session(app, name);
    found.retain(|terminal| caller.sees(app, terminal.id()).is_ok());
    found
}

async fn shown(app: &App, found: &[Terminal]) -> Result<Vec<CaoTerminal>, Failure> {
    let mut all = Vec::with_capacity(found.len());
    for terminal in found {
        all.push(terminal.shown(app).await?);
    }
    Ok(all)
}

/// `GET /sessions/{name}`
async fn show(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(name): PathPart,
) -> Result<Json<CaoSessionView>, Failure> {
    let name = session_name(&name)?;
    let found = seen(&app, caller, &name);
    if found.is_empty() {
        return Err(not_found("session"));
    }
    let terminals = shown(&app, &found).await?;
    Ok(Json(CaoSessionView { session: session(&name, &found), terminals }))
}

/// `GET /sessions/{name}/terminals`
async fn terminals(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(name): PathPart,
) -> Result<Json<Vec<CaoTerminal>>, Failure> {
    let found = seen(&app, caller, &session_name(&name)?);
    Ok(Json(shown(&app, &found).await?))
}

/// `DELETE /sessions/{name}`
async fn delete(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(name): PathPart,
) -> Result<Json<CaoSessionDeleted>, Failure> {
    let mut name = session_name(&name)?;
    if !name.starts_with(PREFIX) {
        name.insert_str(0, PREFIX);
    }
    let found = Terminal::of_session(&app, &name);
    if found.is_empty() {
        return Err(not_found("session"));
    }
    // Nobody ends a part of a session because another part is not theirs.
    let ids: Vec<InstanceId> = found.iter().map(Terminal::id).collect();
    let by: Result<Vec<_>, Failure> = ids.iter().map(|id| caller.directs(&app, *id)).collect();
    for (by, terminal) in by? {
        forget(&app, by, &terminal).await?;
    }
    Ok(Json(CaoSessionDeleted { success: true, deleted: vec![name], errors: Vec::new() }))
}
