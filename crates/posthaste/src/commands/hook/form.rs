//! What a program is told, in its own form.

use posthaste_api::hooks::HookAnswer;
use posthaste_bridges::clients::{Context, Event, Hooks};
use serde_json::{Value, json};

use crate::terminal::tame_json;

/// Nothing where there is nothing to say.
pub(super) fn of(
    hooks: &Hooks,
    event: Event,
    own_name: Option<&str>,
    answer: HookAnswer,
) -> Option<Value> {
    // Programs show some of it to their users. The mail in it is JSON, and stays JSON.
    let text = tame_json(answer.text?);
    match (event, hooks.context) {
        (Event::Stop, _) => {
            answer.refuse.then(|| json!({ "decision": hooks.refuses, "reason": text }))
        }
        // A tool is never kept from running, and what is added before it, some programs drop.
        (Event::BeforeTool, _) => None,
        (_, Context::Top) => Some(json!({ "additionalContext": text })),
        (_, Context::Nested) => {
            // A program takes a context only under the name that it gave to the event.
            let name = own_name.unwrap_or_else(|| hooks.called(event));
            let added = json!({ "hookEventName": name, "additionalContext": text });
            Some(json!({ "hookSpecificOutput": added }))
        }
    }
}
