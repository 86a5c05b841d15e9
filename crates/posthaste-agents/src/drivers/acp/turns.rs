//! The turns of the model: which prompts it was given, what it answered, how a turn ended.
//!
//! A prompt has begun when the program's output shows that its model was given the prompt.
//! Its model then speaks, thinks or calls a tool, after every earlier prompt was answered.
//! Not all output shows that. An echo of the prompt and news about commands, modes and
//! titles may come before the model is asked. Words without the id of a message may be the
//! program's own: codex-acp writes warnings so, and Gemini CLI its mode. After a prompt that was written into a
//! running turn only a message with a new id counts, for the rest of the message before may
//! still be under way. Whatever happened, a prompt that is answered, and not cancelled, has
//! been given to the model. So has one whose model answers with an error that the program
//! shows as a message: it stays in the program's conversation.

use std::mem::take;

use agent_client_protocol_schema::{Error, ErrorCode, PromptResponse, StopReason, Usage as Tokens};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::opening::words;
use super::talk::Talk;
use crate::conversation::{Heard, PromptNo, TurnEnd, Usage, one_line};
use crate::supervisor::CLIPPED;

/// Number of bytes of an answer that are kept: the state is written often.
const ANSWER: usize = 256 << 10;
/// Number of bytes of the program's own words that are kept.
const OWN_WORDS: usize = 2_000;
/// Number of bytes of text that are held back for the rest of their line.
const LINE: usize = 1_000;
/// Number of characters of a sentence about a failure.
const SENTENCE: usize = 500;

/// A prompt that the program has not answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Prompt {
    /// The number of the request.
    pub(super) id: u64,
    /// `None`: it is the hub's own, and carries no mail.
    pub(super) no: Option<PromptNo>,
    /// It was written while a turn ran.
    pub(super) steered: bool,
    pub(super) began: bool,
}

/// A sign that the model works.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sign<'a> {
    /// Words for the user, with the id of their message.
    Words(Option<&'a str>),
    /// Words for itself.
    Thought(Option<&'a str>),
    /// A call of a tool.
    Act,
}

/// The answer of a turn: the last message in which the model said something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    /// The answer before a prompt that came too late for it.
    earlier: String,
    text: String,
    /// Number of bytes that were left out.
    dropped: usize,
    /// The next words begin a new message.
    ended: bool,
    /// The last words of the program itself.
    own: String,
}

/// Text that waits for the end of its line, so that it is shown whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Shown {
    is_thought: bool,
    text: String,
}

impl Answer {
    /// Ends the message; it stays the answer until the model says something else.
    pub(super) fn end_message(&mut self) {
        self.ended = true;
    }

    /// Keeps the message as an answer: the model said all that it had to say, and called no
    /// tool after it.
    fn keep(&mut self) {
        if self.ended || self.text.is_empty() {
            return;
        }
        if !self.earlier.is_empty() {
            append(&mut self.earlier, "\n\n", ANSWER);
        }
        append(&mut self.earlier, &self.text, ANSWER);
        self.text.clear();
    }

    fn add(&mut self, words: &str) {
        if words.is_empty() {
            return;
        }
        if take(&mut self.ended) {
            self.text.clear();
            self.dropped = 0;
        }
        let kept = append(&mut self.text, words, ANSWER);
        self.dropped = self.dropped.saturating_add(words.len() - kept);
    }

    fn into_text(self) -> String {
        let between = if self.earlier.is_empty() || self.text.is_empty() { "" } else { "\n\n" };
        let text = format!("{}{between}{}", self.earlier, self.text);
        match self.dropped {
            0 => text,
            dropped => format!("{text}\n{CLIPPED}{dropped} bytes more were left out]"),
        }
    }
}

impl Shown {
    /// Adds text, and returns the lines that are whole.
    pub(super) fn add(&mut self, text: &str, is_thought: bool) -> Vec<Heard> {
        let mut shown = Vec::new();
        if self.is_thought != is_thought {
            shown.extend(self.rest());
            self.is_thought = is_thought;
        }
        self.text.push_str(text);
        if self.text.len() > LINE {
            shown.extend(self.rest());
        } else if let Some(end) = self.text.rfind('\n') {
            let rest = self.text.split_off(end + 1);
            shown.extend(self.rest());
            self.text = rest;
        }
        shown
    }

