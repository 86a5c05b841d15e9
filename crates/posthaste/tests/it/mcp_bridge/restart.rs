//! The hub dies and comes back, elsewhere; the agent's calls go on.

use serde_json::json;

use super::agent::{Agent, BOTH, Era, LONG, is_waiting, read, texts};
use crate::world::{World, eventually};

/// Below what one agent may send to another in a minute.
const SENDS: usize = 50;

#[test]
fn a_wait_goes_on_when_the_hub_was_killed_and_came_back_on_another_port() {
    for era in BOTH {
        let world = World::new();
        let hub = world.hub();
        let mut agent = Agent::ready(&world, era, &[]);
        let address = agent.address();
        let waiting = agent.begin("check_inbox", json!({ "timeout": LONG }));
        eventually(|| is_waiting(&world, &address));
        let before = hub.url.clone();
        hub.kill();
        let hub = world.hub();
        assert_ne!(hub.url, before);
        world.say(&["send", &address, "nothing is lost"]);
        assert_eq!(texts(&read(&agent.answer(waiting))), ["nothing is lost"], "{era:?}");
        assert_eq!(agent.address(), address, "{era:?}");
    }
}

#[test]
fn a_call_that_is_made_while_there_is_no_hub_is_answered_by_the_next_one() {
    for era in BOTH {
        let world = World::new();
        let hub = world.hub();
        let mut agent = Agent::ready(&world, era, &[]);
        let address = agent.address();
        assert_eq!(hub.stop().code, Some(0));
        let asked = agent.begin("whoami", json!({}));
        let _hub = world.hub();
        assert_eq!(read(&agent.answer(asked))["address"], address, "{era:?}");
    }
}

#[test]
fn mail_that_was_in_the_hands_of_a_call_comes_again_after_a_kill() {
    let world = World::new();
    let hub = world.hub();
    let mut agent = Agent::ready(&world, Era::Old, &[]);
    let address = agent.address();
    world.say(&["send", &address, "first"]);
    assert_eq!(agent.inbox(), ["first"]);
    hub.kill();
    let _hub = world.hub();
    world.say(&["send", &address, "second"]);
    let inbox = agent.call("check_inbox", json!({ "timeout": 0 }));
    assert_eq!(texts(&inbox), ["first", "second"]);
    assert_eq!(inbox["messages"][0]["redelivered"], true, "{inbox}");
}

#[test]
fn an_agent_whom_the_next_hub_does_not_know_joins_again() {
    for era in BOTH {
        let world = World::new();
        let hub = world.hub_with(&["--ephemeral"]);
        let mut agent = Agent::ready(&world, era, &[]);
        let before = agent.address();
        hub.kill();
        let _hub = world.hub_with(&["--ephemeral"]);
        let after = agent.address();
        assert_ne!(after, before, "{era:?}");
        world.say(&["send", &after, "welcome back"]);
        assert_eq!(agent.inbox(), ["welcome back"], "{era:?}");
    }
}

#[test]
fn sends_in_flight_at_a_kill_are_answered_and_never_doubled() {
    for era in BOTH {
        let world = World::new();
        let hub = world.hub();
        let bob = world.joined("bob");
        let mut agent = Agent::ready(&world, era, &[]);
        let said: Vec<String> = (0..SENDS).map(|n| format!("message {n}")).collect();
        let sends: Vec<u64> = said
            .iter()
            .map(|text| agent.begin("send_message", json!({ "to": bob, "message": text })))
            .collect();
        // Some are accepted, the others are anywhere on their way.
        read(&agent.answer(sends[0]));
        hub.kill();
        let _hub = world.hub();
        for id in &sends[1..] {
            read(&agent.answer(*id));
        }
        let kept = world.say(&["export", "--json"]);
        let mut kept: Vec<String> = kept
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
            .map(|line| line["message"].as_str().expect("a text").to_owned())
            .collect();
        kept.sort();
        let mut expected = said.clone();
        expected.sort();
        assert_eq!(kept, expected, "{era:?}");
    }
}
