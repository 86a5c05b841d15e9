//! The conversation with Claude Code, line by line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{HUB, permission};
use crate::conversation::{
    Activity, Conversation, Heard, PermissionRequest, PromptNo, ToolState, ToolUse, TurnEnd, Usage,
    line, mended, one_line,
};

/// Tries after which a provider that refuses the key will not take it.
const REFUSALS: u64 = 3;

const NOT_LOGGED_IN: &str = "claude is not logged in: run `claude` once as the user of its agents \
    and log in, or set ANTHROPIC_API_KEY";

const NO_HUB: &str = "claude cannot reach the hub's MCP server `posthaste`: look for a proxy or a \
    policy in its settings that forbids it (`claude mcp list`)";

/// The states of an MCP server that gives no tools.
const FAILED: [&str; 2] = ["failed", "needs-auth"];

/// News about the program itself that say nothing more than other lines do.
const SILENT: [&str; 21] = [
    "commands_changed",
    "control_request_progress",
    "elicitation_complete",
    "file_snapshot",
    "files_persisted",
    "hook_progress",
    "hook_response",
    "hook_started",
    "memory_recall",
    "memory_saved",
    "permission_denied",
    "post_turn_summary",
    "session_metadata",
    "session_state_changed",
    "session_title_changed",
    "status",
    "task_notification",
    "task_progress",
    "task_started",
    "task_updated",
    "thinking_tokens",
];

/// The conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
    /// The program has said that it is there.
    met: bool,
    /// MCP servers that did not answer when the last turn began.
    failed: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
        let Ok(value) = serde_json::from_slice::<Value>(&mended(line)) else {
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
                let mut heard = vec![Heard::ConversationId(word(&value["session_id"]).to_owned())];
                heard.extend(self.servers(&value["mcp_servers"]));
                heard
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
            Some(silent) if SILENT.contains(&silent) => Vec::new(),
            _ => vec![unknown(value.to_string().as_bytes())],
        }
    }

    /// Takes the state of the MCP servers, which the program tells at the beginning of each
    /// turn. An agent that begins without the hub cannot work; one that had it may come
    /// back to it.
    fn servers(&mut self, servers: &Value) -> Vec<Heard> {
        let begins = !std::mem::replace(&mut self.met, true);
        let servers = servers.as_array().into_iter().flatten();
        let failed = servers.filter(|server| FAILED.contains(&word(&server["status"])));
        let failed: Vec<String> = failed.map(|server| word(&server["name"]).to_owned()).collect();
        let mut heard = Vec::new();
        for name in failed.iter().filter(|name| !self.failed.contains(*name)) {
            heard.push(match name == HUB && begins {
                true => Heard::Fails(NO_HUB.to_owned()),
                false => Heard::Unknown(format!("its MCP server {name} does not answer")),
            });
        }
        self.failed = failed;
        heard
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
        let heard = blocks(value).filter_map(|block| match block["type"].as_str() {
            Some("tool_result") => Some(Heard::Tool(ToolUse {
                id: word(&block["tool_use_id"]).to_owned(),
                name: String::new(),
                detail: one_line(&text_of(&block["content"]), 300),
                state: match block["is_error"] == true {
                    true => ToolState::Failed,
                    false => ToolState::Done,
                },
            })),
            // What a sub-agent is told.
            Some("text" | "image" | "document") => None,
            _ => Some(unknown(block.to_string().as_bytes())),
        });
        heard.collect()
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
            // Words of a sub-agent, and thoughts that nobody can read.
            Some("text" | "thinking" | "redacted_thinking") => None,
            _ => Some(unknown(block.to_string().as_bytes())),
        }));
        heard
    }

    fn result(&mut self, value: &Value) -> Vec<Heard> {
        let subtype = word(&value["subtype"]);
        let failed = value["is_error"] == true || subtype.starts_with("error");
        let cut = std::mem::take(&mut self.interrupts)
            || word(&value["terminal_reason"]).starts_with("aborted");
        let (over, proved) = self.over(value, cut);
        let mut heard = Vec::new();
        if !failed {
            let proved = |prompt: &&Open| proved.contains(&prompt.no) && !prompt.began;
            heard.extend(self.prompts.iter().filter(proved).map(|own| Heard::Began(own.no)));
        }
        self.prompts.retain(|prompt| !over.contains(&prompt.no));
        let cost = value["total_cost_usd"].as_f64().unwrap_or(self.cost_usd);
        let count = |key: &str| value["usage"][key].as_u64().unwrap_or_default();
        heard.push(Heard::Usage(Usage {
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            cost_usd: Some(cost - self.cost_usd),
        }));
        self.cost_usd = cost;
        let text = word(&value["result"]);
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
            (false, true) => TurnEnd::Failed(format!("claude: {}", failure(value))),
        };
        heard.extend(self.ended(end));
        heard
    }

    /// Returns the prompts that a result ends, and those of them that it proves: it names
    /// them, or is about all that were taken. A command of the program's own has no words of
    /// a model: its result is the proof.
    fn over(&self, value: &Value, cut: bool) -> (Vec<PromptNo>, Vec<PromptNo>) {
        let numbers = |which: &dyn Fn(&Open) -> bool| -> Vec<PromptNo> {
            self.prompts.iter().filter(|prompt| which(prompt)).map(|prompt| prompt.no).collect()
        };
        let ids = value["user_message_uuids"].as_array().into_iter().flatten();
        let named: Vec<PromptNo> = ids.filter_map(|id| number_of(word(id))).collect();
        let named = numbers(&|prompt| named.contains(&prompt.no));
        let taken = numbers(&|prompt| prompt.taken);
        let all = numbers(&|_| true);
        match (cut, named.is_empty()) {
            // A cut turn may name none.
            (true, _) => (numbers(&|own| own.taken || named.contains(&own.no)), named),
            (false, false) => (named.clone(), named),
            (false, true) if !taken.is_empty() => (taken, Vec::new()),
            // A turn that the program began by itself.
            (false, true) if self.waits => (Vec::new(), Vec::new()),
            // The program tells in another way which prompts it takes. Nobody waits for
            // ever: what the oldest prompt does not prove goes back.
            (false, true) => (all.clone(), all.into_iter().take(1).collect()),
        }
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

/// Returns why a turn ended without an answer.
fn failure(value: &Value) -> String {
    let error = value["errors"].as_array().and_then(|errors| errors.first());
    let said = [word(&value["result"]), error.map_or("", word)];
    let subtype = word(&value["subtype"]);
    match (said.into_iter().find(|text| !text.is_empty()), subtype) {
        (Some(said), _) => one_line(said, 500),
        (None, "error_max_turns") => "it reached its limit of turns (error_max_turns)".to_owned(),
        (None, "error_max_budget_usd") => {
            "it reached its limit of costs (error_max_budget_usd)".to_owned()
        }
        (None, subtype) => one_line(subtype, 500),
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
