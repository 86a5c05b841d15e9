//! Giving out work, in the words of every door: who is meant, and what a report says.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posthaste_api::error::{ApiError, ErrorCode};
use posthaste_api::work::{AssignRequest, AssignmentView};
use posthaste_core::Hub;
use posthaste_core::address::Address;
use posthaste_core::messaging::message::{Kind, Message, MessageRef, Principal, Seq, Via};
use posthaste_core::messaging::receive::{Ask, Batch, Budget, json_cost};
use posthaste_core::orchestration::{Assign, Assigned, Assignment};
use posthaste_core::ports::Filter;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Gives somebody work and returns at once.
pub(crate) async fn assign(
    hub: &Arc<Hub>,
    by: Principal,
    via: Via,
    request: AssignRequest,
) -> Result<Assigned, ApiError> {
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
    let timeout = request.timeout.map(timeout).transpose()?;
    let assign = Assign {
        by,
        agent,
        team,
        message: request.message,
        label: request.label,
        directory,
        worktree: request.worktree,
        timeout,
        idempotency_key: request.idempotency_key,
        via,
    };
    Ok(hub.assign(assign).await?)
}

/// How long a worker may run. A year is longer than any (`agents.stale`).
fn timeout(seconds: f64) -> Result<Duration, ApiError> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && time <= YEAR => Ok(time),
        _ => {
            let why = "timeout: it is more than 0 seconds, and no more than a year";
            Err(ApiError::new(ErrorCode::InvalidArgument, why))
        }
    }
}

/// The read that takes one report.
pub(crate) fn take_report(reader: Principal, report: Seq, budget: Budget) -> Ask {
    let filter = Filter { among: [report].into(), own: true, ..Filter::default() };
    Ask { filter, budget, ..Ask::now(reader) }
}

/// What a worker, or the hub in its place, said at last.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) text: String,
    pub(crate) redelivered: bool,
    /// Where the rest of a clipped text begins.
    pub(crate) next_offset: Option<usize>,
    /// How its worker's process ended, if it has.
    pub(crate) exit_code: Option<i32>,
}

impl Report {
    /// The report that an answer took; or, if another call of the same reader was
    /// quicker, the same text read again.
    pub(crate) async fn read(
        hub: &Hub,
        reader: Principal,
        seq: Seq,
        batch: &Batch,
        room: usize,
    ) -> Result<Self, ApiError> {
        let exit_code = |m: &Message| hub.instance(m.from.instance?)?.instance.work?.exit_code;
        if let Some(entry) = batch.mail.first() {
            let m = &entry.leased.message;
            return Ok(Self {
                exit_code: exit_code(m),
                id: m.seq.0,
                kind: m.kind.as_str().to_owned(),
                text: entry.text().to_owned(),
                redelivered: entry.leased.redelivered,
                next_offset: entry.clip.map(|clip| clip.chars),
            });
        }
        let record = hub.message(reader, MessageRef::Seq(seq)).await?;
        let gone = || ApiError::new(ErrorCode::NotFound, format!("report {seq} is kept no more"));
        let m = record.ok_or_else(gone)?.message;
        let (text, next_offset) = clipped(&m.body, room);
        Ok(Self {
            exit_code: exit_code(&m),
            id: seq.0,
            kind: m.kind.as_str().to_owned(),
            text,
            redelivered: true,
            next_offset,
        })
    }

    pub(crate) fn failed(&self) -> bool {
        self.kind == Kind::AGENT_FAILED.as_str()
    }
}

/// As much of a text as fits into so many characters of JSON, and where the rest begins.
fn clipped(text: &str, room: usize) -> (String, Option<usize>) {
    let mut left = room;
    let fits = |c: &char| {
        let cost = json_cost(*c);
        let room = cost <= left;
        left = left.saturating_sub(cost);
        room
    };
    let part: String = text.chars().take_while(fits).collect();
    let next = (part.len() < text.len()).then(|| part.chars().count());
    (part, next)
}

/// Who somebody is to others.
pub(crate) fn address(hub: &Hub, who: Principal) -> String {
    match who {
        Principal::Operator => "human".to_owned(),
        Principal::Instance(id) => match hub.instance(id) {
            Some(view) => view.instance.address.to_string(),
            None => id.to_string(),
        },
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_where_it_goes_on() {
        assert_eq!(clipped("naïve", 100), ("naïve".into(), None));
        assert_eq!(clipped("abcdef", 3), ("abc".into(), Some(3)));
        let (part, next) = clipped("☃☃☃", json_cost('☃') * 2);
        assert_eq!((part.as_str(), next), ("☃☃", Some(2)));
    }
}
