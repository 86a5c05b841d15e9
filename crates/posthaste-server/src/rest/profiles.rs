//! `/v1/profiles`: the templates of agents.

use axum::Router;
use axum::extract::State;
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use posthaste_api::profiles::{
    self as wire, FoundProfiles, ProfileErrors, ProfileInput, ProfileSearch, ProfileView, Profiles,
    ProfilesQuery, RemovedProfile,
};
use posthaste_core::address::Name;
use posthaste_core::orchestration::AssignError;
use posthaste_core::profiles::{Expect, Profile, PutProfile, Source};
use posthaste_core::registry::RegistryError;

use crate::App;
use crate::auth::{Caller, Operator};
use crate::extract::{Json, Params, PathPart};
use crate::failure::{Failure, invalid};
use crate::routes::Routes;
use crate::words::params::within;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .on(&wire::LIST, list)
        .on(&wire::SEARCH, search)
        .on(&wire::ERRORS, errors)
        .on(&wire::CREATE, create)
        .on(&wire::SHOW, show)
        .on(&wire::PUT, put)
        .on(&wire::REMOVE, remove)
}

/// Most profiles in one answer.
const MOST: u32 = 100;

type Tagged = (StatusCode, [(HeaderName, String); 1], Json<ProfileView>);

fn whole(status: StatusCode, profile: Profile) -> Tagged {
    let tag = format!("\"{}\"", profile.version);
    (status, [(ETAG, tag)], Json(ProfileView::whole(profile)))
}

/// `GET /v1/profiles`
async fn list(
    State(app): State<App>,
    _: Caller,
    Params(query): Params<ProfilesQuery>,
) -> Result<Json<Profiles>, Failure> {
    let page = query.page.unwrap_or(1);
    if page < 1 {
        return Err(invalid("page", "it counts from 1"));
    }
    let size = within("page_size", query.page_size.unwrap_or(20), 1..=MOST)?;
    let found = app.hub.profiles(page, size).await?;
    let items = found.items.into_iter().map(ProfileView::listed).collect();
    Ok(Json(Profiles { items, total: found.total }))
}

/// `GET /v1/profiles/search`
async fn search(
    State(app): State<App>,
    _: Caller,
    Params(query): Params<ProfileSearch>,
) -> Result<Json<FoundProfiles>, Failure> {
    let limit = within("limit", query.limit.unwrap_or(10), 1..=MOST)?;
    let found = app.hub.search_profiles(query.q, limit).await?;
    Ok(Json(FoundProfiles { items: found.into_iter().map(ProfileView::listed).collect() }))
}

/// `GET /v1/profiles/errors`
async fn errors(State(app): State<App>, _: Caller) -> Json<ProfileErrors> {
    let errors = app.hub.profile_faults().into_iter().map(Into::into).collect();
    Json(ProfileErrors { errors })
}

/// `POST /v1/profiles`
async fn create(
    State(app): State<App>,
    _: Operator,
    Json(request): Json<ProfileInput>,
) -> Result<Tagged, Failure> {
    let name = request.name.as_deref().ok_or_else(|| invalid("name", "it is missing"))?;
    if request.version.is_some() {
        return Err(invalid("version", "a new profile has none"));
    }
    let name: Name = name.parse()?;
    // A bare name does not belong to the API, like one that came with a join: a file may
    // describe it.
    let bare = ProfileInput { name: request.name.clone(), ..ProfileInput::default() };
    let by = if request == bare { Source::Join } else { Source::Api };
    let template = request.template(name)?;
    let put = PutProfile { template, by, expect: Expect::Absent };
    Ok(whole(StatusCode::CREATED, app.hub.put_profile(put).await?.profile))
}

/// `GET /v1/profiles/{name}`
async fn show(
    State(app): State<App>,
    _: Caller,
    PathPart(name): PathPart,
) -> Result<Tagged, Failure> {
    let name: Name = name.parse()?;
    match app.hub.profile(&name).await? {
        Some(found) => Ok(whole(StatusCode::OK, found)),
        None => Err(missing(&app, &name)),
    }
}

fn missing(app: &App, name: &Name) -> Failure {
    match app.hub.fault_of(name) {
        Some(fault) => AssignError::BrokenProfile { name: name.to_string(), fault }.into(),
        None => {
            let nearest = app.hub.nearest_profiles(name);
            let name = name.to_string();
            RegistryError::NotFound { what: "profile", name, nearest }.into()
        }
    }
}

/// `PUT /v1/profiles/{name}`
async fn put(
    State(app): State<App>,
    _: Operator,
    PathPart(name): PathPart,
    headers: HeaderMap,
    Json(request): Json<ProfileInput>,
) -> Result<Tagged, Failure> {
    let expect = expected(&headers, request.version)?;
    let template = request.template(name.parse()?)?;
    let written = app.hub.put_profile(PutProfile { template, by: Source::Api, expect }).await?;
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(whole(status, written.profile))
}

/// `DELETE /v1/profiles/{name}`
async fn remove(
    State(app): State<App>,
    _: Operator,
    PathPart(name): PathPart,
) -> Result<Json<RemovedProfile>, Failure> {
    let name: Name = name.parse()?;
    let waiting = app.hub.remove_profile(name.clone(), Source::Api).await?;
    Ok(Json(RemovedProfile { name: name.to_string(), waiting }))
}

/// Reads the version that the writer saw: in `If-Match`, in the body, or both alike.
fn expected(headers: &HeaderMap, version: Option<u64>) -> Result<Expect, Failure> {
    let Some(header) = headers.get(IF_MATCH) else {
        return Ok(version.map_or(Expect::Anything, Expect::Version));
    };
    let text = header.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(version.map_or(Expect::Present, Expect::Version));
    }
    let text = text.strip_prefix("W/").unwrap_or(text);
    let seen = text.trim_matches('"').parse().map_err(|_| {
        invalid("If-Match", "it is `*` or a version, as an answer has it in its ETag: \"3\"")
    })?;
    match version {
        Some(other) if other != seen => Err(invalid("version", "If-Match says another one")),
        _ => Ok(Expect::Version(seen)),
    }
}
