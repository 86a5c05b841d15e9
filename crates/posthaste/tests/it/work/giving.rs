//! `assign`, `stop`, and what is wrong with a wish.

use serde_json::{Value, json};

use super::Office;
use crate::world::eventually;

#[test]
fn a_worker_gets_the_task_and_its_report_comes_to_the_inbox() {
    let office = Office::new();

    let given = office.run(&["assign", "counter", "one two three", "--label", "part 1"]);
    assert_eq!(given.code, Some(0), "{given:?}");
    assert!(given.out.starts_with("task 1 goes to counter."), "{given:?}");
    assert!(given.err.contains("posthaste inbox --wait-for all"), "{given:?}");

    let inbox = office.json(&["inbox", "--wait-for", "all"]);
    assert_eq!(inbox["status"], "complete", "{inbox}");
    let report = &inbox["messages"][0];
    assert_eq!((&report["message"], &report["type"]), (&json!("3"), &json!("result")));
    assert_eq!((&report["label"], &report["in_reply_to"]), (&json!("part 1"), &json!(1)));
}

#[test]
fn the_task_may_come_from_stdin_and_the_same_key_is_the_same_worker() {
    let office = Office::new();
    let args = ["assign", "counter", "-", "--key", "once", "--json"];
    let first: Value =
        serde_json::from_str(&office.world.pipe(&args, b"a b\n").out).expect("an answer");
    let again: Value =
        serde_json::from_str(&office.world.pipe(&args, b"a b\n").out).expect("an answer");
    assert_eq!((&first["duplicate"], &again["duplicate"]), (&json!(false), &json!(true)));
    assert_eq!(first["instance"], again["instance"]);
    let inbox = office.json(&["inbox", "--wait-for", "all"]);
    assert_eq!(inbox["messages"][0]["message"], "2");
}

#[test]
fn an_agents_script_assigns_and_gathers_as_itself() {
    let office = Office::new();
    office.world.joined("alice");
    office.json(&["assign", "counter", "a b c d", "--as", "alice"]);
    let inbox = office.json(&["inbox", "--wait-for", "all", "--as", "alice"]);
    assert_eq!((&inbox["status"], &inbox["total"]), (&json!("complete"), &json!(1)), "{inbox}");
    assert_eq!(inbox["messages"][0]["relation"], "child");
}

#[test]
fn only_the_output_of_a_worker_that_the_hub_starts_can_be_watched() {
    let office = Office::new();
    office.world.joined("guest");
    let watch = |agent: &str| {
        let given = office.run(&["assign", agent, "x"]);
        assert_eq!(given.code, Some(0), "{given:?}");
        assert!(given.err.contains("posthaste inbox --wait-for all"), "{given:?}");
        given.err.contains("posthaste logs --follow")
    };
    assert!(watch("counter") && !watch("guest"));
}

#[test]
fn what_cannot_be_assigned_says_why_and_what_to_do() {
    let office = Office::new();
    office.run(&["assign", "countr", "x"]).failed(3, "no profile called countr", "counter");
    office.run(&["assign", "broken", "x"]).failed(4, "frobnicate-me", "");
    office.run(&["assign", "guest", "x"]).failed(4, "nobody of that name is here", "connect");
    office.run(&["assign", "counter", "x", "--dir", "no/such/folder"]).failed(4, "no/such", "");
    office.run(&["assign", "@everyone", "x"]).failed(2, "the name of a profile", "");
    office.run(&["handoff", "countr", "x"]).failed(3, "no profile called countr", "counter");
    assert_eq!(office.run(&["assign", "counter"]).code, Some(2), "no task");
    let nobody = office.json(&["agents", "--all"]);
    assert_eq!(nobody["instances"], json!([]), "nothing was started");
}

#[test]
fn a_worker_that_takes_longer_than_its_timeout_is_ended_and_reported() {
    let office = Office::new();
    let given = office.json(&["assign", "patient", "wait", "--timeout", "100ms"]);
    let inbox = office.json(&["inbox", "--wait-for", "all"]);
    let report = &inbox["messages"][0];
    assert_eq!(report["type"], "system.agent_failed", "{inbox}");
    let text = report["message"].as_str().expect("a text");
    assert!(text.contains("timed out: it ran longer than its timeout of 100ms"), "{text}");
    let id = given["instance"].as_str().expect("an instance");
    let told = office.run(&["poll", id]).out;
    assert!(told.contains("timeout    1 s") && told.contains("failed"), "{told}");
    office.run(&["assign", "guest", "x", "--timeout", "1m"]).failed(2, "cannot end it", "leave");
}

#[test]
fn workers_are_stopped_one_by_one_or_all() {
    let office = Office::new();
    let (first, second, third) = (office.patient(), office.patient(), office.patient());
    let status = |id: &str| office.json(&["poll", id])["status"].clone();

    let stopped = office.run(&["stop", &first, "00000000", "junk"]);
    assert_eq!(stopped.code, Some(3), "the first failure decides: {stopped:?}");
    assert!(stopped.out.contains(&first), "{stopped:?}");
    assert!(stopped.err.contains("00000000: no such instance"), "{stopped:?}");
    assert!(stopped.err.contains("junk: nobody called junk is here"), "{stopped:?}");
    eventually(|| status(&first) == "stopped");
    assert_eq!(status(&second), "running");

    let all = office.json(&["stop", "--all"]);
    assert_eq!(all["stopped"], 2, "{all}");
    eventually(|| status(&second) == "stopped" && status(&third) == "stopped");
    office.run(&["stop", &first]).failed(4, "has already ended", "");
    let nothing = office.run(&["stop", "--all"]);
    assert_eq!(nothing.out, "nothing was running for you\n");
    assert_eq!(office.run(&["stop"]).code, Some(2), "whom?");
}
