//! `/v1/context`: the caller's running workers, unread mail and open assignments.

use axum::Router;
use axum::extract::State;
use posthaste_api::work::{self as wire, ContextState, ContextView, RunningView};
use posthaste_core::Hub;
use posthaste_core::messaging::message::Principal;

use crate::App;
use crate::auth::Caller;
use crate::extract::Json;
use crate::failure::Failure;
use crate::routes::Routes;
use crate::words::work;

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::CONTEXT, context)
}

/// `GET /v1/context`
async fn context(
    State(app): State<App>,
    Caller(caller): Caller,
) -> Result<Json<ContextView>, Failure> {
    Ok(Json(view(&app.hub, caller)))
}

fn view(hub: &Hub, of: Principal) -> ContextView {
    let context = hub.context(of);
    let context_prompt = context.prompt();
    let open = context.given.iter().filter(|given| given.assignment.report.is_none());
    let open_assignments = open.map(|given| work::assignment(hub, &given.assignment)).collect();
    let running = context.running.into_iter().map(|worker| RunningView {
        instance: worker.id.to_string(),
        address: worker.address.to_string(),
        label: worker.label,
        status: worker.status.as_str().to_owned(),
    });
    let structured_state = ContextState {
        running: running.collect(),
        pending_msgs: context.pending,
        open_assignments,
    };
    ContextView { context_prompt, structured_state }
}
