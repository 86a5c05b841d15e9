//! Giving out work through the real doors: the binary, its workers as processes,
//! the bridge, and hubs that are killed.

use std::fs;

use serde_json::{Value, json};

use crate::mcp_bridge::agent::{Agent, Era, LONG, read};
use crate::world::{Started, World, eventually};

/// A profile that runs this text in a shell.
fn profile(world: &World, name: &str, script: &str) {
    let folder = world.file("profiles");
    fs::create_dir_all(&folder).expect("a folder");
    let script = Value::from(script);
    let text = format!("---\nname: {name}\ndriver: command\ncommand: {script}\n---\n");
    fs::write(folder.join(format!("{name}.md")), text).expect("written");
}

fn fifty_at_a_time(world: &World) -> String {
    world.config("[agents]\nrunning = 50\n")
}

#[test]
fn the_demo_ends_as_it_says() {
    let world = World::new();
    let ran = world.run(&["demo", "--pace", "500ms"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.trim_end().ends_with("5 of 5 settled, 1 failed, 0 lost"), "{ran:?}");
    for happened in ["is killed (process", "killed with -9", "answers: complete", "(KILL)"] {
        assert!(ran.out.contains(happened), "{happened}: {ran:?}");
    }
    assert!(!world.data().exists(), "the user's own folder is none of its business");
}

#[test]
fn fifty_workers_are_gathered_by_one_call_over_rest() {
    let world = World::new();
    profile(&world, "adder", "read a b; echo $((a + b))");
    let _hub = world.hub_with(&["--config", &fifty_at_a_time(&world)]);
    world.joined("boss");
    for n in 0..50 {
        let (task, label) = (format!("{n} {n}\n"), format!("sum {n}"));
        world.say(&["assign", "adder", &task, "--label", &label, "--as", "boss"]);
    }
    let gathered = world.json(&["inbox", "--as", "boss", "--wait-for", "all", "--timeout", "60"]);
    assert_eq!(gathered["status"], "complete", "{gathered}");
    let messages = gathered["messages"].as_array().expect("a list");
    assert_eq!(messages.len(), 50);
    for message in messages {
        let label = message["label"].as_str().and_then(|l| l.strip_prefix("sum "));
        let n: usize = label.expect("a label").parse().expect("a number");
        assert_eq!(message["message"], (n + n).to_string());
    }
}

#[test]
fn fifty_workers_are_gathered_by_one_call_over_mcp() {
    let world = World::new();
    profile(&world, "adder", "read a b; [ $a -ne 7 ] || exit 7; echo $((a + b))");
    let _hub = world.hub_with(&["--config", &fifty_at_a_time(&world)]);
    let mut boss = Agent::ready(&world, Era::Old, &["--name", "boss"]);
    let mut messages: Vec<Value> = Vec::new();
    for n in 0..50 {
        let task =
            json!({ "agent": "adder", "message": format!("{n} 1\n"), "label": n.to_string() });
        let id = boss.begin("assign", task);
        let answer = boss.answer(id);
        assert!(read(&answer)["instance"].is_string(), "{answer}");
        let along = answer["result"]["content"][1]["text"].as_str().unwrap_or("{}");
        let along: Value = serde_json::from_str(along).expect("JSON");
        messages.extend(along["_pending_messages"].as_array().cloned().unwrap_or_default());
    }
    let ask = json!({ "timeout": LONG, "wait_for": "all" });
    let gathered = boss.call("check_inbox", ask);
    assert_eq!(gathered["status"], "complete", "{gathered}");
    // What was quick came along with the answers to later assigns.
    let here = gathered["messages"].as_array().expect("a list");
    messages.extend(here.iter().cloned());
    assert_eq!(messages.len(), 50);
    let failed: Vec<_> = messages.iter().filter(|m| m["type"] == "system.agent_failed").collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0]["label"], "7");
    assert!(failed[0]["message"].as_str().expect("text").contains("exit code 7"), "{failed:?}");
}

#[test]
fn parents_that_wait_for_their_children_do_not_block_them() {
    let world = World::new();
    // One place for all of them: only a parent that waits makes room.
    let script = "n=$(cat); if [ \"$n\" -gt 0 ]; then below=$(\"$POSTHASTE\" handoff node $((n - 1))); fi; echo \"$n $below\"";
    profile(&world, "node", script);
    let _hub = world.hub_with(&["--config", &world.config("[agents]\nrunning = 1\n")]);
    let answer = world.say(&["handoff", "node", "3"]);
    assert_eq!(answer.trim(), "3 2 1 0");
}

#[test]
fn a_gather_over_the_bridge_outlives_the_hub() {
    let world = World::new();
    profile(
        &world,
        "slow",
        "gate=$(cat); until [ -e \"$gate\" ]; do sleep 0.1; done; echo went on",
    );
    let hub = world.hub();
    let (gate, port) = (world.scratch().join("gate"), hub.port().to_owned());
    let mut boss = Agent::ready(&world, Era::New, &["--name", "boss"]);
    let task = json!({ "agent": "slow", "message": gate.to_str().expect("a plain path") });
    let worker = boss.call("assign", task)["instance"].as_str().expect("an id").to_owned();
    eventually(|| world.file("agents").join(&worker).join("started").exists());
    let call = boss.begin("check_inbox", json!({ "timeout": LONG, "wait_for": "all" }));
    hub.kill();
    let _hub = world.hub_with(&["--listen", &format!("127.0.0.1:{port}")]);
    fs::write(&gate, "").expect("written");
    let gathered = read(&boss.answer(call));
    assert_eq!(gathered["messages"][0]["message"], "went on", "{gathered}");
    assert_eq!(gathered["status"], "complete");
}

#[test]
fn the_lines_of_the_readme_about_work() {
    let world = World::new();
    let profiles = world.file("profiles");
    fs::create_dir_all(&profiles).expect("a folder");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/profiles");
    fs::copy(format!("{examples}/word-counter.md"), profiles.join("word-counter.md"))
        .expect("an example");
    let mut hub = world.command(&["up", "--listen", "127.0.0.1:0"]);
    hub.env("PATH", "/usr/bin:/bin");
    let mut hub = Started::new(hub);
    while hub.line().is_some_and(|line| !line.starts_with("Ctrl-C")) {}
    let answer = world.say(&["handoff", "word-counter", "three little words"]);
    assert_eq!(answer.trim(), "3");
    world.say(&["assign", "word-counter", "one two", "--label", "a"]);
    world.say(&["assign", "word-counter", "one", "--label", "b"]);
    let mail = world.say(&["inbox", "--wait-for", "all"]);
    assert_eq!(mail.lines().count(), 2, "{mail}");
    let tree = world.say(&["agents", "--tree", "--all"]);
    assert_eq!(tree.matches("word-counter").count(), 3, "{tree}");
}

#[test]
fn every_example_profile_can_be_loaded_and_the_supervisor_is_taught() {
    let world = World::new();
    let _hub = world.hub();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/profiles");
    let loaded = world.json(&["profiles", "load", examples]);
    let count = fs::read_dir(examples).expect("a folder").count();
    assert_eq!(loaded["created"].as_array().map(Vec::len), Some(count), "{loaded}");
    let shown = world.say(&["profiles", "show", "supervisor"]);
    for word in [
        "whoami",
        "assign",
        "check_inbox(timeout=120",
        "wait_for=\"all\"",
        "label",
        "handoff",
        "missing",
        "shorter timeout",
        "go on with what is there",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
}
