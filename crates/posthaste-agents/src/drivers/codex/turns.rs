//! The turns of the conversation, as Codex tells of them.

use std::mem::take;

use serde_json::{Value, json};

use super::item::{self, text, texts};
use super::permission::Call;
use super::talk::{Answer, Asked, LEFT_OUT, OURS, Prompt, Talk, Tokens, input};
use crate::conversation::{Heard, PromptNo, TurnEnd, Usage};

/// The notifications that say nothing more than others do.
const SILENT: [&str; 11] = [
    "account/updated",
    "hook/completed",
    "hook/started",
    "mcpServer/startupStatus/updated",
    "skills/changed",
    "thread/name/updated",
    "thread/settings/updated",
    "thread/started",
    "thread/status/changed",
    "turn/moderationMetadata",
    "turn/plan/updated",
];

/// The prompt of a turn for a message that Codex has stored and that no turn answered.
const TAKE_IT_UP: &str =
    "[posthaste] The message above came while you were finishing. Take it up now.";

impl Talk {
    /// Takes a notification; `None` if its method is not known.
    pub(super) fn told(&mut self, method: &str, params: &Value) -> Option<Vec<Heard>> {
        let thread = params["threadId"].as_str();
        match method {
            "thread/tokenUsage/updated" => {
                self.count(thread?, &params["tokenUsage"]["total"]);
                return Some(Vec::new());
            }
            "serverRequest/resolved" => {
                let request = params["requestId"].to_string();
                let withdrawn = self.open.remove(&request).map(|_| Heard::Withdrew(request));
                return Some(withdrawn.into_iter().collect());
            }
            _ if thread.is_some() && thread != self.thread.as_deref() => return Some(Vec::new()),
            _ => {}
        }
        match method {
            "turn/started" => Some(self.turn_started(&params["turn"])),
            "turn/completed" => Some(self.turn_completed(&params["turn"])),
            "item/started" => Some(self.item_started(&params["item"])),
            "item/completed" => Some(self.item_completed(&params["item"])),
            "mcpServer/startupStatus/updated" if params["status"] == "failed" => None,
            method if SILENT.contains(&method) || LEFT_OUT.contains(&method) => Some(Vec::new()),
            _ => None,
        }
    }

    fn turn_started(&mut self, turn: &Value) -> Vec<Heard> {
        self.turn = Some(text(&turn["id"]));
        self.refuses = false;
        self.answer = Answer::default();
        Vec::new()
    }

    /// Ends a turn, with the prompts that were put into it.
    fn turn_completed(&mut self, turn: &Value) -> Vec<Heard> {
        let id = text(&turn["id"]);
        self.turn = None;
        self.calls.clear();
        let withdrawn = self.open.extract_if(.., |_, request| request.turn.as_ref() == Some(&id));
        let mut heard: Vec<Heard> = withdrawn.map(|(id, _)| Heard::Withdrew(id)).collect();
        let completed = turn["status"] == "completed";
        if completed && !self.cut && self.prompts.iter().any(|own| own.stored) {
            // A text that is put into a turn at its very end is stored, and the turn ends
            // without a look at it.
            let lost = self.prompts.extract_if(.., |own| own.is_lost_with(&id) && !own.stored);
            heard.extend(lost.map(|own| Heard::NotTaken(own.no)));
            heard.push(self.take_up());
            return heard;
        }
        self.prompts.retain(|own| !own.is_lost_with(&id));
        let end = match turn["status"].as_str() {
            Some("completed") => TurnEnd::Answer(take(&mut self.answer).text),
            Some("interrupted") => TurnEnd::Interrupted,
            _ => TurnEnd::Failed(failure(&turn["error"])),
        };
        heard.extend(self.ended(end));
        heard
    }

    /// Starts a turn for the prompts that are stored and that the model was not given.
    fn take_up(&mut self) -> Heard {
        let params = json!({ "threadId": self.thread, "input": input(TAKE_IT_UP) });
        Heard::line(&self.request("turn/start", params, Asked::TakeUp))
    }

