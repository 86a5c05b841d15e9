//! The service context of an agent: its workers, assignments and mail (seed 001).

use crate::Hub;
use crate::messaging::message::Principal;
use crate::ports::{Given, ModelUse};
use crate::registry::{Instance, InstanceView, Status};

/// The workers, assignments and mail of an agent.
#[derive(Debug, Clone)]
pub struct Context {
    /// Its workers that have not ended.
    pub running: Vec<Instance>,
    /// Assignments that it gave out and waits for.
    pub given: Vec<Given>,
    /// Unread mail that only it could take.
    pub pending: usize,
}

impl Context {
    /// Returns the context as a text for a model.
    pub fn prompt(&self) -> String {
        let open = self.given.iter().filter(|g| g.assignment.report.is_none()).count();
        format!(
            "# Agents at work\n- Running: {}\n- Open assignments: {open}\n- Pending messages: {}",
            self.running.len(),
            self.pending
        )
    }
}

impl Hub {
    pub fn context(&self, of: Principal) -> Context {
        let running = self.engine.ledger(|l| l.below(of)).into_iter();
        let running = running.filter(|i| i.parent == of.instance() && i.work.is_some());
        Context {
            running: running.map(|i| (*i).clone()).collect(),
            given: self.engine.ledger(|l| l.given(of, false)),
            pending: self.engine.ledger(|l| l.unread_of(of).0),
        }
    }

    /// Counts the workers that run, and those that wait to be started.
    pub fn workers(&self) -> (usize, usize) {
        let at_work = self.engine.ledger(|l| l.at_work());
        let waiting = at_work.iter().filter(|i| i.status == Status::Starting).count();
        (at_work.len() - waiting, waiting)
    }

    /// Returns the assignments that `by` gave out and still waits for.
    pub fn given(&self, by: Principal) -> Vec<Given> {
        self.engine.ledger(|l| l.given(by, false))
    }

    pub fn assignment(&self, task: crate::messaging::message::Seq) -> Option<Given> {
        self.engine.ledger(|l| l.assignment(task))
    }

    /// Returns the top of an instance's tree.
    pub fn session(&self, of: crate::address::InstanceId) -> Principal {
        self.engine.ledger(|l| l.session(of))
    }

    /// Returns the instance at the top of an instance's tree, perhaps itself.
    pub fn top(&self, of: crate::address::InstanceId) -> crate::address::InstanceId {
        self.engine.ledger(|l| l.top(of))
    }

    /// Returns what the model of a worker has used; `None` if nobody counts.
    pub fn usage(&self, who: crate::address::InstanceId) -> Option<ModelUse> {
        self.staff.get()?.launcher.usage(who)
    }

    /// Returns what the models of all workers below an instance have used, those that have
    /// ended included; `None` if nobody counts.
    pub fn usage_below(&self, who: crate::address::InstanceId) -> Option<ModelUse> {
        let below = self.engine.ledger(|l| l.all_below(Principal::Instance(who)));
        below.into_iter().filter_map(|id| self.usage(id)).reduce(ModelUse::and)
    }

    /// Returns whether an assignment that `by` gave out is still open.
    pub fn is_owed(&self, by: Principal) -> bool {
        self.engine.ledger(|l| l.given(by, false)).iter().any(|g| g.assignment.report.is_none())
    }

    /// Returns whether a worker has neither written nor called for `agents.quiet`.
    pub fn is_quiet(&self, worker: &InstanceView) -> bool {
        let Some(staff) = self.staff.get() else { return false };
        let InstanceView { instance, called_at, .. } = worker;
        let started_at = instance.work.as_deref().and_then(|work| work.started_at);
        let last = started_at.map_or(*called_at, |started| started.max(*called_at));
        let quiet = staff.config.quiet;
        self.clock.now().since(last) >= quiet
            && staff.launcher.silent_for(instance.id).is_some_and(|silent| silent >= quiet)
    }

    /// Returns the assignments that an instance was given.
    pub fn taken_on(
        &self,
        by: crate::address::InstanceId,
    ) -> Vec<crate::orchestration::Assignment> {
        self.engine.ledger(|l| l.taken_on(by))
    }
}
