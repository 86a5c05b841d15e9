//! The input of a hook: one JSON object on stdin, written by the agent's program.
//!
//! The input may be long, because it contains the output of a tool; it may be cut, and it
//! may be invalid. The fields before the fault count.

use std::fmt;
use std::io::{self, Read};

use posthaste_api::hooks::REFUSAL;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tokio::sync::oneshot;

/// Number of bytes that are parsed. The rest is read and dropped, so that the program
/// does not find a closed pipe.
const LOOKED_AT: u64 = 4 << 20;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Input {
    /// The program's id of the conversation.
    pub(super) conversation: Option<String>,
    /// The program's name of the event.
    pub(super) event: Option<String>,
    /// The reason of a session start.
    pub(super) source: Option<String>,
    /// The program's name of the tool.
    pub(super) tool: Option<String>,
    /// The program's id of the tool's call.
    pub(super) call: Option<String>,
    /// The tool failed, or was interrupted.
    pub(super) failed: bool,
    /// The user's prompt.
    prompt: Option<String>,
    /// The subagent, if the event is about one.
    helper: Option<String>,
}

impl Input {
    pub(super) fn is_of_a_helper(&self) -> bool {
        self.helper.as_deref().is_some_and(|helper| !helper.is_empty())
    }

    /// Returns the subagent that begins or ends here, in programs that report this.
    pub(super) fn helper_itself(&self) -> Option<&str> {
        let told = ["SubagentStart", "SubagentStop"].map(Some).contains(&self.event.as_deref());
        self.helper.as_deref().filter(|helper| told && !helper.is_empty())
    }

    /// Returns whether a user has written. Qwen Code runs its prompt hook before every
    /// request to its model, with an empty prompt after tools; and some programs run
    /// theirs for the reason of a refused stop.
    pub(super) fn is_prompt(&self) -> bool {
        self.prompt.as_deref().is_none_or(|text| !text.is_empty() && !text.starts_with(REFUSAL))
    }

    pub(super) fn read(text: &[u8]) -> Self {
        let mut input = Self::default();
        let mut json = serde_json::Deserializer::from_slice(text);
        // The fields that were found before a failure are kept.
        let _ = Fields(&mut input).deserialize(&mut json);
        input
    }

    /// Returns the place of a text field, under any program's name for it.
    fn text(&mut self, field: &str) -> Option<&mut Option<String>> {
        Some(match field {
            "session_id" | "sessionId" | "sessionID" => &mut self.conversation,
            "hook_event_name" => &mut self.event,
            "source" => &mut self.source,
            "tool_name" | "toolName" => &mut self.tool,
            "tool_use_id" => &mut self.call,
            "prompt" => &mut self.prompt,
            "agent_id" | "agentId" => &mut self.helper,
            _ => return None,
        })
    }
}

/// Reads stdin to its end, on a thread of its own: a read cannot be cancelled, and the
/// thread ends with the process.
pub(super) fn of_stdin() -> Result<oneshot::Receiver<Input>, posthaste_api::ApiError> {
    let (sender, input) = oneshot::channel();
    let read = move || {
        let mut stdin = io::stdin().lock();
        let mut text = Vec::new();
        // Input that cannot be read counts as empty.
        let _ = (&mut stdin).take(LOOKED_AT).read_to_end(&mut text);
        let _ = io::copy(&mut stdin, &mut io::sink());
        let _ = sender.send(Input::read(&text));
    };
    let thread = std::thread::Builder::new().name("stdin".into()).spawn(read);
    thread.map(|_| input).map_err(|e| crate::failure::internal(format!("no thread: {e}")))
}

struct Fields<'a>(&'a mut Input);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(field) = map.next_key::<String>()? {
            match field.as_str() {
                "error" => self.0.failed |= !map.next_value::<Value>()?.is_null(),
                "is_interrupt" => self.0.failed |= map.next_value::<Value>()? == true,
                // The output of the tool.
                "tool_response" | "toolResult" => self.0.failed |= map.next_value_seed(Outcome)?,
                field => match self.0.text(field) {
                    Some(place) => {
                        *place = match map.next_value()? {
                            Value::String(text) => Some(text),
                            _ => None,
                        };
                    }
                    None => drop(map.next_value::<IgnoredAny>()?),
                },
            }
        }
        Ok(())
    }
}

