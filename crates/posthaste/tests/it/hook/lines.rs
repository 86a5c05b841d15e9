//! The command line that `connect` writes, run by a shell as an agent's program runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{everybody, said};
use crate::world::{BINARY, Ran, Started, World};

/// The line of the hook after a tool, as it stands in the settings of Claude Code.
fn line(world: &World) -> String {
    let home = world.scratch().join("home");
    let bin = world.scratch().join("bin");
    fs::create_dir_all(&home).expect("a home");
    fs::create_dir_all(&bin).expect("a folder");
    script(world, "bin/claude", "echo 1.2.3");
    let mut connect = world.command(&["connect", "claude", "--yes"]);
    connect.env("HOME", &home).env("PATH", &bin).current_dir(&home);
    let ran = Started::new(connect).end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = fs::read_to_string(home.join(".claude/settings.json")).expect("settings");
    let settings: Value = serde_json::from_str(&text).expect("JSON");
    let command = &settings["hooks"]["PostToolUse"][0]["hooks"][0]["command"];
    command.as_str().expect("a command").to_owned()
}

fn script(world: &World, name: &str, text: &str) -> String {
    let file = world.scratch().join(name);
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
    file.to_str().expect("a plain path").to_owned()
}

/// Runs a line with this on its stdin, all of which somebody reads.
fn run(world: &World, shell: &str, line: &str, path: &str, input: &Value) -> Ran {
    let mut command = world.program(shell, &["-c", line]);
    command.env("PATH", path).stdin(Stdio::piped());
    let mut shell = Started::new(command);
    shell.feed(input.to_string().as_bytes());
    shell.end()
}

const PATH: &str = "/usr/bin:/bin";

#[test]
fn whatever_lies_in_the_place_of_the_binary_the_line_is_silent_and_ends_well() {
    let world = World::new();
    let _hub = world.hub();
    let line = line(&world);
    // More than a pipe holds: a program that writes it must not find the pipe closed.
    let input = json!({ "session_id": "s1", "tool_response": "x".repeat(1 << 20) });
    for (name, text) in [
        ("missing", None),
        ("killed", Some("printf '{\"decision\":\"bl'; kill -9 $$")),
        ("refusing", Some("cat >/dev/null; echo '{\"decision\":\"block\"}'; exit 2")),
        ("chattering", Some("echo rubbish; echo rubbish >&2")),
        ("hanging", Some("sleep 1000")),
        ("no program", Some("")),
    ] {
        let file = match (name, text) {
            ("no program", _) => world.scratch().to_str().expect("a plain path").to_owned(),
            (name, Some(text)) => script(&world, name, text),
            (name, None) => world.scratch().join(name).to_str().expect("plain").to_owned(),
        };
        let line = line.replace(BINARY, &file);
        for shell in ["/bin/sh", "/bin/bash"] {
            let ran = run(&world, shell, &line, PATH, &input);
            assert_eq!(said(&ran), Value::Null, "{name} in {shell}");
        }
    }
}

#[test]
fn the_line_brings_mail_also_where_the_system_has_no_time_limit() {
    for path in [PATH, "/nowhere"] {
        let world = World::new();
        let _hub = world.hub();
        let line = line(&world);
        let input = json!({ "session_id": "s1", "hook_event_name": "PostToolUse" });
        assert_eq!(said(&run(&world, "/bin/sh", &line, path, &input)), Value::Null);
        let here = everybody(&world);
        let [address] = here.as_slice() else { panic!("one agent: {here:?}") };
        world.say(&["send", address, "it's \"red\" \\ now"]);
        let told = said(&run(&world, "/bin/sh", &line, path, &input));
        let text = told["hookSpecificOutput"]["additionalContext"].as_str().expect("a text");
        assert!(text.contains(r#"it's \"red\" \\ now"#), "{text}");
    }
}
