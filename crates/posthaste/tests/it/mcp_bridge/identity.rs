//! Who an agent is: by token, by instance, or by the key that it joins with.

use posthaste_api::Client;
use serde_json::json;

use super::agent::{Agent, BOTH, Era, PROGRAM, everybody};
use super::ear::{Ear, Reply};
use crate::world::{Hub, World, eventually};

fn agent(world: &World, program: &str, args: &[&str], variables: &[(&str, &str)]) -> Agent {
    let args = [&["--no-start"], args].concat();
    Agent::of(program, Era::Old, Agent::new(world, &args, variables))
}

fn operator(world: &World, hub: &Hub) -> Client {
    let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
    Client::new(&hub.url).expect("an address").with_token(token.trim())
}

#[test]
fn the_same_key_is_the_same_agent_and_another_key_is_another() {
    let world = World::new();
    let _hub = world.hub();
    let mut first = Agent::ready(&world, Era::Old, &["--key", "a"]);
    let mut same = Agent::ready(&world, Era::New, &["--key", "a"]);
    let mut other = Agent::ready(&world, Era::Old, &["--key", "b"]);
    let address = first.address();
    assert_eq!(same.address(), address);
    assert_ne!(other.address(), address);
    assert_eq!(everybody(&world).len(), 2);
}

#[test]
fn without_a_key_an_agent_is_its_program_that_runs() {
    let world = World::new();
    let _hub = world.hub();
    let first = agent(&world, "qwen-code", &["--team", "avalon"], &[]).address();
    assert!(first.starts_with("qwen.") && first.ends_with("@avalon"), "{first}");
    // Started again by the same process.
    assert_eq!(agent(&world, "qwen-code", &["--team", "avalon"], &[]).address(), first);
}

#[test]
fn claude_is_known_by_its_session() {
    let world = World::new();
    let _hub = world.hub();
    let session = |id: &'static str| [("CLAUDECODE", "1"), ("CLAUDE_CODE_SESSION_ID", id)];
    let first = agent(&world, "claude-code", &[], &session("s1")).address();
    assert!(first.starts_with("claude."), "{first}");
    assert_eq!(agent(&world, "claude-code", &[], &session("s1")).address(), first);
    assert_ne!(agent(&world, "claude-code", &[], &session("s2")).address(), first);
    // An agent of another make, started from there, is not the same agent.
    let nested = agent(&world, "gemini-cli-mcp-client", &[], &session("s1")).address();
    assert!(nested.starts_with("gemini."), "{nested}");
}

#[test]
fn a_program_that_only_looks_at_the_tools_leaves_nobody_behind() {
    let world = World::new();
    let _hub = world.hub();
    for era in BOTH {
        let mut looking = Agent::ready(&world, era, &["--key", "k"]);
        if era == Era::New {
            looking.ask("server/discover", json!({}));
        }
        assert!(looking.ask("tools/list", json!({}))["result"]["tools"].is_array());
        looking.leave();
        assert!(everybody(&world).is_empty(), "{era:?}");
    }
    assert!(!world.file("identities").exists(), "nor a secret");
    let mut acting = Agent::ready(&world, Era::Old, &["--key", "k"]);
    assert_eq!(everybody(&world).len(), 0);
    assert_eq!(acting.address(), everybody(&world)[0]);
}

#[test]
fn mail_to_a_name_that_waited_reaches_an_agent_at_its_first_act() {
    let world = World::new();
    let _hub = world.hub();
    agent(&world, "gemini-cli-mcp-client", &["--key", "earlier"], &[]).address();
    let mut gemini = agent(&world, "gemini-cli-mcp-client", &["--key", "k"], &[]);
    let earlier = &everybody(&world)[0];
    world.say(&["stop", earlier]);
    world.say(&["send", "gemini", "first"]);
    assert_eq!(gemini.inbox(), ["first"]);
}

