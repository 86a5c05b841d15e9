//! Giving out work: who starts when, what comes back, and who hears of it.

mod assigning;
mod ending;
mod gathering;
mod handing_off;
mod hearing;
mod holding;
mod line;
mod quiet;
mod restarting;
mod sleeping;
mod terms;
mod threads;
mod turns;
mod urgent;

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::{Principal, Via};
use posthaste_core::orchestration::{AgentsConfig, Assign, AssignError, Assigned};
use posthaste_testkit::staff::{self, Staff};
use posthaste_testkit::world::{Agent, World};

pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A hub that can start workers of the name `mason`, and somebody who gives work.
pub(crate) struct Yard {
    pub(crate) world: World,
    pub(crate) staff: Arc<Staff>,
    pub(crate) boss: Agent,
}

impl Yard {
    pub(crate) async fn new() -> Self {
        Self::with(World::with(Limits::default()), AgentsConfig::default()).await
    }

    pub(crate) async fn with(world: World, config: AgentsConfig) -> Self {
        let staff = Arc::new(Staff::default());
        staff::profile(&world.hub, "mason", Some("command"), "{}").await;
        world.hub.employ(Arc::clone(&staff) as _, config).await;
        let boss = world.agent("boss").await;
        Self { world, staff, boss }
    }

    pub(crate) async fn tries(&self, assign: Assign) -> Result<Assigned, AssignError> {
        self.world.hub.assign(assign).await
    }

    pub(crate) async fn assigns(&self, by: &Agent, task: &str) -> Assigned {
        self.tries(wish(by, task)).await.expect("assigned")
    }

    /// Assigns, and it runs.
    pub(crate) async fn puts_to_work(&self, by: &Agent, task: &str) -> Agent {
        let assigned = self.assigns(by, task).await;
        self.staff.runs(assigned.instance.id).await;
        self.knows(assigned.instance.id)
    }

    pub(crate) fn knows(&self, id: InstanceId) -> Agent {
        self.world.knows(Principal::Instance(id))
    }

    pub(crate) async fn answers(&self, worker: &Agent, text: &str) {
        self.staff.answers(&self.world.hub, worker.id(), text).await;
    }
}

/// Work for a mason.
pub(crate) fn wish(by: &Agent, task: &str) -> Assign {
    Assign {
        by: by.who,
        agent: "mason".parse().expect("a name"),
        worker: None,
        team: None,
        message: task.into(),
        label: None,
        directory: None,
        worktree: None,
        timeout: None,
        terms: None,
        idempotency_key: None,
        via: Via::Rest,
    }
}
