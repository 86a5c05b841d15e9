//! The example profiles, as their agents really behave.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use posthaste_testkit::model_server::ModelServer;
use serde_json::json;

use super::claude;
use crate::clients::{self, home, shut_in, tools};
use crate::world::{Hub, Started, World, eventually};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/profiles");

/// A hub of a user who has loaded the examples and has Claude Code.
async fn with_claude() -> Option<(World, Hub, ModelServer)> {
    let tools = tools()?;
    let (world, model) = (World::new(), ModelServer::start().await);
    let mut up = world.command(&["up", "--json", "--listen", "127.0.0.1:0"]);
    let home = home(&world);
    shut_in(&mut up, &home);
    up.env("POSTHASTE_DATA", world.data());
    (claude::CAST.surround)(&mut up, model.url(), &home);
    let bin = world.scratch().join("bin");
    fs::create_dir(&bin).expect("a folder");
    symlink(clients::claude_binary(&tools), bin.join("claude")).expect("a link");
    up.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    let hub = world.hub_of(up);
    world.say(&["profiles", "load", EXAMPLES]);
    Some((world, hub, model))
}

fn repository(world: &World) -> String {
    let path = world.scratch().join("repository");
    let script = "git init -q \"$0\" && cd \"$0\" && echo one > file && git add file && \
        git -c user.name=me -c user.email=me@example.org commit -q -m first";
    let path = path.to_str().expect("a plain path").to_owned();
    let mut shell = world.program("/bin/sh", &["-c", script, &path]);
    shell.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let made = Started::new(shell).end();
    assert_eq!(made.code, Some(0), "{made:?}");
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reviewer_of_the_examples_reads_and_neither_writes_nor_asks() {
    let Some((world, _hub, mut model)) = with_claude().await else { return };
    let folder = repository(&world);
    world.say(&["assign", "claude-reviewer", "Review the last commit.", "--dir", &folder]);
    let turn = model.asked().await;
    let tools: Vec<String> = turn.tools().into_iter().map(|tool| tool.name).collect();
    for (name, given) in [("Bash", true), ("Read", true), ("Edit", false), ("Write", false)] {
        assert_eq!(tools.iter().any(|tool| tool == name), given, "{name}: {tools:?}");
    }
    turn.call("Bash", json!({ "command": "git log -p -1", "description": "look" }));
    let turn = model.asked().await;
    assert!(turn.result().contains("+one"), "{}", turn.result());
    turn.call("Bash", json!({ "command": "touch made", "description": "write" }));
    let turn = model.asked().await;
    assert!(!Path::new(&folder).join("made").exists(), "{}", turn.result());
    assert_eq!(world.json(&["needs"])["needs"], json!([]), "nobody is asked");
    turn.call("whoami", json!({}));
    let turn = model.asked().await;
    assert!(turn.result().contains("claude-reviewer"), "the hub's tools are its own");
    turn.say("No fault found.");
    let report = world.json(&["inbox", "--wait-for", "all"]);
    assert_eq!(report["messages"][0]["message"], "No fault found.", "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tester_of_the_examples_asks_before_an_unusual_command() {
    let Some((world, _hub, mut model)) = with_claude().await else { return };
    let folder = repository(&world);
    world.say(&["assign", "claude-tester", "Run the tests.", "--dir", &folder]);
    let turn = model.asked().await;
    turn.call("Bash", json!({ "command": "sh -c 'touch made'", "description": "test" }));
    let mut need = String::new();
    eventually(|| {
        need = world.json(&["needs", "--kind", "permission"])["needs"][0]["id"].to_string();
        need != "null"
    });
    world.say(&["answer", &need, "--allow"]);
    let turn = model.asked().await;
    assert!(Path::new(&folder).join("made").exists(), "{}", turn.result());
    turn.say("All tests pass.");
    let report = world.json(&["inbox", "--wait-for", "all"]);
    assert_eq!(report["messages"][0]["message"], "All tests pass.", "{report}");
}
