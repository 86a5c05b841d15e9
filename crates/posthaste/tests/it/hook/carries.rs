//! Mail, in the form of each program.

use serde_json::{Value, json};

use super::{claude, everybody, fire, log, said};
use crate::world::World;

/// Each program's events that can bring mail: its word, ours.
const EVENTS: [(&str, [(&str, &str); 3]); 3] = [
    (
        "claude",
        [
            ("SessionStart", "session-start"),
            ("UserPromptSubmit", "prompt"),
            ("PostToolUse", "tool"),
        ],
    ),
    (
        "codex",
        [("SessionStart", "session-start"), ("UserPromptSubmit", "prompt"), ("PreToolUse", "tool")],
    ),
    (
        "gemini",
        [("SessionStart", "session-start"), ("BeforeAgent", "prompt"), ("AfterTool", "tool")],
    ),
];

#[test]
fn mail_comes_once_at_every_event_under_the_programs_own_name_for_it() {
    for (client, events) in EVENTS {
        let world = World::new();
        let _hub = world.hub();
        let input = |name| json!({ "session_id": "s1", "hook_event_name": name });
        assert_eq!(said(&fire(&world, "prompt", client, &input("x"))), Value::Null);
        let [address] = &everybody(&world)[..] else { panic!("one agent") };
        for (name, event) in events {
            world.say(&["send", address, &format!("before {event}")]);
            let told = said(&fire(&world, event, client, &input(name)));
            let output = &told["hookSpecificOutput"];
            assert_eq!(output["hookEventName"], name, "{told}");
            let text = output["additionalContext"].as_str().expect("a text");
            assert!(text.contains(&format!("before {event}")), "{text}");
            // The next one has nothing to say.
            assert_eq!(said(&fire(&world, "tool", client, &input("x"))), Value::Null, "{event}");
        }
        assert_eq!(everybody(&world).len(), 1, "{client}");
        assert_eq!(log(&world), "");
    }
}

#[test]
fn a_stop_is_refused_once_in_the_programs_own_words() {
    for (client, word) in [("claude", "block"), ("codex", "block"), ("gemini", "deny")] {
        let world = World::new();
        let _hub = world.hub();
        let stop = |active: bool| json!({ "session_id": "s1", "stop_hook_active": active });
        assert_eq!(said(&fire(&world, "stop", client, &stop(false))), Value::Null);
        let [address] = &everybody(&world)[..] else { panic!("one agent") };
        world.say(&["send", address, "wait"]);
        let told = said(&fire(&world, "stop", client, &stop(false)));
        assert_eq!(told["decision"], word, "{told}");
        assert!(told["reason"].as_str().expect("why").contains("wait"), "{told}");
        world.say(&["send", address, "and wait again"]);
        assert_eq!(said(&fire(&world, "stop", client, &stop(true))), Value::Null);
    }
}

#[test]
fn mail_is_for_the_agent_and_not_for_a_helper_that_it_started() {
    let world = World::new();
    let _hub = world.hub();
    let mut input = claude("s1", "PostToolUse");
    said(&fire(&world, "tool", "claude", &input));
    let [address] = &everybody(&world)[..] else { panic!("one agent") };
    world.say(&["send", address, "for you alone"]);
    input["agent_id"] = json!("helper-1");
    assert_eq!(said(&fire(&world, "tool", "claude", &input)), Value::Null);
    let told = said(&fire(&world, "tool", "claude", &claude("s1", "PostToolUse")));
    assert!(told.to_string().contains("for you alone"), "{told}");
}

#[test]
fn an_event_has_its_usual_name_when_the_program_does_not_say_it() {
    for (client, event, name) in [
        ("claude", "prompt", "UserPromptSubmit"),
        ("codex", "tool", "PostToolUse"),
        ("gemini", "prompt", "BeforeAgent"),
        ("gemini", "tool", "AfterTool"),
    ] {
        let world = World::new();
        let _hub = world.hub();
        let input = json!({ "session_id": "s1" });
        said(&fire(&world, event, client, &input));
        world.say(&["send", &everybody(&world)[0], "hello"]);
        let told = said(&fire(&world, event, client, &input));
        assert_eq!(told["hookSpecificOutput"]["hookEventName"], name, "{told}");
    }
}

#[test]
fn what_a_tool_said_may_be_long() {
    let world = World::new();
    let _hub = world.hub();
    let mut input = claude("s1", "PostToolUse");
    input["tool_response"] = json!("x".repeat(12 << 20));
    assert_eq!(said(&fire(&world, "tool", "claude", &input)), Value::Null);
    assert_eq!(everybody(&world).len(), 1);
    assert_eq!(log(&world), "");
}
