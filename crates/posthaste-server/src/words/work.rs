//! Requests for work, as all doors read them.

use std::path::Path;
use std::time::Duration;

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::work::{AssignRequest, AssignmentView};
use posthaste_core::Hub;
use posthaste_core::address::{Address, InstanceId};
use posthaste_core::messaging::message::{Principal, Via};
use posthaste_core::orchestration::{Assign, Assignment, TurnActivity};
use posthaste_core::registry::{InstanceView, Status};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Reads a request for work.
pub(crate) fn wish(by: Principal, via: Via, request: AssignRequest) -> Result<Assign, ApiError> {
    let wrong = |why: &str| ApiError::new(ErrorCode::InvalidArgument, why);
    let (agent, at) = match request.agent.parse::<Address>()? {
        Address::Named { name, team } => (name, team),
        _ => {
            let why = "agent: it is the name of a profile, like `reviewer` or `reviewer@team`";
            return Err(wrong(why).hint("to one that is here already, send a message"));
        }
    };
    let team = match (request.team.as_deref().map(str::parse).transpose()?, at) {
        (Some(team), Some(at)) if team != at => {
            return Err(wrong("team: `agent` names another one: give one of them"));
        }
        (team, at) => team.or(at),
    };
    let directory = request.working_directory;
    if directory.as_ref().is_some_and(|path| !Path::new(path).is_absolute()) {
        let why = "working_directory: it is an absolute path, like /home/you/project";
        return Err(wrong(why).hint("leave it out to work where the profile says"));
    }
    Ok(Assign {
        by,
        agent,
        worker: None,
        team,
        message: request.message,
        label: request.label,
        directory,
        worktree: request.worktree,
        timeout: request.timeout.map(timeout).transpose()?,
        terms: None,
        idempotency_key: request.idempotency_key,
        via,
    })
}

/// Reads the longest time that a worker may run. A year is longer than any
/// (`agents.stale`).
fn timeout(seconds: f64) -> Result<Duration, ApiError> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && time <= YEAR => Ok(time),
        _ => {
            let why = "timeout: it is more than 0 seconds, and no more than a year";
            Err(ApiError::new(ErrorCode::InvalidArgument, why))
        }
    }
}

/// Returns the address of a principal, as others write it.
pub(crate) fn address(hub: &Hub, who: Principal) -> String {
    match who {
        Principal::Operator => "human".to_owned(),
        Principal::Instance(id) => match hub.instance(id) {
            Some(view) => view.instance.address.to_string(),
            None => id.to_string(),
        },
    }
}

/// Returns whether a message of this worker to `to` is a report. CAO has no message types,
/// so any message of a worker to the giver of its open assignment is one.
pub(crate) fn reports_to(hub: &Hub, worker: InstanceId, to: Principal) -> bool {
    hub.taken_on(worker).iter().any(|given| given.by == to && given.report.is_none())
}

pub(crate) fn assignment(hub: &Hub, given: &Assignment) -> AssignmentView {
    AssignmentView {
        task: given.task.0,
        by: address(hub, given.by),
        worker: given.worker.to_string(),
        label: given.label.as_deref().map(str::to_owned),
        status: if given.report.is_some() { "settled" } else { "open" }.to_owned(),
        opened_at: given.opened_at.to_string(),
        report: given.report.as_ref().map(|report| report.seq.0),
    }
}

/// Returns the word for the activity of an instance. Of external instances only waits are
/// known.
pub(crate) fn activity(hub: &Hub, found: &InstanceView, taken: &[Assignment]) -> &'static str {
    let i = &found.instance;
    let worker = i.work.is_some() && i.status == Status::Running;
    let waits = || !i.status.has_ended() && hub.is_waiting(i.id);
    let turn = hub.turn_activity(i.id).filter(|_| worker);
    match () {
        () if hub.is_asking(Principal::Instance(i.id)) => "waiting_user",
        () if turn == Some(TurnActivity::Asking) => "waiting_user",
        () if waits() => "waiting_inbox",
        () if turn == Some(TurnActivity::Idle) => "idle",
        () if turn.is_some() && !hub.is_quiet(found) => "busy",
        () if worker && taken.iter().any(|given| given.report.is_none()) => {
            if hub.is_quiet(found) {
                "quiet"
            } else {
                "busy"
            }
        }
        () if worker => "idle",
        () => "unknown",
    }
}
