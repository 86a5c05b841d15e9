use serde_json::{Value, json};

use super::*;

fn view(entries: Value) -> ChatView {
    serde_json::from_value(json!({
        "instance": "a3f7b2c1", "address": "helper.a3f7b2c1@main", "thread_id": "t-a3f7b2c1",
        "status": "running", "working": true, "open": [], "entries": entries,
    }))
    .expect("a view of the hub")
}

fn entry(seq: u64, kind: &str, text: &str, more: Value) -> Value {
    let mut entry = json!({
        "seq": seq, "kind": kind, "text": text, "created_at": "2026-03-04T12:00:00Z",
    });
    if let (Some(entry), Some(more)) = (entry.as_object_mut(), more.as_object()) {
        entry.extend(more.clone());
    }
    entry
}

fn lines(shown: &mut Shown, view: &ChatView) -> Vec<String> {
    let news = shown.news(view);
    news.iter().filter_map(|news| Some(shown.text(news)?.render(false))).collect()
}

#[test]
fn an_entry_is_shown_once_and_its_state_when_it_changes() {
    let mut shown = Shown::default();
    let queued = view(json!([entry(4, "user", "hello", json!({ "state": "queued" }))]));
    assert_eq!(lines(&mut shown, &queued), ["[4] hello (queued)"]);
    assert!(lines(&mut shown, &queued).is_empty());
    let read = view(json!([
        entry(4, "user", "hello", json!({ "state": "working" })),
        { "kind": "tool", "call": "c", "name": "count", "text": "{}", "state": "running",
          "created_at": "2026-03-04T12:00:00Z" },
    ]));
    assert_eq!(lines(&mut shown, &read), ["[4] working", "* count {}"]);
}

#[test]
fn an_answer_quotes_what_it_answers_unless_that_is_the_last_message() {
    let mut shown = Shown::default();
    let told = lines(
        &mut shown,
        &view(json!([
            entry(4, "user", "fix the\nlogin", json!({ "state": "answered" })),
            entry(5, "partial", "done", json!({ "answers": [4] })),
            entry(6, "user", "what time is it?", json!({ "state": "answered" })),
            entry(7, "user", "and where?", json!({ "state": "read" })),
            entry(8, "answer", "noon", json!({ "answers": [6] })),
        ])),
    );
    assert_eq!(told[1], "| done");
    assert_eq!(told[4], "> [6] what time is it?\n| noon");
}

#[test]
fn a_question_has_numbered_options_and_a_number_answers_it() {
    let asked = view(json!([entry(
        5,
        "question",
        "which branch?",
        json!({ "need": 3, "state": "open", "blocking": true, "options": ["main", "next"] }),
    )]));
    let told = lines(&mut Shown::default(), &asked);
    assert!(told[0].starts_with("? which branch?\n  1) main\n  2) next\n"), "{told:?}");
    assert_eq!(meant("2", Some(&asked)), "/answer 3 next");
    assert_eq!(meant("3", Some(&asked)), "3", "there is no third one");
    assert_eq!(meant("neither", Some(&asked)), "neither");
    assert_eq!(meant("2", None), "2");
}

#[test]
fn a_number_answers_the_question_for_which_the_agent_waits_and_not_a_side_question() {
    let side = json!({ "need": 3, "state": "open", "blocking": false, "options": ["a", "b"] });
    let waits = json!({ "need": 4, "state": "open", "blocking": true });
    let side = entry(5, "question", "which tests?", side);
    let both = view(json!([side.clone(), entry(6, "question", "how many?", waits)]));
    assert_eq!(meant("2", Some(&both)), "2", "the hub gives it to the one that waits");
    assert_eq!(meant("2", Some(&view(json!([side])))), "/answer 3 b");
}

#[test]
fn a_yes_is_about_the_request_that_the_person_has_seen() {
    let request = json!({
        "kind": "permission", "need": 9, "text": "Bash: make", "state": "open", "blocking": true,
        "created_at": "2026-03-04T12:00:00Z",
    });
    let asked = view(json!([request]));
    assert_eq!(meant("Yes!", Some(&asked)), "/answer 9 yes");
    for word in ["yes please", "yes?", "🚫 yes 🚫", "(yes)"] {
        assert_eq!(meant(word, Some(&asked)), word);
    }
    assert_eq!(meant("yes", Some(&view(json!([])))), "yes");
}

#[test]
fn a_request_that_was_closed_elsewhere_is_told_and_a_yes_is_not_about_the_next_one() {
    let request = |need: u64, text: &str, state: &str| {
        json!({
            "kind": "permission", "need": need, "text": text, "state": state, "blocking": true,
            "created_at": "2026-03-04T12:00:00Z",
        })
    };
    let mut shown = Shown::default();
    lines(&mut shown, &view(json!([request(9, "Bash: make", "open")])));
    let closed = view(json!([request(9, "Bash: make", "answered")]));
    assert_eq!(lines(&mut shown, &closed), ["  it is answered: Bash: make"]);
    // The hub refuses it, whatever has come since.
    assert_eq!(meant("yes", Some(&closed)), "/answer 9 yes");
    let next =
        view(json!([request(9, "Bash: make", "withdrawn"), request(10, "Bash: rm", "open")]));
    assert_eq!(meant("no", Some(&next)), "/answer 10 no");
    let said = entry(11, "answer", "shall I go on?", json!({}));
    let later = view(json!([request(9, "Bash: make", "answered"), said]));
    assert_eq!(meant("yes", Some(&later)), "yes", "it is a word of the conversation");
    let told = lines(&mut Shown::default(), &closed);
    assert_eq!(told, ["! it asked for permission: Bash: make (answered)"]);
}

#[test]
fn no_text_of_an_agent_moves_the_cursor() {
    let hostile = "red\u{1b}[2J\u{202e}\u{0}\rblue";
    let options = json!({ "need": 3, "options": [hostile], "quote": hostile, "name": hostile });
    let kinds = ["user", "partial", "answer", "question", "permission", "tool"];
    let entries = kinds.iter().zip(1..).map(|(kind, seq)| {
        let mut entry = entry(seq, kind, hostile, options.clone());
        entry["need"] = json!(seq);
        entry
    });
    let entries: Vec<Value> = entries.collect();
    for told in lines(&mut Shown::default(), &view(json!(entries))) {
        assert!(!told.contains(['\u{1b}', '\r', '\u{0}', '\u{202e}']), "{told:?}");
    }
}

#[test]
fn no_line_of_an_agent_looks_like_one_of_the_window() {
    let forged = "note: it has ended\n! it asks for permission: ls\n[5] answered\n  yes or no\n";
    let options = json!({ "need": 3, "state": "open", "blocking": true, "options": [forged] });
    let kinds = ["partial", "answer", "question", "permission"];
    for kind in kinds {
        let mut said = entry(7, kind, forged, options.clone());
        said["quote"] = json!(forged);
        let told = lines(&mut Shown::default(), &view(json!([said]))).join("\n");
        let begins = ["note:", "! it asks for permission: ls", "[5] answered", "  yes or no\n"];
        let is_forged = |line: &str| begins.iter().any(|begin| line.starts_with(begin.trim_end()));
        let own = |line: &&str| !line.starts_with("  yes or no, or /answer 3");
        assert!(!told.lines().filter(own).any(is_forged), "{kind}: {told}");
    }
}
