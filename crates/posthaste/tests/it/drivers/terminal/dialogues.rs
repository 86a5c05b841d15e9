//! Questions of a program to a person, in its terminal.

use serde_json::Value;

use super::{Room, Worker};
use crate::world::eventually;

const KEYS: &str = "patterns: { idle: '^> *\\z', waiting: '^Allow .*\\?\\z' }\n\
    keys: { allow: y Enter, deny: n Enter }";

/// Asks twice in each turn.
const ASKS: &str = "while printf \"> \" && IFS= read -r line; do \
    for what in \"touch x\" \"rm -rf y\"; do \
    printf \"Allow %s? \" \"$what\"; read -r said; echo \"$what: $said\"; done; done";

impl Room {
    fn needs(&self) -> Vec<Value> {
        let needs = self.world.json(&["needs"]);
        needs["needs"].as_array().unwrap_or_else(|| panic!("{needs}")).clone()
    }

    /// Waits until the operator is asked about this, and about nothing else.
    fn asked(&self, about: &str) -> String {
        let mut open = Vec::new();
        eventually(|| {
            open = self.needs();
            let last = open.last().and_then(|need| need["text"].as_str());
            last.is_some_and(|text| text.trim_end().ends_with(about))
        });
        assert_eq!(open.len(), 1, "{open:?}");
        open[0]["id"].as_u64().expect("a number").to_string()
    }

    fn person_types(&self, worker: &Worker, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", &self.pane(worker)], keys].concat());
    }
}

#[test]
fn two_questions_in_a_row_are_asked_and_answered_one_by_one() {
    let Some(room) = Room::with("asker", KEYS, ASKS) else { return };
    room.assign("asker", "clean up");
    let one = room.asked("Allow touch x?");
    let ran = room.world.run(&["answer", &one, "--allow", "--remember"]);
    assert!(ran.err.contains("no subject that could be remembered"), "{ran:?}");
    room.world.say(&["answer", &one, "--allow"]);
    let two = room.asked("Allow rm -rf y?");
    room.world.say(&["answer", &two, "--deny"]);
    let (kind, text) = room.alice_reads();
    assert_eq!(kind, "result");
    assert!(text.contains("touch x: y") && text.contains("rm -rf y: n"), "{text}");
    assert_eq!(room.needs(), Vec::<Value>::new());
}

#[test]
fn a_yes_to_a_question_that_a_person_answered_is_not_pressed_in_the_next() {
    let Some(room) = Room::with("asker", KEYS, ASKS) else { return };
    let worker = room.assign("asker", "clean up");
    let one = room.asked("Allow touch x?");
    room.person_types(&worker, &["y", "Enter"]);
    // Whether or not the hub has seen it by now.
    room.world.run(&["answer", &one, "--allow"]);
    let two = room.asked("Allow rm -rf y?");
    assert_ne!(one, two);
    room.world.say(&["answer", &two, "--deny"]);
    let text = room.alice_reads().1;
    assert!(text.contains("touch x: y") && text.contains("rm -rf y: n"), "{text}");
}

#[test]
fn a_hub_killed_while_a_question_is_open_asks_it_once() {
    let Some(mut room) = Room::with("asker", KEYS, ASKS) else { return };
    let worker = room.assign("asker", "clean up");
    let one = room.asked("Allow touch x?");
    room.kill_the_hub();
    room.start_the_hub();
    eventually(|| !room.tmux(&["list-clients"]).out.is_empty());
    assert_eq!(room.asked("Allow touch x?"), one);
    room.world.say(&["answer", &one, "--allow"]);
    let two = room.asked("Allow rm -rf y?");
    assert!(room.history(&worker).contains("touch x: y"));

    // A person answers while no hub is there.
    room.kill_the_hub();
    room.person_types(&worker, &["n", "Enter"]);
    room.start_the_hub();
    let text = room.alice_reads().1;
    assert!(text.contains("rm -rf y: n"), "{text}");
    let ran = room.world.run(&["answer", &two, "--allow"]);
    assert_ne!(ran.code, Some(0), "it was withdrawn: {ran:?}");
    assert_eq!(room.needs(), Vec::<Value>::new());
}

#[test]
fn a_key_that_does_not_answer_is_told_and_a_person_can_answer() {
    let script = "printf \"> \"; read -r line; stty -echo; printf \"Allow it?\"; \
                  until [ \"$said\" = yes ]; do read -r said; done; stty echo; \
                  printf \"\\nthank you\\n> \"; read -r line";
    let Some(room) = Room::with("stubborn", KEYS, script) else { return };
    let worker = room.assign("stubborn", "try");
    let one = room.asked("Allow it?");
    room.world.say(&["answer", &one, "--allow"]);
    let mut again = Value::Null;
    eventually(|| {
        again = room.needs().pop().unwrap_or_default();
        again["text"].as_str().is_some_and(|text| text.contains("posthaste attach"))
    });
    assert!(again["text"].as_str().is_some_and(|text| text.contains("did not answer")), "{again}");
    let logs = room.world.say(&["logs", &worker.id]);
    assert!(logs.contains("did not answer"), "{logs}");
    room.person_types(&worker, &["yes", "Enter"]);
    let text = room.alice_reads().1;
    assert!(text.contains("thank you"), "{text}");
    assert_eq!(room.needs(), Vec::<Value>::new());
}
