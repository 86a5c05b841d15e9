//! Mail through the bridge, and what stays when the bridge goes.

use serde_json::json;

use super::agent::{Agent, BOTH, Era, everybody, is_waiting, read, texts};
use crate::world::{World, eventually};

#[test]
fn mail_that_is_sent_while_an_agent_waits_arrives_in_that_call() {
    for era in BOTH {
        let world = World::new();
        let _hub = world.hub();
        let mut agent = Agent::ready(&world, era, &[]);
        let (address, waiting) = agent.waits(&world);
        // A second call is answered while the first waits.
        assert_eq!(agent.address(), address);
        assert!(!agent.has_answer(waiting));
        world.say(&["send", &address, "the build is red"]);
        let inbox = read(&agent.answer(waiting));
        assert_eq!(texts(&inbox), ["the build is red"], "{era:?}");
        assert_eq!(inbox["messages"][0]["from"], "human", "{era:?}");
    }
}

#[test]
fn two_agents_write_to_each_other() {
    let world = World::new();
    let _hub = world.hub();
    let mut alice = Agent::ready(&world, Era::Old, &["--name", "alice", "--key", "1"]);
    let mut bob = Agent::ready(&world, Era::New, &["--name", "bob", "--key", "2"]);
    let to = bob.address();
    alice.call("send_message", json!({ "to": to, "message": "ready? ✓" }));
    assert_eq!(bob.inbox(), ["ready? ✓"]);
}

#[test]
fn a_client_that_begins_again_may_count_from_the_start() {
    let world = World::new();
    let _hub = world.hub();
    let mut bob = Agent::ready(&world, Era::New, &["--name", "bob", "--key", "2"]);
    let to = bob.address();
    let mut alice = Agent::ready(&world, Era::Old, &["--name", "alice", "--key", "1"]);
    for text in ["ping", "pong"] {
        let sent = alice.call("send_message", json!({ "to": to, "message": text }));
        assert!(sent["duplicate"].is_null(), "{sent}");
        alice.begins_again();
    }
    let sent = alice.call("send_message", json!({ "to": to, "message": "ping" }));
    assert!(sent["duplicate"].is_null(), "{sent}");
    assert_eq!(bob.inbox(), ["ping", "pong", "ping"]);
}

#[test]
fn a_closed_stdin_ends_the_bridge_and_not_the_agent() {
    let world = World::new();
    let _hub = world.hub();
    let mut agent = Agent::ready(&world, Era::Old, &["--key", "k"]);
    let (address, _) = agent.waits(&world);
    let ran = agent.leave();
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    eventually(|| !is_waiting(&world, &address));
    assert_eq!(everybody(&world), [address.as_str()]);

    world.say(&["send", &address, "while you were away"]);
    let mut again = Agent::ready(&world, Era::New, &["--key", "k"]);
    assert_eq!(again.inbox(), ["while you were away"]);
    assert_eq!(everybody(&world), [address]);
}

#[test]
fn a_bridge_that_is_killed_after_it_was_handed_mail_loses_none() {
    let world = World::new();
    let _hub = world.hub();
    let mut agent = Agent::ready(&world, Era::Old, &["--key", "k"]);
    let address = agent.address();
    world.say(&["send", &address, "precious"]);
    assert_eq!(agent.inbox(), ["precious"]);
    drop(agent);
    // Another process of the same reader: what the last one had is in doubt.
    let mut again = Agent::ready(&world, Era::Old, &["--key", "k"]);
    let inbox = again.call("check_inbox", json!({ "timeout": 0 }));
    assert_eq!(texts(&inbox), ["precious"]);
    assert_eq!(inbox["messages"][0]["redelivered"], true, "{inbox}");
}
