//! Answers in Anthropic's format.
//!
//! genai knows a frame by the name before it, and passes over one without a name. It loses
//! the name where a piece of the stream ends between the two characters of a line's end.
//! Each frame also names itself, so every one of them is read here.

use genai::chat::ContentPart;
use serde_json::Value;

use super::Called;

#[derive(Default)]
pub(super) struct Answer {
    blocks: Vec<Block>,
    pub(super) text: String,
    pub(super) reason: Option<String>,
    pub(super) is_over: bool,
}

/// A part of an answer, as far as it has come.
struct Block {
    index: u64,
    kind: Kind,
}

enum Kind {
    Call(Called),
    Thought {
        text: String,
        signature: String,
    },
    /// Goes back as it came.
    Sealed(Value),
    /// A text, which is kept with the others, or something that nobody knows.
    Other,
}

impl Answer {
    /// Reads a frame, or says what is wrong with it.
    pub(super) fn read(&mut self, frame: &Value) -> Result<(), String> {
        let index = frame["index"].as_u64().unwrap_or_default();
        match text(&frame["type"]) {
            "content_block_start" => self.start(index, &frame["content_block"]),
            "content_block_delta" => return self.go_on(index, &frame["delta"]),
            "message_delta" => {
                if let Some(reason) = frame["delta"]["stop_reason"].as_str() {
                    self.reason = Some(reason.to_owned());
                }
            }
            "message_stop" => self.is_over = true,
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, index: u64, block: &Value) {
        let kind = match text(&block["type"]) {
            "tool_use" => Kind::Call(Called {
                index,
                id: text(&block["id"]).to_owned(),
                name: text(&block["name"]).to_owned(),
                // Some endpoints send the arguments at once, others an empty object.
                arguments: match &block["input"] {
                    Value::Object(input) if !input.is_empty() => block["input"].to_string(),
                    _ => String::new(),
                },
            }),
            "thinking" => Kind::Thought {
                text: text(&block["thinking"]).to_owned(),
                signature: text(&block["signature"]).to_owned(),
            },
            "redacted_thinking" => Kind::Sealed(block.clone()),
            _ => {
                self.text.push_str(text(&block["text"]));
                Kind::Other
            }
        };
        self.blocks.push(Block { index, kind });
    }

    fn go_on(&mut self, index: u64, delta: &Value) -> Result<(), String> {
        let known = self.blocks.iter_mut().rev().find(|block| block.index == index);
        let lost = || Err(format!("block {index} goes on without having begun"));
        match (text(&delta["type"]), known.map(|block| &mut block.kind)) {
            ("text_delta", _) => self.text.push_str(text(&delta["text"])),
            ("input_json_delta", Some(Kind::Call(call))) => {
                call.arguments.push_str(text(&delta["partial_json"]));
            }
            ("thinking_delta", Some(Kind::Thought { text: all, .. })) => {
                all.push_str(text(&delta["thinking"]));
            }
            ("signature_delta", Some(Kind::Thought { signature, .. })) => {
                signature.push_str(text(&delta["signature"]));
            }
            ("input_json_delta" | "thinking_delta" | "signature_delta", None) => return lost(),
            _ => {}
        }
        Ok(())
    }

    /// Returns the parts of the answer: thoughts, text, calls.
    pub(super) fn parts(&self) -> Vec<ContentPart> {
        let mut parts = Vec::new();
        for block in &self.blocks {
            match &block.kind {
                // A thought without a signature cannot go back.
                Kind::Thought { text, signature } if !signature.is_empty() => {
                    parts.push(ContentPart::ThoughtSignature(signature.clone()));
                    parts.push(ContentPart::ReasoningContent(text.clone()));
                }
                Kind::Sealed(whole) => parts.push(ContentPart::from_custom(whole.clone(), None)),
                Kind::Thought { .. } | Kind::Call(_) | Kind::Other => {}
            }
        }
        parts.push(ContentPart::Text(self.text.clone()));
        parts.extend(self.blocks.iter().filter_map(|block| match &block.kind {
            Kind::Call(call) => Some(call.clone().into()),
            _ => None,
        }));
        parts
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
