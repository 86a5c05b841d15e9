//! What a script learns from the exit status of a wait.

use serde_json::{Value, json};

use super::Office;
use crate::world::Ran;

impl Office {
    fn gathers(&self, more: &[&str]) -> Ran {
        self.run(&[&["inbox", "--wait-for", "all"], more].concat())
    }
}

#[test]
fn an_empty_inbox_a_full_one_and_a_gather_of_nothing_are_told_apart() {
    let office = Office::new();
    let ran = office.run(&["inbox", "--timeout", "0"]);
    assert_eq!((ran.code, &*ran.out), (Some(7), ""), "{ran:?}");
    let ran = office.run(&["inbox", "--timeout", "0", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).expect("an answer all the same");
    assert_eq!((ran.code, &told["messages"]), (Some(7), &json!([])), "{ran:?}");
    assert_eq!(office.gathers(&[]).code, Some(0), "nothing is open");
    office.world.joined("bob");
    office.run(&["send", "human", "hello", "--as", "bob"]);
    assert_eq!(office.run(&["inbox", "--timeout", "0"]).code, Some(0));
}

#[test]
fn a_gather_that_is_not_complete_says_so() {
    let office = Office::new();
    office.patient();
    let ran = office.gathers(&["--timeout", "0.1"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(ran.err.contains("still missing: patient."), "an address: {ran:?}");
    office.go();
    assert_eq!(office.gathers(&[]).code, Some(0));
}

#[test]
fn a_wait_for_some_tells_of_their_failure_and_what_has_ended_takes_no_mail() {
    let office = Office::new();
    office.json(&["assign", "failing", "x"]);
    let ran = office.run(&["inbox", "--wait-for", "1"]);
    assert_eq!(ran.code, Some(9), "{ran:?}");
    let id = office.patient();
    let address = office.json(&["poll", &id])["address"].as_str().expect("an address").to_owned();
    assert_eq!(office.run(&["stop", &id]).code, Some(0));
    office.run(&["send", &address, "hi"]).failed(3, "", "");
    office.run(&["stop", &id]).failed(4, "", "");
}

#[test]
fn a_gather_with_a_failure_says_so_also_when_the_report_came_before() {
    let office = Office::new();
    office.json(&["assign", "failing", "x"]);
    let ran = office.gathers(&[]);
    assert_eq!(ran.code, Some(9), "{ran:?}");
    assert!(ran.out.contains("exit code 3"), "{ran:?}");

    // Everything was read, and the outcome is the same.
    let ran = office.gathers(&[]);
    assert_eq!((ran.code, &*ran.out), (Some(9), ""), "{ran:?}");
    assert_eq!(ran.err, "note: handed over before: [2] failed\n");

    // The failure comes alone, and then the rest.
    office.patient();
    office.json(&["assign", "failing", "x"]);
    let ran = office.run(&["inbox"]);
    assert_eq!(ran.code, Some(0), "it is mail: {ran:?}");
    assert!(ran.out.contains("exit code 3"), "{ran:?}");
    office.go();
    let ran = office.gathers(&[]);
    assert_eq!(ran.code, Some(9), "the work as a whole has failed: {ran:?}");
    assert!(ran.err.contains("handed over before"), "{ran:?}");
}
