//! The hub's side of its workers: one task for each, from spawn to reap.
//!
//! Each task owns the state of its worker. Other tasks ask it to end by [`Stop`], and the
//! hub learns of the end by [`Hub::conclude`]. `start.rs` makes the instructions for a
//! keeper, `watch.rs` waits for its end, and `outcome.rs` reports that end.

mod housekeeping;
pub(crate) mod keepers;
mod outcome;
mod remains;
mod session;
mod start;
mod waking;
mod watch;
mod window;
mod workshop;

pub use self::outcome::{CLIPPED, NOT_WHOLE};
pub(crate) use self::start::resolve;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use posthaste_core::Hub;
use posthaste_core::address::InstanceId;
use posthaste_core::orchestration::AgentsConfig;
use posthaste_core::ports::{
    Found, Job, LaunchError, Launcher, Letter, ModelUse, Output, Start, Stream, Terminal,
    TranscriptPage, WakeRequest, Way, Workplace,
};
use posthaste_core::registry::Instance;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::watch::Stop;
use self::workshop::Workshop;
use crate::environment::Environment;
use crate::folder::{self, Folder};
use crate::git::Git;
use crate::keeper::{self, Manners};
use crate::models::{Models, ModelsConfig};
use crate::runner_config::RunnerConfig;
use crate::ticket::Pane;
use crate::tmux::Tmux;
use crate::tools::Tools;
use crate::transcript::Transcript;
use crate::user::WorkerUser;
use crate::{letters, transcript, worktree};

/// The folder of the folders of workers, in the data folder.
const AGENTS: &str = "agents";

/// The settings that the binary hands over; this crate does not look for them.
#[derive(Debug, Clone)]
pub struct SupervisorConfig {
    /// The hub's data folder; the folders of workers are in its `agents`.
    pub data: PathBuf,
    /// The binary that workers call.
    pub binary: PathBuf,
    /// The binary that becomes a keeper.
    pub keeper: PathBuf,
    /// The user as whom workers run, if not the hub's own.
    pub worker_user: Option<WorkerUser>,
    /// The folder of the files of workers of another user, to whom the data folder is
    /// closed.
    pub worker_root: PathBuf,
    /// The URL at which workers reach the hub.
    pub hub_url: String,
    pub agents: AgentsConfig,
    /// The environment that the hub was started with.
    pub environment: Vec<(OsString, OsString)>,
    pub manners: Manners,
    /// The longest answer that a message can carry, in bytes.
    pub answer_bytes: usize,
    /// The models that assistants may use.
    pub models: ModelsConfig,
    pub runner: RunnerConfig,
}

/// Owns the processes of workers.
pub struct Supervisor {
    shared: Arc<Shared>,
    tasks: TaskTracker,
}

/// State that every task needs.
struct Shared {
    config: SupervisorConfig,
    git: Git,
    /// The running workers, each with the way to ask it to end.
    running: Mutex<HashMap<InstanceId, Arc<Stop>>>,
    /// The agents whose wake command runs.
    waking: Mutex<HashSet<InstanceId>>,
    /// The transcripts of running workers.
    transcripts: Mutex<HashMap<InstanceId, Arc<Transcript>>>,
    workshop: Arc<Workshop>,
    closing: CancellationToken,
}

impl Supervisor {
    pub fn new(config: SupervisorConfig) -> Self {
        let runner = config.runner.clone();
        let models = Models::new(config.models.clone(), runner.clone(), &config.environment);
        let tools = Tools::new(&runner, config.keeper.clone(), config.manners, &config.hub_url);
        let (environment, user) = (config.environment.clone(), config.worker_user.clone());
        let agents = config.data.join(AGENTS);
        let workshop = Workshop::new(models, tools, runner, environment, user, agents);
        let shared = Shared {
            git: Git::new(&config.environment),
            config,
            running: Mutex::default(),
            waking: Mutex::default(),
            transcripts: Mutex::default(),
            workshop: Arc::new(workshop),
            closing: CancellationToken::new(),
        };
        Self { shared: Arc::new(shared), tasks: TaskTracker::new() }
    }
}

impl Shared {
    fn agents(&self) -> PathBuf {
        self.config.data.join(AGENTS)
    }

    fn folder(&self, who: InstanceId) -> Folder {
        Folder::new(self.agents().join(who.to_string()))
    }

    /// Returns the tmux of the hub's own user.
    fn tmux(&self) -> Result<Tmux, LaunchError> {
        let environment = Environment::inherited(&self.config.environment);
        Tmux::find(&self.config.agents.tmux_socket, environment, &self.config.keeper)
    }

    /// Returns the folder of the worker's own files, as it was prepared.
    fn home(&self, who: InstanceId) -> PathBuf {
        self.folder(who).home()
    }
}

impl Launcher for Supervisor {
    fn check(&self, job: &Job) -> Result<Way, LaunchError> {
        self.shared.check(job)
    }

