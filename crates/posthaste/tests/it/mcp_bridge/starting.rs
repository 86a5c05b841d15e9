//! No hub runs: the bridge starts one, once, and it outlives the bridge.

use rustix::process::{Pid, Signal, getpgid, kill_process};
use serde_json::Value;

use super::agent::{Agent, Era, PROGRAM, everybody, read};
use crate::world::{World, mode};

/// Any free port instead of the usual one.
const ANYWHERE: (&str, &str) = ("POSTHASTE_SERVER__LISTEN", "127.0.0.1:0");

/// A folder whose hub a bridge starts. Nobody else ends it.
struct Stray(World);

impl Stray {
    fn new() -> Self {
        Self(World::new())
    }

    /// The process of the hub, as it says itself.
    fn pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.0.file("hub.json")).ok()?;
        let said: Value = serde_json::from_str(&text).expect("JSON");
        said["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?))
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn a_bridge_without_a_hub_starts_one_that_stays() {
    let stray = Stray::new();
    let world = &stray.0;
    let agent = Agent::new(world, &["--key", "k"], &[ANYWHERE]);
    let mut agent = Agent::of(PROGRAM, Era::Old, agent);
    let hub = stray.pid().expect("it runs");
    let address = agent.address();
    let bridge = i32::try_from(agent.process.pid()).ok().and_then(Pid::from_raw);
    let groups = (getpgid(Some(hub)).expect("it runs"), getpgid(bridge).expect("it runs"));
    assert_ne!(groups.0, groups.1, "whoever ends the agent's processes does not end the hub");
    let told = std::fs::read_to_string(format!("/proc/{}/stat", hub.as_raw_nonzero()));
    if let Ok(stat) = told {
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        assert_ne!(parent, Some(agent.process.pid().to_string().as_str()), "{stat}");
    }
    assert_eq!(mode(&world.file("hub.log")), 0o600);

    assert_eq!(agent.leave().code, Some(0));
    assert_eq!(everybody(world), [address.as_str()]);
    // The next one finds it.
    let agent = Agent::new(world, &["--key", "k"], &[ANYWHERE]);
    assert_eq!(Agent::of(PROGRAM, Era::New, agent).address(), address);
    assert_eq!(stray.pid(), Some(hub));
}

#[test]
fn two_bridges_that_start_at_once_have_one_hub() {
    let stray = Stray::new();
    let world = &stray.0;
    let mut agents = ["a", "b", "c"].map(|key| Agent::new(world, &["--key", key], &[ANYWHERE]));
    let asked = agents.each_mut().map(|agent| {
        agent.request(
            "initialize",
            serde_json::json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            }),
        )
    });
    for (agent, id) in agents.iter_mut().zip(asked) {
        let answer = agent.answer(id);
        assert!(answer["result"].is_object(), "{answer}");
    }
    let mut addresses = agents.map(|mut agent| agent.address()).to_vec();
    addresses.sort();
    let mut all = everybody(world);
    all.sort();
    assert_eq!(all, addresses);
}

#[test]
fn a_hub_that_died_is_started_again_by_whoever_misses_it() {
    let stray = Stray::new();
    let mut agent = Agent::of(PROGRAM, Era::Old, Agent::new(&stray.0, &[], &[ANYWHERE]));
    let address = agent.address();
    let first = stray.pid().expect("it runs");
    kill_process(first, Signal::KILL).expect("it runs");
    assert_eq!(agent.address(), address);
    assert_ne!(stray.pid(), Some(first));
}

#[test]
fn a_hub_that_cannot_start_says_why() {
    let stray = Stray::new();
    let wrong = ("POSTHASTE_LIMITS__SWEEP", "soon");
    let mut agent = Agent::new(&stray.0, &[], &[ANYWHERE, wrong]);
    let answer = agent.initialize();
    let told = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("an error: {answer}"));
    assert!(told.contains("limits.sweep") && told.contains("hub.log"), "{told}");
    assert_eq!(agent.leave().code, Some(0));
}

#[test]
fn a_bridge_whose_port_the_hub_of_another_folder_has_starts_its_own_on_another() {
    let (world, stray) = (World::new(), Stray::new());
    let other = world.hub();
    let listen = format!("127.0.0.1:{}", other.port());
    let taken = ("POSTHASTE_SERVER__LISTEN", listen.as_str());
    let agent = Agent::new(&stray.0, &[], &[taken]);
    let mut agent = Agent::of(PROGRAM, Era::Old, agent);
    let address = agent.address();
    assert_eq!(everybody(&stray.0), [address.as_str()]);
    assert!(everybody(&world).is_empty(), "that hub is somebody else's");
}

#[test]
fn a_hub_that_was_stopped_in_order_is_not_started_behind_its_operators_back() {
    let world = World::new();
    let hub = world.hub();
    let mut agent = Agent::of(PROGRAM, Era::Old, Agent::new(&world, &[], &[ANYWHERE]));
    let address = agent.address();
    assert_eq!(hub.stop().code, Some(0));
    let asked = agent.begin("whoami", serde_json::json!({}));
    // Could not start if another one had the folder.
    let _hub = world.hub();
    assert_eq!(read(&agent.answer(asked))["address"], address);
    assert!(!world.file("hub.log").exists());
}

#[test]
fn a_bridge_that_may_not_start_one_waits_for_a_hub() {
    let world = World::new();
    let variables = [("POSTHASTE_HUB", "http://127.0.0.1:1")];
    let mut lost = Agent::new(&world, &[], &variables);
    lost.request("ping", serde_json::json!({}));
    let mut agent = Agent::new(&world, &["--no-start"], &[]);
    let asked = agent.request("ping", serde_json::json!({}));
    assert!(!world.data().exists());
    let _hub = world.hub();
    let answer = agent.answer(asked);
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(lost.leave().code, Some(0));
    assert!(!world.file("hub.log").exists());
}
