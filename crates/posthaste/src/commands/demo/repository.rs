//! The project of the demo's job: a git repository with one small fault.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use posthaste_api::{ApiError, ErrorCode};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::{sleep, timeout};

use crate::failure::{Failure, internal, machine};

/// The command that runs the project's tests.
pub(super) const TESTS: &str = "sh test.sh";

/// The time after which the tests count as failed: a wrong change may never end.
const TESTS_TIME: Duration = Duration::from_secs(60);

const README: &str = "# leap\n\n`sh leap.sh YEAR` says whether a year is a leap year.\n\
    Every fourth year is one, but of the centuries only every fourth: 2000 was one, 1900 was not.\n\
    `sh test.sh` tests it.\n";

/// Takes every century for a leap year.
const SCRIPT: &str = "if [ $(($1 % 4)) -eq 0 ]; then\n  echo yes\nelse\n  echo no\nfi\n";

const TEST: &str = "failed=0\n\
    while read -r year expected; do\n  \
      said=$(sh leap.sh \"$year\")\n  \
      if [ \"$said\" != \"$expected\" ]; then\n    \
        echo \"$year: expected $expected, and it said $said\"\n    \
        failed=1\n  \
      fi\n\
    done <<END\n2024 yes\n2023 no\n2000 yes\n1900 no\n2100 no\nEND\n\
    exit $failed\n";

pub(super) struct Repository {
    pub(super) path: PathBuf,
    /// The commit before the job.
    base: String,
}

impl Repository {
    /// Makes the repository in this folder. Blocks.
    pub(super) fn make(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("leap");
        let write = |name: &str, text: &str| {
            fs::write(path.join(name), text).map_err(|e| machine("write", &path, e))
        };
        fs::create_dir(&path).map_err(|e| machine("make", &path, e))?;
        write("README.md", README)?;
        write("leap.sh", SCRIPT)?;
        write("test.sh", TEST)?;
        git(&path, &["init", "-q"])?;
        // An agent commits here, perhaps for a user who has never used git.
        git(&path, &["config", "user.name", "Posthaste demo"])?;
        git(&path, &["config", "user.email", "demo@posthaste.invalid"])?;
        git(&path, &["config", "commit.gpgsign", "false"])?;
        git(&path, &["add", "."])?;
        git(&path, &["commit", "-q", "--no-verify", "-m", "Say whether a year is a leap year"])?;
        let base = git(&path, &["rev-parse", "HEAD"])?.trim().to_owned();
        Ok(Self { path, base })
    }

    /// Returns all that was changed in a worktree of the repository, committed or not.
    /// Blocks.
    pub(super) fn diff(&self, worktree: &Path) -> Result<String, Failure> {
        git(worktree, &["add", "--intent-to-add", "."])?;
        git(worktree, &["diff", "--no-color", "--no-ext-diff", &self.base])
    }
}

/// Returns whether the project's tests pass in this worktree. They are those from before the
/// job, whatever an agent has done to their file.
#[expect(clippy::disallowed_methods, reason = "its group is ended and waited for, see `Running`")]
pub(super) async fn tests_pass(worktree: &Path) -> Result<bool, Failure> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(TEST).current_dir(worktree).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let failed = |e| machine("run the tests in", worktree, e);
    let mut tests = Running(command.spawn().map_err(failed)?);
    let ended = async {
        loop {
            match tests.0.try_wait() {
                Ok(None) => sleep(Duration::from_millis(20)).await,
                ended => break ended,
            }
        }
    };
    let ended = timeout(TESTS_TIME, ended).await.unwrap_or(Ok(None)).map_err(failed)?;
    Ok(ended.is_some_and(|status| status.success()))
}

/// A process and its group, which are ended on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A process that was waited for has given its number back.
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "it is waited for here")]
fn git(folder: &Path, words: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(words);
    // Whoever calls the demo may work in another repository.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let ran = command.output().map_err(|e| {
        let told = ApiError::new(ErrorCode::NotFound, format!("git cannot be run: {e}"));
        told.hint("install it with your system's packages, for example apt install git")
    })?;
    match ran.status.success() {
        true => Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
        false => {
            let why = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
            Err(internal(format!("git {}: {why}", words.join(" "))).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_fault_is_found_by_the_projects_own_tests_and_the_diff_shows_its_end() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let repository = Repository::make(folder.path()).ok().expect("made");
        let path = &repository.path;
        assert_eq!(tests_pass(path).await.ok(), Some(false));
        assert_eq!(repository.diff(path).ok().as_deref(), Some(""));

        // Tests that were made to pass prove nothing.
        fs::write(path.join("test.sh"), "exit 0\n").expect("written");
        assert_eq!(tests_pass(path).await.ok(), Some(false));

        let mended = SCRIPT.replace(
            "$(($1 % 4)) -eq 0 ]",
            "$(($1 % 400)) -eq 0 ] || { [ $(($1 % 4)) -eq 0 ] && [ $(($1 % 100)) -ne 0 ]; }",
        );
        fs::write(path.join("leap.sh"), mended).expect("written");
        fs::write(path.join("new"), "more\n").expect("written");
        assert_eq!(tests_pass(path).await.ok(), Some(true));
        let diff = repository.diff(path).ok().expect("a diff");
        assert!(diff.contains("% 400") && diff.contains("+more"), "{diff}");
    }

    #[tokio::test(start_paused = true)]
    async fn tests_that_never_end_have_failed() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let repository = Repository::make(folder.path()).ok().expect("made");
        let path = &repository.path;
        fs::write(path.join("leap.sh"), "exec sleep 86400\n").expect("written");
        assert_eq!(tests_pass(path).await.ok(), Some(false));
    }
}
