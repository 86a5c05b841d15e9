//! Who a hook is: the agent of its conversation, the same as the bridge's.

use std::process::Stdio;

use serde_json::json;

use super::{claude, everybody, fire, log, said};
use crate::mcp_bridge::agent::{Agent, Era, read};
use crate::mcp_bridge::ear::{Ear, Reply};
use crate::world::{Started, World};

fn bridge(world: &World, program: &str, args: &[&str], variables: &[(&str, &str)]) -> Agent {
    let args = [&["--no-start"], args].concat();
    Agent::of(program, Era::Old, Agent::new(world, &args, variables))
}

#[test]
fn two_windows_are_two_agents_and_one_window_is_one() {
    let world = World::new();
    let _hub = world.hub();
    for client in ["claude", "codex"] {
        for session in ["s1", "s2", "s1"] {
            said(&fire(&world, "prompt", client, &claude(session, "UserPromptSubmit")));
        }
    }
    let here = everybody(&world);
    let of = |name: &str| here.iter().filter(|a| a.starts_with(name)).count();
    assert_eq!((of("claude."), of("codex."), here.len()), (2, 2, 4), "{here:?}");
}

#[test]
fn the_bridge_and_the_hooks_of_a_conversation_of_claude_are_one_agent() {
    let world = World::new();
    let _hub = world.hub();
    let session = [("CLAUDECODE", "1"), ("CLAUDE_CODE_SESSION_ID", "s1")];
    let mut bridge = bridge(&world, "claude-code", &[], &session);
    said(&fire(&world, "session-start", "claude", &claude("s1", "SessionStart")));
    assert_eq!(everybody(&world), [bridge.address()]);
}

#[test]
fn a_conversation_of_claude_that_was_cleared_stays_with_its_bridge() {
    let world = World::new();
    let _hub = world.hub();
    let elsewhere = World::new();
    let _another_hub = elsewhere.hub();
    let session = |id: &'static str| [("CLAUDECODE", "1"), ("CLAUDE_CODE_SESSION_ID", id)];
    let mut mine = bridge(&world, "claude-code", &[], &session("s1"));
    let _other = bridge(&elsewhere, "claude-code", &[], &session("s1"));
    let mut input = claude("s2", "SessionStart");
    input["source"] = json!("clear");
    said(&fire(&world, "session-start", "claude", &input));
    assert_eq!(everybody(&world), [mine.address()]);
    mine.leave();
    said(&fire(&world, "prompt", "claude", &claude("s2", "UserPromptSubmit")));
    assert_eq!(everybody(&world).len(), 2, "nothing is left of the old conversation");
}

#[test]
fn the_bridge_and_the_hooks_of_a_thread_of_codex_are_one_agent() {
    let world = World::new();
    let _hub = world.hub();
    said(&fire(&world, "session-start", "codex", &claude("t1", "SessionStart")));
    let mut bridge = bridge(&world, "codex-mcp-client", &[], &[]);
    let meta = json!({ "threadId": "t1" });
    let params = json!({ "name": "whoami", "arguments": {}, "_meta": meta });
    let me = read(&bridge.ask("tools/call", params));
    assert_eq!(everybody(&world), [me["address"].as_str().expect("an address")]);
}

#[test]
fn the_bridge_and_the_hooks_of_a_process_of_gemini_are_one_agent_also_behind_shells() {
    let world = World::new();
    let _hub = world.hub();
    let mut bridge = bridge(&world, "gemini-cli-mcp-client", &[], &[]);
    let address = bridge.address();
    // What it says of its session differs from start to start and is nobody's key.
    let input = json!({ "session_id": "g1" });
    said(&fire(&world, "prompt", "gemini", &input));
    // A second word keeps the shell from becoming the hook.
    let script = "\"$0\" hook prompt --client gemini; exit $?";
    let inner = ["-c", "sh -c \"$1\" \"$0\"; exit $?", crate::world::BINARY, script];
    let ran = Started::new(world.program("/bin/sh", &inner)).end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(everybody(&world), [address]);
    assert_eq!(log(&world), "");
}

