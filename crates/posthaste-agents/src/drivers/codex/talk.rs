//! The conversation with one app-server.

use std::collections::BTreeMap;
use std::mem::take;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::item::text;
use super::launch::HUB;
use super::permission::{self, Call, Request};
use super::too_old;
use crate::conversation::{
    Activity, Conversation, Heard, PermissionRequest, PromptNo, TurnEnd, line, mended, one_line,
};

/// The notifications that the hub has no use for and that Codex is asked to leave out: the
/// pieces of what comes whole later, and facts about the machine and the account.
pub(super) const LEFT_OUT: [&str; 12] = [
    "account/rateLimits/updated",
    "item/agentMessage/delta",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/plan/delta",
    "item/reasoning/summaryPartAdded",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "remoteControl/status/changed",
    "turn/diff/updated",
];

/// Before the number of a prompt in the id that Codex keeps with a user's message.
pub(super) const OURS: &str = "posthaste-";

/// Number of characters of an error that a sentence quotes.
const SAID: usize = 120;

/// The code of JSON-RPC for an unknown method.
const UNKNOWN_METHOD: i64 = -32_601;

/// The state of the conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Talk {
    /// The way to start the thread, until there is one.
    start: Option<Start>,
    /// The sandbox of each turn, if the profile says so.
    sandbox: Option<Value>,
    /// The number of the hub's last request.
    requests: u64,
    /// The hub's requests that Codex has not answered.
    asked: BTreeMap<u64, Asked>,
    pub(super) thread: Option<String>,
    ready: bool,
    /// The running turn.
    pub(super) turn: Option<String>,
    /// The prompts that the model was not seen to be given.
    pub(super) prompts: Vec<Prompt>,
    /// Codex refused a text for the running turn, and would refuse the next one.
    pub(super) refuses: bool,
    /// The running turn is to be cut.
    pub(super) cut: bool,
    pub(super) answer: Answer,
    /// The calls that run, by item.
    pub(super) calls: BTreeMap<String, Call>,
    /// The open requests for permission, by their id as JSON.
    pub(super) open: BTreeMap<String, Request>,
    /// The tokens of each thread until now.
    pub(super) tokens: BTreeMap<String, Tokens>,
    /// The tokens that this turn cost.
    pub(super) spent: Tokens,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Start {
    pub(super) params: Value,
    /// The hub as an MCP server, if Codex cannot take the one in the parameters.
    pub(super) by_stdio: Value,
}

/// A request of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Asked {
    Initialize,
    Thread {
        by_stdio: bool,
    },
    Account,
    Turn(PromptNo),
    /// A turn for messages that Codex has stored already.
    TakeUp,
    Steer(PromptNo),
    Interrupt,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Prompt {
    pub(super) no: PromptNo,
    /// The turn in which it is to be, once that is known.
    pub(super) turn: Option<String>,
    /// Codex has stored it among the messages of its thread.
    pub(super) stored: bool,
}

