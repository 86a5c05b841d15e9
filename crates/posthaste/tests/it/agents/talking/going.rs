//! Programs that end, crash, or do neither.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::{Principal, Priority};
use posthaste_core::orchestration::{AgentsConfig, Assign, AtShutdown};
use posthaste_core::ports::RecordState;
use posthaste_core::registry::Status;
use serde_json::json;

use super::super::{Scratch, wish};
use super::{Office, go, quick, until};

fn leave() -> AgentsConfig {
    AgentsConfig { shutdown: AtShutdown::Leave, ..quick() }
}

#[tokio::test]
async fn a_program_that_crashes_in_mid_turn_fails_its_assignment_once() {
    let office = Office::open(quick()).await;
    for (script, why) in [
        ("next; begins; echo 'out of bricks' >&2; exit 3", "exit code 3"),
        ("next; begins; kill -9 $$", "KILL"),
        ("next; begins; exit 0", "in the middle of its turn"),
        ("next; exit 0", "in the middle of its turn"),
        ("exit 0", "in the middle of its turn, or before"),
    ] {
        let done = office.talks(script).await;
        let (kind, text) = office.told(&done).await;
        assert_eq!(kind, "system.agent_failed", "{script}");
        assert!(text.contains(why), "{script}: {text}");
        until(|| office.status(&done) == Status::Failed).await;
    }
    office.close().await;
}

#[tokio::test]
async fn a_program_that_cannot_run_says_why_in_a_sentence() {
    let office = Office::open(quick()).await;
    let script = "echo \"error: unknown option '--replay-user-messages'\" >&2; exit 1";
    let (kind, text) = office.told(&office.talks(script).await).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("this claude is too old") && text.contains("npm install"), "{text}");
    let script = "next; takes; fails 'Not logged in · Please run /login'; exec sleep 1000";
    let (kind, text) = office.told(&office.talks(script).await).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("claude is not logged in: run `claude` once"), "{text}");
    office.close().await;
}

#[tokio::test]
async fn a_program_that_ends_well_before_its_turn_is_quoted() {
    let office = Office::open(quick()).await;
    let script = "printf '\\033[31mError:\\033[0m run frob login\\n' >&2; exit 0";
    let (kind, text) = office.told(&office.talks(script).await).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.ends_with("Error: run frob login"), "{text}");
    office.close().await;
}

#[tokio::test]
async fn a_turn_that_its_program_ends_by_itself_fails_the_assignment() {
    let office = Office::open(quick()).await;
    let script = "next; begins; say '{\"type\":\"result\",\"is_error\":true,\
                  \"subtype\":\"error_during_execution\",\"terminal_reason\":\"aborted_streaming\"}'; next";
    let (kind, text) = office.told(&office.talks(script).await).await;
    assert_eq!(kind, "system.agent_failed");
    assert!(text.contains("ended the turn without an answer"), "{text}");
    office.close().await;
}

#[tokio::test]
async fn a_task_whose_turn_failed_is_not_given_a_second_time() {
    let office = Office::open(quick()).await;
    let done = office.talks("next; takes; fails 'no credit'; next; next").await;
    let (kind, text) = office.told(&done).await;
    assert!(kind == "system.agent_failed" && text.contains("no credit"), "{kind}: {text}");
    assert_eq!(office.heard(&done).len(), 1);
    office.close().await;
}

