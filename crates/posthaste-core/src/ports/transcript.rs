//! The transcript of a worker: what went on in its conversation, entry by entry.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// One entry. Entries are numbered from 1 without a gap; old ones are dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptEntry {
    pub no: u64,
    pub at: Timestamp,
    pub kind: TranscriptKind,
    /// The text, clipped to a bound.
    pub text: String,
    /// The name of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program's own id of a call or of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The state of a tool's call: `began`, `done` or `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptKind {
    /// Text that was put before the model: its task, or mail.
    Prompt,
    /// Text of the model for its user.
    Text,
    /// Text of the model for itself.
    Thought,
    Tool,
    /// A request for permission.
    Permission,
    /// The last text of a turn.
    Answer,
    /// The screen of a terminal.
    Screen,
    /// A line that the driver does not know.
    Unknown,
    /// A note of the hub.
    Note,
}

impl TranscriptKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Text => "text",
            Self::Thought => "thought",
            Self::Tool => "tool",
            Self::Permission => "permission",
            Self::Answer => "answer",
            Self::Screen => "screen",
            Self::Unknown => "unknown",
            Self::Note => "note",
        }
    }
}

/// A part of a transcript.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TranscriptPage {
    pub entries: Vec<TranscriptEntry>,
    /// The number of the oldest entry that is kept.
    pub oldest: u64,
    /// The number of the last entry.
    pub last: u64,
}