impl Prompt {
    /// Returns whether it cannot be given to the model after this turn. A prompt whose
    /// turn Codex has not named yet can: Codex may have ended a turn of its own.
    pub(super) fn is_lost_with(&self, turn: &str) -> bool {
        self.stored || self.turn.as_deref() == Some(turn)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The model meant it as its answer, and not as a remark before going on.
    pub(super) is_final: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Conversation for Talk {
    fn open(&mut self) -> Vec<Heard> {
        let client = json!({
            "name": "posthaste", "title": "Posthaste", "version": env!("CARGO_PKG_VERSION"),
        });
        let able = json!({ "experimentalApi": false, "optOutNotificationMethods": LEFT_OUT });
        let params = json!({ "clientInfo": client, "capabilities": able });
        vec![Heard::line(&self.request("initialize", params, Asked::Initialize))]
    }

    fn heard(&mut self, line: &[u8]) -> Vec<Heard> {
        let Ok(message) = serde_json::from_slice::<Value>(&mended(line)) else {
            return vec![unknown(line)];
        };
        let known = match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => {
                let asks = self.asks(method, id, &message["params"]);
                Some(asks.unwrap_or_else(|| vec![refuse(id, method), unknown(line)]))
            }
            (Some(method), None) => self.told(method, &message["params"]),
            (None, id) => {
                let answered = id.and_then(|id| self.answered(id, &message));
                // An error about a request that it does not know may not name the request.
                let error = text(&message["error"]["message"]);
                answered.or_else(|| Some(vec![Heard::Fails(is_too_old(&error)?)]))
            }
        };
        known.unwrap_or_else(|| vec![unknown(line)])
    }

    fn prompt(&mut self, prompt: PromptNo, text: &str) -> Option<Vec<u8>> {
        let thread = self.thread.as_ref().filter(|_| self.ready)?;
        let mut params = json!({
            "threadId": thread, "clientUserMessageId": name(prompt), "input": input(text),
        });
        if let Some(sandbox) = &self.sandbox {
            params["sandboxPolicy"] = sandbox.clone();
        }
        self.prompts.push(Prompt { no: prompt, turn: None, stored: false });
        Some(line(&self.request("turn/start", params, Asked::Turn(prompt))))
    }

    fn can_steer(&self) -> bool {
        self.turn.is_some() && !self.refuses
    }

    fn steer(&mut self, prompt: PromptNo, text: &str) -> Option<Vec<u8>> {
        let turn = self.turn.clone()?;
        self.prompts.push(Prompt { no: prompt, turn: Some(turn.clone()), stored: false });
        let params = json!({
            "threadId": self.thread,
            "clientUserMessageId": name(prompt),
            "input": input(text),
            "expectedTurnId": turn,
        });
        Some(line(&self.request("turn/steer", params, Asked::Steer(prompt))))
    }

    /// A turn that refuses a text has just ended, or its end is near.
    fn can_interrupt(&self) -> bool {
        self.can_steer()
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        let turn = self.turn.clone()?;
        self.cut = true;
        let params = json!({ "threadId": self.thread, "turnId": turn });
        Some(line(&self.request("turn/interrupt", params, Asked::Interrupt)))
    }

    /// Leaves out why: Codex's answers have no place for it.
    fn answer(&mut self, request: &str, allow: bool, _why: &str) -> Option<Vec<u8>> {
        let open = self.open.remove(request)?;
        let id: Value = serde_json::from_str(request).ok()?;
        Some(line(&json!({ "id": id, "result": open.result(allow) })))
    }

    fn activity(&self) -> Activity {
        match (self.ready, self.turn.is_some() || !self.prompts.is_empty()) {
            (false, _) => Activity::Starting,
            (true, true) => Activity::Busy,
            (true, false) => Activity::Idle,
        }
    }

    fn state(&self) -> Value {
        self.to_value()
    }
}

impl Talk {
    pub(super) fn new(start: Start, sandbox: Option<Value>) -> Self {
        Self { start: Some(start), sandbox, ..Self::default() }
    }

    pub(super) fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("texts, numbers, and keys that are texts or numbers")
    }

    pub(super) fn request(&mut self, method: &str, params: Value, asked: Asked) -> Value {
        self.requests += 1;
        self.asked.insert(self.requests, asked);
        json!({ "id": self.requests, "method": method, "params": params })
    }

