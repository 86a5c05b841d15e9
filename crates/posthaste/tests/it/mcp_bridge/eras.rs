//! The same agent in both eras of the protocol.

use serde_json::json;

use super::agent::{Agent, BOTH, Era, PROGRAM, everybody};
use crate::world::World;

#[test]
fn an_agent_of_either_era_lists_its_tools_and_knows_who_it_is() {
    for era in BOTH {
        let world = World::new();
        let _hub = world.hub();
        let mut agent = Agent::ready(&world, era, &["--name", "reviewer"]);
        let tools = agent.ask("tools/list", json!({}));
        let tools = tools["result"]["tools"].as_array().expect("a list").clone();
        assert!(tools.iter().any(|tool| tool["name"] == "check_inbox"), "{era:?}: {tools:?}");
        let address = agent.address();
        assert!(address.starts_with("reviewer."), "{era:?}: {address}");
        assert_eq!(everybody(&world), [address], "{era:?}");
    }
}

#[test]
fn a_probe_of_the_new_era_may_be_followed_by_a_handshake_of_the_old() {
    let world = World::new();
    let _hub = world.hub();
    let mut agent = Agent::ready(&world, Era::New, &[]);
    let discovered = agent.ask("server/discover", json!({}));
    assert!(discovered["result"].is_object(), "{discovered}");
    let mut agent = Agent::of(PROGRAM, Era::Old, agent);
    let first = agent.address();
    assert_eq!(everybody(&world), [first]);
}

#[test]
fn a_name_that_no_header_can_hold_is_refused_by_the_hub_and_not_by_the_bridge() {
    let world = World::new();
    let _hub = world.hub();
    for era in BOTH {
        let mut agent = Agent::ready(&world, era, &[]);
        let id = agent.begin("größe\n", json!({}));
        let answer = agent.answer(id);
        assert_eq!(answer["error"]["code"], -32602, "{era:?}: {answer}");
    }
}

#[test]
fn a_dialect_has_its_own_tools() {
    let world = World::new();
    let _hub = world.hub();
    for (dialect, tool) in [("herd", "herd_send"), ("chat", "askUser"), ("cao", "check_inbox")] {
        let mut agent = Agent::ready(&world, Era::Old, &["--dialect", dialect]);
        let tools = agent.ask("tools/list", json!({}));
        let tools = tools["result"]["tools"].as_array().expect("a list").clone();
        assert!(tools.iter().any(|one| one["name"] == tool), "{dialect}: {tools:?}");
    }
    let ran = world.run(&["mcp", "--dialect", "klingon"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
