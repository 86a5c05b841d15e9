//! The conversation with Claude Code, line by line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::permission;
use crate::conversation::{
    Activity, Conversation, Heard, PermissionRequest, PromptNo, ToolState, ToolUse, TurnEnd, Usage,
    line, one_line,
};

/// Tries after which a provider that refuses the key will not take it.
const REFUSALS: u64 = 3;

const NOT_LOGGED_IN: &str = "claude is not logged in: run `claude` once as the hub's user and log \
    in, or set ANTHROPIC_API_KEY";

/// The conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Talk {
    /// Prompts whose turn has not ended.
    prompts: Vec<Open>,
    /// Requests for permission, with the input that is handed back.
    asked: Map<String, Value>,
    /// The hub has asked for an interrupt.
    interrupts: bool,
    /// Number of interrupts so far: each request needs an id of its own.
    interrupted: u64,
    /// The cost of the whole conversation so far.
    cost_usd: f64,
    /// Answers of turns after which the program went on by itself.
    answers: Vec<String>,
    /// Sub-agents that work in the background.
    helpers: Vec<String>,
    /// The turn has ended, and the program begins another one when a sub-agent is done.
    waits: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Open {
    no: PromptNo,
    /// Claude Code has taken it and asks its model next.
    taken: bool,
    began: bool,
}

impl Conversation for Talk {
    fn open(&mut self) -> Vec<Heard> {
        Vec::new()
    }

