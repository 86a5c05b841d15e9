//! `GET /v1/events`: what happens, as server-sent events.

use posthaste_core::chat::Spoken;
use posthaste_core::events::EventKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chat::ChatEntry;
use crate::error::ErrorCode::{InvalidAddress, RateLimited};
use crate::messages::{DeliveryView, MessageView};
use crate::needs::NeedView;
use crate::openapi::{Who, call_table, get, of, pieces};

const STREAM: &str = "A stream that does not end; the data of each event has this shape. \
    What else is sent stands in the table of events.";

call_table![
    FOLLOW = get(
        "/v1/events",
        "Follow what happens, as server-sent events",
        Who::Anybody,
        &[pieces(STREAM, "text/event-stream", of::<EventView>)],
    )
    .query(of::<EventsQuery>)
    .fails(&[InvalidAddress, RateLimited]),
];

/// `GET /v1/events`; each field is a query parameter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EventsQuery {
    /// `agent:{id}`, `team:{name}`, `session:{id}` (or `session:human`), `thread:{id}`,
    /// separated by commas: one must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<String>,
    /// Types or their families, separated by commas: `delivery.dead`, `message`, `response`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<String>,
    /// Begin after this number instead of now; `Last-Event-ID` beats it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Begin with the last so many that fit, 0 to 1000. Not together with `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
}

/// A call of a tool by the agent of a followed thread.
pub const TOOL: &str = "tool";
/// The answer that the model of the agent of a followed thread is writing.
pub const WRITING: &str = "writing";

/// What the followers of a thread hear beside events, and what it means.
pub const CHAT: [(&str, &str); 5] = [
    (
        Spoken::PartialResponse.as_str(),
        "On the topic `thread:{id}`: the thread's agent has shown the operator an answer and goes on. The data is that of the `message.accepted` of its message.",
    ),
    (Spoken::Question.as_str(), "The same for a question to the operator."),
    (
        Spoken::Response.as_str(),
        "The same for the last answer of a turn, or the report on a task of the operator.",
    ),
    (
        TOOL,
        "Not an event: on the topic `thread:{id}`, the thread's agent calls a tool, or the tool has answered. The data is a [ToolNews](#type-toolnews); there is no `id:`.",
    ),
    (
        WRITING,
        "Not an event: on the topic `thread:{id}`, the answer that the agent's model is writing, as far as it is; an empty text when it is written. The data is a [WritingNews](#type-writingnews); there is no `id:`.",
    ),
];

/// Sent when nothing has happened for a while, and first of all.
pub const ALIVE: &str = "alive";
/// Sent in place of events that are kept no more.
pub const RESET: &str = "reset";
/// Sent when the journal cannot be read; the stream ends.
pub const ERROR: &str = "error";

/// What a stream says that is no event, and what it means.
pub const NOTICES: [(&str, &str); 3] = [
    (
        ALIVE,
        "Not an event: the hub is there, and `id:` says how far it has looked; the first line of every stream, and then every 15 seconds without news. The data is `{}`.",
    ),
    (
        RESET,
        "Not an event: what came after the given number is kept no more, or was never given. The data is a [Reset](#type-reset), and events go on from there.",
    ),
    (
        ERROR,
        "Not an event: the journal cannot be read, and the stream ends. The data is an [ErrorBody](#type-errorbody).",
    ),
];

/// What a type of events means, in one sentence.
pub const fn meaning(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Accepted => "A message is on disk.",
        EventKind::Acked => "A reader proved a delivery; `delivery` says by what.",
        EventKind::Dead => "A delivery is dead; `delivery` says why.",
        EventKind::Returned => "A reader refused a delivery, which is back in its queue.",
        EventKind::Requeued => "A dead delivery got another chance.",
        EventKind::Joined => "An agent came by itself, or the operator made it.",
        EventKind::Ended => "An instance ended; `instance` says how.",
        EventKind::Lost => "An instance has given no sign of life for `limits.lost_after`.",
        EventKind::Team => "A team was made, or its leaders changed.",
        EventKind::Profile => "A profile was created, changed or removed.",
        EventKind::Starting => "A worker was given work and waits in line or is being started.",
        EventKind::Running => "A worker's process runs.",
        EventKind::NeedOpened => "Something waits for the operator; `need` says what.",
        EventKind::NeedClosed => "It was answered or withdrawn; `need` says how.",
        EventKind::Settled => "An assignment has its report; `message` is the report.",
    }
}

/// One event; `id:` is its number and `event:` its type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// The event's number; each is higher than the one before.
    pub no: u64,
    /// The type of the event, like `message.accepted`; the table of events has them all.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happened.
    pub at: String,
    /// The number of the message that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// That message as it is now; absent once it was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<MessageView>>,
    /// The delivery that it is about, as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryView>,
    /// The instance that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<EventInstance>,
    /// The team that it is about, or that its instance belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// The profile that was created, changed or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The number of the need that it is about. Only the operator is told of needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need_id: Option<u64>,
    /// That need as it is now; absent once it was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<Box<NeedView>>,
}

/// The instance that an event is about, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventInstance {
    /// The instance: 8 hex digits.
    pub instance: String,
    /// Absent once the instance was forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// `event: reset`: what came after the given number is not kept any more, or the
/// number was never given. Events go on from `oldest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reset {
    /// The first number that is still kept.
    pub oldest: u64,
    /// The last number that was given.
    pub last: u64,
}

/// `event: tool`: a call of a tool by the agent of a thread. The same call comes again with
/// another state and another `no`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolNews {
    /// The agent's thread.
    pub thread_id: String,
    /// The call, as the conversation shows it.
    pub entry: ChatEntry,
}

/// `event: writing`: the answer that the model of a thread's agent is writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WritingNews {
    /// The agent's thread.
    pub thread_id: String,
    /// All of it so far; empty when it is written.
    pub text: String,
}
