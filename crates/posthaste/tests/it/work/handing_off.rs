//! `handoff`: a worker, and its result here.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::Office;
use crate::world::eventually;

#[test]
fn the_result_is_printed_and_nothing_else() {
    let office = Office::new();
    let ran = office.run(&["handoff", "counter", "one two three"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "3\n"), "{ran:?}");
    let told = office.json(&["handoff", "counter", "one two"]);
    assert_eq!((&told["status"], &told["result"]), (&json!("complete"), &json!("2")));
    assert_eq!(told["exit_code"], 0);
    let inbox = office.json(&["inbox", "--timeout", "0"]);
    assert_eq!(inbox["messages"], json!([]), "what was shown is proved");
}

#[test]
fn a_person_means_the_folder_in_which_they_stand() {
    let office = Office::new();
    let desk = office.desk().canonicalize().expect("a folder");
    let ran = office.run(&["handoff", "here", "where?"]);
    assert_eq!(ran.out.trim(), desk.to_str().expect("a plain path"), "{ran:?}");
    let elsewhere = office.world.scratch().canonicalize().expect("a folder");
    let ran = office.run(&["handoff", "here", "where?", "--dir", ".."]);
    assert_eq!(ran.out.trim(), elsewhere.to_str().expect("a plain path"), "{ran:?}");
}

#[test]
fn a_worker_that_fails_fails_the_command_and_says_how() {
    let office = Office::new();
    let ran = office.run(&["handoff", "failing", "try"]);
    ran.failed(1, "exit code 3", "posthaste logs");
    assert!(ran.err.contains("the disk is gone"), "{ran:?}");
    let ran = office.run(&["handoff", "failing", "try", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).expect("an answer");
    assert_eq!((ran.code, &told["status"]), (Some(1), &json!("failed")));
    assert_eq!(told["exit_code"], 3);
}

#[test]
fn when_the_time_is_up_the_work_goes_on_and_its_result_comes_by_mail() {
    let office = Office::new();
    let ran = office.run(&["handoff", "patient", "wait", "--timeout", "0.1"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.err.contains("posthaste inbox --wait-for all"), "{ran:?}");
    office.go();
    let inbox = office.json(&["inbox", "--wait-for", "all"]);
    assert_eq!(inbox["messages"][0]["message"], "one\ntwo\nthree", "{inbox}");
}

#[test]
fn ctrl_c_ends_the_waiting_and_not_the_work() {
    let office = Office::new();
    let waiting = office.start(&["handoff", "patient", "wait"]);
    let workers = || office.json(&["agents"])["instances"].clone();
    eventually(|| workers()[0]["status"] == "running");
    let id = workers()[0]["instance"].as_str().expect("an instance").to_owned();

    waiting.signal(Signal::INT);

    let ran = waiting.end();
    assert_eq!((ran.code, &*ran.out), (Some(130), ""), "{ran:?}");
    assert!(ran.err.contains(&format!("posthaste stop {id}")), "{ran:?}");
    assert_eq!(office.json(&["poll", &id])["status"], "running");
    office.go();
    let inbox = office.json(&["inbox", "--wait-for", "all"]);
    assert_eq!(inbox["messages"][0]["message"], "one\ntwo\nthree");
}

#[test]
fn a_handoff_outlives_a_hub_that_is_killed() {
    let mut office = Office::new();
    let waiting = office.start(&["handoff", "patient", "wait"]);
    eventually(|| office.json(&["agents"])["instances"][0]["status"] == "running");

    office.hub.take().expect("a hub").kill();
    office.hub = Some(office.world.hub());
    office.go();

    let ran = waiting.end();
    assert_eq!((ran.code, &*ran.out), (Some(0), "one\ntwo\nthree\n"), "{ran:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_handoff_on_a_terminal_shows_what_its_worker_writes_while_it_writes() {
    let office = Office::new();
    let mut command = office.world.on_terminal(80, &["handoff", "patient", "wait"]);
    command.current_dir(office.desk()).env("NO_COLOR", "1");
    let mut handoff = crate::world::Started::new(command);
    let mut seen = String::new();
    while !seen.contains("  two") {
        seen.push_str(&handoff.line().expect("it shows more"));
    }
    assert!(seen.contains("patient.") && seen.contains("running"), "{seen:?}");
    office.go();
    let ran = handoff.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let last = ran.out.rsplit("\u{1b}[J").next().expect("what stands there at the end");
    assert_eq!(last.replace('\r', ""), "one\ntwo\nthree\n", "the result, and nothing else");
}
