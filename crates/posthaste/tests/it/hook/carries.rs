//! Mail, in the form of each program.

use posthaste_api::hooks::REFUSAL;
use serde_json::{Value, json};

use super::{claude, everybody, fire, log, said};
use crate::world::World;

/// Each program's events that can bring mail: its word, ours.
const EVENTS: [(&str, &[(&str, &str)]); 6] = [
    (
        "claude",
        &[
            ("SessionStart", "session-start"),
            ("UserPromptSubmit", "prompt"),
            ("PostToolUse", "tool"),
        ],
    ),
    (
        "codex",
        &[
            ("SessionStart", "session-start"),
            ("UserPromptSubmit", "prompt"),
            ("PostToolUse", "tool"),
        ],
    ),
    (
        "gemini",
        &[("SessionStart", "session-start"), ("BeforeAgent", "prompt"), ("AfterTool", "tool")],
    ),
    ("qwen", &[("UserPromptSubmit", "prompt"), ("PostToolUse", "tool")]),
    ("copilot", &[("", "session-start"), ("", "prompt"), ("", "tool")]),
    ("opencode", &[("", "prompt"), ("", "tool")]),
];

/// What a program says to a hook, with its own word for the conversation.
fn input(client: &str, name: &str) -> Value {
    let session = match client {
        "copilot" => "sessionId",
        _ => "session_id",
    };
    json!({ session: "s1", "hook_event_name": name })
}

#[test]
fn mail_comes_once_at_every_event_in_the_programs_own_form() {
    for (client, events) in EVENTS {
        let world = World::new();
        let _hub = world.hub();
        assert_eq!(said(&fire(&world, "prompt", client, &input(client, "x"))), Value::Null);
        let [address] = &everybody(&world)[..] else { panic!("one agent") };
        for (name, event) in events {
            world.say(&["send", address, &format!("before {event}")]);
            let told = said(&fire(&world, event, client, &input(client, name)));
            let output = match *name {
                "" => &told,
                _ => &told["hookSpecificOutput"],
            };
            let text = output["additionalContext"].as_str().expect("a text");
            assert!(text.contains(&format!("before {event}")), "{text}");
            if !name.is_empty() {
                assert_eq!(output["hookEventName"], *name, "{told}");
            }
            // The next one has nothing to say.
            let next = fire(&world, "tool", client, &input(client, "x"));
            assert_eq!(said(&next), Value::Null, "{event}");
        }
        assert_eq!(everybody(&world).len(), 1, "{client}");
        assert_eq!(log(&world), "");
    }
}

#[test]
fn a_stop_is_refused_once_for_each_mail_in_the_programs_own_words() {
    for (client, _) in EVENTS {
        let word = if client == "gemini" { "deny" } else { "block" };
        let world = World::new();
        let _hub = world.hub();
        // Programs disagree about what this flag means.
        let stop = |active: bool| {
            let mut stop = input(client, "Stop");
            stop["stop_hook_active"] = json!(active);
            stop
        };
        assert_eq!(said(&fire(&world, "stop", client, &stop(false))), Value::Null);
        let [address] = &everybody(&world)[..] else { panic!("one agent") };
        for active in [true, false] {
            world.say(&["send", address, "wait"]);
            let told = said(&fire(&world, "stop", client, &stop(active)));
            assert_eq!(told["decision"], word, "{told}");
            let reason = told["reason"].as_str().expect("why");
            assert!(reason.starts_with(REFUSAL) && reason.contains("wait"), "{told}");
            assert_eq!(said(&fire(&world, "stop", client, &stop(active))), Value::Null);
        }
    }
}

#[test]
fn before_a_tool_and_after_a_failed_one_nothing_is_said() {
    for (client, _) in EVENTS {
        let world = World::new();
        let _hub = world.hub();
        said(&fire(&world, "prompt", client, &input(client, "x")));
        let [address] = &everybody(&world)[..] else { panic!("one agent") };
        world.say(&["send", address, "hello"]);
        let mut input = input(client, "x");
        assert_eq!(said(&fire(&world, "before-tool", client, &input)), Value::Null);
        input["error"] = json!("it broke");
        assert_eq!(said(&fire(&world, "tool", client, &input)), Value::Null);
        assert_eq!(log(&world), "");
    }
}

/// Qwen Code runs its prompt hook before each request to its model; some programs run
/// theirs for the reason of a refused stop.
#[test]
fn a_prompt_that_no_user_wrote_does_not_reach_the_hub() {
    let world = World::new();
    let _hub = world.hub();
    for prompt in ["", &format!("{REFUSAL}. Mail for you is unread")] {
        let input = json!({ "session_id": "s1", "prompt": prompt });
        assert_eq!(said(&fire(&world, "prompt", "qwen", &input)), Value::Null);
    }
    assert!(everybody(&world).is_empty(), "nobody has come");
    said(&fire(&world, "prompt", "qwen", &json!({ "session_id": "s1", "prompt": "hello" })));
    assert_eq!(everybody(&world).len(), 1);
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
