//! A house with a launcher that starts a worker by remembering it: the test says how
//! the work ends.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use posthaste_api::instances::InstancesQuery;
use posthaste_api::profiles::ProfileInput;
use posthaste_core::Hub;
use posthaste_core::address::InstanceId;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::ports::{Start, TranscriptKind};
use posthaste_testkit::staff;
pub(crate) use posthaste_testkit::staff::STUBBORN;

use crate::house::{House, Plan, until};

/// Those who work here, by the names that the doors tell.
pub(crate) struct Staff {
    hub: Weak<Hub>,
    launcher: Arc<staff::Staff>,
}

impl Deref for Staff {
    type Target = staff::Staff;

    fn deref(&self) -> &staff::Staff {
        &self.launcher
    }
}

fn id(instance: &str) -> InstanceId {
    instance.parse().expect("an instance")
}

impl Staff {
    fn hub(&self) -> Arc<Hub> {
        self.hub.upgrade().expect("the house stands")
    }

    /// The worker, once it works.
    pub(crate) async fn works(&self, instance: &str) -> Start {
        self.launcher.runs(id(instance)).await
    }

    pub(crate) async fn writes(&self, instance: &str, bytes: &[u8]) {
        self.launcher.writes(id(instance), bytes).await;
    }

    pub(crate) async fn notes(&self, instance: &str, kind: TranscriptKind, text: &str) {
        self.launcher.notes(id(instance), kind, text).await;
    }

    pub(crate) async fn answers(&self, instance: &str, text: &str) {
        self.works(instance).await;
        self.launcher.answers(&self.hub(), id(instance), text).await;
    }

    pub(crate) async fn fails(&self, instance: &str, code: i32, tail: &str) {
        self.works(instance).await;
        self.launcher.fails(&self.hub(), id(instance), code, tail).await;
    }
}

/// A house whose hub can start `worker`, `builder` and `stubborn`, knows `visitor`,
/// who comes by itself, and `broken`, whom nothing can start.
pub(crate) async fn staffed(plan: impl Into<Plan>, config: AgentsConfig) -> (House, Arc<Staff>) {
    let house = House::with(plan).await;
    let launcher = Arc::new(staff::Staff::default());
    house.hub.employ(Arc::clone(&launcher) as _, config).await;
    let staff = Arc::new(Staff { hub: Arc::downgrade(&house.hub), launcher });
    for (name, driver, description) in [
        ("worker", Some("command"), "counts words"),
        ("builder", Some("command"), "builds things"),
        (STUBBORN, Some("command"), "does not listen"),
        ("visitor", None, "comes by itself"),
        ("broken", Some("frobnicate"), "cannot be started"),
    ] {
        let profile = ProfileInput {
            name: Some(name.into()),
            driver: driver.map(Into::into),
            description: description.into(),
            ..ProfileInput::default()
        };
        house.operator().create_profile(&profile).await.expect("a profile");
    }
    (house, staff)
}

/// The same as it comes.
pub(crate) async fn house() -> (House, Arc<Staff>) {
    staffed(Plan::default(), AgentsConfig::default()).await
}

/// The only worker that there is, once it is there.
pub(crate) async fn only_worker(house: &House) -> String {
    let query = InstancesQuery { agent: Some("worker".into()), ..InstancesQuery::default() };
    let list = async || house.operator().instances(&query).await.expect("a listing").instances;
    until("there is a worker", async || list().await.len() == 1).await;
    list().await.remove(0).instance
}
