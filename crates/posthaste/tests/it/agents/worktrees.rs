//! Workers with a checkout of their own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_core::messaging::message::Principal;
use posthaste_core::orchestration::{Assign, Assigned};
use posthaste_core::ports::Launcher;
use serde_json::json;

use super::{Office, quick, until, wish};

#[expect(clippy::disallowed_methods, reason = "the test waits for it")]
fn git(folder: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(words);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let ran = git.output().expect("git runs");
    assert!(ran.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text").trim().to_owned()
}

/// A repository with one commit, and a folder in it.
pub(super) fn repository(office: &Office) -> PathBuf {
    let path = office.scratch.path().join("project");
    std::fs::create_dir_all(path.join("inner")).expect("made");
    git(&path, &["init", "--quiet", "--initial-branch", "main"]);
    std::fs::write(path.join("inner/file"), "one\n").expect("written");
    git(&path, &["add", "."]);
    commit(&path);
    path
}

fn commit(path: &Path) {
    let me = ["-c", "user.name=me", "-c", "user.email=me@example.org"];
    git(path, &[&me[..], &["commit", "--quiet", "-m", "first"]].concat());
}

async fn work(office: &Office, directory: &Path, script: &str) -> Assigned {
    office.profile("worker", json!({"command": script, "worktree": true})).await;
    let directory = directory.to_str().expect("plain").to_owned();
    let assign = Assign { directory: Some(directory), ..wish("worker", "x") };
    office.hub.assign(assign).await.expect("assigned")
}

#[tokio::test]
async fn a_worker_changes_files_on_a_branch_of_its_own_and_the_report_names_it() {
    let office = Office::open(quick()).await;
    let project = repository(&office);
    let script = "pwd; cat file; echo two > file; \
                  git -c user.name=w -c user.email=w@example.org commit -qam second";
    let done = work(&office, &project.join("inner"), script).await;
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "result", "{text}");
    let checkout = office.folder(&done).join("worktree");
    let work = office.instance(done.instance.id).work.clone().expect("it was started");
    let branch = work.branch.clone().expect("it has one");
    assert!(branch.starts_with("posthaste/worker-"), "{branch}");
    assert!(text.starts_with(&format!("{}\none", checkout.join("inner").display())), "{text}");
    assert!(text.contains(&branch), "{text}");
    assert_eq!(git(&project, &["show", &format!("{branch}:inner/file")]), "two");
    assert_eq!(std::fs::read_to_string(project.join("inner/file")).expect("there"), "one\n");

    // It stays when the worker is forgotten, unless git itself finds nothing to lose.
    std::fs::write(checkout.join("unsaved"), "x").expect("written");
    office.launcher.forget_all_but(&[]).await;
    assert!(checkout.join("unsaved").exists());
    std::fs::remove_file(checkout.join("unsaved")).expect("there");
    office.launcher.forget_all_but(&[]).await;
    assert!(!office.folder(&done).exists());
    assert!(git(&project, &["branch", "--list", "posthaste/*"]).contains(&branch), "work stays");
    office.close().await;
}

#[tokio::test]
async fn a_worktree_in_which_nothing_happened_goes_with_its_worker() {
    let office = Office::open(quick()).await;
    let project = repository(&office);
    let done = work(&office, &project, "git status --short; echo fine").await;
    assert_eq!(office.told(&done).await, ("result".into(), "fine".into()));
    assert!(!office.folder(&done).join("worktree").exists());
    assert_eq!(git(&project, &["branch", "--list", "posthaste/*"]), "");
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 1);
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_is_stopped_while_it_starts_stays_stopped_when_the_line_moves() {
    let office = Office::open(quick()).await;
    let project = repository(&office);
    // The checkout takes as long as the test wants.
    let (hook, go) = (project.join(".git/hooks/post-checkout"), project.join("go"));
    let script =
        "#!/bin/sh\necho > \"$0.runs\"\nuntil [ -e \"${0%/.git/*}/go\" ]; do sleep 0.05; done\n";
    std::fs::create_dir_all(hook.parent().expect("in a folder")).expect("made");
    std::fs::write(&hook, script).expect("written");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("a program");

    let slow = work(&office, &project, "exec sleep 1000").await;
    until(|| hook.with_extension("runs").exists()).await;
    office.hub.stop(Principal::Operator, slow.instance.id).await.expect("it starts");
    office.profile("quick", json!({ "command": "echo done" })).await;
    let quick = office.assign("quick", "x").await.expect("assigned");
    office.report(&quick).await;
    std::fs::write(go, "").expect("written");
    let (_, text) = office.told(&slow).await;
    assert!(text.contains("stopped by the human"), "{text}");
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 1, "nothing is left of it");
    office.close().await;
}

#[tokio::test]
async fn what_a_failed_worker_did_not_save_is_kept() {
    let office = Office::open(quick()).await;
    let project = repository(&office);
    let done = work(&office, &project, "echo draft > new; exit 1").await;
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("[its work is on the branch posthaste/worker-"), "{text}");
    let draft = office.folder(&done).join("worktree/new");
    assert_eq!(std::fs::read_to_string(draft).expect("kept"), "draft\n");
    office.close().await;
}

#[tokio::test]
async fn five_workers_get_five_worktrees_of_one_repository_at_once() {
    let office = Office::open(quick()).await;
    let project = repository(&office);
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(work(&office, &project, "echo $POSTHASTE_BRANCH; echo mine > inner/file").await);
    }
    let mut branches = std::collections::HashSet::new();
    for one in &all {
        let (kind, text) = office.told(one).await;
        assert_eq!(kind, "result", "{text}");
        branches.insert(text.lines().next().expect("its branch").to_owned());
    }
    assert_eq!(branches.len(), 5, "{branches:?}");
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 6);
    office.close().await;
}

#[tokio::test]
async fn without_a_repository_there_is_no_worktree_and_no_worker() {
    let office = Office::open(quick()).await;
    let empty = office.scratch.path().join("empty");
    std::fs::create_dir(&empty).expect("made");
    office.profile("worker", json!({"command": "true", "worktree": true})).await;
    let error = office.refused("worker", wish("worker", "x")).await;
    assert!(error.why.contains("no working directory"), "{error}");
    // The scratch folder itself may lie in a repository.
    let nowhere = Assign { directory: Some("/".to_owned()), ..wish("worker", "x") };
    let error = office.refused("worker", nowhere).await;
    assert!(error.why.contains("in no git repository"), "{error}");

    let directory = Some(empty.to_str().expect("plain").to_owned());
    let assign = Assign { directory, ..wish("worker", "x") };
    git(&empty, &["init", "--quiet"]);
    let done = office.hub.assign(assign).await.expect("git alone knows that there is no commit");
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("has no commit yet"), "{text}");
    office.close().await;
}
