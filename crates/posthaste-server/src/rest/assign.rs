//! `/v1/assign` and `/v1/handoff`: assigning work.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Router};
use posthaste_api::work::{self as wire, AssignRequest, Assigned, HandoffRequest};
use posthaste_core::messaging::proof::{Call, Door};
use posthaste_core::messaging::receive::{Batch, Budget};
use posthaste_core::orchestration::{self, HandedOff, Handoff, HandoffEnd, WorkerReport};

use crate::App;
use crate::auth::{self, Caller};
use crate::bodies::Held;
use crate::extract::Json;
use crate::failure::{Failure, unwritable};
use crate::routes::Routes;
use crate::words::params::{print_receipt, seconds};
use crate::words::work;
use crate::written::{Outgoing, watched};

pub(crate) fn routes() -> Router<App> {
    Router::new().on(&wire::ASSIGN, assign).on(&wire::HANDOFF, handoff)
}

/// Seconds that a handoff waits by default.
const TIMEOUT: f64 = 600.0;

const GOES_ON: &str = "it goes on: its report comes to your inbox (GET /v1/inbox?wait_for=all), or hand off again with the same idempotency_key";
const INTERRUPTED: &str = "something that ends every wait came: read your inbox; the work goes on, and its report comes there, too";

/// `POST /v1/assign`
async fn assign(
    State(app): State<App>,
    Caller(by): Caller,
    headers: HeaderMap,
    Json(request): Json<AssignRequest>,
) -> Result<(StatusCode, Json<Assigned>), Failure> {
    let assign = work::wish(by, auth::via(&headers), request)?;
    let assigned = app.hub.assign(assign).await?;
    Ok((StatusCode::CREATED, Json(view(assigned))))
}

fn view(assigned: orchestration::Assigned) -> Assigned {
    let i = assigned.instance;
    Assigned {
        instance: i.id.to_string(),
        address: i.address.to_string(),
        agent: i.agent.to_string(),
        team: i.team.to_string(),
        thread_id: i.thread.to_string(),
        label: i.label,
        status: i.status.as_str().to_owned(),
        task: assigned.task.0,
        duplicate: assigned.duplicate,
    }
}

/// `POST /v1/handoff`. A client that closes its connection loses nothing: the report
/// waits.
async fn handoff(
    State(app): State<App>,
    Caller(by): Caller,
    Extension(outgoing): Extension<Arc<Outgoing>>,
    Extension(held): Extension<Held>,
    headers: HeaderMap,
    Json(request): Json<HandoffRequest>,
) -> Result<Response, Failure> {
    let (request, timeout) = request.split();
    let timeout = seconds("timeout", timeout, TIMEOUT, app.hub.limits().wait)?;
    let label = request.label.clone();
    let assign = work::wish(by, auth::via(&headers), request)?;
    let open = app.hub.open(by, &Call::through(Door::Rest));
    let request = (headers, held.take());
    let handoff = Handoff { assign, timeout, budget: Budget::Whole, request };
    let HandedOff { assigned, end, .. } = app.hub.handoff(open, handoff).await?;
    let mut answer = wire::HandedOff {
        status: "job".to_owned(),
        instance: assigned.instance.id.to_string(),
        address: assigned.instance.address.to_string(),
        task: assigned.task.0,
        label,
        result: None,
        kind: None,
        seq: None,
        id: None,
        exit_code: None,
        redelivered: false,
        receipt: None,
        interrupted: false,
        note: None,
        duplicate: assigned.duplicate,
    };
    let batch = match end {
        HandoffEnd::Reported { report, batch } => {
            fill_in(&mut answer, &report, &batch);
            batch
        }
        HandoffEnd::Job { interrupted, open } => {
            answer.interrupted = interrupted;
            answer.note = Some(if interrupted { INTERRUPTED } else { GOES_ON }.to_owned());
            app.hub.enclose(open, None).await?
        }
    };
    let json = serde_json::to_vec(&answer).map_err(unwritable)?;
    Ok(watched(json, batch.handed, outgoing).map(Body::new))
}

fn fill_in(answer: &mut wire::HandedOff, report: &WorkerReport, batch: &Batch) {
    answer.status = if report.failed() { "failed" } else { "complete" }.to_owned();
    answer.exit_code = report.exit_code;
    answer.seq = Some(report.message.seq.0);
    answer.id = answer.seq;
    answer.kind = Some(report.message.kind.as_str().to_owned());
    answer.result = Some(report.text().to_owned());
    answer.redelivered = report.redelivered;
    answer.receipt = (!batch.mail.is_empty()).then(|| print_receipt(batch.receipt).into());
}