    /// Takes the answer to a request of the hub.
    fn answered(&mut self, id: &Value, message: &Value) -> Option<Vec<Heard>> {
        let asked = self.asked.remove(&id.as_u64()?)?;
        let error = message.get("error").map(|error| text(&error["message"]));
        if let Some(why) = error.as_deref().and_then(is_too_old) {
            return Some(vec![Heard::Fails(why)]);
        }
        let result = &message["result"];
        Some(match (asked, error) {
            (Asked::Initialize, None) => {
                let ready = Heard::line(&json!({ "method": "initialized" }));
                vec![ready, self.start_thread(false)]
            }
            (Asked::Initialize, Some(why)) => {
                vec![Heard::Fails(format!("Codex does not speak with the hub: {why}"))]
            }
            // The user has set up the hub as a program.
            (Asked::Thread { by_stdio: false }, Some(why)) if names_the_hub(&why) => {
                vec![self.start_thread(true)]
            }
            (Asked::Thread { .. }, Some(why)) => {
                vec![Heard::Fails(format!("Codex cannot start: {}", why.trim_end()))]
            }
            (Asked::Thread { .. }, None) => self.thread_started(result),
            // Codex asks its model all the same, which then refuses each turn.
            (Asked::Account, None)
                if result["requiresOpenaiAuth"] == true && result["account"].is_null() =>
            {
                let why = "Codex is not logged in: run `codex login` as the user of its agents";
                vec![Heard::Fails(why.to_owned())]
            }
            (Asked::Account, _) => {
                self.ready = true;
                Vec::new()
            }
            (Asked::Turn(prompt), None) => {
                let turn = result["turn"]["id"].as_str().map(str::to_owned);
                let own = self.prompts.iter_mut().find(|own| own.no == prompt);
                own.into_iter().for_each(|own| own.turn.clone_from(&turn));
                Vec::new()
            }
            (Asked::Turn(_), Some(why)) => {
                self.prompts.clear();
                self.ended(TurnEnd::Failed(format!("Codex began no turn: {why}")))
            }
            // The turn before it ended well.
            (Asked::TakeUp, Some(_)) => {
                self.prompts.clear();
                let answer = take(&mut self.answer).text;
                self.ended(TurnEnd::Answer(answer))
            }
            (Asked::Steer(prompt), Some(_)) => {
                self.refuses = self.turn.is_some();
                let refused = self.prompts.extract_if(.., |own| own.no == prompt);
                refused.map(|own| Heard::NotTaken(own.no)).collect()
            }
            (Asked::TakeUp | Asked::Steer(_), None) | (Asked::Interrupt, _) => Vec::new(),
        })
    }

    fn start_thread(&mut self, by_stdio: bool) -> Heard {
        let Some(start) = self.start.clone() else {
            return Heard::Fails("Codex began a second conversation".to_owned());
        };
        let mut params = start.params;
        let hub = params.pointer_mut(&format!("/config/mcp_servers/{HUB}"));
        if let Some(hub) = hub.filter(|_| by_stdio) {
            *hub = start.by_stdio;
        }
        let request = self.request("thread/start", params, Asked::Thread { by_stdio });
        match by_stdio {
            true => Heard::line_with_token(&request),
            false => Heard::line(&request),
        }
    }

    fn thread_started(&mut self, result: &Value) -> Vec<Heard> {
        let Some(thread) = result["thread"]["id"].as_str() else {
            return vec![Heard::Fails("Codex started no thread".to_owned())];
        };
        self.thread = Some(thread.to_owned());
        self.start = None;
        let mut heard = vec![Heard::ConversationId(thread.to_owned())];
        // Other providers have keys of their own.
        if result["modelProvider"] == "openai" {
            let params = json!({ "refreshToken": false });
            heard.push(Heard::line(&self.request("account/read", params, Asked::Account)));
        } else {
            self.ready = true;
        }
        heard
    }

    /// Takes a request of Codex; `None` if the hub cannot answer it.
    fn asks(&mut self, method: &str, id: &Value, params: &Value) -> Option<Vec<Heard>> {
        let (open, subject, text) = permission::read(method, params, &self.calls)?;
        let request = id.to_string();
        self.open.insert(request.clone(), open);
        Some(vec![Heard::Asks(PermissionRequest { request, subject, text })])
    }
}

/// Returns the sentence about a Codex that does not know a request of the hub.
fn is_too_old(error: &str) -> Option<String> {
    let unknown = error.contains("unknown variant") || error.contains("ethod not found");
    unknown.then(|| too_old(&one_line(error, SAID)))
}

fn name(prompt: PromptNo) -> String {
    format!("{OURS}{prompt}")
}

pub(super) fn input(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

fn unknown(line: &[u8]) -> Heard {
    Heard::Unknown(String::from_utf8_lossy(line).into_owned())
}

/// Answers a request that the hub cannot answer, so that Codex does not wait.
fn refuse(id: &Value, method: &str) -> Heard {
    let error = json!({ "code": UNKNOWN_METHOD, "message": format!("no answer to {method}") });
    Heard::line(&json!({ "id": id, "error": error }))
}

/// Returns whether Codex complains about the hub among its MCP servers.
fn names_the_hub(why: &str) -> bool {
    why.contains(&format!("mcp_servers.{HUB}"))
}