#[test]
fn a_name_and_a_team_are_taken_as_the_bridge_takes_them() {
    let world = World::new();
    let _hub = world.hub();
    let who = ["--name", "mason", "--team", "avalon"];
    let session = [("CLAUDE_CODE_SESSION_ID", "s1")];
    let address = bridge(&world, "claude-code", &who, &session).address();
    let args = [&["hook", "tool", "--client", "claude"][..], &who].concat();
    let input = claude("s1", "PostToolUse").to_string();
    said(&world.pipe(&args, input.as_bytes()));
    assert_eq!(everybody(&world), [address.as_str()]);
    assert!(address.starts_with("mason.") && address.ends_with("@avalon"), "{address}");
    // A key of the user's own, too.
    let key = ["--key", "mine"];
    let address = bridge(&world, "claude-code", &key, &session).address();
    said(&world.pipe(&[&["hook", "tool", "--client", "claude"][..], &key].concat(), b"{}"));
    let here = everybody(&world);
    assert!(here.len() == 2 && here.contains(&address), "{here:?}");
}

#[test]
fn a_token_or_an_instance_that_was_given_is_who_the_hook_is() {
    let world = World::new();
    let _hub = world.hub();
    let alice = world.json(&["join", "alice"]);
    let token = alice["token"].as_str().expect("a token");
    let id = alice["instance"].as_str().expect("an id");
    for variable in
        [("POSTHASTE_TOKEN", token), ("POSTHASTE_INSTANCE", id), ("CAO_TERMINAL_ID", id)]
    {
        world.say(&["send", id, &format!("by {}", variable.0)]);
        let mut command = world.command(&["hook", "tool", "--client", "claude"]);
        command.envs([variable]);
        let told = said(&Started::new(command).end());
        assert!(told.to_string().contains(&format!("by {}", variable.0)), "{told}");
    }
    assert_eq!(everybody(&world).len(), 1);
}

#[test]
fn a_hook_names_its_conversation_exactly_as_the_bridge_of_its_program_does() {
    let long = "s".repeat(300);
    let (session, fixed) = (long.as_str(), ("POSTHASTE_TOKEN", "a-token-of-somebody"));
    let key = ("POSTHASTE_KEY", "mine");
    for (client, program, said, variables) in [
        ("claude", "claude-code", "s1", &[("CLAUDE_CODE_SESSION_ID", "s1")][..]),
        // Cleared: its tools keep the old name.
        ("claude", "claude-code", "s2", &[("CLAUDE_CODE_SESSION_ID", "s1")]),
        ("claude", "claude-code", session, &[("CLAUDE_CODE_SESSION_ID", session)]),
        ("claude", "claude-code", "s1", &[("CLAUDE_CODE_SESSION_ID", "s1"), fixed]),
        ("codex", "codex-mcp-client", "t1", &[]),
        ("codex", "codex-mcp-client", "t 1", &[]),
        ("codex", "codex-mcp-client", "t1", &[fixed]),
        ("codex", "codex-mcp-client", "t1", &[key]),
        ("gemini", "gemini-cli-mcp-client", "g1", &[]),
        ("qwen", "qwen-code", "q1", &[key]),
    ] {
        let world = World::new();
        let ear = Ear::new(|_| Reply::Usual);
        let mut bridge = ear.agent(&world, program, variables);
        let meta = json!({ "threadId": said });
        let params = json!({ "name": "whoami", "arguments": {}, "_meta": meta });
        bridge.ask("tools/call", params);
        let call = ear.next(|heard| heard.is("tools/call"));
        let of_bridge = call.header("x-posthaste-conversation");
        assert!(!of_bridge.is_empty(), "{call:?}");

        let mut hook = world.command(&["hook", "tool", "--client", client]);
        hook.envs(ear.variables()).envs(variables.iter().copied()).stdin(Stdio::piped());
        let mut hook = Started::new(hook);
        hook.feed(claude(said, "PostToolUse").to_string().as_bytes());
        hook.end();
        let asked = ear.next(|heard| heard.what.contains("/v1/hooks/"));
        assert_eq!(asked.body["conversation"], of_bridge, "{client} {said}");
    }
}
