//! The tokens that an answer used, as far as its provider has told.
//!
//! genai tells them with the end of an answer, and the provider wants to be paid for one
//! without an end as well.

use serde_json::Value;

use super::Provider;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::models) struct Tokens {
    /// With the cached ones.
    pub(in crate::models) input: u64,
    pub(in crate::models) cached: u64,
    pub(in crate::models) output: u64,
}

impl Tokens {
    /// Reads a frame. What a later one says takes the place of what an earlier one said.
    pub(super) fn read(&mut self, provider: Provider, frame: &Value) {
        match provider {
            Provider::Openai => {
                for usage in [&frame["usage"], &frame["x_groq"]["usage"]] {
                    let cached = &usage["prompt_tokens_details"]["cached_tokens"];
                    self.take(
                        count(&usage["prompt_tokens"]),
                        count(cached),
                        count(&usage["completion_tokens"]),
                    );
                }
            }
            Provider::Anthropic => {
                for usage in [&frame["message"]["usage"], &frame["usage"]] {
                    let cached = count(&usage["cache_read_input_tokens"]);
                    let written = count(&usage["cache_creation_input_tokens"]);
                    // This format counts cached tokens beside the others.
                    let beside = cached.unwrap_or_default() + written.unwrap_or_default();
                    let input = count(&usage["input_tokens"]).map(|input| input + beside);
                    self.take(input, cached, count(&usage["output_tokens"]));
                }
            }
            Provider::Gemini => {
                let usage = &frame["usageMetadata"];
                let both = |one: &str, two: &str| {
                    let (one, two) = (count(&usage[one]), count(&usage[two]));
                    one.or(two).map(|_| one.unwrap_or_default() + two.unwrap_or_default())
                };
                self.take(
                    both("promptTokenCount", "toolUsePromptTokenCount"),
                    count(&usage["cachedContentTokenCount"]),
                    both("candidatesTokenCount", "thoughtsTokenCount"),
                );
            }
            Provider::Ollama => self.take(
                count(&frame["prompt_eval_count"]),
                count(&frame["prompt_eval_cached_count"]),
                count(&frame["eval_count"]),
            ),
            Provider::Script => {}
        }
    }

    fn take(&mut self, input: Option<u64>, cached: Option<u64>, output: Option<u64>) {
        self.input = input.unwrap_or(self.input);
        self.cached = cached.unwrap_or(self.cached);
        self.output = output.unwrap_or(self.output);
    }
}

/// Reads a number of tokens. No answer has more than this many.
fn count(value: &Value) -> Option<u64> {
    let most = u64::from(u32::MAX);
    // Some endpoints write whole numbers with a fraction.
    let whole = || value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64);
    value.as_u64().or_else(whole).map(|number| number.min(most))
}