/// Reads whether a tool's output reports a failure. Gemini CLI has an `error` in it,
/// Copilot CLI a word for its kind.
struct Outcome;

impl<'de> DeserializeSeed<'de> for Outcome {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Outcome {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<bool, M::Error> {
        let mut failed = false;
        while let Some(field) = map.next_key::<String>()? {
            match field.as_str() {
                "error" => failed |= !map.next_value::<Value>()?.is_null(),
                "resultType" => failed |= map.next_value::<Value>()? != "success",
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(failed)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<bool, S::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: &str = r#"{"session_id":"s1","cwd":"/","hook_event_name":"Stop",
        "stop_hook_active":true,"new":{"a":[1]},"source":"resume"}"#;

    #[test]
    fn what_is_known_is_taken_and_the_rest_is_left() {
        let input = Input::read(STOP.as_bytes());
        assert_eq!(input.conversation.as_deref(), Some("s1"));
        assert_eq!(input.event.as_deref(), Some("Stop"));
        assert_eq!(input.source.as_deref(), Some("resume"));
        assert!(!input.failed && !input.is_of_a_helper());
        for helper in [r#"{"agent_id":"a1"}"#, r#"{"agentId":"a1"}"#] {
            assert!(Input::read(helper.as_bytes()).is_of_a_helper(), "{helper}");
        }
    }

    #[test]
    fn each_programs_word_for_a_conversation_and_a_tool_is_known() {
        for text in [
            r#"{"session_id":"s1","tool_name":"t","tool_use_id":"c1"}"#,
            r#"{"sessionId":"s1","toolName":"t"}"#,
            r#"{"sessionID":"s1"}"#,
        ] {
            let input = Input::read(text.as_bytes());
            assert_eq!(input.conversation.as_deref(), Some("s1"), "{text}");
            assert_eq!(input.tool.is_some(), text.contains("ool"), "{text}");
            assert_eq!(input.call.is_some(), text.contains("c1"), "{text}");
        }
    }

    #[test]
    fn a_failed_tool_is_known_in_each_programs_words() {
        for (failed, text) in [
            (true, r#"{"tool_name":"t","error":"it broke"}"#),
            (true, r#"{"is_interrupt":true}"#),
            (true, r#"{"tool_response":{"llmContent":[{"a":1}],"error":{"message":"x"}}}"#),
            (true, r#"{"toolResult":{"resultType":"failure","textResultForLlm":"x"}}"#),
            (false, r#"{"error":null,"is_interrupt":false}"#),
            (false, r#"{"tool_response":{"llmContent":"error","error":null}}"#),
            (false, r#"{"toolResult":{"resultType":"success"}}"#),
            (false, r#"{"tool_response":[{"type":"text","error":"x"}]}"#),
            (false, r#"{"tool_response":"error","toolResult":7}"#),
            (false, r#"{"tool_response":null,"toolResult":true}"#),
        ] {
            let input = Input::read(text.as_bytes());
            assert_eq!(input.failed, failed, "{text}");
        }
    }

    #[test]
    fn only_what_a_user_has_written_is_a_prompt() {
        for (is_one, text) in [
            (true, r#"{"prompt":"hello"}"#),
            (true, "{}"),
            (false, r#"{"prompt":""}"#),
            (false, r#"{"prompt":"Posthaste: do not finish yet. Mail is unread"}"#),
        ] {
            assert_eq!(Input::read(text.as_bytes()).is_prompt(), is_one, "{text}");
        }
    }

    #[test]
    fn whatever_came_before_the_end_counts() {
        for end in 0..STOP.len() {
            let input = Input::read(&STOP.as_bytes()[..end]);
            assert_eq!(input.conversation.is_some(), end >= 18, "{end}");
        }
    }

    #[test]
    fn rubbish_says_nothing() {
        for text in ["", "null", "[]", "7", "\"s1\"", "{", "\u{0}", "{\"session_id\":{\"a\":1}}"] {
            assert_eq!(Input::read(text.as_bytes()), Input::default(), "{text}");
        }
        assert_eq!(Input::read(&[0xff, 0xfe]), Input::default());
    }
}