    fn prepare<'a>(
        &'a self,
        worker: &'a Instance,
        job: &'a Job,
    ) -> BoxFuture<'a, Result<Workplace, LaunchError>> {
        Box::pin(self.shared.prepare(worker, job))
    }

    fn discard<'a>(&'a self, worker: &'a Instance) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let folder = self.shared.folder(worker.id);
            worktree::settle(&self.shared.git, &folder).await
        })
    }

    fn start<'a>(
        &'a self,
        hub: &'a Arc<Hub>,
        start: Start,
    ) -> BoxFuture<'a, Result<(), LaunchError>> {
        Box::pin(async move { self.start_worker(hub, start).await })
    }

    fn find<'a>(&'a self, hub: &'a Arc<Hub>, worker: &'a Instance) -> BoxFuture<'a, Found> {
        Box::pin(self.find_worker(hub, worker))
    }

    fn hears(&self, who: InstanceId) -> bool {
        self.shared.running.lock().contains_key(&who) && self.shared.folder(who).mail().exists()
    }

    fn tell(&self, who: InstanceId, mail: &[Letter]) -> io::Result<()> {
        let folder = self.shared.folder(who);
        if folder.exit().is_some() {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "it has ended"));
        }
        let lines: String = mail.iter().map(letters::line).collect();
        // One write: a keeper that reads in between sees whole lines or nothing.
        folder::append(&folder.mail(), lines.as_bytes())
    }

    fn stop(&self, who: InstanceId, why: &str) -> bool {
        match self.shared.running.lock().get(&who) {
            Some(stop) => {
                stop.ask(why);
                true
            }
            None => false,
        }
    }

    fn silent_for(&self, who: InstanceId) -> Option<Duration> {
        let folder = self.shared.folder(who);
        let at_once = keeper::kept_at_once(self.shared.config.agents.output_bytes);
        let silent = |path: PathBuf| {
            let file = fs::symlink_metadata(path).ok()?;
            // Beyond that size the file does not grow before the worker's end.
            (file.len() < at_once).then(|| file.modified().ok()?.elapsed().ok())?
        };
        let age = |path: PathBuf| fs::symlink_metadata(path).ok()?.modified().ok()?.elapsed().ok();
        let Some(talk) = age(folder.session_state()) else {
            return Some(silent(folder.out())?.min(silent(folder.err())?));
        };
        let transcript = age(folder.path().join("transcript")).unwrap_or(talk);
        // A worker in a terminal has no stderr of its own.
        Some(talk.min(transcript).min(silent(folder.err()).unwrap_or(talk)))
    }

    fn output(
        &self,
        who: InstanceId,
        stream: Stream,
        from: u64,
        most: usize,
    ) -> BoxFuture<'_, io::Result<Option<Output>>> {
        let folder = self.shared.folder(who);
        Box::pin(async move {
            let read = move || read_output(&folder, stream, from, most);
            tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
        })
    }

    fn transcript(
        &self,
        who: InstanceId,
        after: u64,
        most: usize,
    ) -> BoxFuture<'_, io::Result<Option<TranscriptPage>>> {
        let running = self.shared.transcripts.lock().get(&who).cloned();
        let recent = running.and_then(|transcript| transcript.recent(after, most));
        let folder = self.shared.folder(who);
        Box::pin(async move {
            if recent.is_some() {
                return Ok(recent);
            }
            let read = move || transcript::read(folder.path(), after, most);
            tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
        })
    }

    fn transcript_news(&self, who: InstanceId) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.shared.transcripts.lock().get(&who).map(|transcript| transcript.news())
    }

    fn terminal(&self, who: InstanceId) -> Option<Terminal> {
        let folder = self.shared.folder(who);
        self.shared.running.lock().get(&who)?;
        let Pane { socket, session, pane } = Pane::noted(&folder)?;
        Some(Terminal { socket, session, pane })
    }

    fn answers_operator(&self, job: &Job) -> bool {
        crate::drivers::of(&job.profile).is_ok_and(|driver| driver.answers_operator())
    }

    fn cancel(&self, who: InstanceId) -> bool {
        let is_busy = self.shared.workshop.find(who).is_some();
        let stop = self.shared.running.lock().get(&who).cloned().filter(|_| is_busy);
        stop.inspect(|stop| stop.cancel_turn()).is_some()
    }

    fn writing(&self, who: InstanceId) -> Option<tokio::sync::watch::Receiver<String>> {
        self.shared.workshop.find(who).map(|assistant| assistant.writing())
    }

    fn usage(&self, who: InstanceId) -> Option<ModelUse> {
        let spent = self.shared.workshop.usages.of(who)?;
        Some(ModelUse {
            calls: spent.calls as u64,
            input_tokens: spent.usage.input_tokens,
            output_tokens: spent.usage.output_tokens,
            cost_usd: spent.cost_usd,
        })
    }

    fn wake<'a>(
        &'a self,
        _: &'a Arc<Hub>,
        request: WakeRequest,
    ) -> BoxFuture<'a, Result<bool, LaunchError>> {
        Box::pin(async move { self.wake_up(&request) })
    }

    fn forget_all_but<'a>(&'a self, known: &'a [InstanceId]) -> BoxFuture<'a, ()> {
        Box::pin(self.shared.forget_all_but(known))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.closing.cancel();
            self.tasks.close();
            self.tasks.wait().await;
            self.shared.workshop.close().await;
        })
    }
}

fn read_output(
    folder: &Folder,
    stream: Stream,
    from: u64,
    most: usize,
) -> io::Result<Option<Output>> {
    let path = match stream {
        Stream::Stdout => folder.out(),
        Stream::Stderr => folder.err(),
    };
    let mut file = match folder::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let exit = folder.exit().unwrap_or_default();
    let dropped = match stream {
        Stream::Stdout => exit.out_dropped,
        Stream::Stderr => exit.err_dropped,
    };
    let from = from.min(file.metadata()?.len());
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    (&mut file).take(most as u64).read_to_end(&mut bytes)?;
    let next = from + bytes.len() as u64;
    let total = file.metadata()?.len().max(next);
    Ok(Some(Output { bytes, next, total, dropped }))
}
