//! Whatever is wrong, the agent goes on: exit 0, nothing on stdout, a line for the
//! operator.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{claude, everybody, fire, log, said};
use crate::played::{Played, asked_on};
use crate::world::{Started, World, mode};

const EVENTS: [&str; 5] = ["session-start", "prompt", "before-tool", "tool", "stop"];

/// It failed, nobody heard of it, and the log says why.
#[track_caller]
fn failed_in_silence(world: &World, event: &str, why: &str) {
    let before = log(world).lines().count();
    let ran = fire(world, event, "claude", &claude("s1", "PostToolUse"));
    assert_eq!(said(&ran), Value::Null);
    let log = log(world);
    assert_eq!(log.lines().count(), before + 1, "{log}");
    let last = log.lines().last().expect("a line");
    assert!(last.contains(&format!("claude {event}: ")) && last.contains(why), "{why}: {last}");
}

#[test]
fn without_a_hub_every_hook_is_silent_and_the_operator_can_see_it() {
    let world = World::new();
    let hub = world.hub();
    said(&fire(&world, "tool", "claude", &claude("s1", "PostToolUse")));
    hub.kill();
    for event in EVENTS {
        failed_in_silence(&world, event, "no hub runs here");
    }
    assert_eq!(mode(&world.file("hooks.log")), 0o600);
    world.hub().stop();
    failed_in_silence(&world, "tool", "no hub runs here");
    assert!(!world.file("hub.json").exists(), "it starts none");

    let told = world.json(&["doctor", "--listen", "127.0.0.1:0"]);
    let mut checks = told["checks"].as_array().expect("a list").iter();
    let check = checks.find(|check| check["name"] == "hooks").expect("it looks at hooks");
    assert_eq!(check["status"], "warn", "{check}");
    let message = check["message"].as_str().expect("a sentence");
    assert!(message.starts_with("6 failed") && message.contains("no hub runs here"), "{message}");
    assert!(check["hint"].as_str().expect("a hint").contains("hooks.log"), "{check}");
}

/// A hook of the hub that the test plays.
fn of_played<'a>(url: &'a str, event: &'a str, client: &'a str) -> [&'a str; 8] {
    ["hook", event, "--client", client, "--hub", url, "--token", "whoever"]
}

/// All that was asked on this connection until the hook hung up.
fn all_of(mut line: TcpStream) -> String {
    let mut asked = String::new();
    line.read_to_string(&mut asked).expect("it hung up");
    asked
}

#[test]
fn a_hub_that_accepts_and_never_answers_is_given_up_and_told_nothing() {
    let world = World::new();
    world.hub().stop();
    let deaf = Played::new();
    let hook = world.start(&of_played(&deaf.url, "tool", "claude"));
    let line = deaf.accepts();
    assert_eq!(said(&hook.end()), Value::Null);
    let asked = all_of(line);
    assert!(asked.starts_with("GET /health ") && !asked.contains("whoever"), "{asked}");
    assert!(log(&world).contains("no sign of life within 1000 ms"), "{}", log(&world));
}

#[test]
fn a_hub_that_lives_and_never_answers_is_given_up_too() {
    let world = World::new();
    world.hub().stop();
    let slow = Played::new();
    let hook = world.start(&of_played(&slow.url, "tool", "claude"));
    slow.shows_life();
    let line = slow.accepts();
    assert_eq!(said(&hook.end()), Value::Null);
    let asked = all_of(line);
    assert!(asked.starts_with("POST /v1/hooks/tool "), "{asked}");
    assert!(log(&world).contains("did not answer within 1000 ms"), "{}", log(&world));
}

/// The hook may wait an hour for an answer, so it ends because the hub is stopped.
#[test]
fn a_hub_that_is_stopped_holds_up_no_agent_and_brings_the_mail_when_it_goes_on() {
    let world = World::new();
    let hub = world.hub();
    let input = claude("s1", "PostToolUse");
    said(&fire(&world, "tool", "claude", &input));
    let me = everybody(&world).remove(0);
    world.say(&["send", &me, "hello"]);

    hub.process.signal(Signal::STOP);
    for event in EVENTS {
        let mut command = world.command(&["hook", event, "--client", "claude"]);
        command.env("POSTHASTE_HOOKS__PATIENCE", "1h").stdin(Stdio::piped());
        let mut hook = Started::new(command);
        hook.feed(input.to_string().as_bytes());
        assert_eq!(said(&hook.end()), Value::Null, "{event}");
    }
    hub.process.signal(Signal::CONT);

    let told = log(&world);
    assert_eq!(told.matches("no sign of life within 80 ms").count(), EVENTS.len(), "{told}");
    // The hub heard nothing of those moments, so nothing of the mail was handed out.
    let mail = said(&fire(&world, "tool", "claude", &input)).to_string();
    assert!(mail.contains("hello") && !mail.contains("redelivered"), "{mail}");
}

