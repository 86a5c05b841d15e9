//! The frames of an answer, as they come: their size, and what genai does not read in them
//! or not as we need it.

mod anthropic;
mod openai;
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
    openai: openai::Answer,
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
        matches!(self.provider, Provider::Openai | Provider::Anthropic)
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
        let seen = self.seen.lock();
        seen.openai.is_over || seen.anthropic.is_over
    }

    /// Returns the text of the answer from this byte on.
    pub(super) fn text_from(&self, at: usize) -> Option<String> {
        let seen = self.seen.lock();
        let text = match self.provider {
            Provider::Openai => &seen.openai.text,
            _ => &seen.anthropic.text,
        };
        text.get(at..).filter(|more| !more.is_empty()).map(str::to_owned)
    }

    pub(super) fn parts(&self) -> Vec<ContentPart> {
        let seen = self.seen.lock();
        match self.provider {
            Provider::Openai => seen.openai.parts(),
            _ => seen.anthropic.parts(),
        }
    }

    /// Returns why the answer ended.
    pub(super) fn reason(&self) -> Option<StopReason> {
        let seen = self.seen.lock();
        let reason = seen.openai.reason.as_ref().or(seen.anthropic.reason.as_ref());
        reason.cloned().map(StopReason::from)
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

    /// Returns why the provider withholds the answer, in Gemini's format.
    pub(super) fn blocked(&self) -> Option<String> {
        self.seen.lock().blocked.clone()
    }

    /// Returns the error with which the stream ended.
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
            Provider::Gemini => &["blockReason", "usageMetadata"],
            Provider::Ollama => &["error", "eval_count"],
            Provider::Openai | Provider::Anthropic => &[""],
            Provider::Script => &[],
        };
        if !keys.iter().any(|key| frame.data.contains(key)) {
            return;
        }
        if frame.data.is_empty() {
            return;
        }
        if self.provider == Provider::Openai && frame.data == "[DONE]" {
            seen.openai.is_over = true;
            self.over.notify_one();
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
                seen.fail(&chunk["error"]);
                seen.openai.read(&chunk);
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
                seen.fail(&chunk["error"]);
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
    /// Keeps an error in the words of the provider. Some endpoints send an empty one with
    /// every event.
    fn fail(&mut self, error: &Value) {
        let is_none = match error {
            Value::Null => true,
            Value::Bool(is_error) => !is_error,
            Value::String(text) => text.is_empty(),
            Value::Object(error) => error.is_empty(),
            _ => false,
        };
        if !is_none {
            let words = said_in(error).map_or_else(|| error.to_string(), str::to_owned);
            self.error.get_or_insert(words);
        }
    }
}
