//! Agents that start, work and report: a hub with its supervisor, real keepers and
//! real processes. No doors, so that a test sees what nobody outside could see.

#[cfg(target_os = "linux")]
mod argv;
mod endings;
mod folders;
mod hearing;
#[cfg(target_os = "linux")]
mod hostile;
mod many;
mod relative;
mod restarts;
mod running;
pub(crate) mod talking;
#[cfg(target_os = "linux")]
mod user;
mod waking;
mod whole;
mod worktrees;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use posthaste_agents::keeper::Manners;
use posthaste_agents::{ModelsConfig, RunnerConfig, Supervisor, SupervisorConfig, WorkerUser};
use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::{Message, MessageRef, Principal, Via};
use posthaste_core::orchestration::{AgentsConfig, Assign, AssignError, Assigned};
use posthaste_core::ports::{Clock, LaunchError, Launcher, Queue};
use posthaste_core::profiles::{Expect, PutProfile, Source, Template};
use posthaste_core::registry::{AgentKind, Instance, Status};
use posthaste_core::{Hub, Limits, SystemClock};
use posthaste_queue::LocalQueue;
use posthaste_store::{OpenError, Place, StoreConfig};
use rustix::process::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::world::{BINARY, PATIENCE, end_workers};

/// A folder for one hub after the other. What they started ends with it, also when a
/// test fails.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Arc<Self> {
        Arc::new(Self(TempDir::new().expect("a scratch folder")))
    }

    /// One that every user of the system can reach.
    #[cfg(target_os = "linux")]
    fn open_to_all() -> Arc<Self> {
        Arc::new(Self(crate::world::open_to_all()))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn agents(&self) -> PathBuf {
        self.path().join("data/agents")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        end_workers(&self.agents());
    }
}

/// A hub that starts agents.
struct Office {
    scratch: Arc<Scratch>,
    hub: Arc<Hub>,
    launcher: Arc<Supervisor>,
}

/// A short grace, so that whoever ignores it costs little.
fn quick() -> AgentsConfig {
    let (grace, retry_after) = (Duration::from_millis(500), Duration::from_millis(10));
    AgentsConfig { grace, retry_after, ..AgentsConfig::default() }
}

impl Office {
    async fn open(agents: AgentsConfig) -> Self {
        Self::open_in(Scratch::new(), agents).await
    }

    /// A hub start on a folder that may have seen one before.
    async fn open_in(scratch: Arc<Scratch>, agents: AgentsConfig) -> Self {
        let data = scratch.path().join("data");
        fs::create_dir_all(&data).expect("made");
        let (clock, queue): (Arc<dyn Clock>, Arc<dyn Queue>) =
            (Arc::new(SystemClock::new()), Arc::new(LocalQueue::new()));
        let limits = Limits::default();
        let place = Place::File(data.clone());
        let open = || {
            let (queue, clock, config) = (queue.clone(), clock.clone(), StoreConfig::default());
            let engine = posthaste_store::open(&place, config, limits.clone(), queue, clock);
            match engine.now_or_never().expect("it loads at once") {
                Ok(engine) => Some(engine),
                // Another test of this process may be about to start a program, and has
                // everything that is open here until it has.
                Err(OpenError::Locked { .. }) => None,
                Err(e) => panic!("no store: {e}"),
            }
        };
        let mut engine = None;
        until(|| {
            engine = open();
            engine.is_some()
        })
        .await;
        let hub = Hub::start(engine.expect("just opened"));
        let worker_user = WorkerUser::find(&agents.user, None).expect("a user to switch to");
        let worker_root = scratch.path().join("data-workers");
        if let Some(user) = &worker_user {
            user.make_root(&worker_root).expect("a folder for its workers");
        }
        let var = |name: &str, value: &str| (name.into(), value.into());
        let launcher = Arc::new(Supervisor::new(SupervisorConfig {
            data,
            binary: BINARY.into(),
            keeper: BINARY.into(),
            worker_user,
            worker_root,
            hub_url: "http://127.0.0.1:9889".into(),
            agents: agents.clone(),
            environment: vec![
                var("PATH", "/usr/local/bin:/usr/bin:/bin"),
                var("HOME", scratch.path().to_str().expect("a plain path")),
                var("POSTHASTE_TOKEN", "the operator's own"),
                var("SOME_API_KEY", "the hub's own"),
            ],
            manners: Manners { umask: 0o022, open_files: None },
            answer_bytes: limits.body_bytes,
            models: ModelsConfig::default(),
            runner: RunnerConfig::default(),
        }));
        hub.employ(Arc::clone(&launcher) as Arc<dyn Launcher>, agents).await;
        Self { scratch, hub, launcher }
    }

