//! The hub goes and comes back; its workers do not notice.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use posthaste_core::messaging::message::Principal;
use posthaste_core::orchestration::{AgentsConfig, AtShutdown};
use posthaste_core::registry::Status;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, kill_process, kill_process_group};
use serde_json::json;

use super::endings::pid;
use super::{Office, exists, quick, until};
use crate::world::Started;

fn leave() -> AgentsConfig {
    AgentsConfig { shutdown: AtShutdown::Leave, ..quick() }
}

/// Runs until a file appears, then answers.
const WAITS: &str = "while ! [ -e go ]; do sleep 0.02; done; echo here I am";

#[tokio::test]
async fn a_worker_that_outlived_the_hub_is_found_again_and_reports() {
    let office = Office::open(leave()).await;
    let done = office.script(WAITS).await;
    let worker = pid(&office.started(&done).await["worker"]);
    let scratch = office.close().await;
    assert!(exists(worker));

    let office = Office::open_in(scratch, leave()).await;
    assert_eq!(office.status(&done), Status::Running);
    fs::write(office.folder(&done).join("work/go"), "").expect("written");
    assert_eq!(office.told(&done).await, ("result".into(), "here I am".into()));
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_ended_while_no_hub_was_there_is_told_as_it_was() {
    let office = Office::open(leave()).await;
    let good = office.script(WAITS).await;
    office.profile("loser", json!({"command": format!("{WAITS}; exit 4")})).await;
    let bad = office.assign("loser", "x").await.expect("assigned");
    let mut folders = Vec::new();
    for one in [&good, &bad] {
        office.started(one).await;
        folders.push(office.folder(one));
    }
    let scratch = office.close().await;
    for folder in &folders {
        fs::write(folder.join("work/go"), "").expect("written");
        until(|| folder.join("exit.json").exists()).await;
    }

    let office = Office::open_in(scratch, leave()).await;
    assert_eq!(office.told(&good).await, ("result".into(), "here I am".into()));
    let (kind, text) = office.told(&bad).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("exit code 4"), "{text}");
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_was_found_again_can_be_stopped() {
    let office = Office::open(leave()).await;
    let done = office.script("exec sleep 1000").await;
    let worker = pid(&office.started(&done).await["worker"]);
    let scratch = office.close().await;
    let office = Office::open_in(scratch, leave()).await;
    office.hub.stop(Principal::Operator, done.instance.id).await.expect("it runs");
    let (_, text) = office.told(&done).await;
    assert!(text.contains("stopped by the human"), "{text}");
    assert_eq!(office.status(&done), Status::Stopped);
    assert!(!exists(worker));
    office.close().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn of_a_worker_whose_keeper_was_killed_meanwhile_nobody_pretends_to_know_the_end() {
    let office = Office::open(leave()).await;
    let done = office.script("exec sleep 1000").await;
    let note = office.started(&done).await;
    let scratch = office.close().await;
    kill_process(pid(&note["keeper"]), Signal::KILL).expect("it lives");
    let worker = pid(&note["worker"]);
    assert!(exists(worker));

    let office = Office::open_in(scratch, leave()).await;
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("its keeper was killed"), "{text}");
    until(|| !exists(worker)).await;
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_never_ran_is_started_after_all() {
    let office = Office::open(leave()).await;
    let done = office.script("echo $POSTHASTE_RUN > ran; exec sleep 1000").await;
    let note = office.started(&done).await;
    let folder = office.folder(&done);
    until(|| folder.join("work/ran").exists()).await;
    let scratch = office.close().await;
    // As if the hub had been killed before its keeper came so far.
    kill_process(pid(&note["keeper"]), Signal::KILL).expect("it lives");
    kill_process_group(pid(&note["worker"]), Signal::KILL).expect("it lives");
    for file in ["started", "work/ran"] {
        fs::remove_file(folder.join(file)).expect("it was there");
    }
    fs::write(folder.join("prepared"), "").expect("written");

    let office = Office::open_in(scratch, leave()).await;
    until(|| folder.join("work/ran").exists()).await;
    assert_ne!(office.started(&done).await["run"], note["run"]);
    office.hub.stop(Principal::Operator, done.instance.id).await.expect("it runs");
    office.report(&done).await;
    office.close().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_worker_that_emptied_its_own_folder_is_not_started_again() {
    let office = Office::open(leave()).await;
    let (runs, gone) = (office.scratch.path().join("runs"), office.scratch.path().join("gone"));
    // Not before its keeper has noted all: it would write the note anew.
    let script = "echo $$ >> \"$RUNS\"; until [ -e go ]; do sleep 0.02; done; rm -rf ../*; \
                  echo $$ > \"$GONE\"; exec sleep 1000";
    let env = json!({"RUNS": runs.to_str(), "GONE": gone.to_str()});
    office.profile("worker", json!({"command": script, "env": env})).await;
    let done = office.assign("worker", "the task").await.expect("assigned");
    let worker = pid(&office.started(&done).await["worker"]);
    let _mortal = crate::keeper::Mortal(worker);
    fs::write(office.folder(&done).join("work/go"), "").expect("written");
    assert_eq!(office.number(&gone).await, worker);
    let scratch = office.close().await;

    let office = Office::open_in(scratch, leave()).await;
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("its folder"), "{text}");
    assert_eq!(office.status(&done), Status::Failed);
    assert_eq!(fs::read_to_string(&runs).expect("it ran").lines().count(), 1);
    let id = [done.instance.id.to_string()];
    until(|| super::hostile::left(&id).is_empty()).await;
    office.close().await;
}

/// What a keeper of an earlier version leaves in the folder that its words name.
const OLD_KEEPER: &str = "until [ -e \"$1/go\" ]; do sleep 0.02; done; echo as ever > \"$1/out\"; \
                          echo '{\"code\": 0}' > \"$1/exit.json\"";

#[expect(clippy::disallowed_methods, reason = "it never outlives the test")]
fn old_keeper(folder: &Path) -> Started {
    let lock = File::create(folder.join("lock")).expect("a file");
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("it is free");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", OLD_KEEPER, "keep"]).arg(folder).stdout(lock);
    Started::new(command)
}

#[tokio::test]
async fn a_keeper_of_an_earlier_hub_that_has_its_folder_in_its_words_is_found_again() {
    let office = Office::open(leave()).await;
    let done = office.script(WAITS).await;
    let note = office.started(&done).await;
    let folder = office.folder(&done);
    let scratch = office.close().await;
    kill_process(pid(&note["keeper"]), Signal::KILL).expect("it lives");
    kill_process_group(pid(&note["worker"]), Signal::KILL).expect("it lives");
    until(|| !exists(pid(&note["keeper"]))).await;
    let keeper = old_keeper(&folder);
    let note = json!({"run": "old", "keeper": keeper.pid()}).to_string();
    fs::write(folder.join("started"), note).expect("written");

    let office = Office::open_in(scratch, leave()).await;
    assert_eq!(office.status(&done), Status::Running);
    fs::write(folder.join("go"), "").expect("written");
    assert_eq!(office.told(&done).await, ("result".into(), "as ever".into()));
    keeper.end();
    office.close().await;
}
