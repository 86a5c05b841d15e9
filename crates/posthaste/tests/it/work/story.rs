//! The stories that are told of it: the demo, the README, the examples.

use std::fs;
use std::net::TcpStream;

use rustix::process::Signal;
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
fn a_demo_that_is_interrupted_leaves_no_folder_and_no_hub() {
    let world = World::new();
    let place = world.scratch().join("temporary");
    fs::create_dir(&place).expect("a folder");
    let mut command = world.command(&["demo", "--pace", "1m"]);
    command.env("TMPDIR", &place);
    let mut demo = Started::new(command);
    let said = demo.until("one call for everything\n");
    let (_, url) = said.split_once("listens at http://").expect("where its hub is");
    let hub = url.lines().next().expect("an address").to_owned();
    demo.signal(Signal::INT);
    let ran = demo.end();
    let answers = TcpStream::connect(&hub).is_ok();
    let left: Vec<_> = fs::read_dir(&place).expect("a folder").flatten().collect();
    for folder in &left {
        let data = folder.path().join("data");
        world.run(&["down", "--data", data.to_str().expect("a plain path")]);
    }
    assert!(!answers && left.is_empty(), "{left:?}");
    assert_eq!(ran.code, Some(130), "{ran:?}");
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
fn a_gather_of_a_script_outlives_the_hub_too() {
    let world = World::new();
    profile(
        &world,
        "slow",
        "gate=$(cat); until [ -e \"$gate\" ]; do sleep 0.1; done; echo went on",
    );
    let hub = world.hub();
    let (gate, port) = (world.scratch().join("gate"), hub.port().to_owned());
    world.joined("boss");
    world.say(&["assign", "slow", gate.to_str().expect("a plain path"), "--as", "boss"]);
    let gather = world.start(&["inbox", "--wait-for", "all", "--as", "boss", "--timeout", "60"]);
    let waits = |world: &World| {
        let all = world.json(&["agents"]);
        let mut all = all["instances"].as_array().into_iter().flatten();
        all.any(|i| i["agent"] == "boss" && i["activity"] == "waiting_inbox")
    };
    eventually(|| waits(&world));
    hub.kill();
    let _hub = world.hub_with(&["--listen", &format!("127.0.0.1:{port}")]);
    fs::write(&gate, "").expect("written");
    let ran = gather.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("went on") && ran.err.contains("to come back"), "{ran:?}");
}

#[test]
fn the_lines_of_the_readme_about_work() {
    let world = World::new();
    let mut hub = world.command(&["up", "--listen", "127.0.0.1:0"]);
    hub.env("PATH", "/usr/bin:/bin");
    let mut hub = Started::new(hub);
    while hub.line().is_some_and(|line| !line.starts_with("Ctrl-C")) {}
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/profiles");
    world.say(&["profiles", "load", examples]);
    let answer = world.say(&["handoff", "word-counter", "three little words"]);
    assert_eq!(answer.trim(), "3");
    world.say(&["assign", "word-counter", "one two", "--label", "a"]);
    world.say(&["assign", "word-counter", "one", "--label", "b"]);
    let mail = world.say(&["inbox", "--wait-for", "all"]);
    assert_eq!(mail.lines().count(), 2, "{mail}");
    let tree = world.say(&["agents", "--tree", "--all"]);
    assert_eq!(tree.matches("word-counter").count(), 3, "{tree}");
}

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/profiles");

#[test]
fn no_example_profile_names_what_its_command_never_gets() {
    let world = World::new();
    let checked = world.json(&["profiles", "check", EXAMPLES]);
    assert_eq!((&checked["warnings"], &checked["failed"]), (&json!([]), &json!([])), "{checked}");
    let _hub = world.hub();
    world.say(&["profiles", "load", EXAMPLES]);
    for name in checked["good"].as_array().expect("names") {
        let profile = world.json(&["profiles", "show", name.as_str().expect("a name")]);
        let command = profile["config"]["command"].to_string();
        let prompted = profile["system_prompt"] != "";
        for (says, variable) in [
            (!profile["config"]["model"].is_null(), "POSTHASTE_MODEL"),
            (!profile["config"]["mcp_config"].is_null(), "POSTHASTE_MCP_CONFIG"),
            (prompted, "POSTHASTE_PROMPT_FILE"),
        ] {
            // The other drivers hand these on themselves.
            let says = says && profile["driver"] == "command";
            assert!(!says || command.contains(variable), "{name}: {variable}: {command}");
        }
    }
}

#[test]
fn every_example_profile_can_be_loaded_and_the_supervisor_is_taught() {
    let world = World::new();
    let _hub = world.hub();
    let loaded = world.json(&["profiles", "load", EXAMPLES]);
    let count = fs::read_dir(EXAMPLES).expect("a folder").count();
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
