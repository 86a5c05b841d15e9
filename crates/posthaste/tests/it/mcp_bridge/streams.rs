//! Answers that come piece by piece, and the line that stays open.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::agent::{Agent, BOTH, Era, LONG, is_waiting, read, texts};
use crate::world::{World, eventually};

/// A wait of which the hub tells every now and then.
fn wait_with_progress(agent: &mut Agent) -> u64 {
    let params = json!({
        "name": "check_inbox", "arguments": { "timeout": LONG },
        "_meta": { "progressToken": "p1" },
    });
    let waiting = agent.request("tools/call", params);
    let told = agent.next();
    assert_eq!(told["method"], "notifications/progress", "{told}");
    assert_eq!(told["params"]["progressToken"], "p1", "{told}");
    waiting
}

#[test]
fn progress_reaches_the_client_before_the_answer_does() {
    for era in BOTH {
        let world = World::new();
        let file = world.config("[mcp]\nprogress_every = '200ms'\n");
        let _hub = world.hub_with(&["--config", &file]);
        let mut agent = Agent::ready(&world, era, &[]);
        let address = agent.address();
        let waiting = wait_with_progress(&mut agent);
        world.say(&["send", &address, "at last"]);
        assert_eq!(texts(&read(&agent.answer(waiting))), ["at last"], "{era:?}");
        // It arrived whole: the hub has no reason to offer it again.
        assert_eq!(agent.inbox(), [""; 0], "{era:?}");
    }
}

#[test]
fn an_answer_that_was_cut_in_the_middle_is_asked_for_again() {
    for era in BOTH {
        let world = World::new();
        let file = world.config("[mcp]\nprogress_every = '200ms'\n");
        let hub = world.hub_with(&["--config", &file]);
        let mut agent = Agent::ready(&world, era, &[]);
        let address = agent.address();
        let waiting = wait_with_progress(&mut agent);
        hub.kill();
        let _hub = world.hub_with(&["--config", &file]);
        world.say(&["send", &address, "after all"]);
        assert_eq!(texts(&read(&agent.answer(waiting))), ["after all"], "{era:?}");
    }
}

#[test]
fn an_agent_is_alive_as_long_as_its_bridge_is() {
    for era in BOTH {
        let world = World::new();
        let file =
            world.config("[limits]\nlost_after = '2s'\nsweep = '100ms'\n[mcp]\nping = '100ms'\n");
        let _hub = world.hub_with(&["--config", &file]);
        let mut agent = Agent::ready(&world, era, &["--key", "k"]);
        let address = agent.address();
        // Whoever has no bridge, and joined later, is lost.
        let bob = world.joined("bob");
        eventually(|| status(&world, &bob) == "lost" && status(&world, &address) == "running");
        assert_eq!(agent.leave().code, Some(0));
        eventually(|| status(&world, &address) == "lost");
    }
}

#[test]
fn an_agent_is_away_as_soon_as_its_program_has_gone_and_its_mail_waits() {
    for era in BOTH {
        let world = World::new();
        let file = world.config("[limits]\naway_after = '1h'\n");
        let _hub = world.hub_with(&["--config", &file]);
        let mut agent = Agent::ready(&world, era, &["--key", "k"]);
        let address = agent.address();
        let name = address.split('.').next().expect("a name").to_owned();
        let before = world.json(&["send", &name, "one"]);
        assert_eq!(before["recipients"][0]["active"], 1, "{before}");
        assert_eq!(agent.inbox(), ["one"], "{era:?}");
        // In the middle of a wait, without a word.
        agent.begin("check_inbox", json!({ "timeout": LONG }));
        eventually(|| is_waiting(&world, &address));
        agent.process.signal(Signal::KILL);
        eventually(|| status(&world, &address) == "away");
        let shown = world.json(&["status"]);
        assert_eq!(shown["conversations"][0]["status"], "away", "{shown}");
        let after = world.json(&["send", &name, "two"]);
        assert_eq!(after["recipients"][0]["active"], 0, "{after}");
        let pruned = world.json(&["agents", "--prune"]);
        assert_eq!(pruned["forgotten"], json!([]), "it has mail");

        let mut agent = Agent::ready(&world, era, &["--key", "k"]);
        assert_eq!(agent.inbox().last().map(String::as_str), Some("two"), "{era:?}");
        assert_eq!(status(&world, &address), "running");
    }
}

#[test]
fn agents_that_are_gone_are_forgotten_when_the_operator_says_so() {
    let world = World::new();
    let file = world.config("[limits]\naway_after = '1h'\n");
    let _hub = world.hub_with(&["--config", &file]);
    let mut agent = Agent::ready(&world, Era::Old, &["--key", "k"]);
    let address = agent.address();
    assert_eq!(
        world.say(&["agents", "--prune"]),
        "nobody to forget: all are here, or have mail or open work\n"
    );
    assert_eq!(agent.leave().code, Some(0));
    eventually(|| status(&world, &address) == "away");
    let told = world.say(&["agents", "--prune"]);
    assert!(told.starts_with(&format!("forgot {address}, last seen ")), "{told}");
    world.run(&["send", &address, "hello?"]).failed(3, &address, "");
    assert_eq!(status(&world, &address), "stopped", "its history stays");
    world.run(&["agents", "--prune", "--tree"]).failed(2, "--tree", "");
}

#[test]
fn the_open_line_finds_the_next_hub() {
    let world = World::new();
    let file =
        world.config("[limits]\nlost_after = '2s'\nsweep = '100ms'\n[mcp]\nping = '100ms'\n");
    let hub = world.hub_with(&["--config", &file]);
    let mut agent = Agent::ready(&world, Era::New, &[]);
    let address = agent.address();
    hub.kill();
    let _hub = world.hub_with(&["--config", &file]);
    let bob = world.joined("bob");
    eventually(|| status(&world, &bob) == "lost" && status(&world, &address) == "running");
}

fn status(world: &World, address: &str) -> Value {
    let all = world.json(&["agents", "--all"]);
    let mut all = all["instances"].as_array().expect("a list").iter();
    all.find(|one| one["address"] == address).expect("it is known")["status"].clone()
}
