//! `/v1/needs`: what waits for the operator.

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use posthaste_api::needs::{
    self as wire, AnswerRequest, AnsweredNeed, ForgetQuery, ForgottenVerdicts, NeedView, Needs,
    NeedsQuery, RememberedVerdicts,
};
use posthaste_core::address::Name;
use posthaste_core::needs::{Answer, Need, NeedId, NeedKind};
use posthaste_core::ports::store::NeedsLook;

use crate::App;
use crate::auth::{self, Operator};
use crate::extract::{Json, Params, PathPart};
use crate::failure::{Failure, invalid, not_found};
use crate::routes::Routes;
use crate::words::params::within;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .on(&wire::LIST, list)
        .on(&wire::SHOW, show)
        .on(&wire::ANSWER, answer)
        .on(&wire::REMEMBERED, remembered)
        .on(&wire::FORGET, forget)
}

/// `GET /v1/needs`
async fn list(
    State(app): State<App>,
    _: Operator,
    Params(query): Params<NeedsQuery>,
) -> Result<Json<Needs>, Failure> {
    let most = within("limit", query.limit.unwrap_or(100), 1..=1000)? as usize;
    let kind = query.kind.as_deref().map(kind).transpose()?;
    let after = match query.cursor.as_deref().map(number) {
        None => NeedId(0),
        Some(Some(id)) => id,
        Some(None) => return Err(invalid("cursor", "take it from an answer")),
    };
    let open_only = query.open.unwrap_or(true);
    let found = app.hub.needs(NeedsLook::After { after, kind, open_only, most }).await?;
    let cursor = found.last().filter(|_| found.len() == most).map(|need| need.id.to_string());
    let needs = found.into_iter().map(|need| view(&app, need)).collect();
    Ok(Json(Needs { needs, open: app.hub.open_needs(), cursor }))
}

/// `GET /v1/needs/{id}`
async fn show(
    State(app): State<App>,
    _: Operator,
    PathPart(id): PathPart,
) -> Result<Json<NeedView>, Failure> {
    let need = app.hub.need(known(&id)?).await?;
    Ok(Json(view(&app, need)))
}

fn view(app: &App, need: Need) -> NeedView {
    let expires_at = app.hub.expires_at(&need).map(|at| at.to_string());
    NeedView { expires_at, ..need.into() }
}

fn kind(word: &str) -> Result<NeedKind, Failure> {
    let why = "it is question, permission, failed or dead";
    NeedKind::read(word).ok_or_else(|| invalid("kind", why))
}

/// Reads the number of a need. No store counts further than the numbers that it takes.
fn number(text: &str) -> Option<NeedId> {
    text.parse().ok().filter(|id| i64::try_from(*id).is_ok()).map(NeedId)
}

fn known(text: &str) -> Result<NeedId, Failure> {
    number(text).ok_or_else(|| NeedView::missing(text).into())
}

/// `POST /v1/needs/{id}/answer`
async fn answer(
    State(app): State<App>,
    _: Operator,
    PathPart(id): PathPart,
    headers: HeaderMap,
    Json(request): Json<AnswerRequest>,
) -> Result<Json<AnsweredNeed>, Failure> {
    let id = known(&id)?;
    let AnswerRequest { text, option, allow, remember } = request;
    let answer = Answer { text, option, allow, remember };
    Ok(Json(app.hub.answer_need(id, answer, auth::via(&headers)).await?.into()))
}

/// `GET /v1/needs/remembered`
async fn remembered(State(app): State<App>, _: Operator) -> Json<RememberedVerdicts> {
    let remembered = app.hub.remembered().into_iter().map(Into::into).collect();
    Json(RememberedVerdicts { remembered })
}

/// `DELETE /v1/needs/remembered/{profile}`
async fn forget(
    State(app): State<App>,
    _: Operator,
    PathPart(profile): PathPart,
    Params(query): Params<ForgetQuery>,
) -> Result<Json<ForgottenVerdicts>, Failure> {
    let profile: Name = profile.parse()?;
    match app.hub.forget_verdicts(profile, query.subject).await? {
        0 => Err(not_found("verdict")),
        forgotten => Ok(Json(ForgottenVerdicts { forgotten })),
    }
}
