//! `poll`, `logs`, `agents --tree`.

use serde_json::json;

use super::Office;
use crate::world::eventually;

#[test]
fn a_poll_tells_how_a_worker_is_doing() {
    let office = Office::new();
    let id = office.patient();

    let told = office.run(&["poll", &id]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.starts_with(&format!("patient.{id}@main  running, busy\n")), "{told:?}");
    for line in ["works in", "started", "task       1 for human: open"] {
        assert!(told.out.contains(line), "{line}: {told:?}");
    }
    office.go();
    eventually(|| office.json(&["poll", &id])["status"] == "finished");
    let stats = office.run(&["stats"]).out;
    assert!(stats.contains(&format!("patient.{id}@main")), "an address, though it ended: {stats}");
    let told = office.run(&["poll", &format!("patient.{id}@main")]).out;
    assert!(told.contains("exit code  0") && told.contains("settled by message 2"), "{told}");

    office.run(&["poll", "00000000"]).failed(3, "no such instance", "");
    let by_name = office.run(&["poll", "patient"]);
    assert_eq!(by_name.out, told, "it was the only one");
    assert!(by_name.err.contains(&format!("patient.{id}@main has ended")), "{by_name:?}");
    office.run(&["stop", "patient"]).failed(3, "nobody called patient is here", &id);
}

#[test]
fn logs_follow_a_worker_until_it_ends() {
    let office = Office::new();
    let id = office.patient();
    let mut follow = office.start(&["logs", "patient", "--follow"]);
    assert_eq!(follow.line().as_deref(), Some("one"));
    assert_eq!(follow.line().as_deref(), Some("two"));

    office.go();

    let ran = follow.end();
    assert_eq!((ran.code, &*ran.out), (Some(0), "three\n"), "{ran:?}");
    assert_eq!(office.run(&["logs", &id, "--tail", "2"]).out, "two\nthree\n");
    assert_eq!(office.run(&["logs", &id, "--tail", "9"]).out, "one\ntwo\nthree\n");
    assert_eq!(office.run(&["logs", &id, "--stderr"]).out, "");
    let told = office.json(&["logs", &id]);
    assert_eq!((&told["text"], &told["ended"]), (&json!("one\ntwo\nthree\n"), &json!(true)));
}

#[test]
fn nobody_attaches_to_a_worker_that_would_not_hear_it() {
    let office = Office::new();
    let id = office.patient();
    let hint = format!("posthaste logs --follow {id}");
    office.run(&["attach", &id]).failed(2, "holds no conversation with patient.", &hint);
    office.run(&["attach", "00000000"]).failed(3, "no such instance", "");
    office.go();
}

#[test]
fn what_a_worker_wrote_to_stderr_is_kept_apart() {
    let office = Office::new();
    let given = office.json(&["assign", "failing", "try"]);
    let id = given["instance"].as_str().expect("an instance");
    eventually(|| office.json(&["poll", id])["status"] == "failed");
    let ran = office.run(&["logs", id]);
    assert_eq!(ran.out, "half of it\n");
    assert!(ran.err.contains("it failed: exit code 3"), "{ran:?}");
    assert_eq!(office.run(&["logs", id, "--stderr", "-f"]).out, "the disk is gone\n");
}

#[test]
fn logs_of_who_came_by_itself_are_its_own_and_others_may_not_look() {
    let office = Office::new();
    let alice = office.world.joined("alice");
    let id = office.patient();
    office.run(&["logs", &alice]).failed(3, "came by itself", "only workers");
    office.run(&["logs", &id, "--as", "alice"]).failed(6, "only those above", "");
}

#[test]
fn a_tree_shows_who_works_for_whom() {
    let office = Office::new();
    let alice = office.world.joined("alice");
    let mine = office.patient();
    let hers = office.json(&["assign", "patient", "wait", "--as", "alice", "--label", "hers"]);
    let dir = office.desk();
    let hers = hers["instance"].as_str().expect("an instance").to_owned();
    eventually(|| office.json(&["poll", &hers])["status"] == "running");

    let told = office.run(&["agents", "--tree"]).out;

    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "human");
    assert!(lines[1].starts_with(&format!("└─ patient.{mine}@main  running, busy")), "{told}");
    assert!(lines[2].starts_with(&alice), "{told}");
    assert!(lines[3].starts_with(&format!("└─ patient.{hers}@main")), "{told}");
    assert!(lines[3].contains("[hers]"), "{told}");
    assert!(!told.contains('\u{1b}'), "no colours in a pipe");
    assert!(dir.exists());
}
