//! The conversation with one program.

use std::collections::BTreeMap;
use std::mem::take;

use agent_client_protocol_schema::{
    CancelNotification, ContentBlock, Error, InitializeRequest, McpServer, PromptRequest,
    RequestPermissionOutcome, SessionId, TextContent,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::opening::Choice;
use super::permission::{self, Request};
use super::tools::Calls;
use super::turns::{Answer, Prompt, Shown};
use super::{Program, program};
use crate::conversation::{Activity, Conversation, Heard, PromptNo, line, mended, one_line};

/// Number of bytes of an unknown line that are looked at, and of characters that are shown.
const UNKNOWN: (usize, usize) = (2_000, 300);

/// The code of an answer to a request that was cancelled.
const CANCELLED: i32 = -32_800;

/// The state of the conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Talk {
    /// The session that is to be opened, until it is.
    pub(super) start: Option<Start>,
    /// The number of the hub's last request.
    requests: u64,
    /// The step of the opening whose answer is awaited.
    pub(super) step: Option<(u64, Step)>,
    /// The choices of the profile that have not been made yet.
    pub(super) choices: Vec<Choice>,
    /// The name of the program, and the one that people know.
    pub(super) name: String,
    pub(super) title: String,
    /// The ways to log in that the program names.
    pub(super) logins: String,
    pub(super) session: Option<SessionId>,
    pub(super) ready: bool,
    /// The system prompt, for a program that can take it only with its first prompt.
    pub(super) instructions: Option<String>,
    /// Prompts without an answer, in the order in which they were written.
    pub(super) prompts: Vec<Prompt>,
    /// The hub has cut the running turn.
    pub(super) cut: bool,
    /// The model worked although it had no prompt: its next words may not belong to the
    /// next prompt.
    pub(super) strays: bool,
    /// A prompt of this turn was given up before it began.
    pub(super) abandoned: bool,
    /// The id of the last message of the model.
    pub(super) message: Option<String>,
    /// A prompt was put into this turn.
    pub(super) steered: bool,
    /// The model spoke or acted in this turn.
    pub(super) spoke: bool,
    /// A permission was denied, and the model has shown nothing since.
    pub(super) denied: Option<String>,
    pub(super) answer: Answer,
    pub(super) shown: Shown,
    pub(super) calls: Calls,
    /// The open requests for permission, by their id as JSON.
    pub(super) open: BTreeMap<String, Request>,
    /// Requests that were open when the hub cut the turn, until the session is told.
    withdrawn: Vec<String>,
    /// The cost of the whole session, and that of the turns before this one, in billionths
    /// of a dollar.
    pub(super) cost: u64,
    pub(super) told_cost: u64,
}

/// The session that is to be opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Start {
    pub(super) directory: String,
    pub(super) servers: Vec<McpServer>,
    pub(super) instructions: String,
    pub(super) model: Option<String>,
    pub(super) mode: Option<String>,
}

/// A step of the opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    Initialize,
    Session,
    Choice,
}

/// A message of JSON-RPC.
#[derive(Deserialize)]
struct Message<'a> {
    method: Option<String>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

impl Conversation for Talk {
    fn open(&mut self) -> Vec<Heard> {
        let client = super::opening::client();
        let version = agent_client_protocol_schema::ProtocolVersion::V1;
        let hello = InitializeRequest::new(version).client_info(client);
        let (id, request) = self.request("initialize", &hello);
        self.step = Some((id, Step::Initialize));
        vec![Heard::line(&request)]
    }

    fn heard(&mut self, line: &[u8]) -> Vec<Heard> {
        let mut heard: Vec<Heard> =
            take(&mut self.withdrawn).into_iter().map(Heard::Withdrew).collect();
        match self.take(line) {
            Some(more) => heard.extend(more),
            None => heard.push(unknown(line)),
        }
        heard
    }

    fn prompt(&mut self, prompt: PromptNo, text: &str) -> Option<Vec<u8>> {
        if self.activity() != Activity::Idle {
            return None;
        }
        self.begin_turn();
        self.write_prompt(Some(prompt), text)
    }

    fn can_steer(&self) -> bool {
        self.program().steers && !self.cut
    }

    fn steer(&mut self, prompt: PromptNo, text: &str) -> Option<Vec<u8>> {
        let busy = self.activity() == Activity::Busy;
        if busy && self.can_steer() { self.write_prompt(Some(prompt), text) } else { None }
    }

    fn can_interrupt(&self) -> bool {
        true
    }

    /// Cancels the turn, and answers what the program asked as the protocol wants it.
    fn interrupt(&mut self) -> Option<Vec<u8>> {
        if self.activity() != Activity::Busy {
            return None;
        }
        self.cut = true;
        let params = CancelNotification::new(self.session.clone()?);
        let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params });
        let mut bytes = line(&cancel);
        for (request, _) in take(&mut self.open) {
            if let Some(answer) = permission::answer(&request, RequestPermissionOutcome::Cancelled)
            {
                bytes.extend(line(&answer));
            }
            self.withdrawn.push(request);
        }
        Some(bytes)
    }

    fn answer(&mut self, request: &str, allow: bool, why: &str) -> Option<Vec<u8>> {
        let open = self.open.remove(request)?;
        if !allow {
            self.denied = Some(format!("{}: {}", open.what, one_line(why, UNKNOWN.1)));
        }
        Some(line(&permission::answer(request, open.outcome(allow))?))
    }

    fn activity(&self) -> Activity {
        match (self.ready, self.prompts.is_empty()) {
            (false, _) => Activity::Starting,
            (true, true) => Activity::Idle,
            (true, false) => Activity::Busy,
        }
    }

    fn state(&self) -> Value {
        self.to_value()
    }
}