    fn heard(&mut self, line: &[u8]) -> Vec<Heard> {
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            return vec![unknown(line)];
        };
        match value["type"].as_str() {
            Some("system") => self.system(&value),
            Some("user") => self.user(&value),
            Some("assistant") => self.assistant(&value),
            Some("result") => self.result(&value),
            Some("control_request") => self.asks(&value),
            Some("control_cancel_request") => {
                let request = word(&value["request_id"]);
                self.asked.remove(request);
                vec![Heard::Withdrew(request.to_owned())]
            }
            // Answers to our own requests, and signs of life.
            Some(
                "control_response" | "command_lifecycle" | "keep_alive" | "rate_limit_event"
                | "tool_progress" | "stream_event",
            ) => Vec::new(),
            _ => vec![unknown(line)],
        }
    }

    fn prompt(&mut self, prompt: PromptNo, text: &str) -> Option<Vec<u8>> {
        (self.activity() == Activity::Idle).then(|| self.say(prompt, text))
    }

    fn can_steer(&self) -> bool {
        !self.interrupts && (self.waits || self.prompts.iter().any(|prompt| prompt.began))
    }

    fn steer(&mut self, prompt: PromptNo, text: &str) -> Option<Vec<u8>> {
        self.can_steer().then(|| self.say(prompt, text))
    }

    fn can_interrupt(&self) -> bool {
        !self.interrupts && !self.prompts.is_empty()
    }

    fn interrupt(&mut self) -> Option<Vec<u8>> {
        if !self.can_interrupt() {
            return None;
        }
        self.interrupts = true;
        self.interrupted += 1;
        Some(line(&json!({
            "type": "control_request",
            "request_id": format!("interrupt-{}", self.interrupted),
            "request": { "subtype": "interrupt" },
        })))
    }

    fn answer(&mut self, request: &str, allow: bool, why: &str) -> Option<Vec<u8>> {
        let input = self.asked.remove(request)?;
        let verdict = match allow {
            true => json!({ "behavior": "allow", "updatedInput": input }),
            false => json!({ "behavior": "deny", "message": why }),
        };
        Some(reply(request, "success", "response", verdict))
    }

    fn activity(&self) -> Activity {
        match self.prompts.is_empty() && !self.waits {
            true => Activity::Idle,
            false => Activity::Busy,
        }
    }

    fn state(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Talk {
    fn say(&mut self, no: PromptNo, text: &str) -> Vec<u8> {
        self.prompts.push(Open { no, taken: false, began: false });
        line(&json!({
            "type": "user",
            "message": { "role": "user", "content": text },
            "uuid": id_of(no),
        }))
    }

    fn system(&mut self, value: &Value) -> Vec<Heard> {
        match value["subtype"].as_str() {
            Some("init") => {
                vec![Heard::ConversationId(word(&value["session_id"]).to_owned())]
            }
            Some("api_retry") => {
                let (error, attempt) = (word(&value["error"]), value["attempt"].as_u64());
                let attempt = attempt.unwrap_or_default();
                let refused = error == "authentication_failed";
                let mut heard = vec![Heard::Unknown(format!(
                    "its provider answered {} ({error}); try {attempt} of {}",
                    value["error_status"], value["max_retries"]
                ))];
                if refused && attempt >= REFUSALS {
                    heard.push(Heard::Fails(NOT_LOGGED_IN.to_owned()));
                }
                heard
            }
            Some("background_tasks_changed") => {
                let tasks = value["tasks"].as_array().into_iter().flatten();
                let agents = tasks.filter(|task| task["task_type"] == "local_agent");
                self.helpers = agents.map(|task| word(&task["task_id"]).to_owned()).collect();
                Vec::new()
            }
            Some("task_notification") if value["status"] == "stopped" => {
                self.helper_stopped(word(&value["task_id"]))
            }
            _ => Vec::new(),
        }
    }

    /// Notes that a sub-agent was stopped. The program begins no turn for that.
    fn helper_stopped(&mut self, id: &str) -> Vec<Heard> {
        self.helpers.retain(|helper| helper != id);
        match self.waits && self.helpers.is_empty() && self.prompts.is_empty() {
            true => {
                let answer = self.answer_so_far();
                self.ended(answer)
            }
            false => Vec::new(),
        }
    }

    /// Hears a message that Claude Code takes, or the results of tools.
    fn user(&mut self, value: &Value) -> Vec<Heard> {
        if value["isReplay"] == true {
            let no = number_of(word(&value["uuid"]));
            for prompt in self.prompts.iter_mut().filter(|prompt| Some(prompt.no) == no) {
                prompt.taken = true;
            }
            return Vec::new();
        }
        let results = blocks(value).filter(|block| block["type"] == "tool_result");
        let tool = |block: &Value| {
            Heard::Tool(ToolUse {
                id: word(&block["tool_use_id"]).to_owned(),
                name: String::new(),
                detail: one_line(&text_of(&block["content"]), 300),
                state: match block["is_error"] == true {
                    true => ToolState::Failed,
                    false => ToolState::Done,
                },
            })
        };
        results.map(tool).collect()
    }

    fn assistant(&mut self, value: &Value) -> Vec<Heard> {
        // Words of a sub-agent, and words of Claude Code itself about an error, prove
        // nothing.
        let own = value["parent_tool_use_id"].is_null();
        let error = !value["error"].is_null() || value["is_api_error_message"] == true;
        let mut heard = Vec::new();
        if own && !error {
            for prompt in self.prompts.iter_mut().filter(|p| p.taken && !p.began) {
                prompt.began = true;
                heard.push(Heard::Began(prompt.no));
            }
        }
        heard.extend(blocks(value).filter_map(|block| match block["type"].as_str() {
            Some("text") if own => Some(Heard::Text(word(&block["text"]).to_owned())),
            Some("thinking") if own => Some(Heard::Thought(word(&block["thinking"]).to_owned())),
            Some("tool_use") => Some(Heard::Tool(ToolUse {
                id: word(&block["id"]).to_owned(),
                name: word(&block["name"]).to_owned(),
                detail: one_line(&block["input"].to_string(), 300),
                state: ToolState::Began,
            })),
            _ => None,
        }));
        heard
    }

    fn result(&mut self, value: &Value) -> Vec<Heard> {
        let named = value["user_message_uuids"].as_array();
        let over = |prompt: &Open| match named {
            Some(ids) => ids.iter().any(|id| number_of(word(id)) == Some(prompt.no)),
            None => prompt.taken,
        };
        let mut heard = Vec::new();
        if value["is_error"] != true {
            // A command of the program's own has no words of a model: its result is the
            // proof.
            let unproven = self.prompts.iter().filter(|p| named.is_some() && over(p) && !p.began);
            heard.extend(unproven.map(|prompt| Heard::Began(prompt.no)));
        }
        // A cut turn may name none.
        self.prompts.retain(|prompt| !(over(prompt) || prompt.taken && self.interrupts));
        let cost = value["total_cost_usd"].as_f64().unwrap_or(self.cost_usd);
        let count = |key: &str| value["usage"][key].as_u64().unwrap_or_default();
        heard.push(Heard::Usage(Usage {
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            cost_usd: Some(cost - self.cost_usd),
        }));
        self.cost_usd = cost;
        let cut = std::mem::take(&mut self.interrupts)
            || word(&value["terminal_reason"]).starts_with("aborted");
        let (text, failed) = (word(&value["result"]), value["is_error"] == true);
        if !cut && !failed {
            self.answers.push(text.to_owned());
            self.waits = !self.helpers.is_empty();
        }
        if !self.prompts.is_empty() || (self.waits && !cut && !failed) {
            // A message that came after the last tool begins a turn of its own, and so
            // does a sub-agent that is done.
            return heard;
        }
        let end = match (cut, failed) {
            (true, _) => TurnEnd::Interrupted,
            (false, false) => self.answer_so_far(),
            (false, true) if text.contains("/login") || text.contains("Invalid API key") => {
                TurnEnd::Failed(format!("{NOT_LOGGED_IN} (it said: {text})"))
            }
            (false, true) => {
                let why = match text.is_empty() {
                    true => word(&value["subtype"]),
                    false => text,
                };
                TurnEnd::Failed(format!("claude: {}", one_line(why, 500)))
            }
        };
        heard.extend(self.ended(end));
        heard
    }

    /// Returns all answers since the last end of a turn.
    fn answer_so_far(&self) -> TurnEnd {
        let words = self.answers.iter().filter(|answer| !answer.trim().is_empty());
        TurnEnd::Answer(words.map(String::as_str).collect::<Vec<_>>().join("\n\n"))
    }

    /// Ends the turn, and withdraws the requests for permission that nobody waits for any
    /// more.
    fn ended(&mut self, end: TurnEnd) -> Vec<Heard> {
        self.waits = false;
        self.answers.clear();
        let mut heard = Vec::new();
        if self.helpers.is_empty() {
            let left = std::mem::take(&mut self.asked);
            heard.extend(left.into_iter().map(|(request, _)| Heard::Withdrew(request)));
        }
        heard.push(Heard::TurnEnded(end));
        heard
    }

    fn asks(&mut self, value: &Value) -> Vec<Heard> {
        let (id, request) = (word(&value["request_id"]), &value["request"]);
        if request["subtype"] != "can_use_tool" {
            let why = json!("posthaste does not know this request");
            let shown = format!("it asked for {}", request["subtype"]);
            return vec![Heard::Send(reply(id, "error", "error", why)), Heard::Unknown(shown)];
        }
        let (tool, input) = (word(&request["tool_name"]), &request["input"]);
        self.asked.insert(id.to_owned(), input.clone());
        vec![Heard::Asks(PermissionRequest {
            request: id.to_owned(),
            subject: permission::subject(tool, input, &request["permission_suggestions"]),
            text: one_line(&format!("{tool} {input}"), 4_000),
        })]
    }
}

/// Returns the answer to a request of Claude Code.
fn reply(request: &str, subtype: &str, key: &str, content: Value) -> Vec<u8> {
    let mut response = json!({ "subtype": subtype, "request_id": request });
    response[key] = content;
    line(&json!({ "type": "control_response", "response": response }))
}

/// Returns the id of a prompt's message: a UUID that holds its number.
fn id_of(no: PromptNo) -> String {
    format!("{PREFIX}{no:012x}")
}

const PREFIX: &str = "706f7374-6861-4374-8065-";

fn number_of(id: &str) -> Option<PromptNo> {
    PromptNo::from_str_radix(id.strip_prefix(PREFIX)?, 16).ok()
}

fn blocks(value: &Value) -> impl Iterator<Item = &Value> {
    value["message"]["content"].as_array().into_iter().flatten()
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().map(|block| word(&block["text"])).collect();
            texts.join(" ")
        }
        _ => String::new(),
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn unknown(line: &[u8]) -> Heard {
    Heard::Unknown(one_line(&String::from_utf8_lossy(line), 2_000))
}
