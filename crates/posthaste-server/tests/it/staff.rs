//! A house with a launcher of its own: it starts a worker by remembering it, and the
//! test says how the work ends.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use posthaste_api::profiles::ProfileInput;
use posthaste_core::Hub;
use posthaste_core::address::InstanceId;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::ports::{
    Ended, Found, Job, LaunchError, Launcher, Letter, Nap, Outcome, Output, Place, Start, Stream,
    Way,
};
use posthaste_core::registry::Instance;

use crate::house::{House, Plan, until};

/// Those who work here, as long as the test wants.
#[derive(Default)]
pub(crate) struct Staff {
    hub: Mutex<Weak<Hub>>,
    started: Mutex<Vec<Start>>,
    asked_to_stop: Mutex<Vec<InstanceId>>,
    wrote: Mutex<HashMap<InstanceId, Vec<u8>>>,
}

/// Never ends when it is asked to.
pub(crate) const STUBBORN: &str = "stubborn";

impl Launcher for Staff {
    fn check(&self, job: &Job) -> Result<Way, LaunchError> {
        match job.profile.template.driver.as_deref() {
            Some("script") => Ok(Way::Started { worktree: job.worktree.unwrap_or(false) }),
            None | Some("external") => Ok(Way::ByItself),
            Some(other) => {
                let why = format!("the program `{other}` is not here");
                Err(LaunchError::new(why, "install it, or name another in the profile"))
            }
        }
    }

    fn prepare<'a>(
        &'a self,
        worker: &'a Instance,
        job: &'a Job,
    ) -> BoxFuture<'a, Result<Place, LaunchError>> {
        let directory = job.directory.clone().unwrap_or_else(|| PathBuf::from("/scratch"));
        let branch = job.worktree.unwrap_or(false).then(|| format!("posthaste/{}", worker.id));
        Box::pin(async move { Ok(Place { directory, branch }) })
    }

    fn discard<'a>(&'a self, _: &'a Instance) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn start<'a>(
        &'a self,
        _: &'a Arc<Hub>,
        start: Start,
    ) -> BoxFuture<'a, Result<(), LaunchError>> {
        self.started.lock().push(start);
        Box::pin(async { Ok(()) })
    }

    fn find<'a>(&'a self, _: &'a Arc<Hub>, _: &'a Instance) -> BoxFuture<'a, Found> {
        Box::pin(async { Found::NeverRan })
    }

    /// Its workers read their mail by themselves.
    fn hears(&self, _: InstanceId) -> bool {
        false
    }

    fn tell(&self, _: InstanceId, _: &[Letter]) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn stop(&self, who: InstanceId, why: &str) -> bool {
        let Some(agent) = self.agent_of(who) else { return false };
        self.asked_to_stop.lock().push(who);
        if agent != STUBBORN
            && let Some(hub) = self.hub.lock().upgrade()
        {
            let outcome =
                Outcome { end: Ended::Stopped, why: why.to_owned(), ..Outcome::default() };
            tokio::spawn(async move { hub.conclude(who, outcome).await });
        }
        true
    }

    fn output(
        &self,
        who: InstanceId,
        stream: Stream,
        from: u64,
        most: usize,
    ) -> BoxFuture<'_, std::io::Result<Option<Output>>> {
        let kept = self.wrote.lock().get(&who).cloned();
        let kept = kept.filter(|_| stream == Stream::Stdout).map(|all| {
            let total = all.len() as u64;
            let begin = usize::try_from(from.min(total)).expect("a small file");
            let bytes: Vec<u8> = all[begin..].iter().take(most).copied().collect();
            let next = begin as u64 + bytes.len() as u64;
            Output { bytes, next, total, dropped: 0 }
        });
        Box::pin(async move { Ok(kept) })
    }

    fn wake<'a>(&'a self, _: &'a Arc<Hub>, _: Nap) -> BoxFuture<'a, Result<bool, LaunchError>> {
        Box::pin(async { Ok(false) })
    }

    fn forget_all_but<'a>(&'a self, _: &'a [InstanceId]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Staff {
    fn agent_of(&self, who: InstanceId) -> Option<String> {
        let started = self.started.lock();
        started.iter().find(|s| s.worker.id == who).map(|s| s.worker.agent.to_string())
    }

    fn hub(&self) -> Arc<Hub> {
        self.hub.lock().upgrade().expect("the house stands")
    }

    /// The worker, once it works.
    pub(crate) async fn works(&self, instance: &str) -> Start {
        let found = || {
            let started = self.started.lock();
            started.iter().find(|s| s.worker.id.to_string() == instance).cloned()
        };
        until("it works", async || found().is_some()).await;
        found().expect("it works")
    }

    /// How many ever began.
    pub(crate) fn began(&self) -> usize {
        self.started.lock().len()
    }

    /// Whom the hub asked to stop.
    pub(crate) fn asked_to_stop(&self) -> Vec<String> {
        self.asked_to_stop.lock().iter().map(ToString::to_string).collect()
    }

    pub(crate) async fn writes(&self, instance: &str, bytes: &[u8]) {
        let id = self.works(instance).await.worker.id;
        self.wrote.lock().entry(id).or_default().extend_from_slice(bytes);
    }

    /// It comes to this end.
    pub(crate) async fn ends(&self, instance: &str, outcome: Outcome) {
        let id = self.works(instance).await.worker.id;
        self.hub().conclude(id, outcome).await;
    }

    pub(crate) async fn answers(&self, instance: &str, text: &str) {
        let (end, why, answer) = (Ended::Finished, "exit code 0".to_owned(), Some(text.to_owned()));
        let outcome = Outcome { end, code: Some(0), answer, why, ..Outcome::default() };
        self.ends(instance, outcome).await;
    }

    pub(crate) async fn fails(&self, instance: &str, code: i32, tail: &str) {
        let (why, tail) = (format!("exit code {code}"), tail.to_owned());
        self.ends(instance, Outcome { code: Some(code), why, tail, ..Outcome::default() }).await;
    }
}

/// A house whose hub can start `worker`, `builder` and `stubborn`, knows `visitor`,
/// who comes by itself, and `broken`, whom nothing can start.
pub(crate) async fn staffed(plan: impl Into<Plan>, config: AgentsConfig) -> (House, Arc<Staff>) {
    let house = House::with(plan).await;
    let staff = Arc::new(Staff::default());
    *staff.hub.lock() = Arc::downgrade(&house.hub);
    house.hub.employ(staff.clone(), config).await;
    for (name, driver, description) in [
        ("worker", Some("script"), "counts words"),
        ("builder", Some("script"), "builds things"),
        (STUBBORN, Some("script"), "does not listen"),
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
