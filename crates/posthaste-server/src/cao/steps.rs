//! One step of work: a terminal, its prompt, its answer and its end in one call.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use posthaste_api::cao::steps::{self as wire, CaoJob, CaoStep, CaoStepDone};
use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::{Kind, MessageRef, Principal, Via};
use posthaste_core::messaging::proof::{Call, Door};
use posthaste_core::messaging::receive::{Budget, Handed};
use posthaste_core::orchestration::{Assign, Assigned, HandoffEnd, Patience};
use serde_json::{Value, json};

use super::caller::CaoCaller;
use super::making::{self, InSession, Wanted};
use super::terminal::{CaoRecord, Terminal};
use super::{forget, output, terminal_id};
use crate::App;
use crate::bodies::Held;
use crate::extract::{Json, PathPart};
use crate::failure::{Failure, not_found, unwritable};
use crate::routes::Routes;
use crate::words::params::seconds;
use crate::written::{Outgoing, watched};

pub(super) fn routes() -> Router<App> {
    Router::new().on(&wire::RUN_STEP, run_step).on(&wire::RESULT, result)
}

/// Seconds that a step waits by default, and at most.
const TIMEOUT: f64 = 600.0;
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// `POST /terminals/run-step`
///
/// The step goes on if its caller hangs up: its answer is kept, and its terminal ended.
async fn run_step(
    State(app): State<App>,
    caller: CaoCaller,
    Extension(outgoing): Extension<Arc<Outgoing>>,
    Extension(held): Extension<Held>,
    Json(given): Json<CaoStep>,
) -> Result<Response, Failure> {
    let timeout = seconds("timeout", given.timeout, TIMEOUT, LONGEST)?;
    let ends = given.teardown.unwrap_or(true) && given.reuse_terminal_id.is_none();
    // The task is kept before the lock is given back: of two requests of one name, the
    // second finds the first.
    let making = app.making.lock().await;
    let assign = match given.reuse_terminal_id.clone() {
        Some(id) => again(&app, caller, given, terminal_id(&id)?).await?,
        None => anew(&app, caller, given).await?,
    };
    let by = assign.by;
    let assigned = app.hub.assign(assign).await?;
    drop((making, held.take()));
    let step = Step { app: app.clone(), by, assigned, timeout, ends };
    let (status, body, handed) = app.steps.spawn(step.run()).await.map_err(|_| {
        ApiError::new(ErrorCode::Unavailable, "the hub stops; the work itself goes on")
    })??;
    let json = serde_json::to_vec(&body).map_err(unwritable)?;
    let mut response = match handed {
        Some(handed) => watched(json, handed, outgoing).map(Body::new),
        None => axum::Json(body).into_response(),
    };
    *response.status_mut() = status;
    Ok(response)
}

/// Returns the work for a terminal that is here.
async fn again(
    app: &App,
    caller: CaoCaller,
    given: CaoStep,
    id: InstanceId,
) -> Result<Assign, Failure> {
    let (_, terminal) = caller.directs(app, id)?;
    if let (Some(job), Some(record)) = (&given.job_id, &terminal.record) {
        let record = CaoRecord { job: Some(job.clone()), ..record.clone() };
        app.hub.put_record(id, record.to_text()?).await?;
    }
    let sender = given.caller_id.as_deref().map(terminal_id).transpose()?;
    Ok(Assign {
        by: caller.on_behalf_of(app, sender)?,
        agent: terminal.view.instance.agent,
        worker: Some(id),
        team: None,
        message: given.prompt,
        label: None,
        directory: None,
        worktree: None,
        timeout: None,
        terms: None,
        idempotency_key: given.job_id,
        via: Via::Cao,
    })
}

