//! Who a program is that starts again, where its conversations have no name: whoever went
//! away in its folder.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::agent::{Agent, Era, everybody};
use crate::world::{BINARY, Started, World, mode};

const GEMINI: &str = "gemini-cli-mcp-client";

/// A program of its own: a process that starts the bridge in a folder, and ends with it.
fn program(world: &World, folder: &str, args: &[&str], variables: &[(&str, &str)]) -> Agent {
    let folder = place(world, folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let args = [&["--fork", "--wait", BINARY, "mcp", "--no-start"], args].concat();
    let mut command = world.program("setsid", &args);
    command.env("PATH", "/usr/bin:/bin").envs(variables.iter().copied()).current_dir(folder);
    Agent::of(GEMINI, Era::Old, Agent::started_by(command))
}

fn place(world: &World, folder: &str) -> PathBuf {
    world.scratch().join(folder)
}

fn gemini(world: &World, folder: &str) -> Agent {
    program(world, folder, &[], &[])
}

fn id(address: &str) -> &str {
    address.split(['.', '@']).nth(1).expect("an id")
}

#[test]
fn a_program_that_starts_again_in_its_folder_is_the_same_agent_and_has_its_mail() {
    let world = World::new();
    let _hub = world.hub();
    let mut first = gemini(&world, "a");
    let address = first.address();
    first.leave();
    world.say(&["send", id(&address), "while you were away"]);
    let mut again = gemini(&world, "a");
    assert_eq!(again.inbox(), ["while you were away"]);
    assert_eq!(again.address(), address);
    assert_ne!(gemini(&world, "b").address(), address, "another folder is another agent");
    assert_eq!(everybody(&world).len(), 2);
}

#[test]
fn a_killed_program_comes_back_as_itself_and_what_it_may_not_have_seen_comes_again() {
    let world = World::new();
    let _hub = world.hub();
    let mut first = gemini(&world, "a");
    let address = first.address();
    world.say(&["send", id(&address), "perhaps unseen"]);
    assert_eq!(first.inbox(), ["perhaps unseen"]);
    first.process.signal(Signal::KILL);
    first.leave();
    let mut again = gemini(&world, "a");
    let inbox = again.call("check_inbox", json!({ "timeout": 0 }));
    let mail = &inbox["messages"][0];
    let seen = (&mail["message"], &mail["redelivered"]);
    assert_eq!(seen, (&json!("perhaps unseen"), &json!(true)), "{inbox}");
    assert_eq!(again.address(), address);
}

#[test]
fn a_server_that_is_started_again_by_the_same_program_is_the_same_agent() {
    let world = World::new();
    let _hub = world.hub();
    let mut other = gemini(&world, "a");
    let other = other.address();
    // Started by the process of this test, several times, as some programs do.
    let starts: Vec<String> = (0..4)
        .map(|_| Agent::of(GEMINI, Era::Old, Agent::new(&world, &["--no-start"], &[])).address())
        .collect();
    assert!(starts.iter().all(|start| *start == starts[0] && *start != other), "{starts:?}");
    assert_eq!(everybody(&world).len(), 2);
}

#[test]
fn two_windows_in_one_folder_are_two_agents() {
    let world = World::new();
    let _hub = world.hub();
    let (mut first, mut second) = (gemini(&world, "a"), gemini(&world, "a"));
    let (one, two) = (first.address(), second.address());
    assert_ne!(one, two);
    second.leave();
    let mut again = gemini(&world, "a");
    assert_eq!(again.address(), two, "the first is still here");
    assert_eq!(first.address(), one);
}

#[test]
fn of_two_that_went_away_neither_is_taken_and_the_status_names_both() {
    let world = World::new();
    let _hub = world.hub();
    let (mut first, mut second) = (gemini(&world, "a"), gemini(&world, "a"));
    let (one, two) = (first.address(), second.address());
    first.leave();
    second.leave();
    let mut third = gemini(&world, "a");
    let three = third.address();
    assert!(three != one && three != two, "{three}");
    let told = world.say(&["status"]);
    assert!(told.contains(&format!("{one}, {two} went away in ")), "{told}");
    assert!(told.contains("is a new agent"), "{told}");
    let named = &world.json(&["status"])["several"][0];
    assert_eq!(named["agents"], json!([one, two]));
    assert!(named["folder"].as_str().expect("a folder").ends_with("/a"), "{named}");

    // Once only one of them is left, it is found again.
    world.say(&["stop", id(&one)]);
    let mut fourth = gemini(&world, "a");
    assert_eq!(fourth.address(), two);
    assert!(!world.say(&["status"]).contains("went away in"));
}

#[test]
fn a_program_may_say_that_it_is_new() {
    let world = World::new();
    let _hub = world.hub();
    let mut first = gemini(&world, "a");
    let address = first.address();
    first.leave();
    let mut flagged = program(&world, "a", &["--new"], &[]);
    let new = flagged.address();
    assert_ne!(new, address);
    assert_eq!(flagged.address(), new);
    assert_eq!(program(&world, "a", &[], &[("POSTHASTE_NEW", "0")]).address(), address);
    assert_ne!(program(&world, "a", &[], &[("POSTHASTE_NEW", "1")]).address(), address);
    let mut keyed = program(&world, "a", &["--key", "mine"], &[]);
    assert!(!keyed.address().contains(id(&address)));
}

#[test]
fn a_bridge_and_hooks_that_begin_at_the_same_time_are_one_agent() {
    let world = World::new();
    let _hub = world.hub();
    for (client, own) in [("gemini", GEMINI), ("claude", "claude-code")] {
        let session = [("CLAUDE_CODE_SESSION_ID", "s1")];
        let mut bridge = Agent::of(own, Era::Old, Agent::new(&world, &["--no-start"], &session));
        let hook = |_| {
            let mut command = world.command(&["hook", "prompt", "--client", client]);
            command.envs(session);
            Started::new(command)
        };
        let hooks: Vec<Started> = (0..4).map(hook).collect();
        let address = bridge.address();
        for hook in hooks {
            assert_eq!(hook.end().code, Some(0));
        }
        let here = everybody(&world);
        let of: Vec<_> = here.iter().filter(|a| a.starts_with(&format!("{client}."))).collect();
        assert_eq!(of, [&address], "{here:?}");
    }
    let folder = world.file("identities");
    assert_eq!(mode(&folder), 0o700);
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
    }
}

