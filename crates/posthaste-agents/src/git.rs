//! Runs git and returns its output.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use posthaste_core::ports::LaunchError;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::environment::Environment;
use crate::program;

/// A checkout of a big repository takes a while; a hook that hangs never ends.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of bytes of git's error output that an error quotes.
const SAID: usize = 500;

/// Runs git, one command at a time: concurrent commands that make worktrees of one
/// repository disturb each other.
#[derive(Debug)]
pub(crate) struct Git {
    environment: Environment,
    turn: Mutex<()>,
}

impl Git {
    /// Removes git's own variables, which would lead it to another repository.
    pub(crate) fn new(inherited: &[(OsString, OsString)]) -> Self {
        let not_git = |(name, _): &&(OsString, OsString)| {
            !name.to_string_lossy().starts_with("GIT_") || name == "GIT_CONFIG_GLOBAL"
        };
        let all: Vec<_> = inherited.iter().filter(not_git).cloned().collect();
        let mut environment = Environment::inherited(&all);
        environment.set("GIT_TERMINAL_PROMPT", "0");
        // Our code reads the output, so it must not be translated.
        environment.set("LC_ALL", "C");
        Self { environment, turn: Mutex::new(()) }
    }

    /// Checks whether git is installed.
    pub(crate) fn check(&self) -> Result<(), LaunchError> {
        program::find("git", None, self.environment.get("PATH")).map(drop)
    }

    /// Returns git's output in this folder, without the newline at its end; or why git
    /// refused.
    pub(crate) async fn ask(&self, folder: &Path, words: &[&OsStr]) -> Result<String, LaunchError> {
        self.run(folder, &self.environment, words).await
    }

    /// Does the same for the repository that has its top here, whichever repository the
    /// folder is in.
    pub(crate) async fn ask_about(
        &self,
        repository: &Path,
        folder: &Path,
        words: &[&OsStr],
    ) -> Result<String, LaunchError> {
        let mut environment = self.environment.clone();
        environment.set("GIT_DIR", repository.join(".git"));
        self.run(folder, &environment, words).await
    }

    async fn run(
        &self,
        folder: &Path,
        environment: &Environment,
        words: &[&OsStr],
    ) -> Result<String, LaunchError> {
        let git = program::find("git", None, environment.get("PATH"))?;
        let _turn = self.turn.lock().await;
        let ran = timeout(PATIENCE, command(git.as_os_str(), folder, words, environment).output());
        let what = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
        let output = match ran.await {
            Ok(Ok(output)) => output,
            Ok(Err(e)) => return Err(LaunchError::new(format!("git {what}: {e}"), None)),
            Err(_) => {
                let why = format!("git {what} did not end in {} s", PATIENCE.as_secs());
                return Err(LaunchError::new(why, "does a hook of the repository hang?"));
            }
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        let said: String =
            String::from_utf8_lossy(&output.stderr).trim().chars().take(SAID).collect();
        Err(LaunchError::new(format!("git {what}: {said}"), None))
    }
}

/// The folder is not among the arguments: other users can see those, and the folder may
/// be named after a worker.
#[expect(clippy::disallowed_methods, reason = "its one caller waits for it, or kills it")]
fn command(git: &OsStr, folder: &Path, words: &[&OsStr], environment: &Environment) -> Command {
    let mut command = Command::new(git);
    command
        .args(words)
        .current_dir(folder)
        .env_clear()
        .envs(environment.all())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}