#[tokio::test]
async fn a_program_that_is_never_ready_fails_in_the_end() {
    let short = AgentsConfig { opening: Duration::from_millis(300), ..quick() };
    let office = Office::open(short).await;
    let config =
        json!({ "command": ["/bin/sh", "-c", "echo usage: frob acp >&2; exec sleep 1000"] });
    office.profile_of("talker", Some("acp"), config).await;
    let done = office.assign("talker", "the task").await.expect("assigned");
    let (kind, text) = office.told(&done).await;
    assert_eq!(kind, "system.agent_failed");
    for part in ["agents.opening", "Agent Client Protocol", "usage: frob acp"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    office.close().await;
}

#[tokio::test]
async fn a_worker_whose_conversation_is_damaged_fails_and_says_so() {
    for alive in [true, false] {
        let office = Office::open(leave()).await;
        let done = office.talks("next; begins; waits go; ends done").await;
        until(|| office.heard(&done).len() == 1).await;
        let folder = office.folder(&done);
        let scratch = office.close().await;
        std::fs::write(folder.join("session.json"), "{").expect("written");
        if !alive {
            std::fs::write(folder.join("work/go"), "").expect("written");
            until(|| folder.join("exit.json").exists()).await;
        }
        let office = Office::open_in(scratch, leave()).await;
        let (kind, text) = office.told(&done).await;
        assert_eq!(kind, "system.agent_failed", "{text}");
        assert!(text.contains("cannot read what it kept"), "{text}");
        until(|| office.status(&done) == Status::Failed).await;
        office.close().await;
    }
}

#[tokio::test]
async fn the_answer_of_a_program_that_then_fails_is_its_report() {
    let office = Office::open(quick()).await;
    let program = office.program("next; begins; ends done; exit 3");
    let config = json!({ "command": ["/bin/sh", program] });
    office.profile_of("talker", Some("claude"), config).await;
    for round in 0..6 {
        let mut all = Vec::new();
        for _ in 0..5 {
            all.push(office.assign("talker", "the task").await.expect("assigned"));
        }
        for done in &all {
            assert_eq!(office.told(done).await.0, "result", "round {round}");
            until(|| office.status(done) == Status::Failed).await;
            assert_eq!(office.state(done.task).await, RecordState::Acked(Proof::Turn));
        }
    }
    office.close().await;
}

#[tokio::test]
async fn a_program_that_never_answers_can_be_stopped_and_times_out() {
    let office = Office::open(quick()).await;
    for script in
        ["exec sleep 1000", "next; exec sleep 1000", "trap '' TERM; while :; do next; done"]
    {
        let done = office.talks(script).await;
        office.started(&done).await;
        // Mail that it does not take changes nothing.
        office.writes(&done, "are you there?", Priority::Urgent).await;
        office.hub.stop(Principal::Operator, done.instance.id).await.expect("it runs");
        office.report(&done).await;
        assert_eq!(office.status(&done), Status::Stopped, "{script}");
    }
    let timeout = Some(Duration::from_millis(300));
    let late = Assign { timeout, ..wish("talker", "the task") };
    let late = office.hub.assign(late).await.expect("assigned");
    let (kind, text) = office.told(&late).await;
    assert!(kind == "system.agent_failed" && text.contains("timed out"), "{kind}: {text}");
    office.close().await;
}

#[tokio::test]
async fn a_worker_that_ended_while_no_hub_was_there_has_answered() {
    let office = Office::open(leave()).await;
    let good = office.talks("next; begins; waits go; ends 'late, and done'").await;
    let bad = office.talks("next; begins; waits go; exit 4").await;
    let mut folders = Vec::new();
    for one in [&good, &bad] {
        until(|| office.heard(one).len() == 1).await;
        go(&office, one, "ready");
        folders.push(office.folder(one));
    }
    let scratch = office.close().await;
    for folder in &folders {
        std::fs::write(folder.join("work/go"), "").expect("written");
        until(|| folder.join("exit.json").exists()).await;
    }
    let office = Office::open_in(scratch, leave()).await;
    assert_eq!(office.told(&good).await, ("result".to_owned(), "late, and done".to_owned()));
    assert_eq!(office.state(good.task).await, RecordState::Acked(Proof::Turn));
    assert_eq!(office.told(&bad).await.0, "system.agent_failed");
    office.close().await;
}

#[tokio::test]
async fn a_data_folder_with_a_long_path_is_no_obstacle() {
    let name = "a-very-long-name-".repeat(8);
    let scratch = tempfile::Builder::new().prefix(&name).tempdir().expect("a scratch folder");
    let office = Office::open_in(Arc::new(Scratch(scratch)), quick()).await;
    let done = office.talks("next; begins; ends done; next").await;
    let path = office.folder(&done).join("session");
    assert!(path.as_os_str().len() > 108, "longer than the address of a socket");
    assert_eq!(office.told(&done).await.1, "done");
    office.close().await;
}

#[tokio::test]
async fn a_hub_that_stops_while_its_workers_are_idle_stops() {
    let office = Office::open(leave()).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(office.talks("next; begins; ends done; next; begins; ends again; next").await);
    }
    for one in &all {
        office.until_idle(one).await;
    }
    // As the doors do, before they have closed.
    office.hub.stop_waiting();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let scratch = office.close().await;

    let office = Office::open_in(scratch, leave()).await;
    let sent = office.writes(&all[0], "one more", Priority::Normal).await;
    office.until_state(sent.seq, RecordState::Acked(Proof::Turn)).await;
    office.close().await;
}