#[test]
fn a_thief_with_the_join_token_does_not_become_the_agent_whose_key_it_guesses() {
    let world = World::new();
    let hub = world.hub();
    let alice = world.joined("alice");
    world.say(&["send", &alice, "for alice alone"]);
    // It stays: who has gone may be succeeded by a new agent with the same key.
    let mut owner = agent(&world, "claude-code", &["--key", "s1"], &[]);
    let mine = owner.address();
    let join = std::fs::read_to_string(world.file("join.token")).expect("a token");
    // It has the join token, and nothing of what lies in the folder of the others.
    let thief = World::new();
    let hub = ["--hub", hub.url.as_str()];
    let ran = thief.run(&[&["join", "alice", "--token", join.trim()][..], &hub].concat());
    ran.failed(4, "its secret is a different one", "another key");
    let variables = [("POSTHASTE_JOIN_TOKEN", join.trim())];
    let args = [&["--key", "s1", "--name", "claude"][..], &hub].concat();
    let mut bridge = agent(&thief, "claude-code", &args, &variables);
    let refused = bridge.ask("tools/call", json!({ "name": "whoami", "arguments": {} }));
    assert!(refused.to_string().contains("its secret is a different one"), "{refused}");
    let mut here = everybody(&world);
    here.sort();
    assert_eq!(here, [alice.as_str(), mine.as_str()]);
    assert_eq!(world.json(&["inbox", "--as", "alice", "--timeout", "0"])["total"], 1);
    assert_eq!(world.joined("alice"), alice, "its owner joins again");
    owner.leave();
}

#[test]
fn a_thief_gets_nothing_of_an_agent_that_went_away_or_was_stopped() {
    let world = World::new();
    let hub = world.hub();
    let mut owner = agent(&world, "claude-code", &["--key", "s1"], &[]);
    let mine = owner.address();
    owner.leave();
    let is_away = || {
        let agents = world.json(&["agents"]);
        agents["instances"][0]["status"] == "away"
    };
    eventually(is_away);
    world.say(&["send", &mine, "for the owner alone"]);
    let join = std::fs::read_to_string(world.file("join.token")).expect("a token");
    let variables = [("POSTHASTE_JOIN_TOKEN", join.trim())];
    let args = ["--key", "s1", "--name", "claude", "--hub", hub.url.as_str()];
    let thief = || {
        let folder = World::new();
        let mut bridge = agent(&folder, "claude-code", &args, &variables);
        let inbox = bridge.inbox();
        let read = bridge.call("read_messages", json!({}));
        let address = bridge.address();
        bridge.leave();
        (address, inbox, read.to_string())
    };
    let (address, inbox, read) = thief();
    assert_ne!(address, mine, "another agent of that name");
    assert!(inbox.is_empty() && !read.contains("for the owner alone"), "{read}");

    let mut owner = agent(&world, "claude-code", &["--key", "s1"], &[]);
    assert_eq!(owner.inbox(), ["for the owner alone"]);
    assert_eq!(owner.address(), mine);
    owner.leave();
    world.say(&["stop", &mine]);
    let (address, inbox, read) = thief();
    assert_ne!(address, mine);
    assert!(inbox.is_empty() && !read.contains("for the owner alone"), "{read}");
}

#[test]
fn codex_is_nobody_until_it_calls_and_then_one_agent_for_each_thread() {
    let world = World::new();
    let _hub = world.hub();
    let mut codex = agent(&world, "codex-mcp-client", &[], &[]);
    assert!(codex.ask("tools/list", json!({}))["result"]["tools"].is_array());
    assert!(everybody(&world).is_empty());
    let mut whoami = |thread: &str| {
        let meta = json!({ "threadId": thread });
        let params = json!({ "name": "whoami", "arguments": {}, "_meta": meta });
        let answer = codex.ask("tools/call", params);
        super::agent::read(&answer)["address"].as_str().expect("an address").to_owned()
    };
    let (first, second) = (whoami("t1"), whoami("t2"));
    assert!(first.starts_with("codex.") && first != second, "{first} {second}");
    assert_eq!(whoami("t1"), first);
    assert_eq!(everybody(&world).len(), 2);
}

