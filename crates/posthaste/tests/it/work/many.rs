//! Many workers, and workers of workers: real processes behind the real doors.

use serde_json::{Value, json};

use super::Office;
use crate::mcp_bridge::agent::{Agent, BOTH, Era};

const WORKERS: usize = 50;

/// So many words.
fn words(count: usize) -> String {
    vec!["word"; count].join(" ")
}

/// The counts that came back, smallest first.
fn counts(inbox: &Value) -> Vec<usize> {
    let mail = inbox["messages"].as_array().expect("mail");
    let count = |m: &Value| m["message"].as_str().expect("a text").trim().parse();
    let mut counts: Vec<usize> = mail.iter().map(|m| count(m).expect("a number")).collect();
    counts.sort_unstable();
    counts
}

#[test]
fn fifty_workers_are_gathered_by_one_command() {
    let office = Office::new();
    office.world.joined("alice");
    for n in 1..=WORKERS {
        office.json(&["assign", "counter", &words(n), "--as", "alice"]);
    }

    let inbox = office.json(&["inbox", "--wait-for", "all", "--as", "alice"]);

    assert_eq!((&inbox["status"], &inbox["missing"]), (&json!("complete"), &Value::Null));
    assert_eq!(counts(&inbox), (1..=WORKERS).collect::<Vec<_>>());
}

#[test]
fn fifty_workers_are_gathered_by_one_call_of_a_tool() {
    let office = Office::new();
    for era in BOTH {
        let name = if era == Era::Old { "old" } else { "new" };
        office.world.joined(name);
        let mut agent = Agent::ready(&office.world, era, &["--as", name]);
        for n in 1..=WORKERS {
            let part = json!({ "agent": "counter", "message": words(n), "label": n.to_string() });
            let given = agent.call("assign", part);
            assert_eq!(given["label"], n.to_string(), "{given}");
        }

        let gather = json!({ "wait_for": "all", "timeout": 600 });
        let inbox = agent.call("check_inbox", gather);

        assert_eq!(inbox["status"], "complete", "{inbox}");
        assert_eq!(counts(&inbox), (1..=WORKERS).collect::<Vec<_>>());
        agent.leave();
    }
}

#[test]
fn a_tree_whose_parents_wait_does_not_stand_in_its_own_way() {
    let chief = "\"$POSTHASTE\" handoff lead split";
    let lead = "\"$POSTHASTE\" handoff counter \"a b c\"";
    let office = Office::with("[agents]\nrunning = 1\n", &[("chief", chief), ("lead", lead)]);

    let ran = office.run(&["handoff", "chief", "go"]);

    assert_eq!((ran.code, &*ran.out), (Some(0), "3\n"), "{ran:?}");
}

#[test]
fn one_tool_call_hands_a_task_off_and_brings_its_result() {
    let office = Office::new();
    for era in BOTH {
        let name = if era == Era::Old { "old" } else { "new" };
        office.world.joined(name);
        let mut agent = Agent::ready(&office.world, era, &["--as", name]);
        let told = agent.call("handoff", json!({ "agent": "counter", "message": "a b c" }));
        assert_eq!((&told["status"], &told["result"]), (&json!("complete"), &json!("3")));
        let told = agent.call("handoff", json!({ "agent": "failing", "message": "x" }));
        assert_eq!((&told["status"], &told["exit_code"]), (&json!("failed"), &json!(3)));
        agent.leave();
    }
}