    pub(super) fn ended(&mut self, end: TurnEnd) -> Vec<Heard> {
        self.cut = false;
        let spent = take(&mut self.spent);
        let usage = (spent != Tokens::default()).then_some(Heard::Usage(Usage {
            input_tokens: spent.input,
            output_tokens: spent.output,
            cost_usd: None,
        }));
        usage.into_iter().chain([Heard::TurnEnded(end)]).collect()
    }

    fn item_started(&mut self, item: &Value) -> Vec<Heard> {
        if item["type"] == "userMessage" {
            self.stored(item);
            return Vec::new();
        }
        if let Some(call) = Call::of(item) {
            self.calls.insert(text(&item["id"]), call);
        }
        let mut heard = Vec::new();
        if item::is_of_the_model(item) {
            heard.extend(self.began());
        }
        heard.extend(item::began(item).map(Heard::Tool));
        heard
    }

    /// Notes that Codex has stored a message of its user, just before it asks its model.
    ///
    /// That proves nothing: the turn may end at this point, and the model may not answer.
    /// Hence a prompt has begun when, after that, the model's own output shows.
    fn stored(&mut self, item: &Value) {
        let prompt = match item.get("clientId") {
            Some(name) => {
                let number = name.as_str().and_then(|name| name.strip_prefix(OURS));
                number.and_then(|number| number.parse::<PromptNo>().ok())
            }
            // An older Codex does not name the messages, which come in order.
            None => self.prompts.iter().find(|own| !own.stored).map(|own| own.no),
        };
        let own = self.prompts.iter_mut().find(|own| Some(own.no) == prompt);
        own.into_iter().for_each(|own| own.stored = true);
    }

    fn began(&mut self) -> Vec<Heard> {
        let begun: Vec<Prompt> = self.prompts.extract_if(.., |own| own.stored).collect();
        begun.into_iter().map(|own| Heard::Began(own.no)).collect()
    }

    fn item_completed(&mut self, item: &Value) -> Vec<Heard> {
        self.calls.remove(item["id"].as_str().unwrap_or_default());
        match item["type"].as_str() {
            Some("agentMessage") => {
                let text = text(&item["text"]);
                let is_final = matches!(item["phase"].as_str(), None | Some("final_answer"));
                if is_final || !self.answer.is_final {
                    self.answer = Answer { text: text.clone(), is_final };
                }
                vec![Heard::Text(text)]
            }
            Some("plan") => vec![Heard::Thought(text(&item["text"]))],
            Some("reasoning") => {
                let thought = [texts(&item["summary"]), texts(&item["content"])].join("\n");
                let thought = thought.trim();
                (!thought.is_empty())
                    .then(|| Heard::Thought(thought.to_owned()))
                    .into_iter()
                    .collect()
            }
            _ => item::ended(item).map(Heard::Tool).into_iter().collect(),
        }
    }

    /// Adds what a thread has used since it was last counted. Sub-agents cost as well.
    fn count(&mut self, thread: &str, total: &Value) {
        let number = |key: &str| total[key].as_u64().unwrap_or_default();
        let now = Tokens { input: number("inputTokens"), output: number("outputTokens") };
        let before = self.tokens.insert(thread.to_owned(), now).unwrap_or_default();
        let more =
            |now: u64, before: u64, spent: u64| spent.saturating_add(now.saturating_sub(before));
        self.spent.input = more(now.input, before.input, self.spent.input);
        self.spent.output = more(now.output, before.output, self.spent.output);
    }
}

/// Returns why a turn failed.
fn failure(error: &Value) -> String {
    let why = text(&error["message"]);
    let info = &error["codexErrorInfo"];
    let statuses = info.as_object().into_iter().flat_map(|info| info.values());
    let refused = statuses.filter_map(|info| info["httpStatusCode"].as_u64()).any(|n| n == 401);
    if refused || info == "unauthorized" {
        return format!(
            "the model of Codex refuses its login: run `codex login`, or correct the key of its \
             provider ({why})"
        );
    }
    format!("the model of Codex failed: {why}")
}
