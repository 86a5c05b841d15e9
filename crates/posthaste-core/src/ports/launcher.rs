//! Running agents: what the core asks of whoever owns the processes.
//!
//! The core decides who may start, when, and what becomes of an assignment. A
//! launcher knows programs, folders and signals, and tells the truth about how a
//! worker ended: each worker that it started or adopted is told of once, with
//! [`Hub::conclude`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::message::{Message, Seq};
use crate::profiles::Profile;
use crate::registry::{Instance, Status};

/// What somebody wants done, as far as starting it is concerned.
#[derive(Debug, Clone)]
pub struct Job {
    pub profile: Profile,
    /// Where to work, as it was asked for; an absolute path.
    pub directory: Option<PathBuf>,
    /// A git worktree of its own, made from that directory; `None`: as the profile says.
    pub worktree: Option<bool>,
}

/// How an agent of this profile comes to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The launcher starts it, in a worktree of its own or not. `timeout` is how long the
    /// profile lets its workers run.
    Started { worktree: bool, timeout: Option<Duration> },
    /// It connects by itself; nobody starts it.
    ByItself,
}

/// Where a worker works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub directory: PathBuf,
    /// The branch of its own worktree.
    pub branch: Option<String>,
}

/// A worker that is to run now.
#[derive(Debug, Clone)]
pub struct Start {
    pub worker: Instance,
    /// Who gave it the work: an address, or `human`.
    pub parent: String,
    pub job: Job,
    pub place: Place,
    pub task: String,
    /// The number of the task.
    pub id: Seq,
    /// Its own token, for its environment alone.
    pub token: Token,
}

/// A token in plain text. `Debug` does not print it.
#[derive(Clone)]
pub struct Token(pub String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// How a worker ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub end: Ended,
    /// Its exit code, if it had one.
    pub code: Option<i32>,
    /// Its answer: what it wrote to stdout, if it finished.
    pub answer: Option<String>,
    /// What happened, in a few words: `exit code 3`, `killed by signal 9`.
    pub why: String,
    /// The end of what it wrote, for whoever wonders.
    pub tail: String,
    /// The branch of its worktree, if it left something there.
    pub kept_branch: Option<String>,
    /// Not all that it was told while it ran reached it.
    pub unheard: bool,
}

/// How it came to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ended {
    /// By itself, and well.
    Finished,
    /// By itself, and not well; or nobody knows how.
    #[default]
    Failed,
    /// Somebody stopped it.
    Stopped,
}

impl From<Ended> for Status {
    fn from(end: Ended) -> Self {
        match end {
            Ended::Finished => Self::Finished,
            Ended::Failed => Self::Failed,
            Ended::Stopped => Self::Stopped,
        }
    }
}

/// What is left of a worker after a hub start.
#[derive(Debug)]
pub enum Found {
    /// It runs, and is the launcher's again.
    Running,
    /// It ended while nobody looked.
    Ended(Outcome),
    /// It never got so far as to run.
    NeverRan,
}

/// A stretch of what a worker wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub bytes: Vec<u8>,
    /// Where the next stretch begins.
    pub next: u64,
    /// How long it is now.
    pub total: u64,
    /// How much was written beyond the bound, and is not kept.
    pub dropped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Why nothing can be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct LaunchError {
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The key of the profile that is wrong, where it is one.
    pub key: Option<&'static str>,
}

impl LaunchError {
    pub fn new(why: impl Into<String>, hint: impl Into<Option<&'static str>>) -> Self {
        Self { why: why.into(), hint: hint.into().map(str::to_owned), key: None }
    }

    /// It is about this key of the profile.
    pub fn about(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }
}

/// Owns the processes of workers.
pub trait Launcher: Send + Sync {
    /// Whether such a worker could start here and now: the driver is known, its
    /// program is there, the directory is one. Starts and makes nothing.
    fn check(&self, job: &Job) -> Result<Way, LaunchError>;

    /// Makes the worker's folder and its worktree. What was made before is kept.
    fn prepare<'a>(
        &'a self,
        worker: &'a Instance,
        job: &'a Job,
    ) -> BoxFuture<'a, Result<Place, LaunchError>>;

    /// It was prepared and will not run: what was made for it goes, as far as nothing
    /// is lost by that.
    fn discard<'a>(&'a self, worker: &'a Instance) -> BoxFuture<'a, ()>;

    /// Starts it. From then on it is the launcher's until it is reaped; its end is
    /// told to the hub once, and not before this returned.
    fn start<'a>(
        &'a self,
        hub: &'a Arc<Hub>,
        start: Start,
    ) -> BoxFuture<'a, Result<(), LaunchError>>;

    /// After a hub start: what is left of a worker that was running. If it still
    /// runs, it is owned as if it had been started.
    fn find<'a>(&'a self, hub: &'a Arc<Hub>, worker: &'a Instance) -> BoxFuture<'a, Found>;

    /// Whether a worker that runs can be told of mail.
    fn hears(&self, who: InstanceId) -> bool;

    /// Puts mail into a running worker's hands, in order. That it was written proves
    /// nothing about whether anybody reads it.
    fn tell(&self, who: InstanceId, mail: &[Letter]) -> std::io::Result<()>;

    /// Asks a worker to end, and makes it end after a grace. Its end is told as
    /// always, as stopped, for this reason. `false` if it has none of that name.
    fn stop(&self, who: InstanceId, why: &str) -> bool;

    /// How long a worker that runs has written nothing. `None`: nobody can tell.
    fn silent_for(&self, who: InstanceId) -> Option<Duration>;

    /// What it wrote, from this byte on. `None`: nothing is kept of it.
    fn output(
        &self,
        who: InstanceId,
        stream: Stream,
        from: u64,
        most: usize,
    ) -> BoxFuture<'_, std::io::Result<Option<Output>>>;

    /// Mail waits for an agent that comes by itself and is idle: runs what its
    /// profile says would wake it. `false` if that says nothing.
    fn wake<'a>(&'a self, hub: &'a Arc<Hub>, nap: Nap) -> BoxFuture<'a, Result<bool, LaunchError>>;

    /// Removes what is kept of everybody but these.
    fn forget_all_but<'a>(&'a self, known: &'a [InstanceId]) -> BoxFuture<'a, ()>;

    /// The hub stops: ends its workers, or leaves them for the next start, as it was
    /// configured; returns when every end was told.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A message on its way into a running worker.
#[derive(Debug, Clone)]
pub struct Letter {
    pub message: Arc<Message>,
    /// May have been told before.
    pub redelivered: bool,
}

/// Somebody who comes by itself, and does not come.
#[derive(Debug, Clone)]
pub struct Nap {
    pub who: Instance,
    pub profile: Profile,
    /// How much mail waits in its own mailbox.
    pub unread: usize,
}
