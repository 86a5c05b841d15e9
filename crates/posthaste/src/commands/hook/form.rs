//! What a program is told, in its own form.

use posthaste_api::hooks::HookAnswer;
use serde_json::{Value, json};

use crate::cli::{Event, HookClient};

/// Nothing where there is nothing to say.
pub(super) fn of(
    client: HookClient,
    event: Event,
    own_name: Option<&str>,
    answer: HookAnswer,
) -> Option<Value> {
    let text = answer.text?;
    if event == Event::Stop {
        let decision = match client {
            HookClient::Claude | HookClient::Codex => "block",
            HookClient::Gemini => "deny",
        };
        return answer.refuse.then(|| json!({ "decision": decision, "reason": text }));
    }
    // A program takes a context only under the name that it gave to the event.
    let name = own_name.unwrap_or_else(|| usual(client, event));
    Some(json!({ "hookSpecificOutput": { "hookEventName": name, "additionalContext": text } }))
}

/// What the program most likely calls the event, if it does not say.
fn usual(client: HookClient, event: Event) -> &'static str {
    match (event, client) {
        (Event::SessionStart, _) => "SessionStart",
        (Event::Prompt, HookClient::Gemini) => "BeforeAgent",
        (Event::Prompt, _) => "UserPromptSubmit",
        (Event::Tool, HookClient::Gemini) => "AfterTool",
        (Event::Tool, _) => "PostToolUse",
        (Event::Stop, HookClient::Gemini) => "AfterAgent",
        (Event::Stop, _) => "Stop",
    }
}
