//! `posthaste assign`: starts a worker without waiting for its report.

use std::path::PathBuf;

use posthaste_api::Client;
use posthaste_api::work::{AssignRequest, Assigned};

use super::{Session, send};
use crate::cli::{AssignArgs, TaskArgs};
use crate::failure::{Failure, machine};
use crate::output::Output;

pub(super) async fn run(
    args: AssignArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let client = session.client()?;
    let timeout = args.timeout.map(|time| time.as_secs_f64());
    let request = AssignRequest { timeout, ..request(args.task, session, &client)? };
    let given = client.assign(&request).await?;
    if output.json() {
        return output.answer(&given);
    }
    output.say(&told(&given))?;
    output.flush()?;
    let acting = session.acting.as_ref().map(|name| format!(" --as {name}")).unwrap_or_default();
    let report = format!("its report comes by `posthaste inbox --wait-for all{acting}`");
    output.note(&match given.status.as_str() {
        "starting" => {
            format!("{report}; watch it with `posthaste logs --follow {}`", given.instance)
        }
        // The hub keeps no output of an agent that connected by itself.
        _ => report,
    });
    Ok(())
}

fn told(given: &Assigned) -> String {
    let (task, address) = (given.task, &given.address);
    match (given.duplicate, given.status.as_str()) {
        (true, status) => format!("task {task} was given to {address} before: {status}"),
        (false, "starting") => format!("task {task} goes to {address}, which starts"),
        (false, status) => format!("task {task} goes to {address}: {status}"),
    }
}

/// Makes the request. For a person the default directory is the current one; the hub
/// knows that of an agent.
pub(super) fn request(
    args: TaskArgs,
    session: &Session,
    client: &Client,
) -> Result<AssignRequest, Failure> {
    let TaskArgs { agent, message, label, team, dir, worktree, key } = args;
    let person = session.token.is_none() && session.acting.is_none() && client.is_local();
    Ok(AssignRequest {
        agent,
        message: if message == "-" { send::from_stdin()? } else { message },
        label,
        team,
        working_directory: directory(dir, person)?,
        worktree: worktree.then_some(true),
        timeout: None,
        idempotency_key: key,
    })
}

/// Returns the whole path of a directory; without one, of the current one if the work is to
/// be done `here`.
pub(super) fn directory(dir: Option<PathBuf>, here: bool) -> Result<Option<String>, Failure> {
    let Some(dir) = dir.or_else(|| here.then(|| ".".into())) else { return Ok(None) };
    match std::path::absolute(&dir) {
        // Also removes a `.` at the end.
        Ok(whole) => {
            let whole: PathBuf = whole.components().collect();
            Ok(Some(whole.to_string_lossy().into_owned()))
        }
        Err(e) => Err(machine("find", &dir, e).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_giver_is_told_who_has_the_work() {
        let given = Assigned {
            instance: "a3f7b2c1".into(),
            address: "worker.a3f7b2c1@main".into(),
            agent: "worker".into(),
            team: "main".into(),
            thread_id: "t-12345678".into(),
            label: None,
            status: "starting".into(),
            task: 12,
            duplicate: false,
        };
        assert_eq!(told(&given), "task 12 goes to worker.a3f7b2c1@main, which starts");
        let here = Assigned { status: "running".into(), ..given.clone() };
        assert_eq!(told(&here), "task 12 goes to worker.a3f7b2c1@main: running");
        let again = Assigned { duplicate: true, status: "finished".into(), ..given };
        assert_eq!(told(&again), "task 12 was given to worker.a3f7b2c1@main before: finished");
    }
}