#[test]
fn a_hub_that_is_only_slow_is_waited_for() {
    let world = World::new();
    world.hub().stop();
    let slow = Played::new();
    let mut command = world.command(&of_played(&slow.url, "tool", "claude"));
    // However short: that it is silent does not say that it is stopped.
    command.env("POSTHASTE_HOOKS__SIGN_OF_LIFE", "1ms").env("POSTHASTE_HOOKS__PATIENCE", "1h");
    let hook = Started::new(command);
    slow.shows_life();
    drop(slow.accepts());
    assert_eq!(said(&hook.end()), Value::Null);
    assert!(!log(&world).contains("sign of life"), "{}", log(&world));
}

#[test]
fn how_long_a_hook_waits_is_set_in_the_configuration() {
    let world = World::new();
    let settings = |args: &[&str]| {
        let told = world.json(&[&["config"], args].concat());
        let all = told["settings"].as_array().expect("a list").clone();
        let value = |key: &str| {
            let setting = all.iter().find(|setting| setting["key"] == key);
            setting.unwrap_or_else(|| panic!("{key}: {told}"))["value"].clone()
        };
        [value("hooks.sign_of_life"), value("hooks.patience")]
    };
    assert_eq!(settings(&[]), ["80ms", "1s"]);
    let file = world.config("[hooks]\nsign_of_life = '250ms'\npatience = '10ms'\n");
    assert_eq!(settings(&["--config", &file]), ["250ms", "10ms"]);

    world.hub().stop();
    let deaf = Played::new();
    let hook = [&of_played(&deaf.url, "stop", "claude")[..], &["--config", &file]].concat();
    assert_eq!(said(&world.run(&hook)), Value::Null);
    assert!(log(&world).contains("within 10 ms"), "{}", log(&world));
}

/// What the hub is asked by a hook of Qwen Code, besides the process that it is of.
fn asked(event: &str, input: &Value) -> Value {
    let world = World::new();
    world.hub().stop();
    let played = Played::new();
    let mut command = world.command(&of_played(&played.url, event, "qwen"));
    command.env("POSTHASTE_HOOKS__PATIENCE", "1h").stdin(Stdio::piped());
    let mut hook = Started::new(command);
    hook.feed(input.to_string().as_bytes());
    played.shows_life();
    let mut asked = asked_on(&played.accepts()).body;
    let process = asked.as_object_mut().and_then(|asked| asked.remove("conversation"));
    let process = process.expect("a conversation");
    assert!(process.as_str().is_some_and(|text| text.starts_with("process:")), "{process}");
    asked
}

/// The hub decides by it which call of a tool a hook is about.
#[test]
fn the_hub_is_told_the_program_the_tool_the_call_and_its_failure() {
    let input = json!({
        "session_id": "s1", "tool_name": "mcp__posthaste__check_inbox", "tool_use_id": "c1",
        "error": "it broke",
    });
    let wanted = json!({
        "client": "qwen", "tool": "mcp__posthaste__check_inbox", "call": "c1", "failed": true,
    });
    assert_eq!(asked("tool", &input), wanted);
}

#[test]
fn the_hub_is_told_that_a_helper_is_at_work_and_brings_no_mail() {
    for (name, event) in [("SubagentStart", "before-tool"), ("SubagentStop", "tool")] {
        let input = json!({ "session_id": "s1", "hook_event_name": name, "agent_id": "a1" });
        let wanted = json!({ "client": "qwen", "tool": "agent", "call": "a1", "quiet": true });
        assert_eq!(asked(event, &input), wanted);
    }
    // Its session starts before anything that a hook says reaches its model.
    let start = asked("session-start", &json!({ "session_id": "s1", "source": "startup" }));
    assert_eq!(start, json!({ "client": "qwen", "source": "startup", "quiet": true }));
}

#[test]
fn a_program_that_never_closes_stdin_is_not_waited_for() {
    let world = World::new();
    let _hub = world.hub();
    let mut command = world.command(&["hook", "tool", "--client", "claude"]);
    command.stdin(Stdio::piped());
    let mut hook = Started::new(command);
    let (_stdin, mut out) = hook.talk();
    let mut told = String::new();
    out.read_to_string(&mut told).expect("text");
    assert_eq!((hook.end().code, told.as_str()), (Some(0), ""));
    assert!(log(&world).contains("stdin was not closed"), "{}", log(&world));
}