#[test]
fn a_thread_of_codex_whose_token_is_refused_joins_again_only_with_a_call_of_its_own() {
    let world = World::new();
    let ear = Ear::new(|heard| match heard.is("tools/list") && heard.bearer() == "of t1" {
        true => Reply::Unauthorized,
        false => Reply::Usual,
    });
    let mut codex = ear.agent(&world, "codex-mcp-client", &[]);
    let id = codex.begin_in("t1", "whoami");
    codex.answer(id);
    let answer = codex.ask("tools/list", json!({}));
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    let id = codex.begin_in("t1", "whoami");
    codex.answer(id);
    codex.leave();
    let heard = ear.so_far();
    let keys: Vec<_> = heard.iter().filter(|h| h.is_a_join()).map(|h| &h.body["key"]).collect();
    assert_eq!(keys, ["t1", "t1"], "nobody but the thread has joined");
    let lists: Vec<_> = heard.iter().filter(|h| h.is("tools/list")).collect();
    assert!(lists.len() == 2 && lists[1].is_of_a_stranger(), "{lists:?}");
    let last = heard.iter().rfind(|h| h.is("tools/call")).expect("a call");
    assert_eq!(last.bearer(), "of t1");
}

#[test]
fn a_token_or_an_instance_that_was_given_is_who_the_agent_is() {
    let world = World::new();
    let _hub = world.hub();
    let alice = world.json(&["join", "alice"]);
    let token = alice["token"].as_str().expect("a token");
    let id = alice["instance"].as_str().expect("an id");
    let address = alice["address"].as_str().expect("an address");
    for (args, variable) in [
        (&[][..], ("POSTHASTE_TOKEN", token)),
        (&[], ("POSTHASTE_INSTANCE", id)),
        (&[], ("CAO_TERMINAL_ID", id)),
        (&["--as", "alice"], ("TERM", "dumb")),
    ] {
        assert_eq!(agent(&world, "claude-code", args, &[variable]).address(), address);
    }
    assert_eq!(everybody(&world), [address]);
    let ran = world.run(&["mcp", "--instance", "nonsense"]);
    ran.failed(2, "nonsense", "posthaste agents");
}

#[tokio::test]
async fn an_agent_whose_instance_was_ended_joins_again_with_its_next_call() {
    for era in BOTH {
        let world = World::new();
        let hub = world.hub();
        let mut agent = Agent::ready(&world, era, &["--key", "k"]);
        let first = agent.address();
        let id = first.split(['.', '@']).nth(1).expect("an id");
        operator(&world, &hub).leave(id).await.expect("ended");
        let second = agent.address();
        assert_ne!(second, first, "{era:?}");
        assert_eq!(everybody(&world), [second.as_str()], "{era:?}");
        assert_eq!(agent.address(), second, "{era:?}");
    }
}

#[test]
fn a_program_of_cao_without_a_terminal_is_told_so_by_every_tool() {
    let world = World::new();
    let _hub = world.hub();
    for era in BOTH {
        let mut agent = Agent::ready(&world, era, &["--dialect", "cao"]);
        assert!(agent.ask("tools/list", json!({}))["result"]["tools"].is_array());
        let id = agent.begin("check_inbox", json!({ "timeout": 0 }));
        let answer = agent.answer(id);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().expect("a text");
        let told: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(told["success"], false);
        assert!(told["error"].as_str().expect("a text").contains("CAO_TERMINAL_ID"), "{told}");
    }
    assert!(everybody(&world).is_empty());
}

#[test]
fn a_program_of_cao_reads_the_inbox_of_its_terminal() {
    let world = World::new();
    let _hub = world.hub();
    let alice = world.json(&["join", "alice"]);
    let id = alice["instance"].as_str().expect("an id");
    world.say(&["send", "alice", "from the shell"]);
    let mut agent = agent(&world, PROGRAM, &["--dialect", "cao"], &[("CAO_TERMINAL_ID", id)]);
    let inbox = agent.call("check_inbox", json!({ "timeout": 0 }));
    assert_eq!((&inbox["success"], &inbox["terminal_id"]), (&json!(true), &json!(id)), "{inbox}");
    assert_eq!(inbox["messages"][0]["message"], "from the shell");
}

#[test]
fn a_join_token_may_be_given() {
    let world = World::new();
    let hub = world.hub();
    let token = std::fs::read_to_string(world.file("join.token")).expect("a token");
    // Another machine's folder, which knows nothing of the hub.
    let elsewhere = World::new();
    let variables = [("POSTHASTE_HUB", hub.url.as_str()), ("POSTHASTE_JOIN_TOKEN", token.trim())];
    let address = agent(&elsewhere, PROGRAM, &[], &variables).address();
    assert_eq!(everybody(&world), [address]);
}
