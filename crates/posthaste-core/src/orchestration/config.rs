//! The settings for workers.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const MIB: u64 = 1024 * 1024;

/// The treatment of running workers when the hub stops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtShutdown {
    /// They are stopped, and the givers of their work are told.
    #[default]
    Stop,
    /// They go on, and the next start finds them again.
    Leave,
}

crate::settings! {
    /// The `[agents]` section of the configuration.
    pub struct AgentsConfig {
        /// Workers of one session that run at a time; the rest wait in line.
        running: usize = 8;
        /// Workers of one session that may wait in line.
        line: usize = 200;
        /// How deep a tree of workers may be.
        depth: usize = 8;
        /// The system user, by name or number, as whom workers run; empty: the hub's own.
        user: String = String::new();
        /// Where workers that run as another user have their files; empty: the path of the
        /// data folder with -workers at its end.
        folder: PathBuf = PathBuf::new();
        /// The tmux server of workers in terminals: a name, or the path of a socket; empty:
        /// tmux's default, where `tmux attach` finds them.
        tmux_socket: String = String::new();
        /// How long a worker has to end after it was asked to, before it is killed.
        grace: Duration = Duration::from_secs(10), "humantime_serde";
        /// A worker that runs longer than this is ended.
        stale: Duration = Duration::from_secs(24 * HOUR), "humantime_serde";
        /// A worker that neither writes nor calls for this time is shown as quiet.
        quiet: Duration = Duration::from_secs(15 * MINUTE), "humantime_serde";
        /// A worker that has reported and stays idle is ended after this time.
        keep: Duration = Duration::from_secs(15 * MINUTE), "humantime_serde";
        /// How long an agent program may take until it can take its task; then it fails.
        opening: Duration = Duration::from_secs(5 * MINUTE), "humantime_serde";
        /// How long the hub tries to start an assistant again that was interrupted; then it
        /// fails.
        resuming: Duration = Duration::from_secs(10 * MINUTE), "humantime_serde";
        /// How long the hub waits after a failed turn before it gives an agent mail again;
        /// twice as long after each further one.
        retry_after: Duration = Duration::from_secs(10), "humantime_serde";
        /// How long a permission request waits for the operator before it is denied.
        permission_timeout: Duration = Duration::from_secs(10 * MINUTE), "humantime_serde";
        /// What is kept of a worker's stdout, and as much of its stderr.
        output_bytes: u64 = 8 * MIB;
        /// How much of the end of its output the report of a failure quotes.
        tail_chars: usize = 2_000;
        /// How many characters of mail one prompt may carry; the rest waits.
        prompt_chars: usize = 40_000;
        /// What becomes of running workers when the hub stops: stop or leave.
        shutdown: AtShutdown = AtShutdown::Stop;
        /// Mail that waits this long for an idle agent with a `wake` command wakes it.
        wake_after: Duration = Duration::from_secs(MINUTE), "humantime_serde";
        /// How long the hub waits before it wakes the same agent again.
        wake_again: Duration = Duration::from_secs(10 * MINUTE), "humantime_serde";
        /// How long a `wake` command may run.
        wake_timeout: Duration = Duration::from_secs(10 * MINUTE), "humantime_serde";
    }
}
