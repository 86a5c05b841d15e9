//! Stopping a worker and all below it.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::message::Principal;
use crate::ports::{Ended, Outcome};
use crate::registry::{Instance, RegistryError, Status};

/// The reason of an end that the operator asked for. Launchers keep it, also over a
/// restart.
pub(super) const STOPPED_BY_OPERATOR: &str = "stopped by the human";

#[derive(Debug, Clone, thiserror::Error)]
pub enum StopError {
    #[error("only those above an agent, the leaders of its team and the human may stop it")]
    NotAllowed,
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl Hub {
    /// Returns whether `by` is above the instance, leads its team, or is the human.
    pub fn is_above(&self, by: Principal, id: InstanceId) -> bool {
        let Principal::Instance(me) = by else { return true };
        let mut above = Some(id);
        while let Some(view) = above.and_then(|id| self.engine.ledger(|l| l.instance(id))) {
            above = view.instance.parent;
            if above == Some(me) {
                return true;
            }
        }
        let team = self.engine.ledger(|l| l.instance(id)).map(|view| view.instance.team);
        team.is_some_and(|team| self.engine.ledger(|l| l.leads(by, &team)))
    }

    /// Stops an agent and all instances below it, and counts them. Processes are asked
    /// first and killed after a grace period: their ends are told when they have ended.
    pub async fn stop(self: &Arc<Self>, by: Principal, id: InstanceId) -> Result<usize, StopError> {
        let view = self.engine.ledger(|l| l.instance(id)).ok_or_else(|| {
            RegistryError::NotFound { what: "instance", name: id.to_string(), nearest: Vec::new() }
        })?;
        if by != Principal::Instance(id) && !self.is_above(by, id) {
            return Err(StopError::NotAllowed);
        }
        if view.instance.status.has_ended() {
            return Err(RegistryError::Ended(view.instance.address.to_string()).into());
        }
        let why = match by {
            Principal::Operator => STOPPED_BY_OPERATOR.to_owned(),
            Principal::Instance(me) if me == id => "it stopped itself".to_owned(),
            Principal::Instance(me) => match self.engine.ledger(|l| l.instance(me)) {
                Some(view) => format!("stopped by {}", view.instance.address),
                None => format!("stopped by {me}"),
            },
        };
        let hub = Arc::clone(self);
        let stopping = self.tasks.spawn(async move {
            // From the top, or a parent would replace the children that it lost.
            hub.stop_one(&view.instance, &why).await?;
            Ok(1 + hub.stop_below(Principal::Instance(id), &why).await)
        });
        // The stop goes on if its caller goes away.
        stopping.await.unwrap_or(Ok(0))
    }

    /// Stops all workers that were started for the operator.
    pub async fn stop_all(self: &Arc<Self>) -> usize {
        let hub = Arc::clone(self);
        let stopping = self
            .tasks
            .spawn(async move { hub.stop_below(Principal::Operator, STOPPED_BY_OPERATOR).await });
        stopping.await.unwrap_or(0)
    }

    async fn stop_below(self: &Arc<Self>, who: Principal, why: &str) -> usize {
        let mut stopped = 0;
        for worker in self.engine.ledger(|l| l.below(who)) {
            match self.stop_one(&worker, why).await {
                Ok(()) => stopped += 1,
                Err(error) => tracing::debug!(%error, worker = %worker.id, "not stopped"),
            }
        }
        stopped
    }

    async fn stop_one(self: &Arc<Self>, who: &Instance, why: &str) -> Result<(), RegistryError> {
        let Some(staff) = self.staff.get() else {
            return self.end(who.id, Status::Stopped, false).await.map(drop);
        };
        if who.work.is_none() {
            return self.end(who.id, Status::Stopped, false).await.map(drop);
        }
        // Before the search for running workers is over, a process that runs looks like
        // none.
        staff.all_found.cancelled().await;
        staff.ending.lock().entry(who.id).or_insert_with(|| why.to_owned());
        match staff.starting.lock().entry(who.id) {
            Entry::Occupied(mut starts) => {
                starts.get_mut().get_or_insert_with(|| why.to_owned());
                return Ok(());
            }
            // As long as this entry is here, the worker is not started.
            Entry::Vacant(here) => drop(here.insert(Some(why.to_owned()))),
        }
        if !staff.launcher.stop(who.id, why) {
            // The worker waits in line, or its process is out of reach.
            let (end, why) = (Ended::Stopped, why.to_owned());
            self.conclude(who.id, Outcome { end, why, ..Outcome::default() }).await;
        }
        staff.starting.lock().remove(&who.id);
        Ok(())
    }

    /// Stops the work that a stopped worker gave out during its grace period. Now that it
    /// has ended it can give out no more.
    pub(super) fn stop_the_rest(self: &Arc<Self>, of: InstanceId) {
        let why = self.staff.get().and_then(|staff| staff.ending.lock().remove(&of));
        let top = Principal::Instance(of);
        let (Some(why), false) = (why, self.engine.ledger(|l| l.below(top)).is_empty()) else {
            return;
        };
        let hub = Arc::clone(self);
        self.tasks.spawn(async move {
            hub.stop_below(top, &why).await;
        });
    }

    /// Ends the session of an external agent that has left, and with it its tree.
    pub(crate) fn session_ended(self: &Arc<Self>, who: &Instance) {
        let top = Principal::Instance(who.id);
        if who.work.is_some() || self.engine.ledger(|l| l.below(top)).is_empty() {
            return;
        }
        let hub = Arc::clone(self);
        let why = format!("{} has left, and its session ended", who.address);
        self.tasks.spawn(async move {
            hub.stop_below(top, &why).await;
        });
    }
}
