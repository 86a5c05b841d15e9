//! The route table of REST. One file per subject; a handler translates, and that
//! is all.

mod assign;
mod context;
mod docs;
mod events;
mod export;
mod health;
pub(crate) mod hooks;
pub(crate) mod inbox;
pub(crate) mod instances;
pub(crate) mod messages;
mod metrics;
mod output;
mod profiles;
mod stats;
mod teams;
mod threads;
mod tokens;
mod trail;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::{Method, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{any, get, post};
use posthaste_api::error::{ApiError, ErrorCode};

use crate::failure::{Failure, takes_only};
use crate::{App, cao};

pub(crate) use events::Followers;

/// The calls that go around the router.
pub(crate) const SEND: &str = "/v1/messages";
pub(crate) const RECEIVE: &str = "/v1/inbox";

pub(crate) fn router(app: App) -> Router {
    let cao = if app.cao { cao::routes() } else { Router::new() };
    Router::new()
        .route("/", get(docs::root))
        .route("/health", get(health::health))
        .route("/openapi.json", get(docs::document))
        .route("/docs", get(docs::page))
        .route("/docs/", get(docs::root))
        .route("/docs/page.js", get(docs::script))
        .route("/docs/page.css", get(docs::style))
        .route("/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route(SEND, get(messages::history).post(unknown_method))
        .route("/v1/messages/{id}", get(messages::read))
        .route("/v1/messages/{id}/trail", get(trail::trail))
        .route("/v1/messages/{id}/cancel", post(messages::cancel))
        .route("/v1/messages/{id}/requeue", post(messages::requeue))
        .route(RECEIVE, any(async || takes_only(RECEIVE, "GET")))
        .route("/v1/inbox/ack", post(inbox::ack))
        .route("/v1/inbox/nack", post(inbox::nack))
        .route("/v1/hooks/{event}", post(hooks::fired))
        .route("/v1/join", post(instances::join))
        .route("/v1/instances", post(instances::create).get(instances::list))
        .route("/v1/instances/prune", post(instances::prune))
        .route("/v1/instances/{id}", get(instances::show).delete(instances::stop))
        .route("/v1/instances/{id}/output", get(output::output))
        .route("/v1/stop", post(instances::stop_all))
        .route("/v1/assign", post(assign::assign))
        .route("/v1/handoff", post(assign::handoff))
        .route("/v1/context", get(context::context))
        .route("/v1/profiles", get(profiles::list).post(profiles::create))
        .route("/v1/profiles/search", get(profiles::search))
        .route("/v1/profiles/errors", get(profiles::errors))
        .route(
            "/v1/profiles/{name}",
            get(profiles::show).put(profiles::put).delete(profiles::remove),
        )
        .route("/v1/events", get(events::follow))
        .route("/v1/teams", get(teams::list))
        .route("/v1/teams/{name}", get(teams::show).put(teams::put))
        .route("/v1/threads/{id}/messages", get(threads::read))
        .route("/v1/tokens/reload", post(tokens::reload))
        .route("/v1/export", get(export::export))
        .route("/v1/stats/mailboxes", get(stats::mailboxes))
        .route("/v1/stats/agents", get(stats::agents))
        .route("/v1/stats/teams", get(stats::teams))
        .route("/v1/stats/stuck", get(stats::stuck))
        .merge(cao)
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .layer(middleware::from_fn(name_the_route))
        .with_state(app)
}

/// Says in the answer which route it was: only the router knows.
async fn name_the_route(route: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Some(route) = route {
        response.extensions_mut().insert(route);
    }
    response
}

async fn unknown_route(method: Method, uri: Uri) -> Failure {
    let message = format!("there is no {method} {}", uri.path());
    Failure(
        ApiError::new(ErrorCode::NotFound, message)
            .hint("the calls begin with /v1/; /docs describes them"),
    )
}

async fn unknown_method(method: Method, uri: Uri) -> Failure {
    let message = format!("{} does not take {method}", uri.path());
    Failure(ApiError::new(ErrorCode::MethodNotAllowed, message))
}
