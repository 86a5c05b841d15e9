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
    assert_eq!(told.get("duplicate"), None, "this work is new: {told}");
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
    ran.failed(9, "exit code 3", "posthaste logs");
    assert!(ran.err.contains("the disk is gone"), "{ran:?}");
    let ran = office.run(&["handoff", "failing", "try", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).expect("an answer");
    assert_eq!((ran.code, &told["status"]), (Some(9), &json!("failed")));
    assert_eq!(told["exit_code"], 3);
}

#[test]
fn when_the_time_is_up_the_work_goes_on_and_its_result_comes_by_mail() {
    let office = Office::new();
    let ran = office.run(&["handoff", "patient", "wait", "--timeout", "0.1"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
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
fn the_same_key_is_the_same_work_and_is_said_to_be() {
    let office = Office::new();
    let again = || office.json(&["handoff", "counter", "one two", "--key", "once"]);
    assert_eq!(again().get("duplicate"), None, "the first time it is new");
    let told = again();
    assert_eq!((&told["duplicate"], &told["result"]), (&json!(true), &json!("2")), "{told}");
}

#[test]
fn what_a_worker_wrote_is_piped_byte_for_byte() {
    let bytes = b"\x1b[31mred\xff\x00\r\n\n no end".as_slice();
    let script = r"printf '\033[31mred\377\000\r\n\n no end'";
    let office = Office::with("", &[("painter", script), ("ends", r"printf 'a\n\n\n'")]);
    let out = |args: &[&str]| {
        let output = office.world.command(args).output().expect("it ends");
        assert!(output.status.success(), "{args:?}: {output:?}");
        output.stdout
    };

    assert_eq!(out(&["handoff", "painter", "x"]), bytes);
    assert_eq!(out(&["handoff", "ends", "x"]), b"a\n\n\n");

    let painter = office.json(&["agents", "--all"])["instances"].clone();
    let painter = painter.as_array().expect("workers").iter().find(|i| i["agent"] == "painter");
    let id = painter.expect("it was here")["instance"].as_str().expect("an id").to_owned();
    assert_eq!(out(&["logs", &id]), bytes);
    assert_eq!(out(&["logs", &id, "--raw"]), bytes);
    assert_eq!(out(&["logs", &id, "--tail", "1"]), b" no end");
    let told = office.json(&["logs", &id]);
    assert_eq!(told["text"], "\u{1b}[31mred\u{fffd}\0\r\n\n no end", "JSON is text");
}

#[test]
fn a_result_that_is_too_long_for_a_message_is_piped_whole() {
    let script = "head -c 3000000 /dev/zero | tr '\\000' x; printf 'a\\377b\\n'";
    let office = Office::with("", &[("big", script)]);
    let ran = office.world.command(&["handoff", "big", "x"]).output().expect("it ends");
    assert!(ran.status.success());
    assert_eq!(ran.stdout.len(), 3_000_004);
    assert!(ran.stdout.ends_with(b"xa\xffb\n"));
}

#[test]
fn a_result_of_which_the_hub_has_not_all_says_so_beside_it() {
    let script = "head -c 300000 /dev/zero | tr '\\000' x";
    let office = Office::with("[agents]\noutput_bytes = 100000\n", &[("big", script)]);
    let ran = office.run(&["handoff", "big", "x"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.starts_with("xxx"), "{ran:?}");
    assert!(ran.err.contains("not all") && ran.err.contains("posthaste logs"), "{ran:?}");
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

/// The test plays the hub, so it knows when the command waits for an answer.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_handoff_on_a_terminal_while_the_hub_hangs() {
    use std::io::Write;

    use crate::played::{Played, asked_on};
    use crate::world::{Started, World};

    let world = World::new();
    let hub = Played::new();
    let args = ["handoff", "worker", "x", "--hub", &hub.url, "--token", "whoever"];
    let mut command = world.on_terminal(80, &args);
    command.stdin(std::process::Stdio::piped());
    let mut handoff = Started::new(command);
    let (mut terminal, _screen) = handoff.talk();
    hub.answers(
        "POST /v1/assign ",
        &json!({
            "instance": "a3f7b2c1", "address": "worker.a3f7b2c1@main", "agent": "worker",
            "team": "main", "thread_id": "t-12345678", "status": "starting", "task": 1,
        }),
    );
    // One call waits for the report, and one asks how the worker is doing.
    let calls = [hub.accepts(), hub.accepts()];
    let asked = calls.each_ref().map(|call| asked_on(call).head);
    let looks = asked.iter().any(|head| head.starts_with("GET /v1/instances/a3f7b2c1 "));
    assert!(looks, "{asked:?}");
    terminal.write_all(b"\x03").expect("it reads");
    assert_eq!(handoff.end().code, Some(130));
}
