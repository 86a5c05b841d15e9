//! The part of the store that knows who works for whom.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::Started;
use crate::address::{InstanceId, Name};
use crate::messaging::delivery::{AnswerId, DeliveryNo};
use crate::messaging::message::{Draft, Principal, Seq};
use crate::orchestration::{AssignError, Assignment, Standing};
use crate::registry::{Instance, RegistryError, Status, TokenHash, Work};

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

/// Workers and assignments.
pub trait Working: Send + Sync {
    /// Makes the worker, `starting`, and its task in one transaction: all or nothing.
    /// Without `work` the task goes to the agent of that name who has the least to do
    /// and has been quiet the longest. The same key gives the same worker.
    fn hire(&self, hire: Hire) -> Started<Hired, AssignError>;

    /// The worker that the key of this draft was accepted for, if it was.
    fn hired(&self, draft: Draft) -> BoxFuture<'_, Result<Option<Hired>, AssignError>>;

    /// It runs from now on, with this token, here.
    fn begin_work(
        &self,
        who: InstanceId,
        token: TokenHash,
        work: Work,
    ) -> Started<Instance, RegistryError>;

    /// What this one gave out and either is open or has a report that is not settled,
    /// in order; with `done` also what is behind it, as long as that is known.
    fn given(&self, by: Principal, done: bool) -> Vec<Given>;

    /// What this one gave out in its current round: since it last gave out work while no
    /// report was due or unread.
    fn given_in_round(&self, by: Principal) -> Vec<Given>;

    /// Mail that only it could take, or that it holds, and has not proved.
    fn unread(&self, who: Principal) -> usize;

    /// What this one was given, in order; what is settled is forgotten in time.
    fn taken_on(&self, by: InstanceId) -> Vec<Assignment>;

    fn assignment(&self, task: Seq) -> Option<Given>;

    /// The names of profiles nearest to one that nobody has.
    fn nearest_profiles(&self, wanted: &str) -> Vec<String>;

    /// Those who wait to be started, first come first.
    fn in_line(&self) -> Vec<Instance>;

    /// Those whom the hub started and who have not ended.
    fn at_work(&self) -> Vec<Instance>;

    /// Who stands at the top of its tree.
    fn session(&self, who: InstanceId) -> Principal;

    /// All below it who have not ended, nearest first.
    fn below(&self, who: Principal) -> Vec<Arc<Instance>>;
}
