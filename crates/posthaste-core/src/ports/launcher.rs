//! The port to the process owner that runs agents.
//!
//! The core decides which worker may start, when, and what becomes of an assignment. A
//! launcher knows programs, folders and signals, and reports how a worker ended: once for
//! each worker that it started or adopted, with [`Hub::conclude`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::transcript::TranscriptPage;
use crate::Hub;
use crate::address::InstanceId;
use crate::messaging::message::{Message, Seq};
use crate::profiles::Profile;
use crate::registry::{Instance, Status};

/// A request for a worker, as far as its start is concerned.
#[derive(Debug, Clone)]
pub struct Job {
    pub profile: Profile,
    /// The directory to work in, as it was asked for; an absolute path.
    pub directory: Option<PathBuf>,
    /// Request for a git worktree of its own, made from that directory; `None`: as the
    /// profile says.
    pub worktree: Option<bool>,
    /// The worker starts with a task. Another one waits for its first mail.
    pub task: bool,
}

/// The way in which an agent of a profile comes to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The launcher starts it, in a worktree of its own or not. `timeout` is the time
    /// that the profile lets its workers run; a worker that `hears` can be told of mail
    /// while it runs.
    Started { worktree: bool, timeout: Option<Duration>, hears: bool },
    /// The agent connects by itself; the launcher does not start it.
    ByItself,
}

/// The working place of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workplace {
    pub directory: PathBuf,
    /// The branch of its own worktree.
    pub branch: Option<String>,
}

/// A worker that is to run now.
#[derive(Debug, Clone)]
pub struct Start {
    pub worker: Instance,
    /// The giver of its work: an address, or `human`.
    pub parent: String,
    pub job: Job,
    pub place: Workplace,
    /// `None` for a worker that waits for its first mail.
    pub task: Option<Task>,
    /// Its own token, for its environment alone.
    pub token: Token,
}

impl Start {
    /// Returns the text of the task; empty if there is none.
    pub fn task_text(&self) -> &str {
        self.task.as_ref().map_or("", |task| &task.text)
    }
}

/// The task with which a worker starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: Seq,
    pub text: String,
}

/// A token in plain text. `Debug` does not print it.
#[derive(Clone)]
pub struct Token(pub String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// The result of a worker's run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub end: Ended,
    /// Its exit code, if it had one.
    pub code: Option<i32>,
    /// Its answer: its output on stdout, if it finished.
    pub answer: Option<String>,
    /// The cause in a few words: `exit code 3`, `killed by signal 9`.
    pub why: String,
    /// The end of its output, for an operator who looks for the cause.
    pub tail: String,
    /// The branch of its worktree, if it left work there.
    pub kept_branch: Option<String>,
    /// Set if some mail that was written to the worker did not reach it.
    pub unheard: bool,
}

/// The kind of a worker's end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ended {
    /// The worker ended by itself, and well.
    Finished,
    /// The worker ended by itself, and not well; or its end is unknown.
    #[default]
    Failed,
    /// The worker was stopped.
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

/// The state of a worker after a hub start.
#[derive(Debug)]
pub enum Found {
    /// The worker runs, and the launcher owns it again.
    Running,
    /// The worker ended while no hub watched it.
    Ended(Outcome),
    /// The worker was never started.
    NeverRan,
    /// The worker ended with its hub or its machine, and the launcher can start it again
    /// where it was.
    Resumable,
}

/// A part of a worker's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub bytes: Vec<u8>,
    /// The offset of the next part.
    pub next: u64,
    /// Length of the output now.
    pub total: u64,
    /// Bytes that were written beyond the bound, and are not kept.
    pub dropped: u64,
}

/// The terminal of a worker: a pane of tmux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminal {
    /// The path of the server's socket.
    pub socket: PathBuf,
    /// tmux's own names of the session and of the pane.
    pub session: String,
    pub pane: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// The reason why a worker cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct LaunchError {
    pub why: String,
    /// The remedy.
    pub hint: Option<String>,
    /// The key of the profile that is wrong, where it is one.
    pub key: Option<&'static str>,
}

impl LaunchError {
    pub fn new(why: impl Into<String>, hint: impl Into<Option<&'static str>>) -> Self {
        Self { why: why.into(), hint: hint.into().map(str::to_owned), key: None }
    }

    /// Names the profile's key that is wrong.
    pub fn about(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }
}

/// Owns the processes of workers.
pub trait Launcher: Send + Sync {
    /// Checks whether such a worker could start here and now: the driver is known, its
    /// program is there, the directory is one. Starts and makes nothing.
    fn check(&self, job: &Job) -> Result<Way, LaunchError>;

