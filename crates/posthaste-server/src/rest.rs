//! The REST door. One file per subject, with its routes and its handlers; a handler only
//! translates.

mod assign;
mod chat;
mod context;
mod docs;
mod events;
mod export;
mod health;
mod hooks;
pub(crate) mod inbox;
mod instances;
pub(crate) mod messages;
mod metrics;
mod needs;
mod output;
mod profiles;
mod stats;
mod stream;
mod teams;
mod terminal;
mod threads;
mod tokens;
mod trail;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::{Method, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use posthaste_api::error::{ApiError, ErrorCode};

use crate::failure::Failure;
use crate::routes::Routes;
use crate::{App, cao};

pub(crate) use events::Followers;

/// The calls that go around the router.
pub(crate) const SEND: &str = posthaste_api::messages::SEND.path;
pub(crate) const RECEIVE: &str = posthaste_api::inbox::RECEIVE.path;

pub(crate) fn router(app: App) -> Router {
    let cao = match app.cao {
        true => cao::routes().on(&posthaste_api::cao::EVENTS, events::follow),
        false => Router::new(),
    };
    Router::new()
        .merge(assign::routes())
        .merge(chat::routes())
        .merge(context::routes())
        .merge(docs::routes())
        .merge(events::routes())
        .merge(export::routes())
        .merge(health::routes())
        .merge(hooks::routes())
        .merge(inbox::routes())
        .merge(instances::routes())
        .merge(messages::routes())
        .merge(metrics::routes())
        .merge(needs::routes())
        .merge(output::routes())
        .merge(profiles::routes())
        .merge(stats::routes())
        .merge(stream::routes())
        .merge(teams::routes())
        .merge(terminal::routes())
        .merge(threads::routes())
        .merge(tokens::routes())
        .merge(trail::routes())
        .merge(cao)
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .layer(middleware::from_fn(name_the_route))
        .with_state(app)
}

/// Adds the matched route to the answer, because only the router knows it.
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
