//! `/v1/threads`: a conversation, for readers that poll.

use axum::Router;
use axum::extract::State;
use posthaste_api::threads::{self as wire, ThreadMessages, ThreadQuery};
use posthaste_core::history::ThreadAsk;
use posthaste_core::time::Timestamp;

use crate::App;
use crate::auth::Caller;
use crate::extract::{Json, Params, PathPart};
use crate::failure::Failure;
use crate::routes::Routes;
use crate::words::params::last_n;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::READ_THREAD, read)
}

/// `GET /v1/threads/{thread_id}/messages`
async fn read(
    State(app): State<App>,
    Caller(caller): Caller,
    PathPart(id): PathPart,
    Params(query): Params<ThreadQuery>,
) -> Result<Json<ThreadMessages>, Failure> {
    let ask = ThreadAsk {
        thread: id.parse()?,
        unread_only: query.unread_only.unwrap_or(false),
        last: last_n(query.last_n)?,
        since: query.since.map(Timestamp),
        mark: query.mark_as_read.unwrap_or(false),
    };
    let thread = ask.thread;
    let read = app.hub.read_thread(caller, ask).await?;
    Ok(Json(ThreadMessages::new(thread, caller, read)))
}