#[test]
fn rubbish_on_stdin_fails_nothing() {
    let world = World::new();
    let _hub = world.hub();
    let deep = "[".repeat(100_000);
    let deep_in = format!("{{\"x\":{deep}");
    for text in ["", "{", "null", "[1]", "\u{0}\u{1}", "{\"session_id\":7}", &deep, &deep_in] {
        for event in EVENTS {
            let ran = world.pipe(&["hook", event, "--client", "claude"], text.as_bytes());
            assert_eq!(said(&ran), Value::Null, "{event}");
        }
    }
    let ran = world.pipe(&["hook", "tool", "--client", "codex"], &[0xff; 100]);
    assert_eq!(said(&ran), Value::Null);
    // All of them were of one process each.
    assert_eq!(everybody(&world).len(), 2);
    assert_eq!(log(&world), "");
}

#[test]
fn a_wrong_token_and_a_folder_without_one_are_told_to_the_operator_alone() {
    let world = World::new();
    let hub = world.hub();
    let mut command = world.command(&["hook", "tool", "--client", "claude"]);
    command.env("POSTHASTE_TOKEN", "a token that nobody knows here");
    assert_eq!(said(&Started::new(command).end()), Value::Null);
    assert!(log(&world).contains("not known"), "{}", log(&world));
    assert!(!log(&world).contains("that nobody"), "a token is never written");

    std::fs::write(world.file("join.token"), "short").expect("ours");
    failed_in_silence(&world, "tool", "not a token");
    drop(hub);

    // Where nobody ever had a hub, nothing is made.
    let elsewhere = World::new();
    let ran = fire(&elsewhere, "tool", "claude", &claude("s1", "PostToolUse"));
    assert_eq!(said(&ran), Value::Null);
    assert!(!elsewhere.data().exists());
}

#[test]
fn a_configuration_that_is_wrong_stops_no_agent() {
    let world = World::new();
    let config = world.config("[limits\n");
    let mut command = world.command(&["hook", "stop", "--client", "codex", "--config", &config]);
    command.env_remove("POSTHASTE_DATA");
    assert_eq!(said(&Started::new(command).end()), Value::Null);
    let ran = world.run(&["hook", "stop", "--client", "codex", "--instance", "nonsense"]);
    assert_eq!(said(&ran), Value::Null);
}

#[test]
fn a_log_that_cannot_be_written_stops_no_agent() {
    let world = World::new();
    world.hub().stop();
    std::fs::create_dir(world.file("hooks.log")).expect("something in its place");
    let ran = fire(&world, "tool", "claude", &claude("s1", "PostToolUse"));
    assert_eq!(said(&ran), Value::Null);
}

#[test]
fn a_program_that_does_not_read_on_is_no_failure_of_the_agent() {
    let world = World::new();
    let _hub = world.hub();
    let input = claude("s1", "PostToolUse");
    said(&fire(&world, "tool", "claude", &input));
    world.say(&["send", &everybody(&world)[0], "hello"]);
    let mut command = world.command(&["hook", "tool", "--client", "claude"]);
    command.stdin(Stdio::piped());
    let mut hook = Started::new(command);
    let (mut stdin, out) = hook.talk();
    drop(out);
    stdin.write_all(input.to_string().as_bytes()).expect("it reads");
    drop(stdin);
    assert_eq!(hook.end().code, Some(0));
    assert!(log(&world).contains("nobody reads stdout"), "{}", log(&world));
}

/// Agent programs take exit code 2 of a hook as an order to stop.
#[test]
fn a_command_line_that_is_wrong_forbids_the_agent_nothing() {
    let world = World::new();
    for args in [
        &["hook", "lunch", "--client", "claude"][..],
        &["hook", "stop"],
        &["hook"],
        &["--data", "/elsewhere", "hook", "lunch"],
        &["--json", "--hub=http://127.0.0.1:1", "hook"],
        &["--color", "loud", "hook", "lunch"],
    ] {
        let ran = world.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
        let told = ["posthaste hook", "lunch", "loud"].iter().any(|why| ran.err.contains(why));
        assert!(told, "{ran:?}");
    }
    for args in [&["send", "hook", "--lunch"][..], &["--data", "hook", "lunch"]] {
        assert_eq!(world.run(args).code, Some(2), "this is no hook: {args:?}");
    }
}