/// Returns the work for a new terminal.
async fn anew(app: &App, caller: CaoCaller, given: CaoStep) -> Result<Assign, Failure> {
    let by = given.caller_id.as_deref().map(terminal_id).transpose()?;
    let wanted = Wanted {
        by: caller.on_behalf_of(app, by)?,
        agent: given.agent,
        provider: Some(given.provider),
        session: match given.session_name {
            Some(name) => InSession::Existing(name),
            None => InSession::New(None),
        },
        directory: given.working_directory,
        worktree: given.use_worktree,
        allowed_tools: given.allowed_tools,
        model: given.model,
        env: given.env_vars.unwrap_or_default(),
        description: given.description,
        metadata: None,
        group: None,
        key: given.job_id.clone(),
        job: given.job_id,
        has_task: true,
    };
    Ok(making::plan(app, wanted).await?.with_task(given.prompt))
}

/// A step whose task is kept.
struct Step {
    app: App,
    by: Principal,
    assigned: Assigned,
    timeout: Duration,
    /// Its terminal ends with it.
    ends: bool,
}

/// Status and body of an answer, and the mail in it.
type Answered = (StatusCode, Value, Option<Handed>);

impl Step {
    /// Waits for the answer, and ends the terminal.
    async fn run(self) -> Result<Answered, Failure> {
        let Self { app, by, assigned, timeout, ends } = self;
        let (instance, replayed) = (assigned.instance.id, assigned.duplicate);
        let id = instance.to_string();
        let open = app.hub.open(by, &Call::through(Door::Rest));
        let patience = Patience { timeout, budget: Budget::Whole, plain: true };
        let (report, batch) = match app.hub.report_on(open, assigned, patience).await?.end {
            HandoffEnd::Reported { report, batch } => (report, batch),
            HandoffEnd::Job { .. } => {
                let seconds = timeout.as_secs_f64();
                let why = format!("terminal {id} did not answer within {seconds} seconds");
                return failed(ErrorCode::WorkerTimeout, "timeout", why, &id, None);
            }
        };
        let (text, handed) = (report.text().to_owned(), Some(batch.handed));
        if report.failed() {
            return failed(ErrorCode::WorkerFailed, "error", text, &id, handed);
        }
        if ends && let Some(terminal) = Terminal::find(&app, instance) {
            forget(&app, Principal::Operator, &terminal).await?;
        }
        let done = CaoStepDone {
            terminal_id: id,
            last_message: text,
            status: "completed".to_owned(),
            replayed,
        };
        Ok((StatusCode::OK, serde_json::to_value(done).map_err(unwritable)?, handed))
    }
}

/// Makes the answer to a step that failed, in the form that CAO's programs read.
fn failed(
    code: ErrorCode,
    kind: &str,
    message: String,
    terminal: &str,
    handed: Option<Handed>,
) -> Result<Answered, Failure> {
    let detail = json!({ "message": message, "kind": kind, "terminal_id": terminal });
    let error = ApiError::new(code, message).hint(code.advice());
    let body = json!({ "detail": detail, "error": error });
    let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::BAD_GATEWAY);
    Ok((status, body, handed))
}

/// `GET /handoff-results/{job_id}`
async fn result(
    State(app): State<App>,
    caller: CaoCaller,
    PathPart(job_id): PathPart,
) -> Result<Json<CaoJob>, Failure> {
    let terminal = Terminal::of_job(&app, &job_id).ok_or_else(|| not_found("job"))?;
    caller.may_ask(&app, &terminal)?;
    let taken = app.hub.taken_on(terminal.id());
    let report = taken.last().map(|given| given.report.as_ref().map(|report| report.seq));
    let (state, last_message, error_message) = match report {
        Some(None) => ("running", None, None),
        Some(Some(seq)) => {
            match app.hub.message(Principal::Operator, MessageRef::Seq(seq)).await? {
                Some(record) => {
                    let text = record.message.body.as_str().to_owned();
                    match record.message.kind == Kind::AGENT_FAILED {
                        true => ("error", None, Some(text)),
                        false => ("completed", Some(text), None),
                    }
                }
                None => return Err(not_found("job")),
            }
        }
        // The assignment is forgotten; its report may be kept.
        None => ("completed", Some(output::last(&app, terminal.id()).await?), None),
    };
    Ok(Json(CaoJob {
        job_id,
        state: state.to_owned(),
        terminal_id: terminal.id().to_string(),
        last_message,
        error_message,
    }))
}
