//! Workers, tasks, and how an instance ends.

use std::sync::Arc;

use crate::address::Name;
use crate::messaging::delivery::{AnswerId, DeliveryNo};
use crate::messaging::message::{Draft, Seq};
use crate::orchestration::{Assignment, Standing};
use crate::registry::{Instance, Status, Work};

/// A worker that is to be, and its task.
#[derive(Debug, Clone)]
pub struct Hire {
    /// The task, written to the agent's name.
    pub draft: Draft,
    pub agent: Name,
    /// The giver's own if it names none.
    pub team: Option<Name>,
    /// What is known of its work before it begins; nothing for an agent that comes by
    /// itself: then the task goes to one that is here.
    pub work: Option<Work>,
    /// Workers of one session that may wait in line.
    pub line: usize,
    /// How deep a tree of workers may be.
    pub depth: usize,
}

/// What became of it.
#[derive(Debug, Clone)]
pub struct Hired {
    pub instance: Instance,
    pub task: Seq,
    /// The key was accepted before, as this.
    pub duplicate: bool,
}

/// An assignment of somebody, and where its report is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub assignment: Assignment,
    pub standing: Standing,
    /// Its worker's address, and how it is.
    pub address: Option<Arc<str>>,
    pub status: Option<Status>,
}

/// How an instance ends.
#[derive(Debug, Clone)]
pub struct Ending {
    pub status: Status,
    /// The deliveries that the end itself proves, as far as these answers still hold
    /// them.
    pub acked: Vec<(AnswerId, DeliveryNo)>,
    /// Its last word on whatever it was given and has not reported on yet.
    pub answer: Option<String>,
    /// Why it ended, and, without an answer, what the report of the failure says.
    pub why: Option<String>,
    pub code: Option<i32>,
    /// The text of that report.
    pub obituary: String,
}

impl Ending {
    /// It just ends.
    pub fn plain(status: Status, acked: Vec<(AnswerId, DeliveryNo)>) -> Self {
        let (answer, why, code) = (None, None, None);
        let obituary = "it left without a result".to_owned();
        Self { status, acked, answer, why, code, obituary }
    }
}
