//! Answers in the format of OpenAI.
//!
//! An answer names the place of each call in the list, and genai makes its list as long as
//! the answer says, however long that is. Where a piece has a key `error`, genai reads
//! nothing else of it, although there may be no error.

use genai::chat::ContentPart;
use serde_json::Value;

use super::Called;

#[derive(Default)]
pub(super) struct Answer {
    pub(super) text: String,
    calls: Vec<Called>,
    reasoning: String,
    refusal: String,
    pub(super) reason: Option<String>,
    pub(super) is_over: bool,
}

impl Answer {
    pub(super) fn read(&mut self, chunk: &Value) {
        let choice = &chunk["choices"][0];
        let delta = &choice["delta"];
        match &delta["content"] {
            Value::String(text) => self.text.push_str(text),
            // Some endpoints send a list of texts and thoughts.
            Value::Array(parts) => {
                let texts = parts.iter().filter(|part| part["type"] == "text");
                texts.for_each(|part| self.text.push_str(text(&part["text"])));
            }
            _ => {}
        }
        self.reasoning.push_str(text(&delta["reasoning_content"]));
        self.refusal.push_str(text(&delta["refusal"]));
        let pieces = delta["tool_calls"].as_array().into_iter().flatten();
        pieces.for_each(|piece| self.call(piece));
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.reason = Some(reason.to_owned());
        }
    }

    /// Returns the parts of the answer: thoughts, text, calls.
    pub(super) fn parts(&self) -> Vec<ContentPart> {
        let mut parts = Vec::new();
        // Who sends thoughts under this name wants them back; others refuse them.
        if !self.reasoning.is_empty() {
            parts.push(ContentPart::ReasoningContent(self.reasoning.clone()));
        }
        // The words with which a model refuses are its answer.
        let text = if self.text.is_empty() { &self.refusal } else { &self.text };
        parts.push(ContentPart::Text(text.clone()));
        parts.extend(self.calls.iter().cloned().map(ContentPart::from));
        parts
    }

    fn call(&mut self, piece: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, name) = (text(&piece["id"]), text(&piece["function"]["name"]));
        let arguments = match &piece["function"]["arguments"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            whole => whole.to_string(),
        };
        let index = piece["index"].as_u64();
        // A piece without an index goes on with the last call.
        let known = match index {
            Some(index) => self.calls.iter_mut().rev().find(|call| call.index == index),
            None => self.calls.last_mut(),
        };
        // Some endpoints give every call of an answer the same index.
        let is_other = |call: &Called| !name.is_empty() && !id.is_empty() && call.id != id;
        match known.filter(|call| !is_other(call)) {
            Some(call) => {
                call.arguments.push_str(&arguments);
                if call.id.is_empty() {
                    call.id = id;
                }
                if call.name.is_empty() {
                    call.name = name;
                }
            }
            None => {
                let index = index.unwrap_or(self.calls.len() as u64);
                self.calls.push(Called { index, id, name, arguments });
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn calls(pieces: &[Value]) -> Vec<(String, String, String)> {
        let mut answer = Answer::default();
        pieces.iter().for_each(|piece| answer.call(piece));
        answer.calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn a_call_is_put_together_from_its_pieces() {
        let pieces = [
            json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": "" } }),
            json!({ "index": 1, "id": "b", "function": { "name": "read", "arguments": "{\"x\"" } }),
            json!({ "index": 0, "function": { "arguments": "{}" } }),
            json!({ "index": 1, "function": { "arguments": ":1}" } }),
        ];
        assert_eq!(calls(&pieces), [call("a", "look", "{}"), call("b", "read", "{\"x\":1}")]);
    }

    #[test]
    fn calls_with_an_index_that_says_nothing_stay_apart() {
        let same = [
            json!({ "index": 0, "id": "a", "function": { "name": "look", "arguments": "{}" } }),
            json!({ "index": 0, "id": "b", "function": { "name": "look", "arguments": "{}" } }),
        ];
        assert_eq!(calls(&same), [call("a", "look", "{}"), call("b", "look", "{}")]);
        let none = [
            json!({ "id": "a", "function": { "name": "look", "arguments": { "x": 1 } } }),
            json!({ "id": "b", "function": { "name": "read" } }),
            json!({ "function": { "arguments": "{}" } }),
        ];
        assert_eq!(calls(&none), [call("a", "look", "{\"x\":1}"), call("b", "read", "{}")]);
        // An index is a name, and no number of calls to make room for.
        let far = json!({ "index": 4_000_000_000_u64, "id": "a", "function": { "name": "look" } });
        assert_eq!(calls(&[far]), [call("a", "look", "")]);
    }
}
