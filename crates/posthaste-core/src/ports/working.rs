//! Workers, tasks, and the end of an instance.

use std::sync::Arc;

use crate::address::{InstanceId, Name};
use crate::messaging::delivery::{AnswerId, DeliveryNo};
use crate::messaging::message::{Draft, Principal, Seq};
use crate::orchestration::{Assignment, ReportState};
use crate::registry::{Instance, Status, Work};

/// A request for a new worker, and its task.
#[derive(Debug, Clone)]
pub struct Hire {
    /// The task, written to the agent's name.
    pub draft: Draft,
    pub agent: Name,
    /// The giver's own team if `None`.
    pub team: Option<Name>,
    /// The part of its work that is known before it begins; `None` for an external agent:
    /// then the task goes to an instance that is here.
    pub work: Option<Work>,
    /// The instance that gets the task, if it is to be no other.
    pub worker: Option<InstanceId>,
    /// Number of workers of one session that may wait in line.
    pub line: usize,
    /// Maximum depth of a tree of workers.
    pub depth: usize,
}

/// A request for a worker that starts without a task.
#[derive(Debug, Clone)]
pub struct Opening {
    pub by: Principal,
    pub agent: Name,
    /// The giver's own team if `None`.
    pub team: Option<Name>,
    pub label: Option<String>,
    pub work: Work,
    /// As in [`Hire`].
    pub line: usize,
    pub depth: usize,
}

/// The result of a hire.
#[derive(Debug, Clone)]
pub struct Hired {
    pub instance: Instance,
    pub task: Seq,
    /// Set if the key was accepted before, for this worker and task.
    pub duplicate: bool,
}

/// An assignment, and the state of its report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub assignment: Assignment,
    pub report: ReportState,
    /// Address and status of its worker.
    pub address: Option<Arc<str>>,
    pub status: Option<Status>,
}

/// The end of an instance.
#[derive(Debug, Clone)]
pub struct Ending {
    pub status: Status,
    /// The deliveries that the end itself acks, as far as these answers still hold them.
    pub acked: Vec<(AnswerId, DeliveryNo)>,
    /// Its answer to all assignments that it has not reported on yet.
    pub answer: Option<String>,
    /// The reason of its end, and, without an answer, of the failure in the report.
    pub why: Option<String>,
    pub code: Option<i32>,
    /// The text of that report.
    pub obituary: String,
    /// The operator ended it, and needs not to be told that it failed.
    pub by_operator: bool,
}

impl Ending {
    /// Makes the end of an instance without an answer, a reason or a code.
    pub fn plain(status: Status, acked: Vec<(AnswerId, DeliveryNo)>) -> Self {
        let (answer, why, code) = (None, None, None);
        let obituary = "it left without a result".to_owned();
        Self { status, acked, answer, why, code, obituary, by_operator: false }
    }
}
