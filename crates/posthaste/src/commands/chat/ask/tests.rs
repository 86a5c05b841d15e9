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

#[test]
fn the_hint_of_a_permission_request_names_it() {
    let request = json!({ "need": 3, "state": "open", "blocking": true });
    let view = view(true, &[], json!([entry("permission", request)]));
    let told = how(&view.entries[0], &view);
    assert!(told.starts_with("it waits for you: posthaste chat a3f7b2c1 /answer 3 yes;"), "{told}");
}
