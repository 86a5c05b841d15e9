//! What a program is told, in its own form.

use posthaste_api::hooks::HookAnswer;
use posthaste_bridges::clients::{Event, Hooks};
use serde_json::{Value, json};

/// Nothing where there is nothing to say.
pub(super) fn of(
    hooks: &Hooks,
    event: Event,
    own_name: Option<&str>,
    answer: HookAnswer,
) -> Option<Value> {
    let text = answer.text?;
    if event == Event::Stop {
        return answer.refuse.then(|| json!({ "decision": hooks.refuses, "reason": text }));
    }
    // A program takes a context only under the name that it gave to the event.
    let name = own_name.unwrap_or_else(|| hooks.called(event));
    Some(json!({ "hookSpecificOutput": { "hookEventName": name, "additionalContext": text } }))
}
