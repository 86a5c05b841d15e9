//! `/v1/chat`: the operator's conversation with one agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{
    AlreadyAnswered, CannotStart, Conflict, InvalidAddress, KeyReused, LineFull, MailboxFull,
    NotFound, RateLimited, RecipientGone,
};
use crate::messages::Receipt;
use crate::needs::NeedView;
use crate::openapi::{Who, call_table, get, json, of, post};

const AGENT: &str = "The agent: 8 hex digits, an address, or a name that one living agent has.";

call_table![
    START = post(
        "/v1/chat",
        "Start an agent to talk to; it stays for further messages",
        Who::Operator,
        &[json(201, "Who it is, and the receipt of the first message.", of::<ChatStarted>)],
    )
    .body(of::<ChatStart>)
    .fails(&[
        NotFound,
        KeyReused,
        Conflict,
        RecipientGone,
        InvalidAddress,
        MailboxFull,
        RateLimited,
        CannotStart,
        LineFull,
    ]),
    READ = get(
        "/v1/chat/{instance}",
        "The conversation with an agent, and how it is doing",
        Who::Operator,
        &[json(200, "Oldest first, and the same after a restart of the hub.", of::<ChatView>)],
    )
    .part(AGENT)
    .query(of::<ChatQuery>)
    .fails(&[NotFound, Conflict, InvalidAddress]),
    SAY = post(
        "/v1/chat/{instance}",
        "Write to an agent: a message, an answer to its question, or a verdict",
        Who::Operator,
        &[
            json(
                201,
                "The message is on disk; `need` is the question that it answers.",
                of::<ChatSaid>
            ),
            json(
                200,
                "A verdict was given on a permission request, and no message sent.",
                of::<ChatSaid>
            ),
        ],
    )
    .part(AGENT)
    .body(of::<ChatSay>)
    .fails(&[
        NotFound,
        KeyReused,
        AlreadyAnswered,
        Conflict,
        RecipientGone,
        InvalidAddress,
        MailboxFull,
        RateLimited,
    ]),
    CANCEL = post(
        "/v1/chat/{instance}/cancel",
        "Cancel the running turn of an agent, and not the agent",
        Who::Operator,
        &[json(200, "The turn ends; the agent says so in the conversation.", of::<ChatCancelled>)],
    )
    .part(AGENT)
    .fails(&[NotFound, Conflict, RecipientGone, InvalidAddress]),
];

/// `POST /v1/chat` (operator)
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatStart {
    /// A profile's name, or `name@team`.
    pub agent: String,
    /// The first message. Without it the agent waits for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The agent's team; default `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// A label of the agent, by which people tell one from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Where to work: an absolute path. Default: as the profile says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// The same key gives the same agent, and sends its message once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// 201: the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatStarted {
    /// The agent: 8 hex digits.
    pub instance: String,
    /// Its whole address.
    pub address: String,
    /// Its thread, in which the conversation is: `t-` and 8 hex digits.
    pub thread_id: String,
    /// `starting`: it stands in line or begins; `running` for one that was here.
    pub status: String,
    /// The receipt of the first message, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// The key was accepted before, as this.
    #[serde(default)]
    pub duplicate: bool,
}

/// `GET /v1/chat/{instance}` (operator); each field is a query parameter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChatQuery {
    /// Number of the newest messages, 1 to 200; default 20. Calls of tools do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_n: Option<u32>,
    /// Only messages before this number: the `before` of a former answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

/// A part of the conversation with an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatView {
    /// The agent: 8 hex digits.
    pub instance: String,
    /// Its whole address.
    pub address: String,
    /// Its thread, which `/v1/events?topics=thread:{id}` follows.
    pub thread_id: String,
    /// Its status.
    pub status: String,
    /// It is at work, or has mail that it has not taken.
    pub working: bool,
    /// The answer that its model is writing; absent while it writes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writing: Option<String>,
    /// The numbers of the operator's messages among the entries that nothing has answered. A
    /// message that stays `read`, because the agent ended its turn without a word about it,
    /// is not open.
    pub open: Vec<u64>,
    /// Oldest first. Without `before` they include each open question and request, also older
    /// ones.
    pub entries: Vec<ChatEntry>,
    /// Give it as `before` for older messages; absent at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatEntry {
    /// The number of the message; absent for `tool` and `permission`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Of a `tool`: the number of its entry in the agent's transcript, when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no: Option<u64>,
    /// `user` (a message of the operator), `partial` (an answer while the work goes on),
    /// `answer`, `question`, `permission` (a request for it) or `tool`.
    pub kind: String,
    /// The text; of a tool the beginning of its arguments.
    pub text: String,
    /// The number of the message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<u64>,
    /// The numbers of the operator's messages that it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<u64>,
    /// What it answers, in the agent's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// Of `user`: `queued`, `read`, `working` (the agent has it and is at work), `answered`
    /// or `failed`. Of `question` and `permission`: `open`, `answered` or `withdrawn` (also
    /// when its time was up). Of
    /// `tool`: `running`, `done` or `failed`. Of `answer`: `failed` or `cancelled` if the
    /// turn ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why a message failed: `turn_failed`, `turn_cancelled`, `agent_ended` (before it
    /// answered), or the reason for which it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The answers that a question offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Of a question: the agent does nothing until it is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking: Option<bool>,
    /// The number of the open need, for `/answer` and `POST /v1/needs/{id}/answer`; of a
    /// `permission` also when it is not open any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<u64>,
    /// The name of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The id of the call of a tool, by which its states belong together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// When it was accepted, asked or called.
    pub created_at: String,
}

/// `POST /v1/chat/{instance}` (operator). Before the agent reads it: `/answer [ID] text`
/// answers that need of the agent or its open question, the blocking one first; a plain yes
/// or no is the verdict on its oldest permission request; any other text answers its open
/// blocking question; without one it is a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChatSay {
    /// The text.
    pub message: String,
    /// The same key sends the same message once, and gives the same verdict once, also over a
    /// restart of the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// What became of it: the receipt of a message, the need that was answered, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatSaid {
    /// The receipt, as `POST /v1/messages` answers; not for a verdict.
    #[serde(flatten)]
    pub receipt: Option<Receipt>,
    /// The need that was answered, as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need: Option<NeedView>,
}

/// The turn is being cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatCancelled {
    /// The agent.
    pub instance: String,
    /// Its whole address.
    pub address: String,
}
