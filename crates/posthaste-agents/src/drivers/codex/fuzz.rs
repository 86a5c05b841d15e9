//! Fuzzes the lines of Codex: each is understood, or shown.

use posthaste_testkit::fuzz;
use serde_json::Value;

use super::tests::{RECORDINGS, Step, begin, resume, steps, take};

#[test]
fn no_line_of_codex_breaks_its_conversation() {
    let (mut states, mut lines) = (Vec::new(), Vec::new());
    for (_, config, recorded) in RECORDINGS {
        let mut talk = begin(config);
        talk.open();
        for step in steps(recorded) {
            take(&mut talk, &step);
            states.push(talk.state());
            if let Step::Heard(line) = step {
                lines.push(String::from_utf8(line).expect("text"));
            }
        }
    }
    let documents: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for mut case in fuzz::cases(6_000, &lines) {
        let state = case.dice.pick(&states).clone();
        let mut talk = resume(&state);
        if case.dice.one_in(2) {
            let document = case.dice.pick(&documents).clone();
            case.odd_json(&document);
        }
        talk.heard(&case.bytes);
        // Whatever the line was, the conversation goes on from a state that can be kept.
        let mut talk = resume(&talk.state());
        talk.interrupt();
        talk.steer(98, "and this");
        talk.answer("0", true, "");
        talk.prompt(99, "hello");
        talk.heard(&case.bytes);
    }
}
