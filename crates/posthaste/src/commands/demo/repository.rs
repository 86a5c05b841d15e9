//! The project of the demo's job: a git repository with one small fault.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_api::{ApiError, ErrorCode};

use crate::failure::{Failure, internal, machine};

/// The command that runs the project's tests.
pub(super) const TESTS: &str = "sh test.sh";

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

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is waited for here")]
    fn the_fault_is_found_by_the_projects_own_tests_and_the_diff_shows_its_end() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let repository = Repository::make(folder.path()).ok().expect("made");
        let tests = || {
            let mut command = Command::new("sh");
            let ran = command.arg("test.sh").current_dir(&repository.path).output();
            ran.expect("a shell")
        };
        let before = tests();
        assert!(!before.status.success());
        let said = String::from_utf8_lossy(&before.stdout).into_owned();
        assert_eq!(said.lines().count(), 2, "{said}");
        assert_eq!(repository.diff(&repository.path).ok().as_deref(), Some(""));

        let mended = SCRIPT.replace(
            "$(($1 % 4)) -eq 0 ]",
            "$(($1 % 400)) -eq 0 ] || { [ $(($1 % 4)) -eq 0 ] && [ $(($1 % 100)) -ne 0 ]; }",
        );
        fs::write(repository.path.join("leap.sh"), mended).expect("written");
        fs::write(repository.path.join("new"), "more\n").expect("written");
        assert!(tests().status.success());
        let diff = repository.diff(&repository.path).ok().expect("a diff");
        assert!(diff.contains("% 400") && diff.contains("+more"), "{diff}");
    }
}
