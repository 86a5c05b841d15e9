//! A conversation with a running agent program, as a pure state machine.
//!
//! A [`Conversation`] gets the lines that the program writes and says what they mean; it
//! gets the text of a prompt and returns the bytes to write. It has no process, no clock
//! and no file, so recorded lines test it. Its state is a value: the hub keeps it together
//! with the number of bytes heard, and the hub's next start goes on from there.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::assistant::Served;

/// The number of a prompt within its conversation. The session gives the numbers, counted
/// from 1, which is the task.
pub(crate) type PromptNo = u64;

/// The conversation with one program, in one file for each kind of program.
pub(crate) trait Conversation: Send {
    /// Returns what to write when the program has just been started. Called once.
    fn open(&mut self) -> Vec<Heard>;

    /// Takes one line of the program's output, without its line end. Lines that it does
    /// not know become [`Heard::Unknown`], and never an error.
    fn heard(&mut self, line: &[u8]) -> Vec<Heard>;

    /// Starts a turn with this text; called only while the activity is idle.
    fn prompt(&mut self, prompt: PromptNo, text: &str) -> Option<Vec<u8>>;

    /// Returns whether text can be put into the running turn.
    fn can_steer(&self) -> bool {
        false
    }

    /// Puts this text into the running turn; called only while the activity is busy.
    /// `None`: the program cannot just now, so the mail waits for another way.
    fn steer(&mut self, prompt: PromptNo, text: &str) -> Option<Vec<u8>>;

    /// Returns whether the running turn can be ended.
    fn can_interrupt(&self) -> bool {
        false
    }

    /// Ends the running turn; called only while the activity is busy. `None`: the program
    /// cannot. The turn then ends with [`TurnEnd::Interrupted`].
    fn interrupt(&mut self) -> Option<Vec<u8>>;

    /// Answers a request for permission. `None`: the request is not open any more.
    fn answer(&mut self, request: &str, allow: bool, why: &str) -> Option<Vec<u8>>;

    /// Takes the hub's answer to a call of the program.
    fn served(&mut self, _call: &str, _served: Served) -> Vec<Heard> {
        Vec::new()
    }

    /// Returns whether the hub itself stores the conversation: then mail is stored before
    /// the program is told of it, and a failed turn refuses none.
    fn stores_mail(&self) -> bool {
        false
    }

    fn activity(&self) -> Activity;

    /// Returns the screen of the program's terminal, as it was seen last.
    fn screen(&self) -> Option<&str> {
        None
    }

    /// Returns the state from which [`Driver::resume`](crate::drivers::Driver::resume)
    /// makes the same conversation again.
    fn state(&self) -> Value;
}

/// Whether a program can take a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The program has not said yet that it is ready.
    Starting,
    Idle,
    /// A turn runs, or a prompt was written and its turn has not begun.
    Busy,
    /// The program has done its work and ends by itself. It takes nothing more.
    Ending,
}

/// The meaning of a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard {
    /// Bytes to write to the program, in this order.
    Send(Vec<u8>),
    /// The same, with each [`TOKEN`] in them replaced by the worker's own token. The
    /// token stands in no state and no file.
    SendWithToken(String),
    /// The program itself showed that its model is given this prompt: the proof that the
    /// mail in the prompt arrived. For a prompt that was steered as well.
    Began(PromptNo),
    /// The program did not take this prompt, which was steered: its turn had just ended, or
    /// takes no text. The mail in it comes by another way.
    NotTaken(PromptNo),
    /// The turn is over, with all prompts that were put into it.
    TurnEnded(TurnEnd),
    /// Text of the model for its user.
    Text(String),
    /// Text of the model for itself.
    Thought(String),
    /// A tool was called, or its call went on.
    Tool(ToolUse),
    /// The program asks for permission and waits for the answer.
    Asks(PermissionRequest),
    /// The program does not wait for this permission any more.
    Withdrew(String),
    /// The program asks the hub to do something, and waits for the answer.
    Calls(HubCall),
    Usage(Usage),
    /// The program's own id of the conversation, with which its user can resume it.
    ConversationId(String),
    /// The whole screen of a terminal, as text.
    Screen(String),
    /// A line that means nothing to the hub. It is kept and shown.
    Unknown(String),
    /// The program cannot work: it is not logged in, or it speaks another protocol. The
    /// worker fails with this sentence.
    Fails(String),
}

