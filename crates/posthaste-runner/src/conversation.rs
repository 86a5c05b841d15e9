//! The form of a conversation that every provider of models takes.

use crate::protocol::ChatMessage;

/// Result of a call that was under way when its runner or its hub ended.
pub(crate) const LOST: &str = "[posthaste] the work was interrupted and this result is lost; \
                               call the tool again if it is still needed";
/// Result of a call that was cancelled.
pub(crate) const CANCELLED: &str = "cancelled";

/// Brings messages into the form that providers take: each result follows its call, and a
/// call without a result gets `missing`. Leaves out results without a call, empty answers,
/// and `system`, which the runner makes anew for each request.
pub(crate) fn mend(messages: Vec<ChatMessage>, missing: &str) -> Vec<ChatMessage> {
    let mut mended = Vec::with_capacity(messages.len());
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        match &message {
            ChatMessage::Tool { tool_call_id, .. } => {
                let Some(at) = open.iter().position(|id| id == tool_call_id) else { continue };
                open.remove(at);
            }
            other => {
                answer(&mut mended, &mut open, missing);
                if is_empty(other) || matches!(other, ChatMessage::System { .. }) {
                    continue;
                }
                if let ChatMessage::Assistant { tool_calls, .. } = other {
                    open.extend(tool_calls.iter().map(|call| call.id.clone()));
                }
            }
        }
        mended.push(message);
    }
    answer(&mut mended, &mut open, missing);
    mended
}

fn answer(messages: &mut Vec<ChatMessage>, open: &mut Vec<String>, text: &str) {
    messages.extend(
        open.drain(..)
            .map(|tool_call_id| ChatMessage::Tool { tool_call_id, content: text.to_owned() }),
    );
}

/// Returns whether a message is an answer of the model that says and calls nothing.
pub(crate) fn is_empty(message: &ChatMessage) -> bool {
    match message {
        ChatMessage::Assistant { content, tool_calls } => {
            tool_calls.is_empty() && content.as_deref().is_none_or(|text| text.trim().is_empty())
        }
        _ => false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::protocol::ToolCall;

    pub(crate) fn user(text: &str) -> ChatMessage {
        ChatMessage::User { content: text.to_owned() }
    }

    pub(crate) fn says(text: &str) -> ChatMessage {
        ChatMessage::Assistant { content: Some(text.to_owned()), tool_calls: Vec::new() }
    }

    pub(crate) fn calls(ids: &[&str]) -> ChatMessage {
        let call = |id: &&str| ToolCall {
            id: (*id).to_owned(),
            name: "look".to_owned(),
            arguments: Map::from_iter([("at".to_owned(), json!(1))]),
        };
        ChatMessage::Assistant { content: None, tool_calls: ids.iter().map(call).collect() }
    }

    pub(crate) fn result(id: &str, text: &str) -> ChatMessage {
        ChatMessage::Tool { tool_call_id: id.to_owned(), content: text.to_owned() }
    }

    /// Panics unless every call has its results directly behind it, and nothing else has.
    #[track_caller]
    pub(crate) fn assert_well_formed(messages: &[ChatMessage]) {
        let mut open: Vec<&str> = Vec::new();
        for message in messages {
            match message {
                ChatMessage::Tool { tool_call_id, .. } => {
                    let at = open.iter().position(|id| id == tool_call_id);
                    open.remove(at.expect("a result follows its call"));
                }
                other => {
                    assert!(open.is_empty(), "a call has no result: {open:?}");
                    if let ChatMessage::Assistant { tool_calls, .. } = other {
                        open.extend(tool_calls.iter().map(|call| call.id.as_str()));
                    }
                }
            }
        }
        assert!(open.is_empty(), "a call has no result: {open:?}");
    }

    #[test]
    fn a_call_without_a_result_gets_one_where_it_belongs() {
        let torn = vec![user("go"), calls(&["a", "b"]), result("b", "yes"), user("and?")];
        let whole =
            [user("go"), calls(&["a", "b"]), result("b", "yes"), result("a", LOST), user("and?")];
        assert_eq!(mend(torn, LOST), whole);
        assert_eq!(mend(vec![calls(&["a"])], "cancelled")[1], result("a", "cancelled"));
    }

    #[test]
    fn what_no_provider_takes_is_left_out_and_the_rest_is_unchanged() {
        let odd = vec![
            ChatMessage::System { content: "old".to_owned() },
            result("x", "of nothing"),
            user("go"),
            calls(&[]),
            says(" "),
            calls(&["same", "same"]),
            result("same", "1"),
            result("same", "2"),
            result("same", "3"),
            says("done"),
        ];
        let kept = [
            user("go"),
            calls(&["same", "same"]),
            result("same", "1"),
            result("same", "2"),
            says("done"),
        ];
        assert_eq!(mend(odd, LOST), kept);
        assert_eq!(mend(kept.to_vec(), LOST), kept);
    }
}
