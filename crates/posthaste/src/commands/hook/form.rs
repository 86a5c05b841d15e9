//! The answer to a program, in the program's own form.

use posthaste_api::hooks::HookAnswer;
use posthaste_bridges::clients::{Context, Event, Hooks};
use serde_json::{Value, json};

use crate::terminal::tame_json;

/// Makes the answer; `None` if there is nothing to say.
pub(super) fn of(
    hooks: &Hooks,
    event: Event,
    own_name: Option<&str>,
    answer: HookAnswer,
) -> Option<Value> {
    // Programs show some of it to their users. The messages in it are JSON, and stay
    // JSON.
    let text = tame_json(answer.text?);
    match (event, hooks.context) {
        (Event::Stop, _) => {
            answer.refuse.then(|| json!({ "decision": hooks.refuses, "reason": text }))
        }
        // A hook never prevents a tool, and some programs drop text that is added before one.
        (Event::BeforeTool, _) => None,
        (_, Context::Top) => Some(json!({ "additionalContext": text })),
        (_, Context::Nested) => {
            // A program takes a context only under its own name of the event.
            let name = own_name.unwrap_or_else(|| hooks.called(event));
            let added = json!({ "hookEventName": name, "additionalContext": text });
            Some(json!({ "hookSpecificOutput": added }))
        }
    }
}