    /// Returns all that was held back.
    pub(super) fn rest(&mut self) -> Option<Heard> {
        let text = take(&mut self.text);
        let blank = text.trim().is_empty();
        (!blank).then_some(if self.is_thought { Heard::Thought(text) } else { Heard::Text(text) })
    }
}

impl Talk {
    pub(super) fn begin_turn(&mut self) {
        (self.cut, self.spoke, self.steered, self.denied) = (false, false, false, None);
        self.answer = Answer::default();
    }

    /// Takes words of the model, or of the program, for the user.
    pub(super) fn said(&mut self, words: &str, message: Option<&str>) -> Vec<Heard> {
        let mut heard = Vec::new();
        if message.is_some() && message != self.message.as_deref() {
            if self.steered {
                self.answer.keep();
            }
            self.answer.end_message();
            heard.extend(self.shown.rest());
        }
        heard.extend(self.sees(Sign::Words(message)));
        if message.is_none() && self.program().has_own_words {
            self.answer.own =
                words.get(..words.floor_char_boundary(OWN_WORDS)).unwrap_or_default().to_owned();
        } else {
            self.answer.add(words);
        }
        heard.extend(self.shown.add(words, false));
        if self.prompts.is_empty() {
            heard.extend(self.shown.rest());
        }
        heard
    }

    /// Takes a sign that the model works: the oldest open prompt may have begun.
    pub(super) fn sees(&mut self, sign: Sign<'_>) -> Option<Heard> {
        let (id, has_proof) = match sign {
            Sign::Words(id) => (id, id.is_some()),
            Sign::Thought(id) => (id, true),
            Sign::Act => (None, true),
        };
        if !has_proof && self.program().has_own_words {
            return None;
        }
        (self.spoke, self.denied) = (true, None);
        let is_new = id.is_some() && id != self.message.as_deref();
        if is_new {
            self.message = id.map(str::to_owned);
        }
        let Some(prompt) = self.prompts.first_mut() else {
            self.strays |= self.ready && has_proof;
            return None;
        };
        let shows = is_new || (has_proof && id.is_none() && !prompt.steered);
        if !shows || self.strays || prompt.began {
            return None;
        }
        prompt.began = true;
        prompt.no.map(Heard::Began)
    }

    /// Takes the answer to a prompt.
    pub(super) fn prompt_answered(
        &mut self,
        prompt: Prompt,
        answer: Result<&str, Error>,
    ) -> Vec<Heard> {
        let mut heard: Vec<Heard> = self.shown.rest().into_iter().collect();
        let end = match answer {
            Err(error) if error.code == ErrorCode::AuthRequired => {
                heard.push(Heard::Fails(self.refusal("stopped", &error)));
                Err(format!("{} is not logged in", self.title))
            }
            Err(error) => Err(format!("{} failed: {}", self.title, words(&error))),
            Ok(result) => match serde_json::from_str::<PromptResponse>(result) {
                Ok(response) => {
                    // The program tells the cost of the turn with every prompt of it.
                    if self.prompts.is_empty() {
                        heard.extend(self.usage(&response));
                    }
                    Ok(response.stop_reason)
                }
                Err(_) => {
                    let why = one_line(result, SENTENCE);
                    Err(format!("{} ended its turn for an unknown reason: {why}", self.title))
                }
            },
        };
        let given = match end {
            Ok(StopReason::Cancelled) | Err(_) => false,
            // An error of the model that the program tells in its own words.
            Ok(_) => self.spoke || self.answer.own.is_empty(),
        };
        let is_last = self.prompts.is_empty();
        // claude-agent-acp gives its model a prompt that it has taken even if it is
        // cancelled: what the model says then belongs to no prompt.
        self.abandoned |= prompt.steered && !prompt.began && !given;
        match (prompt.no, prompt.began) {
            (Some(no), false) if given => heard.push(Heard::Began(no)),
            (Some(no), false) if !is_last => heard.push(Heard::NotTaken(no)),
            _ => {}
        }
        if is_last {
            heard.extend(self.turn_ended(end));
        } else if end == Ok(StopReason::EndTurn) {
            self.answer.keep();
        }
        heard
    }

