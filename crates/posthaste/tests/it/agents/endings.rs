//! How workers end, as those are told who wait for them.

use std::time::Duration;

use posthaste_core::messaging::message::Principal;
use posthaste_core::orchestration::{AgentsConfig, Assign};
use posthaste_core::ports::Stream;
use posthaste_core::registry::Status;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Office, exists, quick, until, wish};
use crate::world::PATIENCE;

#[tokio::test]
async fn whoever_fails_says_with_which_code_and_with_its_last_words() {
    let office = Office::open(quick()).await;
    let done = office.script("echo half; echo 'no such number' >&2; exit 3").await;
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("exit code 3") && text.contains("no such number"), "{text}");
    assert_eq!(office.status(&done), Status::Failed);
    office.close().await;
}

#[tokio::test]
async fn a_killed_worker_is_told_as_killed() {
    let office = Office::open(quick()).await;
    let done = office.script("kill -9 $$").await;
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("killed by signal 9 (KILL)"), "{text}");
    office.close().await;
}

#[tokio::test]
async fn a_stopped_worker_ends_with_all_that_it_started() {
    let office = Office::open(quick()).await;
    let script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 1; done' & \
                  while :; do sleep 1; done";
    let done = office.script(script).await;
    let worker = pid(&office.started(&done).await["worker"]);
    let child = office.number(&office.folder(&done).join("work/child")).await;
    office.hub.stop(Principal::Operator, done.instance.id).await.expect("it runs");
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("was stopped: stopped by the human"), "{text}");
    assert_eq!(office.status(&done), Status::Stopped);
    assert!(!exists(worker) && !exists(child));
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_is_stopped_while_it_starts_does_not_slip_through() {
    let office = Office::open(quick()).await;
    office.profile("worker", json!({ "command": "exec sleep 1000" })).await;
    for _ in 0..10 {
        let done = office.assign("worker", "the task").await.expect("assigned");
        office.hub.stop(Principal::Operator, done.instance.id).await.expect("not ended");
        office.report(&done).await;
        assert_eq!(office.status(&done), Status::Stopped);
        let started = std::fs::read(office.folder(&done).join("started")).unwrap_or_default();
        let note: Value = serde_json::from_slice(&started).unwrap_or_default();
        assert!(note["worker"].is_null() || !exists(pid(&note["worker"])), "{note}");
    }
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_runs_too_long_is_ended_and_its_parent_is_told_which_limit_it_was() {
    let agents = AgentsConfig { stale: Duration::from_millis(100), ..quick() };
    let office = Office::open(agents).await;
    let done = office.script("exec sleep 1000").await;
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("agents.stale"), "{text}");
    assert_eq!(office.status(&done), Status::Failed);
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_outlives_its_timeout_is_ended_and_reported_as_timed_out() {
    let office = Office::open(quick()).await;
    let command = "echo half of it; exec sleep 1000";
    office.profile("slow", json!({ "command": command, "timeout": "100ms" })).await;
    office.profile("endless", json!({ "command": command })).await;
    let timeout = Some(Duration::from_millis(100));
    let by_profile = office.assign("slow", "x").await.expect("assigned");
    let asked = Assign { timeout, ..wish("endless", "x") };
    let by_assignment = office.hub.assign(asked).await.expect("assigned");
    for done in [by_profile, by_assignment] {
        let (kind, text) = office.told(&done).await;
        assert_eq!(kind, "system.agent_failed");
        assert!(text.contains("timed out") && text.contains("timeout of 100ms"), "{text}");
        assert_eq!(office.status(&done), Status::Failed);
    }
    office.close().await;
}

#[tokio::test]
async fn an_assignment_may_give_its_worker_more_time_than_the_profile_does() {
    let office = Office::open(quick()).await;
    let config = json!({ "command": "until [ -e go ]; do sleep 0.02; done", "timeout": "50ms" });
    office.profile("slow", config).await;
    let asked = Assign { timeout: Some(PATIENCE), ..wish("slow", "x") };
    let done = office.hub.assign(asked).await.expect("assigned");
    let short = office.assign("slow", "x").await.expect("assigned");
    assert!(office.told(&short).await.1.contains("timed out"), "the other's time is over");
    std::fs::write(office.folder(&done).join("work/go"), "").expect("written");
    assert_eq!(office.told(&done).await.0, "result");
    office.close().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn when_a_keeper_is_killed_its_worker_and_its_daemons_do_not_live_on() {
    let office = Office::open(quick()).await;
    let script = "setsid sh -c 'echo $$ > daemon; exec sleep 1000' & exec sleep 1000";
    let done = office.script(script).await;
    let note = office.started(&done).await;
    let daemon = office.number(&office.folder(&done).join("work/daemon")).await;
    kill_process(pid(&note["keeper"]), Signal::KILL).expect("it lives");
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("its keeper was killed"), "{text}");
    let worker = pid(&note["worker"]);
    until(|| !exists(worker) && !exists(daemon)).await;
    office.close().await;
}

#[tokio::test]
async fn when_the_hub_stops_its_workers_stop_and_their_parents_learn_it() {
    let office = Office::open(quick()).await;
    let done = office.script("exec sleep 1000").await;
    let worker = pid(&office.started(&done).await["worker"]);
    let scratch = office.close().await;
    assert!(!exists(worker));
    let office = Office::open_in(scratch, quick()).await;
    let (_, text) = office.told(&done).await;
    assert!(text.contains("was stopped: the hub was stopped"), "{text}");
    office.close().await;
}

pub(super) fn pid(number: &Value) -> Pid {
    let raw = number.as_i64().and_then(|n| i32::try_from(n).ok());
    raw.and_then(Pid::from_raw).expect("the number of a process")
}

#[tokio::test]
async fn a_worker_that_puts_pipes_in_the_place_of_its_files_holds_nobody_up() {
    let office = Office::open(quick()).await;
    // The keeper notes the number of its worker when that runs already.
    let pipes = "until grep -q '\"worker\":[0-9]' ../started; do sleep 0.01; done; \
                 rm ../out ../err ../started; mkfifo ../out ../err ../started";
    let silent = office.script(pipes).await;
    let failed = office.script(&format!("{pipes}; exit 3")).await;
    let noteless = office.script(&format!("{pipes}; mkdir -p ../exit.json/x")).await;
    assert_eq!(office.told(&silent).await.0, "result");
    let (_, text) = office.told(&failed).await;
    assert!(text.contains("exit code 3"), "{text}");
    assert_eq!(office.told(&noteless).await.0, "system.agent_failed");
    let read = office.hub.output(silent.instance.id, Stream::Stdout, 0, 100).await;
    assert!(read.is_err(), "{read:?}");
    office.close().await;
}

#[tokio::test]
async fn what_a_worker_gives_out_while_it_is_being_stopped_is_stopped_with_it() {
    let patient = AgentsConfig { grace: PATIENCE, ..quick() };
    let office = Office::open(patient).await;
    office.profile("helper", json!({ "command": "exec sleep 1000" })).await;
    let script = "trap 'echo > asked' TERM; echo > ready; until [ -e go ]; do sleep 0.05; done";
    let parent = office.script(script).await;
    let work = office.folder(&parent).join("work");
    until(|| work.join("ready").exists()).await;
    office.hub.stop(Principal::Operator, parent.instance.id).await.expect("it runs");
    until(|| work.join("asked").exists()).await;

    let by = Principal::Instance(parent.instance.id);
    let child = office.hub.assign(Assign { by, ..wish("helper", "go on") }).await.expect("early");
    std::fs::write(work.join("go"), "").expect("written");
    assert!(office.told(&parent).await.1.contains("stopped by the human"));
    assert!(office.told(&child).await.1.contains("stopped by the human"));
    office.close().await;
}
