//! A worktree of its own for a worker.
//!
//! The worker works on a branch `posthaste/<agent>-<six digits>` that starts at the
//! repository's HEAD, in a worktree in its own folder. When the worker has ended, an
//! untouched worktree is removed with its branch; any other stays, and its branch is
//! reported.
//!
//! Every user of the machine can see the arguments of git's processes, so no branch and
//! no path among them contains the id of a worker.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use posthaste_core::ports::{LaunchError, Workplace};
use posthaste_core::registry::Instance;
use serde::{Deserialize, Serialize};

use crate::folder::{self, Folder};
use crate::git::Git;

/// The record of a worktree, by which it is cleaned up.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    repository: PathBuf,
    branch: String,
    /// The commit at which the branch started.
    base: String,
    /// The worker's directory within the repository.
    inside: PathBuf,
}

/// The name of the worktree in the worker's folder.
const CHECKOUT: &str = "worktree";

impl Folder {
    fn checkout(&self) -> PathBuf {
        self.path().join(CHECKOUT)
    }

    fn record_file(&self) -> PathBuf {
        self.path().join("worktree.json")
    }

    fn record(&self) -> Option<Record> {
        folder::read(&self.record_file())
    }
}

/// Checks whether a worktree could be made from this directory, as far as can be seen
/// without asking git.
pub(crate) fn check(git: &Git, directory: Option<&Path>) -> Result<(), LaunchError> {
    git.check()?;
    let Some(directory) = directory else {
        return Err(LaunchError::new(
            "a worktree is made from a repository, and no working directory was given",
            "name one within the repository",
        ));
    };
    match directory.ancestors().any(|folder| folder.join(".git").exists()) {
        true => Ok(()),
        false => Err(no_repository(directory)),
    }
}

fn no_repository(directory: &Path) -> LaunchError {
    LaunchError::new(
        format!("{} is in no git repository, so there can be no worktree", directory.display()),
        "`git init` and a first commit make one; or leave `worktree` out, of the profile too",
    )
}

/// Makes the worktree, or finds the one that was made.
pub(crate) async fn make(
    git: &Git,
    folder: &Folder,
    worker: &Instance,
    directory: &Path,
) -> Result<Workplace, LaunchError> {
    if let Some(record) = folder.record() {
        if folder.checkout().join(".git").exists() {
            return Ok(place(folder, &record));
        }
        // The worktree was not finished.
        remove(git, folder, &record).await;
    }
    let top = git.ask(directory, &["rev-parse".as_ref(), "--show-toplevel".as_ref()]).await;
    let repository = PathBuf::from(top.map_err(|_| no_repository(directory))?);
    let inside = git.ask(directory, &["rev-parse".as_ref(), "--show-prefix".as_ref()]).await?;
    let head = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"].map(OsStr::new);
    let base = git.ask(&repository, &head).await.map_err(|_| {
        LaunchError::new(
            format!("{} has no commit yet, so there can be no worktree", repository.display()),
            "make a first commit; or leave `worktree` out, of the profile too",
        )
    })?;
    let branch = format!("posthaste/{}-{:06x}", worker.agent, rand::random::<u32>() >> 8);
    let record = Record { repository, branch, base, inside: inside.into() };
    let text = serde_json::to_vec(&record).map_err(|e| LaunchError::new(e.to_string(), None))?;
    fs::write(folder.record_file(), text).map_err(|e| {
        LaunchError::new(format!("cannot write to {}: {e}", folder.path().display()), None)
    })?;
    let words = ["worktree", "add", "--quiet", "-b", &record.branch, CHECKOUT, &record.base];
    let made = git.ask_about(&record.repository, folder.path(), &words.map(OsStr::new)).await;
    if let Err(error) = made {
        remove(git, folder, &record).await;
        let _ = fs::remove_file(folder.record_file());
        return Err(error);
    }
    Ok(place(folder, &record))
}

fn place(folder: &Folder, record: &Record) -> Workplace {
    let directory = folder.checkout().join(&record.inside);
    // A folder that is in no commit is not in the worktree.
    let directory = if directory.is_dir() { directory } else { folder.checkout() };
    Workplace { directory, branch: Some(record.branch.clone()) }
}

/// Removes an untouched worktree after the worker's end. Returns the branch of a worktree
/// that stays.
pub(crate) async fn settle(git: &Git, folder: &Folder) -> Option<String> {
    let record = folder.record()?;
    let checkout = folder.checkout();
    let at = ["rev-parse", "HEAD"].map(OsStr::new);
    let branch = ["rev-parse".as_ref(), OsStr::new(&record.branch)];
    let untouched = git.ask(&checkout, &at).await.is_ok_and(|head| head == record.base)
        && git.ask(&record.repository, &branch).await.is_ok_and(|head| head == record.base);
    let state = ["status", "--porcelain"].map(OsStr::new);
    let clean = git.ask(&checkout, &state).await.is_ok_and(|said| said.is_empty());
    if untouched && clean {
        remove(git, folder, &record).await;
    }
    match checkout.exists() {
        true => Some(record.branch),
        false => {
            let _ = fs::remove_file(folder.record_file());
            None
        }
    }
}

/// Cleans up for a forgotten instance. Returns whether its folder can be removed without
/// losing work.
pub(crate) async fn forget(git: &Git, folder: &Folder) -> bool {
    if let Some(record) = folder.record() {
        remove(git, folder, &record).await;
    }
    !folder.checkout().exists()
}

/// Removes the worktree without force: what git would not remove stays.
async fn remove(git: &Git, folder: &Folder, record: &Record) {
    let (repository, checkout) = (&record.repository, folder.checkout());
    let remove = ["worktree", "remove", CHECKOUT].map(OsStr::new);
    let removed = git.ask_about(repository, folder.path(), &remove).await;
    if removed.is_ok() || !checkout.exists() {
        let _ = git.ask(repository, &["worktree", "prune"].map(OsStr::new)).await;
        let branch = ["branch", "--quiet", "-d", &record.branch].map(OsStr::new);
        let _ = git.ask(repository, &branch).await;
    }
}