    fn turn_ended(&mut self, end: Result<StopReason, String>) -> Vec<Heard> {
        let mut heard = Vec::new();
        let cut = take(&mut self.cut);
        if end != Ok(StopReason::EndTurn) {
            let open = take(&mut self.open);
            heard.extend(open.into_keys().map(Heard::Withdrew));
        }
        // Some programs end the turn at a denial. The model is told, as with the others.
        let stopped = matches!(end, Ok(StopReason::EndTurn | StopReason::Cancelled));
        if let Some(denied) = self.denied.take().filter(|_| stopped && !cut) {
            let text = format!(
                "[posthaste] The operator denied it: {denied}. Go on without it, and if you \
                 cannot, finish your turn with a word about that."
            );
            if let Some(bytes) = self.write_prompt(None, &text) {
                heard.push(Heard::Send(bytes));
                return heard;
            }
        }
        self.strays = take(&mut self.abandoned);
        let title = &self.title;
        let answer = take(&mut self.answer);
        let own = !self.spoke && !answer.own.is_empty();
        let end = match end {
            _ if cut => TurnEnd::Interrupted,
            Ok(StopReason::Cancelled) => TurnEnd::Interrupted,
            Ok(StopReason::EndTurn) if own => {
                TurnEnd::Failed(format!("{title} failed: {}", plain(&answer.own)))
            }
            Ok(StopReason::EndTurn) => TurnEnd::Answer(answer.into_text()),
            Ok(StopReason::Refusal) => {
                TurnEnd::Failed(format!("the model of {title} refused to go on"))
            }
            Ok(StopReason::MaxTokens) => TurnEnd::Failed(format!(
                "the model of {title} reached the limit of its tokens in mid-answer"
            )),
            Ok(StopReason::MaxTurnRequests) => TurnEnd::Failed(format!(
                "{title} reached the limit of requests to its model in one turn"
            )),
            Ok(other) => TurnEnd::Failed(format!("{title} ended its turn: {other:?}")),
            // The prompt that came too late failed, and not what was done before.
            Err(_) if !answer.earlier.is_empty() => TurnEnd::Answer(answer.earlier),
            Err(why) => TurnEnd::Failed(why),
        };
        heard.push(Heard::TurnEnded(end));
        heard
    }

    /// Returns the cost of the turn, as far as the program tells it.
    fn usage(&mut self, response: &PromptResponse) -> Option<Heard> {
        let cost = self.cost.saturating_sub(self.told_cost);
        self.told_cost = self.cost;
        let tokens = response.usage.as_ref();
        let (input, output) = match tokens {
            Some(Tokens { input_tokens, output_tokens, .. }) => (*input_tokens, *output_tokens),
            None => of_gemini(response).unwrap_or_default(),
        };
        let usage = Usage {
            input_tokens: input,
            output_tokens: output,
            cost_usd: (cost > 0).then_some(cost as f64 / 1e9),
        };
        (usage != Usage::default()).then_some(Heard::Usage(usage))
    }
}

/// Returns the tokens as Gemini CLI tells them.
fn of_gemini(response: &PromptResponse) -> Option<(u64, u64)> {
    let count: &Value = response.meta.as_ref()?.get("quota")?.get("token_count")?;
    Some((count["input_tokens"].as_u64()?, count["output_tokens"].as_u64()?))
}

/// Returns the words of an error, which may be the whole answer of a model's provider.
pub(super) fn plain(error: &str) -> String {
    let answer: Value = serde_json::from_str(error).unwrap_or_default();
    one_line(answer["error"]["message"].as_str().unwrap_or(error), SENTENCE)
}

/// Appends as much as fits, and returns how many bytes that were.
fn append(to: &mut String, text: &str, most: usize) -> usize {
    let room = most.saturating_sub(to.len());
    let end = text.floor_char_boundary(room);
    to.push_str(&text[..end]);
    end
}
