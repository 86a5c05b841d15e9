//! `POST /v1/hooks/{event}`: mail at the boundaries of a client's work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the client was about to do, in every client's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// A conversation begins or is resumed.
    SessionStart,
    /// The user has written.
    Prompt,
    /// A tool is about to run or has run.
    Tool,
    /// The model wants to finish its turn.
    Stop,
}

impl HookEvent {
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::SessionStart, "session_start"),
        (Self::Prompt, "prompt"),
        (Self::Tool, "tool"),
        (Self::Stop, "stop"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(e, _)| *e == self).map_or("", |(_, word)| word)
    }
}

/// What a hook knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookRequest {
    /// Why a session starts: `startup`, `resume`, `clear` or `compact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The model goes on only because a stop was refused before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stop_active: bool,
    /// Characters that the client lets through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_chars: Option<usize>,
}

/// What the model should see, if anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookAnswer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The model should not finish yet; the text says why.
    #[serde(default)]
    pub refuse: bool,
    /// Messages in the text.
    #[serde(default)]
    pub messages: usize,
    /// Messages for which there was no room.
    #[serde(default)]
    pub remaining: usize,
}
