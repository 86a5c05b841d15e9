use serde_json::{Value, json};

use super::*;

fn entry(kind: &str, more: Value) -> Value {
    let mut entry = json!({ "kind": kind, "text": "it", "created_at": "2026-03-04T12:00:00Z" });
    if let (Some(entry), Some(more)) = (entry.as_object_mut(), more.as_object()) {
        entry.extend(more.clone());
    }
    entry
}

fn view(working: bool, open: &[u64], entries: Value) -> ChatView {
    serde_json::from_value(json!({
        "instance": "a3f7b2c1", "address": "helper.a3f7b2c1@main", "thread_id": "t-a3f7b2c1",
        "status": "running", "working": working, "open": open, "entries": entries,
    }))
    .expect("a view of the hub")
}

fn awaited() -> Awaited {
    Awaited { after: 4, sent: Some(5), replies: false }
}

#[test]
fn the_hint_of_a_permission_request_names_it() {
    let request = json!({ "need": 3, "state": "open", "blocking": true });
    let view = view(true, &[], json!([entry("permission", request)]));
    let told = how(&view.entries[0], &view);
    assert!(told.starts_with("it waits for you: posthaste chat a3f7b2c1 /answer 3 yes;"), "{told}");
}

#[test]
fn a_message_that_was_read_and_is_not_open_has_no_answer_to_wait_for() {
    let own = |state: &str| json!([entry("user", json!({ "seq": 5, "state": state }))]);
    for (working, open, state) in
        [(true, &[5][..], "queued"), (true, &[5], "working"), (false, &[5], "read")]
    {
        let found = found(&view(working, open, own(state)), &awaited());
        assert!(matches!(found, Found::Nothing), "{state}");
    }
    for state in ["read", "answered"] {
        assert!(matches!(found(&view(false, &[], own(state)), &awaited()), Found::Idle), "{state}");
    }
}

#[test]
fn a_message_to_an_agent_that_is_not_here_is_queued_and_the_agent_has_not_ended() {
    let own = json!([entry("user", json!({ "seq": 5, "state": "queued" }))]);
    let lost = ChatView { status: "lost".to_owned(), ..view(false, &[5], own) };
    let told = not_here(&lost, &awaited());
    let expected = "helper.a3f7b2c1@main is not here now (lost): the message is queued";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn the_answer_to_somebody_else_does_not_end_the_wait_for_mine() {
    let own = |state: &str| entry("user", json!({ "seq": 5, "state": state }));
    let other = entry("answer", json!({ "seq": 7, "answers": [6] }));
    let none = view(true, &[], json!([own("read"), other.clone()]));
    assert!(matches!(found(&none, &awaited()), Found::Nothing));
    assert!(!awaited().is_mine(&none.entries[1]));
    for answers in [json!([6, 5]), json!([])] {
        let mine = entry("answer", json!({ "seq": 8, "answers": answers }));
        let both = view(false, &[], json!([own("answered"), mine, other.clone()]));
        let Found::Answer(found) = found(&both, &awaited()) else { panic!("an answer") };
        assert_eq!(found.seq, Some(8));
    }
    // The end of a turn covers what it does not name.
    let covered = view(false, &[], json!([own("answered"), other]));
    let Found::Answer(found) = found(&covered, &awaited()) else { panic!("an answer") };
    assert_eq!(found.seq, Some(7));
}
