//! The operator's conversation with one agent.
//!
//! The conversation consists of messages: those of the operator to the agent, and those of
//! the agent to the operator, in the agent's thread. So it is as durable as they are, and
//! nothing else keeps it. The calls of tools between them come from the agent's transcript.
//!
//! What the operator writes is judged before the agent reads it, by one rule
//! ([`Hub::chat_say`](crate::Hub::chat_say)), because an answer to a question and a verdict
//! on a permission request are no new requests.

mod cancel;
mod entries;
mod partner;
mod say;
mod start;
mod tools;

use crate::address::AddressError;
use crate::messaging::message::Seq;
use crate::messaging::send::SendError;
use crate::needs::{AnswerError, NeedId};
use crate::orchestration::AssignError;
use crate::ports::StoreError;
use crate::registry::{InstanceView, RegistryError};
use crate::time::Timestamp;

pub use self::say::{Said, Say};
pub(crate) use self::start::Chats;
pub use self::start::{StartChat, Started};
pub use self::tools::tool_call;

/// A page of a conversation.
#[derive(Debug, Clone)]
pub struct Chat {
    pub view: InstanceView,
    /// The agent is at work.
    pub working: bool,
    /// The answer that its model is writing.
    pub writing: Option<String>,
    /// The operator's messages in this page that nothing has answered, without those that
    /// the agent had when its turn ended without a word.
    pub open: Vec<Seq>,
    /// Oldest first.
    pub entries: Vec<ChatEntry>,
    /// The value for the next call's `before`, if there are older messages.
    pub next: Option<Seq>,
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatEntry {
    pub kind: ChatKind,
    /// The message; `None` for a call of a tool and for a permission request.
    pub seq: Option<Seq>,
    /// The number of the transcript's entry, of a call of a tool.
    pub no: Option<u64>,
    pub text: String,
    pub in_reply_to: Option<Seq>,
    /// The operator's messages that it answers.
    pub answers: Vec<Seq>,
    /// The agent's own quote of what it answers.
    pub quote: Option<String>,
    pub state: Option<EntryState>,
    /// The reason why the message is dead, or gets no answer.
    pub reason: Option<&'static str>,
    /// The answers that a question offers.
    pub options: Vec<String>,
    pub blocking: bool,
    /// The open need, and of a permission request also the closed one.
    pub need: Option<NeedId>,
    /// The name of a tool.
    pub name: Option<String>,
    /// The id of the call of a tool.
    pub call: Option<String>,
    pub created_at: Timestamp,
}

impl ChatEntry {
    /// Makes an entry without anything that an entry may lack.
    fn new(kind: ChatKind, text: impl Into<String>, created_at: Timestamp) -> Self {
        Self {
            kind,
            seq: None,
            no: None,
            text: text.into(),
            in_reply_to: None,
            answers: Vec::new(),
            quote: None,
            state: None,
            reason: None,
            options: Vec::new(),
            blocking: false,
            need: None,
            name: None,
            call: None,
            created_at,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatKind {
    /// A message of the operator.
    User,
    /// What a worker says before the end of its turn.
    Partial,
    /// The end of a worker's turn, or a message of an agent that comes by itself.
    Answer,
    Question,
    /// A request for permission.
    Permission,
    /// A call of a tool.
    Tool,
}

impl ChatKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Partial => "partial",
            Self::Answer => "answer",
            Self::Question => "question",
            Self::Permission => "permission",
            Self::Tool => "tool",
        }
    }
}

/// The state of an entry; which ones there are depends on its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    /// A message of the operator waits, or is being handed over.
    Queued,
    /// The agent has it.
    Read,
    /// The agent has it, is at work and has not answered it.
    Working,
    /// An answer names it, or a final answer came after it.
    Answered,
    /// A message is dead; its turn failed, was cancelled or ended with the agent; an answer
    /// says that the turn failed; or a tool failed.
    Failed,
    /// The turn was cancelled.
    Cancelled,
    /// A question or a permission request waits for the operator.
    Open,
    /// Nobody waits for the answer any more.
    Withdrawn,
    /// A tool runs.
    Running,
    /// A tool has answered.
    Done,
}

impl EntryState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Read => "read",
            Self::Working => "working",
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Open => "open",
            Self::Withdrawn => "withdrawn",
            Self::Running => "running",
            Self::Done => "done",
        }
    }
}

/// The part that a message plays in the conversation with its sender, for those who follow
/// it live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// See [`ChatKind::Partial`].
    PartialResponse,
    Question,
    /// An answer: see [`ChatKind::Answer`].
    Response,
}

impl Spoken {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PartialResponse => "partial_response",
            Self::Question => "question",
            Self::Response => "response",
        }
    }
}

/// The reason why the operator cannot talk to an agent so.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("`{0}` is not one agent")]
    NotOne(String),
    #[error("there is no agent {0}")]
    NoSuchAgent(String),
    #[error("nobody called {name} is here")]
    NobodyHere { name: String },
    #[error("{} agents are called {name}", candidates.len())]
    Several { name: String, candidates: Vec<String> },
    #[error("{address} has ended: {status}")]
    Ended { address: String, status: &'static str },
    #[error("{address} waits for no answer")]
    NothingAsked { address: String },
    #[error("need {id} is not one of {address}")]
    NeedOfAnother { id: NeedId, address: String },
    #[error("need {0} is a permission request: the answer is yes or no")]
    YesOrNo(NeedId),
    #[error("{address} is not at work: there is no turn to cancel")]
    Idle { address: String },
    #[error("the driver of {address} cannot cancel a turn")]
    CannotCancel { address: String },
    #[error("the idempotency key was given with another agent: {address}")]
    KeyOfAnother { address: String },
    #[error(transparent)]
    Start(#[from] AssignError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Send(#[from] SendError),
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