#[test]
fn an_agent_that_the_hub_has_forgotten_joins_again_as_a_hook_too() {
    let world = World::new();
    let _hub = world.hub();
    let fire = || world.run(&["hook", "prompt", "--client", "gemini"]);
    assert_eq!(fire().code, Some(0));
    let first = everybody(&world).remove(0);
    world.say(&["stop", id(&first)]);
    let ran = fire();
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let here = everybody(&world);
    assert!(here.len() == 1 && here[0] != first, "{here:?}");
    assert!(!world.file("hooks.log").exists(), "nothing went wrong");
}

#[test]
fn every_request_of_a_bridge_says_which_conversation_it_is_of() {
    let world = World::new();
    let ear = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", ear.local_addr().expect("bound"));
    let heard = |program: &str, variables: &[(&str, &str)]| -> String {
        let args = ["--hub", &url, "--token", "a-token-of-somebody"];
        let mut agent = Agent::new(&world, &args, variables);
        let params: Value = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": program, "version": "1" },
        });
        let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        agent.send(&line);
        let (line, _) = ear.accept().expect("it calls");
        let mut head = BufReader::new(line).lines().map_while(Result::ok);
        let header = head
            .find_map(|line| line.strip_prefix("x-posthaste-conversation: ").map(str::to_owned));
        header.expect("it says which")
    };
    let session = [("CLAUDE_CODE_SESSION_ID", "s1")];
    assert_eq!(heard("claude-code", &session), "s1");
    let process = heard("gemini-cli", &session);
    assert!(process.starts_with("process:"), "{process}");
    assert_eq!(heard("gemini-cli", &[]), process, "the same program");
}
