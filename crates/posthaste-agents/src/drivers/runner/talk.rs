//! The lines between the hub and a runner.

use posthaste_runner::protocol;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::assistant::{METHODS, START, Served};
use crate::conversation::{
    Activity, Conversation, Heard, HubCall, PromptNo, line, mended, one_line,
};

/// Number of characters of a line that is quoted.
const QUOTED: usize = 400;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Talk {
    thread: String,
    phase: Phase,
    /// There is something to do as soon as the runner has taken `start`.
    turn_open: bool,
    /// The turn was cancelled, and its end has not come.
    cancelled: bool,
    /// The runner waits for further mail after its turn; another one ends.
    stays: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    #[default]
    Starting,
    Idle,
    Busy,
    /// The runner has finished, and ends by itself.
    Ending,
}

impl Talk {
    pub(super) fn new(thread: &str) -> Self {
        Self { thread: thread.to_owned(), ..Self::default() }
    }

    fn fault(id: &Value, code: i64, message: &str) -> Heard {
        let error = json!({ "code": code, "message": message });
        Heard::line(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
    }

    fn notice(&self, method: &str, mut params: Value) -> Vec<u8> {
        params["thread_id"] = self.thread.clone().into();
        line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    /// Takes the runner's answer to `start`.
    fn started(&mut self, answer: &Value) -> Vec<Heard> {
        if let Some(error) = answer.get("error") {
            let why = error["message"].as_str().unwrap_or("it gave no reason");
            return vec![Heard::Fails(format!(
                "the runner cannot start: {}",
                one_line(why, QUOTED)
            ))];
        }
        if self.phase == Phase::Starting {
            self.phase = if self.turn_open { Phase::Busy } else { Phase::Idle };
        }
        Vec::new()
    }

    /// Takes a request of the runner.
    fn asked(&mut self, id: &Value, method: &str, params: Value) -> Vec<Heard> {
        if !METHODS.contains(&method) {
            let why = format!("there is no method {}", one_line(method, 60));
            return vec![Self::fault(id, protocol::UNKNOWN_METHOD, &why)];
        }
        if params["thread_id"] != self.thread.as_str() {
            let why = format!("thread_id: yours is {}", self.thread);
            return vec![Self::fault(id, protocol::WRONG_PARAMS, &why)];
        }
        if self.phase == Phase::Starting {
            let why = "answer `start` first";
            return vec![Self::fault(id, protocol::NO_REQUEST, why)];
        }
        if self.phase == Phase::Ending {
            return vec![Self::fault(id, protocol::NO_REQUEST, "your only turn is over: end")];
        }
        if self.cancelled && method != "on_finish" {
            return vec![Self::fault(id, protocol::CANCELLED, "the turn was cancelled")];
        }
        let call = HubCall { id: id.to_string(), method: method.to_owned(), params };
        vec![Heard::Calls(call)]
    }
}

impl Conversation for Talk {
    fn open(&mut self) -> Vec<Heard> {
        let (id, method) = (START.to_owned(), START.to_owned());
        vec![Heard::Calls(HubCall { id, method, params: json!({}) })]
    }

    fn heard(&mut self, line: &[u8]) -> Vec<Heard> {
        let Ok(Value::Object(said)) = serde_json::from_slice(&mended(line)) else {
            let text = String::from_utf8_lossy(line);
            let unknown = Heard::Unknown(one_line(&text, QUOTED));
            return vec![
                unknown,
                Self::fault(&Value::Null, protocol::NO_JSON, "a line is one JSON object"),
            ];
        };
        let id = said.get("id").cloned().unwrap_or(Value::Null);
        match said.get("method").and_then(Value::as_str) {
            Some(method) if id.is_u64() || id.is_string() => {
                let method = method.to_owned();
                let params = said.get("params").cloned().unwrap_or_else(|| json!({}));
                self.asked(&id, &method, params)
            }
            None if id == START && (said.contains_key("result") || said.contains_key("error")) => {
                self.started(&Value::Object(said))
            }
            // An error that answers nothing, about a line of ours that it did not understand.
            None if said.contains_key("error") || said.contains_key("result") => {
                vec![Heard::Unknown(one_line(&Value::Object(said).to_string(), QUOTED))]
            }
            _ => vec![Self::fault(
                &id,
                protocol::NO_REQUEST,
                "a request has a method, and an id that is a number or a text",
            )],
        }
    }

    /// Tells the runner that mail has arrived, which stands in its conversation.
    fn prompt(&mut self, _: PromptNo, _: &str) -> Option<Vec<u8>> {
        self.phase = Phase::Busy;
        Some(self.notice("inbox", json!({ "waiting": 1 })))
    }

    fn steer(&mut self, _: PromptNo, _: &str) -> Option<Vec<u8>> {
        None
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        (self.phase == Phase::Busy && !self.cancelled).then(|| {
            self.cancelled = true;
            self.notice("cancel", json!({ "reason": "the user cancelled the turn" }))
        })
    }

    fn answer(&mut self, _: &str, _: bool, _: &str) -> Option<Vec<u8>> {
        None
    }

    fn served(&mut self, call: &str, served: Served) -> Vec<Heard> {
        let Served { reply, end } = served;
        if call == START {
            let params = match reply {
                Ok(params) => params,
                Err(fault) => return vec![Heard::Fails(fault.message)],
            };
            self.stays = params["stay"] == true;
            self.turn_open = params["turn_open"] == true;
            let start = json!({ "jsonrpc": "2.0", "id": START, "method": START, "params": params });
            let mut heard = vec![Heard::line(&start)];
            heard.extend(end.map(Heard::TurnEnded));
            return heard;
        }
        let id: Value = serde_json::from_str(call).unwrap_or(Value::Null);
        let answer = match reply {
            Ok(result) => Heard::line(&json!({ "jsonrpc": "2.0", "id": id, "result": result })),
            Err(fault) => Self::fault(&id, fault.code, &fault.message),
        };
        let mut heard = vec![answer];
        if let Some(end) = end {
            self.cancelled = false;
            self.phase = if self.stays { Phase::Idle } else { Phase::Ending };
            heard.push(Heard::TurnEnded(end));
        }
        heard
    }

    fn stores_mail(&self) -> bool {
        true
    }

    fn activity(&self) -> Activity {
        match self.phase {
            Phase::Starting => Activity::Starting,
            Phase::Idle => Activity::Idle,
            Phase::Busy => Activity::Busy,
            Phase::Ending => Activity::Ending,
        }
    }

    fn state(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