    /// The hub stops, as it was configured.
    async fn close(self) -> Arc<Scratch> {
        self.hub.dismiss().await;
        self.hub.close().await.expect("a clean stop");
        // The store is free again when nobody has the hub any more.
        let Self { scratch, hub, .. } = self;
        until(|| Arc::strong_count(&hub) == 1).await;
        scratch
    }

    /// A profile of the driver `command`.
    async fn profile(&self, name: &str, config: Value) {
        self.profile_of(name, Some("command"), config).await;
    }

    async fn profile_of(&self, name: &str, driver: Option<&str>, config: Value) {
        let template = Template {
            driver: driver.map(str::to_owned),
            config: config.to_string(),
            ..Template::new(name.parse().expect("a name"), AgentKind::External)
        };
        let put = PutProfile { template, by: Source::Api, expect: Expect::Anything };
        self.hub.put_profile(put).await.expect("kept");
    }

    /// A worker whose whole program is this script.
    async fn script(&self, script: &str) -> Assigned {
        self.profile("worker", json!({ "command": script })).await;
        let assigned = self.assign("worker", "the task").await.expect("assigned");
        // The next script takes the place of this one in the profile.
        until(|| self.status(&assigned) != Status::Starting).await;
        until(|| self.folder(&assigned).join("task").exists()).await;
        assigned
    }

    async fn assign(&self, agent: &str, task: &str) -> Result<Assigned, AssignError> {
        self.hub.assign(wish(agent, task)).await
    }

    /// Why nobody can be started; nothing is left of the attempt.
    async fn refused(&self, agent: &str, assign: Assign) -> LaunchError {
        match self.hub.assign(assign).await {
            Err(AssignError::Launch(error)) => {
                assert!(error.hint.is_some(), "{agent}: {error} says not what to do");
                assert!(!self.agents().exists(), "{agent}: nothing was made");
                error
            }
            other => panic!("{agent}: {other:?}"),
        }
    }

    /// Waits for the report of a task.
    async fn report(&self, of: &Assigned) -> Arc<Message> {
        let mut events = self.hub.last_event();
        loop {
            events.borrow_and_update();
            let report = self.hub.assignment(of.task).and_then(|given| given.assignment.report);
            if let Some(report) = report {
                let which = MessageRef::Seq(report.seq);
                let record = self.hub.message(Principal::Operator, which).await.expect("readable");
                return record.expect("it is kept").message;
            }
            let news = timeout(PATIENCE, events.changed()).await;
            assert!(matches!(news, Ok(Ok(()))), "no report: {:?}", self.instance(of.instance.id));
        }
    }

    /// The report, in the words: type, text.
    async fn told(&self, of: &Assigned) -> (String, String) {
        let report = self.report(of).await;
        (report.kind.as_str().to_owned(), report.body.to_string())
    }

    fn instance(&self, id: InstanceId) -> Instance {
        self.hub.instance(id).expect("it is known").instance
    }

    fn status(&self, of: &Assigned) -> Status {
        self.instance(of.instance.id).status
    }

    fn agents(&self) -> PathBuf {
        self.scratch.agents()
    }

    fn folder(&self, of: &Assigned) -> PathBuf {
        self.agents().join(of.instance.id.to_string())
    }

    /// A number that a process of the worker wrote into a file of its directory.
    async fn number(&self, path: &Path) -> Pid {
        let read = || fs::read_to_string(path).unwrap_or_default();
        until(|| read().ends_with('\n')).await;
        Pid::from_raw(read().trim().parse().expect("a number")).expect("a process")
    }

    /// What its keeper noted about its start.
    async fn started(&self, of: &Assigned) -> Value {
        let path = self.folder(of).join("started");
        let read = || serde_json::from_slice::<Value>(&fs::read(&path).unwrap_or_default()).ok();
        until(|| read().is_some_and(|note| note["worker"].is_i64())).await;
        read().expect("just seen")
    }
}

fn wish(agent: &str, task: &str) -> Assign {
    Assign {
        by: Principal::Operator,
        agent: agent.parse().expect("a name"),
        worker: None,
        terms: None,
        team: None,
        message: task.to_owned(),
        label: None,
        directory: None,
        worktree: None,
        timeout: None,
        idempotency_key: None,
        via: Via::Rest,
    }
}

/// Tries until it holds, for things that happen in other processes.
#[track_caller]
fn until(mut holds: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < end, "it never came true: {caller}");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn exists(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid).is_ok()
}
