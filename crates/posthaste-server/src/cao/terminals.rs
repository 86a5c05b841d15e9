//! Terminals: looking at them, prompting them and ending them.

use axum::Router;
use axum::extract::State;
use posthaste_api::cao::terminals::{
    self as wire, CaoDirectory, CaoDone, CaoInput, CaoMetadata, CaoOutput, CaoOutputQuery,
    CaoSibling, CaoSiblingsQuery, CaoTerminal,
};
use posthaste_core::messaging::message::Via;
use posthaste_core::orchestration::{Assign, StopError};
use posthaste_core::registry::RegistryError;

use super::caller::CaoCaller;
use super::terminal::{CaoRecord, Terminal};
use super::{asked, forget, making, output, terminal_id};
use crate::App;
use crate::extract::{Json, Params, PathPart};
use crate::failure::{Failure, invalid, not_found};
use crate::routes::Routes;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .on(&wire::SHOW, show)
        .on(&wire::DELETE, delete)
        .on(&wire::EXIT, exit)
        .on(&wire::INPUT, input)
        .on(&wire::OUTPUT, output)
        .on(&wire::DIRECTORY, directory)
        .on(&wire::SIBLINGS, siblings)
        .on(&wire::METADATA, metadata)
}

const DONE: Json<CaoDone> = Json(CaoDone { success: true });

/// `GET /terminals/{id}`
async fn show(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(id): PathPart,
) -> Result<Json<CaoTerminal>, Failure> {
    let found = caller.sees(&app, terminal_id(&id)?)?;
    Ok(Json(found.shown(&app).await?))
}

/// `DELETE /terminals/{id}`
async fn delete(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(id): PathPart,
) -> Result<Json<CaoDone>, Failure> {
    let (by, terminal) = caller.directs(&app, terminal_id(&id)?)?;
    forget(&app, by, &terminal).await?;
    Ok(DONE)
}

/// `POST /terminals/{id}/exit`
async fn exit(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(id): PathPart,
) -> Result<Json<CaoDone>, Failure> {
    let (by, terminal) = caller.directs(&app, terminal_id(&id)?)?;
    match app.hub.stop(by, terminal.id()).await {
        Ok(_) | Err(StopError::Registry(RegistryError::Ended(_))) => Ok(DONE),
        Err(error) => Err(error.into()),
    }
}

/// `POST /terminals/{id}/input`: work for a terminal that is here, which answers with its
/// next output.
async fn input(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(id): PathPart,
    Params(given): Params<CaoInput>,
) -> Result<Json<CaoDone>, Failure> {
    let id = terminal_id(&id)?;
    let (by, terminal) = caller.directs(&app, id)?;
    // CAO's programs write `supervisor` where they have no terminal.
    let sender = given.sender_id.as_deref().and_then(|sender| terminal_id(sender).ok());
    let sender = sender.map(|sender| caller.acts_as(&app, sender)).transpose()?;
    if terminal.status(&app) == "waiting_user_answer" {
        // A program without a token may be the terminal's own.
        let user = caller.by_token().filter(|_| sender.is_none());
        asked::answer(&app, id, user, given.message).await?;
        return Ok(DONE);
    }
    let assign = Assign {
        // A prompt is work, which a terminal has from those above it.
        by: sender.filter(|sender| app.hub.is_above(*sender, id)).unwrap_or(by),
        agent: terminal.view.instance.agent,
        worker: Some(id),
        team: None,
        message: given.message,
        label: None,
        directory: None,
        worktree: None,
        timeout: None,
        terms: None,
        idempotency_key: None,
        via: Via::Cao,
    };
    app.hub.assign(assign).await?;
    Ok(DONE)
}

/// `GET /terminals/{id}/output`
async fn output(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(id): PathPart,
    Params(query): Params<CaoOutputQuery>,
) -> Result<Json<CaoOutput>, Failure> {
    let (_, terminal) = caller.directs(&app, terminal_id(&id)?)?;
    let mode = query.mode.unwrap_or_else(|| "full".to_owned());
    let output = match mode.as_str() {
        "last" => output::last(&app, terminal.id()).await?,
        "full" => output::full(&app, terminal.id()).await?,
        _ => return Err(invalid("mode", "it is `full` or `last`")),
    };
    Ok(Json(CaoOutput { output, mode }))
}

/// `GET /terminals/{id}/working-directory`
async fn directory(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(id): PathPart,
) -> Result<Json<CaoDirectory>, Failure> {
    let found = caller.sees(&app, terminal_id(&id)?)?;
    Ok(Json(CaoDirectory { working_directory: found.directory() }))
}

/// `GET /terminals/{id}/siblings`
async fn siblings(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(id): PathPart,
    Params(query): Params<CaoSiblingsQuery>,
) -> Result<Json<Vec<CaoSibling>>, Failure> {
    let me = caller.sees(&app, terminal_id(&id)?)?;
    let (session, mut shared) = (me.session_name(), me.group());
    match query.depth {
        Some(0) => return Err(invalid("depth", "it is a number from 1")),
        Some(depth) => shared.truncate(depth),
        None => {}
    }
    let near = |other: &Terminal| {
        other.id() != me.id()
            && !other.view.instance.status.has_ended()
            && other.group().starts_with(&shared)
            && (query.cross_session || other.session_name() == session)
    };
    let found = Terminal::all(&app).into_iter().filter(near);
    let sibling = |other: Terminal| CaoSibling {
        id: other.id().to_string(),
        group: other.group(),
        status: other.status(&app).to_owned(),
        metadata: other.record.and_then(|record| record.metadata),
    };
    Ok(Json(found.map(sibling).collect()))
}

/// `PATCH /terminals/{id}/metadata`
async fn metadata(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(id): PathPart,
    Json(given): Json<CaoMetadata>,
) -> Result<Json<CaoTerminal>, Failure> {
    let id = terminal_id(&id)?;
    caller.acts_as(&app, id)?;
    let metadata = Some(making::told(&app, &given.metadata)?);
    let record = Terminal::find(&app, id).and_then(|found| found.record);
    // An instance of another door has no such record.
    let record = record.ok_or_else(|| not_found("terminal"))?;
    let record = CaoRecord { metadata, ..record };
    app.hub.put_record(id, record.to_text()?).await?;
    let found = Terminal::find(&app, id).ok_or_else(|| not_found("terminal"))?;
    Ok(Json(found.shown(&app).await?))
}
