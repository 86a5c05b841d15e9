//! The example profiles, as their agents really behave.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use posthaste_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use super::installed::{CLAUDE, CODEX, GEMINI, Installed, OPENCODE};
use crate::clients::{home, shut_in, tools};
use crate::world::{Hub, Started, World, eventually};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/profiles");
const ROLES: [&str; 3] = ["reviewer", "tester", "implementer"];

/// A hub of a user who has loaded the examples and has this program.
async fn with(program: Installed) -> Option<(World, Hub, ModelServer)> {
    let tools = tools()?;
    let (world, model) = (World::new(), ModelServer::start().await);
    let mut up = world.command(&["up", "--json", "--listen", "127.0.0.1:0"]);
    shut_in(&mut up, &home(&world));
    up.env("POSTHASTE_DATA", world.data());
    program.found_by(&mut up, &tools, &world, model.url());
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
    let Some((world, _hub, mut model)) = with(CLAUDE).await else { return };
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
    let Some((world, _hub, mut model)) = with(CLAUDE).await else { return };
    let folder = repository(&world);
    world.say(&["assign", "claude-tester", "Run the tests.", "--dir", &folder]);
    let turn = model.asked().await;
    turn.call("Bash", json!({ "command": "sh -c 'touch made'", "description": "test" }));
    world.say(&["answer", &need(&world), "--allow"]);
    let turn = model.asked().await;
    assert!(Path::new(&folder).join("made").exists(), "{}", turn.result());
    turn.say("All tests pass.");
    let report = world.json(&["inbox", "--wait-for", "all"]);
    assert_eq!(report["messages"][0]["message"], "All tests pass.", "{report}");
}

/// Each of a program's examples has the hub's tools, does its task and reports. The tester
/// can write by its shell and the reviewer cannot; some of them ask before.
async fn do_their_tasks(program: Installed, asking: &[&str]) {
    let Some((world, _hub, mut model)) = with(program).await else { return };
    let folder = repository(&world);
    let made = Path::new(&folder).join("made");
    let (tool, arguments) = (program.shell)("touch made");
    for role in ROLES {
        let name = format!("{}-{role}", program.name);
        let given = world.json(&["assign", &name, "Begin.", "--dir", &folder]);
        let mut turn = model.asked().await;
        turn.assert_saw("Begin.");
        let tools: Vec<String> = turn.tools().into_iter().map(|tool| tool.name).collect();
        assert!(tools.iter().any(|tool| tool == "check_inbox"), "{name}: {tools:?}");
        // Gemini's reviewer has no shell at all.
        let has_shell = tools.iter().any(|own| own == tool);
        assert!(has_shell || role == "reviewer", "{name}: {tools:?}");
        if has_shell && role != "implementer" {
            let may_write = role == "tester";
            turn.call(tool, arguments.clone());
            if asking.contains(&role) {
                let verdict = if may_write { "--allow" } else { "--deny" };
                world.say(&["answer", &need(&world), verdict]);
            }
            turn = model.asked().await;
            assert_eq!(made.exists(), may_write, "{name}: {}", turn.result());
        }
        turn.say(&format!("The {role} is done."));
        let report = world.json(&["inbox", "--wait-for", "all"]);
        let report = &report["messages"][0];
        let told = report["message"].as_str().unwrap_or_default();
        // A worktree is named below the answer.
        let (answer, place) = told.split_once('\n').unwrap_or((told, ""));
        assert_eq!(answer, format!("The {role} is done."), "{given} {report}");
        assert_eq!(place.starts_with("[its worktree is "), role == "implementer", "{report}");
    }
}

/// The permission that somebody asks for.
fn need(world: &World) -> String {
    let mut need = Value::Null;
    eventually(|| {
        need = world.json(&["needs", "--kind", "permission"])["needs"][0]["id"].clone();
        !need.is_null()
    });
    need.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_claude_code_do_their_tasks_and_report() {
    do_their_tasks(CLAUDE, &["tester"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_codex_do_their_tasks_and_report() {
    do_their_tasks(CODEX, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_opencode_do_their_tasks_and_report() {
    do_their_tasks(OPENCODE, &["reviewer", "tester"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_of_gemini_cli_do_their_tasks_and_report() {
    do_their_tasks(GEMINI, &["tester"]).await;
}

#[test]
fn every_program_has_a_reviewer_a_tester_and_an_implementer() {
    let programs = [CLAUDE, CODEX, OPENCODE, GEMINI];
    let all = programs.iter().flat_map(|p| ROLES.map(|role| format!("{}-{role}.md", p.name)));
    let all: BTreeSet<String> = all.collect();
    let files = fs::read_dir(EXAMPLES).expect("a folder").flatten();
    let agents = files.filter(|file| {
        let text = fs::read_to_string(file.path()).expect("readable");
        ["claude", "codex", "acp"]
            .iter()
            .any(|driver| text.contains(&format!("\ndriver: {driver}\n")))
    });
    let agents = agents.map(|file| file.file_name().to_string_lossy().into_owned());
    assert_eq!(agents.collect::<BTreeSet<String>>(), all, "each is run by a test");
}
