//! The frames of an answer, as they come: their size, and what genai does not read in them
//! or not as we need it.

mod anthropic;
mod tokens;

use genai::chat::{ChatFrameSink, ContentPart, FrameCtx, RawFrameRef, StopReason, ToolCall};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

pub(super) use self::tokens::Tokens;
use super::Provider;
use super::error::message as said_in;

pub(super) struct Frames {
    provider: Provider,
    /// The most bytes of all frames together.
    most: usize,
    seen: Mutex<Seen>,
    too_many: Notify,
    over: Notify,
}

#[derive(Default)]
struct Seen {
    bytes: usize,
    tokens: Tokens,
    anthropic: anthropic::Answer,
    calls: Vec<Called>,
    reasoning: String,
    refusal: String,
    /// Why the provider withholds the answer.
    blocked: Option<String>,
    /// An error in the middle of the stream.
    error: Option<String>,
    /// Why the answer cannot be read.
    unreadable: Option<String>,
}

/// A call of a tool, as far as it has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Called {
    index: u64,
    pub(super) id: String,
    pub(super) name: String,
    /// JSON, or what a model takes for it.
    pub(super) arguments: String,
}

impl From<Called> for ContentPart {
    fn from(call: Called) -> Self {
        Self::ToolCall(ToolCall {
            call_id: call.id,
            fn_name: call.name,
            fn_arguments: Value::String(call.arguments),
            thought_signatures: None,
        })
    }
}

impl Frames {
    pub(super) fn new(provider: Provider, most: usize) -> Self {
        let (seen, too_many, over) = (Mutex::default(), Notify::new(), Notify::new());
        Self { provider, most, seen, too_many, over }
    }

    pub(super) fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns whether answers are put together here, and not by genai.
    pub(super) fn reads(&self) -> bool {
        self.provider == Provider::Anthropic
    }

    /// Waits until the frames are larger than allowed.
    pub(super) async fn too_many(&self) {
        self.too_many.notified().await;
    }

    /// Waits until the frame that ends the answer is here.
    pub(super) async fn over(&self) {
        self.over.notified().await;
    }

    /// Returns whether the answer came to its end.
    pub(super) fn is_over(&self) -> bool {
        self.seen.lock().anthropic.is_over
    }

    /// Returns the text of the answer from this byte on.
    pub(super) fn text_from(&self, at: usize) -> Option<String> {
        let seen = self.seen.lock();
        seen.anthropic.text.get(at..).filter(|more| !more.is_empty()).map(str::to_owned)
    }

    pub(super) fn parts(&self) -> Vec<ContentPart> {
        self.seen.lock().anthropic.parts()
    }

    /// Returns why the answer ended.
    pub(super) fn reason(&self) -> Option<StopReason> {
        self.seen.lock().anthropic.reason.clone().map(StopReason::from)
    }

    /// Returns what the answer used, as far as is known.
    pub(super) fn tokens(&self) -> Tokens {
        self.seen.lock().tokens
    }

    /// Returns why the answer cannot be read.
    pub(super) fn unreadable(&self) -> Option<String> {
        self.seen.lock().unreadable.clone()
    }

    /// Reads what came in the place of frames.
    pub(super) fn hear(&self, body: Option<Value>) {
        let Some(body) = body else { return };
        let mut seen = self.seen.lock();
        seen.tokens.read(self.provider, &body);
        seen.error = said_in(&body).map(str::to_owned);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen.lock().bytes == 0
    }

    /// Returns the calls of OpenAI's format; `None` for the others, whose calls genai
    /// collects. In this format an answer names the place of each call in the list, and
    /// genai makes its list as long as the answer says, however long that is.
    pub(super) fn calls(&self) -> Option<Vec<Called>> {
        (self.provider == Provider::Openai).then(|| self.seen.lock().calls.clone())
    }

    /// Returns the `reasoning_content` of OpenAI's format. Who sends it under this name
    /// wants it back; others refuse it.
    pub(super) fn reasoning(&self) -> Option<String> {
        Some(self.seen.lock().reasoning.clone()).filter(|text| !text.is_empty())
    }

    /// Returns the words of OpenAI's format with which a model refuses.
    pub(super) fn refusal(&self) -> String {
        self.seen.lock().refusal.clone()
    }

    /// Returns why the provider withholds the answer, in Gemini's format.
    pub(super) fn blocked(&self) -> Option<String> {
        self.seen.lock().blocked.clone()
    }

    /// Returns the error with which the stream ended, in Ollama's format.
    pub(super) fn error(&self) -> Option<String> {
        self.seen.lock().error.clone()
    }
}

impl ChatFrameSink for Frames {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut seen = self.seen.lock();
        seen.bytes = seen.bytes.saturating_add(frame.data.len());
        if seen.bytes > self.most {
            self.too_many.notify_one();
            return;
        }
        let keys: &[&str] = match self.provider {
            Provider::Openai => &["tool_calls", "reasoning_content", "refusal", "usage"],
            Provider::Gemini => &["blockReason", "usageMetadata"],
            Provider::Ollama => &["error", "eval_count"],
            Provider::Anthropic => &[""],
            Provider::Script => &[],
        };
        if !keys.iter().any(|key| frame.data.contains(key)) {
            return;
        }
        if frame.data.is_empty() {
            return;
        }
        let chunk = match serde_json::from_str(frame.data) {
            Ok(chunk) => chunk,
            Err(error) if self.reads() => {
                seen.unreadable.get_or_insert(error.to_string());
                return;
            }
            Err(_) => Value::Null,
        };
        seen.tokens.read(self.provider, &chunk);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match self.provider {
            Provider::Openai => {
                let delta = &chunk["choices"][0]["delta"];
                seen.reasoning.push_str(delta["reasoning_content"].as_str().unwrap_or_default());
                seen.refusal.push_str(delta["refusal"].as_str().unwrap_or_default());
                let pieces = delta["tool_calls"].as_array().into_iter().flatten();
                pieces.for_each(|piece| seen.add(piece));
            }
            Provider::Gemini => {
                if let Some(reason) = text(&chunk["promptFeedback"]["blockReason"]) {
                    seen.blocked = Some(reason);
                }
            }
            Provider::Ollama => {
                if let Some(error) = text(&chunk["error"]) {
                    seen.error = Some(error);
                }
            }
            Provider::Anthropic => {
                if !chunk["error"].is_null() {
                    let words = said_in(&chunk).map_or_else(|| chunk.to_string(), str::to_owned);
                    seen.error.get_or_insert(words);
                }
                if let Err(why) = seen.anthropic.read(&chunk) {
                    seen.unreadable.get_or_insert(why);
                }
                if seen.anthropic.is_over {
                    self.over.notify_one();
                }
            }
            Provider::Script => {}
        }
    }
}

impl Seen {
    fn add(&mut self, piece: &Value) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn calls(pieces: &[Value]) -> Vec<(String, String, String)> {
        let mut seen = Seen::default();
        pieces.iter().for_each(|piece| seen.add(piece));
        seen.calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
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
