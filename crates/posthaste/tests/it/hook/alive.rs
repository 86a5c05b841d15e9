//! A program that has called no tool yet: its hooks say who it is, and its bridge that it
//! lives.

use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};

use super::{claude, everybody, fire, said};
use crate::mcp_bridge::agent::{Agent, Era};
use crate::mcp_bridge::ear::{Ear, Heard, Reply};
use crate::world::{BINARY, Started, World, eventually};

const SESSION: [(&str, &str); 1] = [("CLAUDE_CODE_SESSION_ID", "s1")];

/// Each program's name for its hooks, and the one that it tells its tools.
const PROGRAMS: [(&str, &str); 3] =
    [("claude", "claude-code"), ("codex", "codex-mcp-client"), ("gemini", "gemini-cli-mcp-client")];

/// A bridge that has shaken hands.
fn bridge(world: &World, program: &str) -> Agent {
    Agent::of(program, Era::Old, Agent::new(world, &["--no-start"], &SESSION))
}

fn status(world: &World, address: &str) -> Value {
    let all = world.json(&["agents", "--all"]);
    let mut all = all["instances"].as_array().expect("a list").iter();
    all.find(|one| one["address"] == address).expect("it is known")["status"].clone()
}

#[test]
fn an_agent_that_only_used_hooks_is_alive_as_long_as_its_bridge_is() {
    for (client, program) in PROGRAMS {
        let world = World::new();
        let file = world.config("[limits]\naway_after = '500ms'\n");
        let _hub = world.hub_with(&["--config", &file]);
        let mut looking = bridge(&world, program);
        assert!(looking.ask("tools/list", json!({}))["result"]["tools"].is_array());
        assert!(everybody(&world).is_empty(), "{client}: it has only looked");
        said(&fire(&world, "session-start", client, &claude("s1", "SessionStart")));
        let [address] = &everybody(&world)[..] else { panic!("one agent") };
        // Whoever has no bridge, and joined later, is away.
        let bob = world.joined("bob");
        eventually(|| status(&world, &bob) == "away" && status(&world, address) == "running");
        looking.leave();
        eventually(|| status(&world, address) == "away");
    }
}

#[test]
fn an_agent_of_hooks_is_away_as_soon_as_its_bridge_has_ended() {
    for (client, program) in [PROGRAMS[0], PROGRAMS[2]] {
        let world = World::new();
        let file = world.config("[limits]\naway_after = '1h'\n");
        let _hub = world.hub_with(&["--config", &file]);
        said(&fire(&world, "session-start", client, &claude("s1", "SessionStart")));
        let [address] = &everybody(&world)[..] else { panic!("one agent") };
        eventually(|| {
            // A call may be answered before the stream is open.
            let mut calling = bridge(&world, program);
            assert_eq!(&calling.address(), address);
            calling.leave();
            status(&world, address) == "away"
        });
        // The program starts its bridge again: the stream alone says that it lives.
        let looking = bridge(&world, program);
        eventually(|| status(&world, address) == "running");
        looking.leave();
        eventually(|| status(&world, address) == "away");
    }
}

/// A user may give the same key to every program; one that lists its servers must not
/// seem to be a second reader.
#[test]
fn the_bridge_of_another_process_opens_no_stream_for_a_key_that_a_hook_used() {
    let world = World::new();
    let ear = Ear::new(|_| Reply::Usual);
    let key = [("POSTHASTE_KEY", "mine")];
    let mut hook = world.command(&["hook", "prompt", "--client", "gemini"]);
    hook.envs(ear.variables()).envs(key);
    assert_eq!(Started::new(hook).end().code, Some(0));
    let hook = ear.next(|heard| heard.what.contains("/v1/hooks/"));
    assert_eq!(hook.bearer(), "of mine");

    let setsid = ["--fork", "--wait", BINARY, "mcp", "--no-start"];
    let mut other = world.program("setsid", &setsid);
    other.env("PATH", "/usr/bin:/bin").envs(ear.variables()).envs(key);
    let _other = Agent::of("gemini-cli", Era::Old, Agent::started_by(other));
    let _same = ear.agent(&world, "gemini-cli", &key);
    // Both have looked once the second one has found it.
    let of_bridge = |heard: &Heard| heard.header("x-posthaste-bridge").to_owned();
    let first = of_bridge(&ear.next(|heard| heard.is("initialize")));
    let second = of_bridge(&ear.next(|heard| heard.is("initialize")));
    assert_ne!(first, second);
    let stream = ear.next(|heard| heard.what.starts_with("GET /mcp"));
    assert_eq!((of_bridge(&stream), stream.bearer()), (second, "of mine"));
}

#[test]
fn an_agent_that_joined_again_by_a_hook_gets_its_stream_again() {
    let world = World::new();
    let is_stream = |heard: &Heard| heard.what.starts_with("GET /mcp");
    let refused = AtomicBool::new(false);
    let ear = Ear::new(move |heard| match is_stream(heard) && !refused.swap(true, Relaxed) {
        true => Reply::Unauthorized,
        false => Reply::Usual,
    });
    let _bridge = ear.agent(&world, "claude-code", &SESSION);
    let fire = || {
        let mut hook = world.command(&["hook", "prompt", "--client", "claude"]);
        hook.envs(ear.variables()).envs(SESSION);
        assert_eq!(Started::new(hook).end().code, Some(0));
    };
    fire();
    ear.next(is_stream);
    let mut heard = Vec::new();
    eventually(|| {
        fire();
        heard.extend(ear.so_far());
        let joined = heard.iter().position(Heard::is_a_join);
        joined.is_some_and(|at| heard[at..].iter().any(is_stream))
    });
}

#[test]
fn a_new_thread_of_codex_in_the_same_process_gets_a_stream_of_its_own() {
    let world = World::new();
    let ear = Ear::new(|_| Reply::Usual);
    let _bridge = ear.agent(&world, "codex-mcp-client", &[]);
    for thread in ["t1", "t2"] {
        let mut hook = world.command(&["hook", "session-start", "--client", "codex"]);
        hook.envs(ear.variables()).stdin(Stdio::piped());
        let mut hook = Started::new(hook);
        hook.feed(claude(thread, "SessionStart").to_string().as_bytes());
        assert_eq!(hook.end().code, Some(0));
        let stream = ear.next(|heard| heard.what.starts_with("GET /mcp"));
        assert_eq!(stream.bearer(), format!("of {thread}"));
        assert_eq!(stream.header("x-posthaste-conversation"), thread);
    }
}