impl Talk {
    pub(super) fn new(start: Start) -> Self {
        Self { start: Some(start), title: "the program".to_owned(), ..Self::default() }
    }

    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("texts, numbers, and keys that are texts")
    }

    /// Returns what is known of the program.
    pub(super) fn program(&self) -> &'static Program {
        program(&self.name)
    }

    /// Makes a request of the hub, with its number.
    pub(super) fn request(&mut self, method: &str, params: &impl Serialize) -> (u64, Value) {
        self.requests += 1;
        let id = self.requests;
        (id, json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    /// Writes a prompt; one without a number is the hub's own.
    pub(super) fn write_prompt(&mut self, no: Option<PromptNo>, text: &str) -> Option<Vec<u8>> {
        let session = self.session.clone()?;
        let texts = take(&mut self.instructions).into_iter().chain([text.to_owned()]);
        let blocks = texts.map(|text| ContentBlock::Text(TextContent::new(text))).collect();
        let (id, request) = self.request("session/prompt", &PromptRequest::new(session, blocks));
        let steered = !self.prompts.is_empty();
        self.steered |= steered;
        self.prompts.push(Prompt { id, no, steered, began: false });
        Some(line(&request))
    }

    /// Takes a line; `None` if it means nothing.
    fn take(&mut self, line: &[u8]) -> Option<Vec<Heard>> {
        let line = &*mended(line);
        let message: Message<'_> = serde_json::from_slice(line).ok()?;
        let params = message.params.map_or("null", RawValue::get);
        match (message.method.as_deref(), message.id.map(RawValue::get)) {
            (Some(method), Some(id)) => Some(match self.asks(method, id, params) {
                Some(heard) => heard,
                None => {
                    vec![refuse(id, &Error::method_not_found().data(json!(method)))?, unknown(line)]
                }
            }),
            (Some("session/update"), None) => self.updated(serde_json::from_str(params).ok()?),
            (Some("$/cancel_request"), None) => self.asks_no_more(params),
            (None, Some(id)) => {
                let answer = match message.error {
                    Some(error) => Err(error_of(error)),
                    None => Ok(message.result.map_or("null", RawValue::get)),
                };
                self.answered(id.parse().ok()?, answer)
            }
            _ => None,
        }
    }

    /// Takes the program's answer to a request of the hub.
    fn answered(&mut self, id: u64, answer: Result<&str, Error>) -> Option<Vec<Heard>> {
        if let Some((_, step)) = self.step.take_if(|(asked, _)| *asked == id) {
            return Some(self.opened(step, answer));
        }
        let at = self.prompts.iter().position(|prompt| prompt.id == id)?;
        let prompt = self.prompts.remove(at);
        Some(self.prompt_answered(prompt, answer))
    }

    /// Takes a request of the program; `None` if the hub has no answer. The hub offers no
    /// files and no terminals: the program has its own.
    fn asks(&mut self, method: &str, id: &str, params: &str) -> Option<Vec<Heard>> {
        match method {
            "session/request_permission" => {
                self.asks_permission(id, serde_json::from_str(params).ok()?)
            }
            _ => None,
        }
    }

    /// Takes it that the program does not wait for an answer any more.
    fn asks_no_more(&mut self, params: &str) -> Option<Vec<Heard>> {
        let params: Value = serde_json::from_str(params).ok()?;
        let request = params["requestId"].to_string();
        self.open.remove(&request)?;
        let error = refuse(&request, &Error::new(CANCELLED, "Request cancelled"))?;
        Some(vec![error, Heard::Withdrew(request)])
    }
}

/// Reads an error, whatever it lacks: else the hub would wait for ever for the answer that
/// it is.
fn error_of(error: Value) -> Error {
    let code = error["code"].as_i64().and_then(|code| code.try_into().ok()).unwrap_or_default();
    let message = match error["message"].as_str() {
        Some(message) => message.to_owned(),
        None => error.to_string(),
    };
    Error::new(code, message).data(error["data"].clone())
}

fn unknown(line: &[u8]) -> Heard {
    let start = &line[..line.len().min(UNKNOWN.0)];
    Heard::Unknown(one_line(&String::from_utf8_lossy(start), UNKNOWN.1))
}

/// Answers a request with an error, so that the program does not wait.
pub(super) fn refuse(id: &str, error: &Error) -> Option<Heard> {
    let id: Value = serde_json::from_str(id).ok()?;
    Some(Heard::line(&json!({ "jsonrpc": "2.0", "id": id, "error": error })))
}
