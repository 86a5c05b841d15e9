//! `/v1/assign` and `/v1/handoff`: giving out work.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json as Answer};
use posthaste_api::work::{AssignRequest, Assigned, HandedOff, HandoffRequest};
use posthaste_core::messaging::message::{Principal, Seq};
use posthaste_core::messaging::proof::{Call, Door};
use posthaste_core::messaging::receive::{Batch, Budget};
use posthaste_core::orchestration::{self, Waited};

use super::inbox::{print_receipt, seconds};
use crate::App;
use crate::auth::{self, Caller};
use crate::bodies::Held;
use crate::extract::Json;
use crate::failure::{Failure, unwritable};
use crate::work::{self, Report};
use crate::written::{Outgoing, watched};

/// Seconds that a handoff waits if it does not say.
const TIMEOUT: f64 = 600.0;

const GOES_ON: &str = "it goes on: its report comes to your inbox (GET /v1/inbox?wait_for=all), or hand off again with the same idempotency_key";
const INTERRUPTED: &str = "something that ends every wait came: read your inbox; the work goes on, and its report comes there, too";

/// `POST /v1/assign`
pub(crate) async fn assign(
    State(app): State<App>,
    Caller(by): Caller,
    headers: HeaderMap,
    Json(request): Json<AssignRequest>,
) -> Result<(StatusCode, Answer<Assigned>), Failure> {
    let assigned = work::assign(&app.hub, by, auth::via(&headers), request).await?;
    Ok((StatusCode::CREATED, Answer(view(assigned))))
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

/// `POST /v1/handoff`. A client that hangs up loses nothing: the report waits.
pub(crate) async fn handoff(
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
    let assigned = work::assign(&app.hub, by, auth::via(&headers), request).await?;
    // The task is in the store: nothing of the request is kept through the wait.
    drop((headers, held.take()));
    let open = app.hub.open(by, &Call::through(Door::Rest));
    let waited = app.hub.await_report(&open, assigned.task, timeout).await?;
    let mut answer = HandedOff {
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
        interrupted: waited == Waited::Interrupted,
        note: None,
        duplicate: assigned.duplicate,
    };
    let batch = match waited {
        Waited::Reported(seq) => {
            let ask = work::take_report(by, seq, Budget::Whole);
            let batch = app.hub.receive_on(open, ask).await?;
            told(&app, by, seq, &batch, &mut answer).await?;
            batch
        }
        Waited::Interrupted | Waited::TimeUp => {
            let note = if waited == Waited::Interrupted { INTERRUPTED } else { GOES_ON };
            answer.note = Some(note.to_owned());
            app.hub.enclose(open, None).await?
        }
    };
    let json = serde_json::to_vec(&answer).map_err(unwritable)?;
    Ok(watched(json, batch.handed, outgoing).map(Body::new))
}

async fn told(
    app: &App,
    by: Principal,
    seq: Seq,
    batch: &Batch,
    answer: &mut HandedOff,
) -> Result<(), Failure> {
    let report = Report::read(&app.hub, by, seq, batch, usize::MAX).await?;
    answer.exit_code = report.exit_code;
    answer.status = if report.failed() { "failed" } else { "complete" }.to_owned();
    answer.seq = Some(report.id);
    answer.id = answer.seq;
    answer.kind = Some(report.kind);
    answer.result = Some(report.text);
    answer.redelivered = report.redelivered;
    answer.receipt = (!batch.mail.is_empty()).then(|| print_receipt(batch.receipt).into());
    Ok(())
}
