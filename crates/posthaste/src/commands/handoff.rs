//! `posthaste handoff`: starts a worker and waits for its result.
//!
//! The wait continues over restarts of the hub: a call with the same key means the same
//! worker. The result is acked after it has left the program, as in `inbox`.

mod bytes;
mod watch;

use std::time::Duration;

use posthaste_api::inbox::SettleRequest;
use posthaste_api::work::{AssignRequest, Assigned, HandedOff, HandoffRequest};
use posthaste_api::{ApiError, Client, ErrorCode};
use tokio::time::{Instant, sleep};

use self::watch::Watch;
use super::interrupt::Interrupt;
use super::{Session, assign};
use crate::cli::HandoffArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;

/// The longest wait that the hub grants in one call.
const LONGEST_POLL: Duration = Duration::from_secs(600);
/// A shorter wait is not worth a call.
const MOMENT: Duration = Duration::from_millis(10);
/// The time between two calls that a hub answers at once, or not at all.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn run(
    args: HandoffArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let raw = output.is_raw(args.raw);
    let client = session.client()?;
    let mut request = assign::request(args.task, session, &client)?;
    // A repeated call must mean the same work, also after a restart of the hub.
    let key = || format!("cli:{:032x}", rand::random::<u128>());
    request.idempotency_key.get_or_insert_with(key);
    let mut interrupt = Interrupt::new()?;
    let given = interrupt.or(client.assign(&request)).await.inspect_err(|_| {
        output.note("the hub has not said whether it has the work: posthaste agents shows it");
    })??;
    output.note(&format!("{} has it: task {}", given.address, given.task));

    let deadline = Instant::now() + args.timeout;
    let report = report(session, client.clone(), request, deadline);
    let watch = Progress::for_viewer(output).map(|on| Watch::new(client, &given, on));
    let answer = match interrupt.or(watched(report, watch)).await {
        Ok(answer) => answer?,
        Err(interrupted) => {
            output.note(&waits(&given, session));
            return Err(interrupted);
        }
    };
    // The wait repeated the call: only the first answer knows whether the key was new.
    let mut answer = HandedOff { duplicate: given.duplicate, ..answer };
    answer.note = (answer.status == "job").then(|| goes_on(&answer, session));
    let told = interrupt.or(tell(&answer, raw, session, output)).await;
    told.inspect_err(|_| output.note("the result comes again: posthaste inbox"))?
}

/// Waits for the report, and shows the worker's progress on a terminal.
async fn watched<T>(report: impl Future<Output = T>, watch: Option<Watch>) -> T {
    let Some(watch) = watch else { return report.await };
    tokio::select! {
        biased;
        report = report => report,
        never = watch.follow() => match never {},
    }
}

/// Waits for the report, over restarts of the hub.
pub(super) async fn report(
    session: &Session,
    mut client: Client,
    request: AssignRequest,
    deadline: Instant,
) -> Result<HandedOff, Failure> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Some(left.min(LONGEST_POLL).as_secs_f64());
        let called = Instant::now();
        match client.handoff(&waiting(&request, timeout)).await {
            Ok(answer) => {
                let late = deadline.saturating_duration_since(Instant::now()) < MOMENT;
                if answer.status != "job" || answer.interrupted || late {
                    return Ok(answer);
                }
            }
            Err(e) if e.is_passing() && Instant::now() < deadline => {
                // The hub may come back on another address.
                client = session.client().unwrap_or(client);
            }
            Err(e) => return Err(e.into()),
        }
        sleep(PAUSE.saturating_sub(called.elapsed())).await;
    }
}

fn waiting(request: &AssignRequest, timeout: Option<f64>) -> HandoffRequest {
    let AssignRequest { agent, message, label, team, working_directory, worktree, .. } =
        request.clone();
    HandoffRequest {
        agent,
        message,
        label,
        team,
        working_directory,
        worktree,
        idempotency_key: request.idempotency_key.clone(),
        timeout,
    }
}

/// Shows the result, and only then acks it.
async fn tell(
    answer: &HandedOff,
    raw: bool,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let text = answer.result.as_deref().unwrap_or_default();
    match (output.json(), answer.status.as_str()) {
        (true, _) => output.answer(answer)?,
        (false, "complete") => {
            let wrote = match raw {
                true => bytes::behind(text, &answer.instance, &session.client()?).await,
                false => None,
            };
            match &wrote {
                Some(bytes) => output.raw(bytes)?,
                None => output.agent_text(text, raw)?,
            }
            if raw && wrote.is_none() && bytes::is_cut(text) {
                let (who, id) = (&answer.address, &answer.instance);
                let kept = format!("posthaste logs {id} shows what is kept");
                output.note(&format!("this is not all that {who} wrote: {kept}"));
            }
        }
        (false, _) => {}
    }
    output.flush()?;
    if let Some(receipt) = &answer.receipt {
        let proof = SettleRequest { receipt: Some(receipt.clone()), ids: None };
        if let Err(error) = session.client()?.ack(&proof).await {
            output
                .note(&format!("shown, but the hub could not be told, so it comes again: {error}"));
        }
    }
    match answer.status.as_str() {
        "complete" => Ok(()),
        "failed" => {
            if !output.json() {
                let id = &answer.instance;
                let hint = format!("posthaste logs {id} (and --stderr) has all that is kept");
                output.fail(&ApiError::new(ErrorCode::Internal, text).hint(hint));
            }
            Err(Failure::WorkerFailed)
        }
        _ => {
            output.note(answer.note.as_deref().unwrap_or_default());
            Err(Failure::Incomplete)
        }
    }
}

/// Returns advice for work that is not done yet.
fn goes_on(answer: &HandedOff, session: &Session) -> String {
    let (who, as_whom) = (&answer.address, acting(session));
    match answer.interrupted {
        true => format!("something urgent came: posthaste inbox{as_whom}; {who} goes on"),
        false => format!(
            "the time is up and {who} goes on; its result: posthaste inbox --wait-for all{as_whom}"
        ),
    }
}

fn acting(session: &Session) -> String {
    session.acting.as_ref().map(|name| format!(" --as {name}")).unwrap_or_default()
}

fn waits(given: &Assigned, session: &Session) -> String {
    let (who, id, as_whom) = (&given.address, &given.instance, acting(session));
    format!(
        "{who} goes on; its result: posthaste inbox --wait-for all{as_whom}; to end it: posthaste stop {id}{as_whom}"
    )
}