    /// Makes the worker's folder and its worktree. Earlier ones are kept.
    fn prepare<'a>(
        &'a self,
        worker: &'a Instance,
        job: &'a Job,
    ) -> BoxFuture<'a, Result<Workplace, LaunchError>>;

    /// Removes what was prepared for a worker that will not run, as far as nothing is
    /// lost by that. Returns the branch of its worktree, if there is work on it.
    fn discard<'a>(&'a self, worker: &'a Instance) -> BoxFuture<'a, Option<String>>;

    /// Starts a worker. The launcher owns it until it is reaped, and tells the hub of its
    /// end once, and not before this returned.
    fn start<'a>(
        &'a self,
        hub: &'a Arc<Hub>,
        start: Start,
    ) -> BoxFuture<'a, Result<(), LaunchError>>;

    /// After a hub start: finds what is left of a worker that was running. The launcher
    /// owns one that still runs as if it had started it.
    fn find<'a>(&'a self, hub: &'a Arc<Hub>, worker: &'a Instance) -> BoxFuture<'a, Found>;

    /// Returns whether a running worker can be told of mail.
    fn hears(&self, who: InstanceId) -> bool;

    /// Writes mail to a running worker, in order. The write is no proof that the worker
    /// reads it.
    fn tell(&self, who: InstanceId, mail: &[Letter]) -> std::io::Result<()>;

    /// Asks a worker to end, and kills it after a grace period. Its end is told as
    /// always, as stopped, for this reason. `false` if the launcher has no such worker.
    fn stop(&self, who: InstanceId, why: &str) -> bool;

    /// Returns how long a running worker has written nothing. `None`: unknown.
    fn silent_for(&self, who: InstanceId) -> Option<Duration>;

    /// Returns the worker's output from this byte on. `None`: no output is kept.
    fn output(
        &self,
        who: InstanceId,
        stream: Stream,
        from: u64,
        most: usize,
    ) -> BoxFuture<'_, std::io::Result<Option<Output>>>;

    /// Returns entries of the worker's transcript after this number, at most so many.
    /// `None`: it has no conversation with the hub.
    fn transcript(
        &self,
        who: InstanceId,
        after: u64,
        most: usize,
    ) -> BoxFuture<'_, std::io::Result<Option<TranscriptPage>>>;

    /// Returns a receiver for the number of the last entry of a running worker's
    /// transcript.
    fn transcript_news(&self, who: InstanceId) -> Option<watch::Receiver<u64>>;

    /// Returns the terminal of a running worker. `None`: it has none.
    fn terminal(&self, who: InstanceId) -> Option<Terminal>;

    /// Returns whether such an agent answers the operator's messages by messages of its own,
    /// and its turns can be cancelled. Another one answers by its report on a task.
    fn answers_operator(&self, _job: &Job) -> bool {
        false
    }

    /// Cancels the running turn of a worker, and not the worker. `false`: it runs none, or
    /// its driver cannot.
    fn cancel(&self, _who: InstanceId) -> bool {
        false
    }

    /// Returns the answer that a worker's model is writing; empty while it writes none.
    /// `None`: nobody knows.
    fn writing(&self, _who: InstanceId) -> Option<watch::Receiver<String>> {
        None
    }

    /// Returns what a worker's model has used. That of a worker that has ended is known as
    /// long as its files are kept. `None`: nobody counts.
    fn usage(&self, _who: InstanceId) -> Option<ModelUse> {
        None
    }

    /// Runs the wake command of an external agent's profile: the agent is idle and mail
    /// waits for it. `false` if the profile has none.
    fn wake<'a>(
        &'a self,
        hub: &'a Arc<Hub>,
        request: WakeRequest,
    ) -> BoxFuture<'a, Result<bool, LaunchError>>;

    /// Removes the files of all workers but these.
    fn forget_all_but<'a>(&'a self, known: &'a [InstanceId]) -> BoxFuture<'a, ()>;

    /// Ends the workers, or leaves them for the next start, as configured, when the hub
    /// stops; returns when every end was told.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What the model of a worker has used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelUse {
    /// Number of requests.
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// By the prices in the configuration; 0 without them.
    pub cost_usd: f64,
}

impl ModelUse {
    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            input_tokens: self.input_tokens + other.input_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
            cost_usd: self.cost_usd + other.cost_usd,
        }
    }
}

/// A message on its way into a running worker.
#[derive(Debug, Clone)]
pub struct Letter {
    pub message: Arc<Message>,
    /// The worker may have been told of it before.
    pub redelivered: bool,
}

/// An external agent that has mail and has not polled.
#[derive(Debug, Clone)]
pub struct WakeRequest {
    pub who: Instance,
    pub profile: Profile,
    /// Number of unread messages in its own mailbox.
    pub unread: usize,
}
