//! The thoughts of a model before it called tools.
//!
//! Some providers want them back, unchanged, beside the calls and their results: Anthropic's
//! signed blocks, Gemini's signatures, the `reasoning_content` of others.

use std::collections::BTreeMap;

use genai::chat::{ContentPart, ToolCall as Called};
use serde::{Deserialize, Serialize};

/// The thoughts behind one answer that calls tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Thoughts {
    /// The provider's name of the model. Another model cannot read them.
    model: String,
    /// Parts of the answer, in genai's own form.
    #[serde(default)]
    parts: Vec<serde_json::Value>,
    /// The signatures of single calls, by the id of the call.
    #[serde(default)]
    signatures: BTreeMap<String, Vec<String>>,
}

impl Thoughts {
    pub(super) fn new(model: &str) -> Self {
        Self { model: model.to_owned(), ..Self::default() }
    }

    pub(super) fn add(&mut self, part: &ContentPart) {
        self.parts.extend(serde_json::to_value(part));
    }

    pub(super) fn sign(&mut self, call: &str, signatures: Vec<String>) {
        self.signatures.insert(call.to_owned(), signatures);
    }

    /// Returns these thoughts unless there are none.
    pub(super) fn some(self) -> Option<Self> {
        (!self.parts.is_empty() || !self.signatures.is_empty()).then_some(self)
    }

    pub(super) fn is_of(&self, model: &str) -> bool {
        self.model == model
    }

    /// Returns the parts that go before the text of the answer.
    pub(super) fn parts(&self) -> impl Iterator<Item = ContentPart> {
        self.parts.iter().filter_map(|part| serde_json::from_value(part.clone()).ok())
    }

    /// Gives a call its signatures.
    pub(super) fn signed(&self, mut call: Called) -> Called {
        call.thought_signatures = self.signatures.get(&call.call_id).cloned();
        call
    }
}