/// Stands for the worker's token in [`Heard::SendWithToken`].
pub(crate) const TOKEN: &str = "\u{1}POSTHASTE_TOKEN\u{1}";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The model finished its turn with this answer.
    Answer(String),
    /// The turn was cut, by the hub or by a person; it settles nothing.
    Interrupted,
    /// The turn ended without an answer, for this reason.
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolUse {
    /// The program's own id of the call.
    pub(crate) id: String,
    pub(crate) name: String,
    /// One line about the call: its arguments, or its result.
    pub(crate) detail: String,
    pub(crate) state: ToolState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolState {
    Began,
    Done,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PermissionRequest {
    /// The program's own id of the request.
    pub(crate) request: String,
    /// The text under which a verdict is remembered, such as `Bash(git push)` or
    /// `Edit(/home/me/a.rs)`: the whole act, never shortened.
    pub(crate) subject: String,
    /// The tool and its arguments, for a person.
    pub(crate) text: String,
}

/// A call of the program to the hub.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HubCall {
    /// The program's own id of the call, as JSON.
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// What a turn cost, as the program says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost_usd: Option<f64>,
}

impl Heard {
    /// Makes the bytes of one JSON line.
    pub(crate) fn line(value: &Value) -> Self {
        Self::Send(line(value))
    }

    /// Makes the bytes of one JSON line that has the worker's token in it.
    pub(crate) fn line_with_token(value: &Value) -> Self {
        // JSON escapes the control characters of TOKEN.
        let escaped = Value::from(TOKEN).to_string();
        Self::SendWithToken(format!("{value}\n").replace(escaped.trim_matches('"'), TOKEN))
    }
}

/// Returns a JSON value as one line.
pub(crate) fn line(value: &Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// Returns a text on one line, of at most so many characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The start of an escape of JSON that stands for half of a character.
const HALF: &[u8; 3] = b"\\ud";

/// Returns a line of JSON in which each half of a character without its other half is
/// replaced. A model's text may be cut within a character, and JavaScript writes such
/// halves, which no other reader of JSON takes.
pub(crate) fn mended(line: &[u8]) -> Cow<'_, [u8]> {
    if !line.windows(HALF.len()).any(|bytes| bytes.eq_ignore_ascii_case(HALF)) {
        return Cow::Borrowed(line);
    }
    let (mut mended, mut at) = (Vec::with_capacity(line.len()), 0);
    while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
        let length = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.extend(br"\ufffd");
                at += 6;
                continue;
            }
            _ if rest[0] == b'\\' => rest.len().min(2),
            _ => 1,
        };
        mended.extend(&rest[..length]);
        at += length;
    }
    Cow::Owned(mended)
}

/// Returns the number of the escape with which a text begins.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

/// Reads the state that a hub kept, perhaps an older one: a field that it did not know has
/// its default. `None`: it has no field of such a state.
pub(crate) fn resumed<T: DeserializeOwned + Serialize + Default>(state: &Value) -> Option<T> {
    let known = serde_json::to_value(T::default()).ok()?;
    state.as_object()?.keys().any(|key| known.get(key).is_some()).then_some(())?;
    T::deserialize(state).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a state without each of its fields in turn, as an older hub kept it.
    pub(crate) fn older_states(state: &Value) -> Vec<Value> {
        let fields = state.as_object().expect("a state");
        let without = |key: &String| {
            let mut fewer = fields.clone();
            fewer.remove(key);
            Value::Object(fewer)
        };
        fields.keys().map(without).collect()
    }

    #[test]
    fn half_a_character_is_replaced_and_everything_else_stays() {
        for (line, text) in [
            (r#""cut \ud83d here""#, "cut \u{fffd} here"),
            (r#""cut \uDE00""#, "cut \u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""whole \ud83d\ude00""#, "whole 😀"),
            (r#""\\ud83d \u00e4 \n""#, "\\ud83d ä \n"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
        ] {
            let read: Value = serde_json::from_slice(&mended(line.as_bytes())).expect(line);
            assert_eq!(read, text, "{line}");
        }
        for odd in [r#""\ud8"#, r"\ud83d\", r"\u", "\\udZZZ", r"\ud83d\u"] {
            assert!(!mended(odd.as_bytes()).is_empty());
        }
        assert!(matches!(mended(br#"{"text": "\u00e4"}"#), Cow::Borrowed(_)));
    }
}
