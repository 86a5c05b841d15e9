//! Hooks of Codex run only when their user trusts them, and the doctor says so.

use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Stdio;

use posthaste_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use super::program::{self, Program, Task, home, shut_in};
use super::user;
use crate::world::{Started, World};

/// The hooks that Codex sees, as it lists them for its own window.
fn hooks(tools: &Path, world: &World) -> Vec<Value> {
    let (binary, _) = Program::Codex.binary(tools);
    let mut command = world.program(binary.to_str().expect("a plain path"), &["app-server"]);
    shut_in(&mut command, &home(world));
    command.stdin(Stdio::piped());
    let mut codex = Started::new(command);
    let (mut stdin, out) = codex.talk();
    let client = json!({ "name": "test", "version": "1" });
    for line in [
        json!({ "id": 1, "method": "initialize", "params": { "clientInfo": client } }),
        json!({ "method": "initialized" }),
        json!({ "id": 2, "method": "hooks/list", "params": { "cwds": [home(world)] } }),
    ] {
        writeln!(stdin, "{line}").expect("it reads");
    }
    let answers = out.lines().map_while(Result::ok);
    let mut answers = answers.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let answer = answers.find(|answer| answer["id"] == 2).expect("an answer");
    answer["result"]["data"][0]["hooks"].as_array().expect("a list").clone()
}

/// What the doctor says of the hooks, without touching a file of Codex.
fn doctor(world: &World) -> String {
    let folder = home(world).join("codex");
    let all = || {
        let entries = fs::read_dir(&folder).expect("a folder").flatten();
        let mut files: Vec<_> =
            entries.map(|entry| (entry.path(), fs::read(entry.path()).ok())).collect();
        files.sort();
        files
    };
    let before = all();
    let said = user::says(world, &["doctor", "codex"]);
    assert_eq!(all(), before);
    let line = said.lines().find(|line| line.contains("hook trust"));
    line.unwrap_or_else(|| panic!("it looks: {said}")).to_owned()
}

/// Its user trusts what is there now, which is what its window writes down.
fn trust(tools: &Path, world: &World) {
    let path = home(world).join("codex/config.toml");
    let mut config = fs::read_to_string(&path).expect("connect made it");
    for hook in hooks(tools, world) {
        let (key, hash) = (&hook["key"], &hook["currentHash"]);
        config.push_str(&format!("\n[hooks.state.{key}]\ntrusted_hash = {hash}\n"));
    }
    fs::write(path, config).expect("ours");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_of_codex_wait_for_trust_and_the_doctor_says_so() {
    let Some(tools) = program::tools() else { return };
    let world = World::new();
    let _hub = world.hub();
    let mut model = ModelServer::start().await;
    user::put_on_path(Program::Codex, &tools, &world);
    let said = user::says(&world, &["connect", "codex", "--yes"]);
    assert!(said.contains("/hooks"), "{said}");
    let bob = world.json(&["join", "bob"]);
    world.say(&["send", bob["address"].as_str().expect("an address"), "the build is red"]);

    for trusted in [false, true] {
        let told = doctor(&world);
        let wanted = if trusted { "ok" } else { "warn" };
        assert!(told.starts_with(wanted), "{told}");
        assert_eq!(told.contains("5 of our 5") && told.contains("/hooks"), !trusted, "{told}");

        let (url, token) = (model.url().to_owned(), bob["token"].as_str());
        let task = Task { model: &url, prompt: Some("Begin."), token, ..Task::default() };
        let agent = Program::Codex.start(&tools, &world, &task);
        let turn = model.asked().await;
        assert_eq!(turn.saw("the build is red"), trusted, "{turn:?}");
        turn.say("done");
        assert_eq!(agent.end().code, Some(0));
        if !trusted {
            trust(&tools, &world);
        }
    }
    // Hooks that have changed since are not those that were trusted.
    user::says(&world, &["connect", "codex", "--yes", "--name", "bob"]);
    assert!(doctor(&world).starts_with("warn"));
}
