//! `POST /v1/hooks/{event}`: mail at the boundaries of a client's work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{Conflict, IdentityTaken, InvalidAddress, NotFound};
use crate::openapi::{Who, call_table, json, of, post};

call_table![
    FIRE = post(
        "/v1/hooks/{event}",
        "A hook of an agent's program fired: what its model should see",
        Who::Anybody,
        &[json(200, "What to show, and whether to go on.", of::<HookAnswer>)],
    )
    .part("`session_start`, `prompt`, `before_tool`, `tool`, `stop` or `idle`.")
    .body(of::<HookRequest>)
    // The caller may say by headers who it is, and joins by it.
    .fails(&[NotFound, IdentityTaken, InvalidAddress, Conflict]),
];

/// How the text of every refused stop begins. Some programs show a refusal to their model
/// as a prompt, and run their prompt hook for it.
pub const REFUSAL: &str = "Posthaste: do not finish yet";

/// What the client was about to do, in every client's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// A conversation begins or is resumed.
    SessionStart,
    /// The user has written.
    Prompt,
    /// A tool is about to run.
    BeforeTool,
    /// A tool has run.
    Tool,
    /// The model wants to finish its turn.
    Stop,
    /// The model has finished, and the program waits for its user: the call waits for mail
    /// with which the program is to begin a turn. Its mail is proved by the receipt.
    Idle,
}

impl HookEvent {
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::SessionStart, "session_start"),
        (Self::Prompt, "prompt"),
        (Self::BeforeTool, "before_tool"),
        (Self::Tool, "tool"),
        (Self::Stop, "stop"),
        (Self::Idle, "idle"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(e, _)| *e == self).map_or("", |(_, word)| word)
    }
}

/// What a hook knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookRequest {
    /// Why a session starts: `startup`, `resume`, `clear` or `compact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The program's own flag for a stop after a refused one. Programs disagree about
    /// it, so the hub counts refusals itself and ignores this.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stop_active: bool,
    /// The agent program, by the name that `posthaste connect` gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The conversation, or the program's process where the program has no conversation:
    /// the same value that the bridge of the program sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The tool of a tool hook, as the program calls it (`mcp__posthaste__check_inbox`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The program's id of the tool call, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The tool failed: the program may drop what a hook adds to its result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// The agent's model would not see what the hook adds (it is a sub-agent's, or its
    /// program drops it): the hook hands over no mail.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// Seconds for which `idle` waits for mail, 0 to 600; default 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Characters that the client lets through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_chars: Option<usize>,
}

/// What the model should see, if anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookAnswer {
    /// What the model should see; absent if nothing.
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
    /// Of `idle` with mail: acks it (`POST /v1/inbox/ack`) once the program has begun the
    /// turn with it. Nothing else that the program does proves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}
