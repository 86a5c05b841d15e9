//! Lines that are no messages, and messages out of turn: the bridge lives on.

use serde_json::{Value, json};

use super::agent::{Agent, Era, PROGRAM};
use crate::world::World;

/// What the bridge itself takes at most, and a little more.
const TOO_LONG: usize = (8 << 20) + 1;

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("an error: {answer}"))
}

#[test]
fn garbage_before_the_handshake_is_answered_and_forgotten() {
    let world = World::new();
    let _hub = world.hub();
    let mut agent = Agent::new(&world, &["--no-start"], &[]);
    for (line, expected) in [
        (&b"{"[..], -32700),
        (b"what?", -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (b"17", -32600),
    ] {
        agent.line(line);
        let answer = agent.next();
        assert_eq!((code(&answer), &answer["id"]), (expected, &Value::Null), "{line:?}");
    }
    agent.line(b"");
    agent.line(b"  \r");
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/whatever" }));
    agent.send(&json!({ "jsonrpc": "2.0", "id": 9, "result": {} }));
    let mut agent = Agent::of(PROGRAM, Era::Old, agent);
    assert!(agent.address().starts_with("claude."));
}

#[test]
fn unknown_methods_before_the_handshake_are_refused_and_the_session_begins_all_the_same() {
    let world = World::new();
    let _hub = world.hub();
    let mut agent = Agent::new(&world, &["--no-start"], &[]);
    let answer = agent.ask("foo/bar", json!({}));
    assert_eq!(code(&answer), -32601, "{answer}");
    let meta = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let answer = agent.ask("foo/bar", meta);
    assert_eq!(code(&answer), -32601, "{answer}");
    let mut agent = Agent::of(PROGRAM, Era::Old, agent);
    assert!(agent.address().starts_with("claude."));
}

#[test]
fn a_line_without_measure_is_refused_by_its_id() {
    let world = World::new();
    let _hub = world.hub();
    let mut agent = Agent::ready(&world, Era::Old, &[]);
    let text = "x".repeat(TOO_LONG);
    let id = agent.begin("send_message", json!({ "to": "human", "message": text }));
    let answer = agent.answer(id);
    assert_eq!(code(&answer), -32600);
    assert!(answer["error"]["message"].as_str().expect("a text").contains("longer than"));
    // What only the hub finds too long is the hub's to refuse.
    let text = "x".repeat(TOO_LONG / 4);
    let id = agent.begin("send_message", json!({ "to": "human", "message": text }));
    let answer = agent.answer(id);
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(agent.address().starts_with("claude."));
}

#[test]
fn a_line_that_is_more_than_the_hub_takes_is_refused_in_the_hubs_words() {
    let world = World::new();
    let file = world.config("[server]\nrequest_bytes = 100000\n");
    let _hub = world.hub_with(&["--config", &file]);
    let mut agent = Agent::ready(&world, Era::Old, &[]);
    for size in [200_000, 4_000_000] {
        let text = "x".repeat(size);
        let id = agent.begin("send_message", json!({ "to": "human", "message": text }));
        let answer = agent.answer(id);
        assert_eq!(code(&answer), -32000, "{answer}");
    }
    assert!(agent.address().starts_with("claude."));
}

#[test]
fn an_answer_of_the_hub_that_is_no_message_becomes_one() {
    let world = World::new();
    let _hub = world.hub();
    let token = "0123456789abcdef0123456789abcdef";
    let mut agent = Agent::new(&world, &["--no-start"], &[("POSTHASTE_TOKEN", token)]);
    let answer = agent.initialize();
    assert_eq!(code(&answer), -32000, "{answer}");
    assert_eq!(answer["error"]["data"]["code"], "unauthorized");
    let told = answer["error"]["message"].as_str().expect("a text");
    assert!(told.contains("POSTHASTE_TOKEN"), "{told}");
    assert!(!told.contains(token), "{told}");
}
