//! Fuzzes the input of a hook: the hook reads what it can, and its output is harmless to
//! a terminal.

use posthaste_api::hooks::HookAnswer;
use posthaste_bridges::clients::{ALL, Event};
use posthaste_testkit::fuzz;
use serde_json::Value;

use super::form;
use super::input::Input;
use crate::terminal::tame;

/// Payloads of Claude Code, Codex, Gemini CLI, Qwen Code, Copilot CLI and OpenCode.
const PAYLOADS: [&str; 8] = [
    r#"{"session_id":"s1","transcript_path":"/t","cwd":"/","hook_event_name":"SessionStart","source":"startup"}"#,
    r#"{"session_id":"s1","hook_event_name":"PostToolUse","tool_name":"mcp__posthaste__check_inbox","tool_input":{"timeout":60},"tool_response":[{"type":"text","text":"{}"}],"tool_use_id":"toolu_1"}"#,
    r#"{"session_id":"s1","turn_id":"t","hook_event_name":"Stop","stop_hook_active":false,"last_assistant_message":"done"}"#,
    r#"{"session_id":"s1","hook_event_name":"AfterTool","tool_name":"t","tool_response":{"llmContent":"x","error":{"message":"y","type":"z"}},"timestamp":"2026-01-01"}"#,
    r#"{"session_id":"s1","hook_event_name":"UserPromptSubmit","prompt":"do it","agent_id":""}"#,
    r#"{"session_id":"s1","hook_event_name":"SubagentStart","agent_id":"a1","agent_type":"x"}"#,
    r#"{"sessionId":"s1","timestamp":1,"cwd":"/","toolName":"t","toolArgs":"{}","toolResult":{"resultType":"success","textResultForLlm":"x"}}"#,
    r#"{"sessionID":"s1","error":null,"is_interrupt":true,"prompt":""}"#,
];

/// Returns the text that the program reads from the JSON that the hook prints.
fn heard(said: &Value) -> Option<&str> {
    let places = ["/reason", "/additionalContext", "/hookSpecificOutput/additionalContext"];
    places.iter().find_map(|place| said.pointer(place)?.as_str())
}

#[test]
fn no_payload_stops_a_hook_and_no_mail_reaches_the_terminal_of_its_program() {
    let mail = serde_json::json!({ "message": "\u{1b}[2J\u{9b}31m\u{7f}\u{202e}\r\n\u{e0041}ü" });
    let text = format!("Posthaste, your mailbox:\n{mail}");
    for case in fuzz::cases(4_000, &PAYLOADS) {
        let input = Input::read(&case.bytes);
        let _ = (input.is_prompt(), input.is_of_a_helper(), input.helper_itself());
        for client in ALL {
            for (event, ..) in Event::ALL {
                let text = Some(text.clone());
                let answer = HookAnswer { text, refuse: true, ..HookAnswer::default() };
                let said = form::of(client.hooks(), event, input.event.as_deref(), answer);
                let Some(said) = said else { continue };
                let heard = heard(&said).expect("a place that programs read");
                assert_eq!(tame(heard), heard);
                let (_, json) = heard.split_once('\n').expect("the mail");
                assert_eq!(serde_json::from_str::<Value>(json).expect("still JSON"), mail);
            }
        }
    }
}
