//! What a program tells its hook, as one JSON object on stdin.
//!
//! It may be long, for it has what a tool said; it may be cut, and it may be rubbish.
//! What could be read of it up to there counts.

use std::fmt;
use std::io::{self, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tokio::sync::oneshot;

/// What is looked at. The rest is read and thrown away, so that nobody who writes to
/// us finds a closed pipe.
const LOOKED_AT: u64 = 4 << 20;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Input {
    /// What the program calls the conversation.
    pub(super) conversation: Option<String>,
    /// What the program calls the event.
    pub(super) event: Option<String>,
    /// Why a session starts.
    pub(super) source: Option<String>,
    /// The model goes on only because a stop was refused before.
    pub(super) stop_active: bool,
    /// The helper that the agent has started, if this is about one.
    helper: Option<String>,
}

impl Input {
    pub(super) fn is_of_a_helper(&self) -> bool {
        self.helper.as_deref().is_some_and(|helper| !helper.is_empty())
    }

    fn read(text: &[u8]) -> Self {
        let mut input = Self::default();
        let mut json = serde_json::Deserializer::from_slice(text);
        // It keeps what it found before it failed.
        let _ = Fields(&mut input).deserialize(&mut json);
        input
    }

    fn take(&mut self, field: &str, value: Value) {
        let text = match &value {
            Value::String(text) => Some(text.clone()),
            _ => None,
        };
        match field {
            "session_id" => self.conversation = text,
            "hook_event_name" => self.event = text,
            "source" => self.source = text,
            "stop_hook_active" => self.stop_active = value == true,
            "agent_id" => self.helper = text,
            _ => (),
        }
    }
}

/// Reads stdin to its end, by a thread of its own: a read cannot be given up, and when
/// the process ends the thread ends with it.
pub(super) fn of_stdin() -> Result<oneshot::Receiver<Input>, posthaste_api::ApiError> {
    let (sender, input) = oneshot::channel();
    let read = move || {
        let mut stdin = io::stdin().lock();
        let mut text = Vec::new();
        // What cannot be read says nothing.
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
                "session_id" | "hook_event_name" | "source" | "stop_hook_active" | "agent_id" => {
                    let value = map.next_value()?;
                    self.0.take(&field, value);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
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
        assert!(input.stop_active && !input.is_of_a_helper());
        assert!(Input::read(br#"{"agent_id":"a1"}"#).is_of_a_helper());
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
        assert!(!Input::read(br#"{"stop_hook_active":"yes"}"#).stop_active);
    }
}
