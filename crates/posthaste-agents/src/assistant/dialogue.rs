//! The conversation of an assistant, as the hub stores it, and what follows from it.
//!
//! A [`Dialogue`] is the list of its records and nothing else: which messages are open, what
//! was spent, what a call was answered with. A call that is made again after a restart of
//! the hub finds its own record, and is answered from there.

use std::collections::HashMap;

use posthaste_runner::protocol::{ChatMessage, TokenUsage, ToolCall};
use serde::{Deserialize, Serialize};

use super::loop_tools::{LoopTool, named};
use super::record::{Mail, Record, Saying, notice};
use crate::models::Thoughts;

/// Texts that want no answer of their own, in lower case and without punctuation.
const SMALL_TALK: [&str; 12] = [
    "hello",
    "hi",
    "hey",
    "good morning",
    "thanks",
    "thank you",
    "thx",
    "ok",
    "okay",
    "great",
    "cool",
    "bye",
];
/// The result of a question whose runner ended before the answer came.
const ANSWER_COMES: &str = "(the question was sent; the answer comes as a message)";
/// The result of another call whose runner ended before it had one.
const INTERRUPTED: &str = "(this call was interrupted, and its outcome is unknown)";
/// Number of characters of a message that a list of open ones quotes.
const QUOTED: usize = 80;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Dialogue {
    records: Vec<Record>,
}

/// What an assistant has spent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Spent {
    pub(crate) calls: usize,
    pub(crate) usage: TokenUsage,
    pub(crate) cost_usd: f64,
}

impl Dialogue {
    pub(crate) fn of(records: Vec<Record>) -> Self {
        Self { records }
    }

    pub(crate) fn extend(&mut self, records: impl IntoIterator<Item = Record>) {
        self.records.extend(records);
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Counts the runners so far, the present one included.
    pub(crate) fn starts(&self) -> usize {
        self.records.iter().filter(|record| matches!(record, Record::Start)).count()
    }

    /// Returns whether a message stands in the conversation already.
    pub(crate) fn has_mail(&self, seq: u64) -> bool {
        self.records.iter().any(|record| record.mail().contains(&seq))
    }

    /// Returns the question that this call has asked.
    pub(crate) fn asked_by(&self, key: &str) -> Option<u64> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Asked { question, call, .. } if call == key => Some(*question),
            _ => None,
        })
    }

    /// Returns the last words of the running turn, if they may have been sent already.
    pub(crate) fn saying(&self) -> Option<&Saying> {
        self.turn().iter().find_map(|record| match record {
            Record::Saying(saying) => Some(saying),
            _ => None,
        })
    }

    /// Counts the turns that have ended.
    pub(crate) fn turns(&self) -> usize {
        self.records.iter().filter(|record| matches!(record, Record::Finish { .. })).count()
    }

    /// Returns whether there is something to do: mail after the end of the last turn, and
    /// more than the answer of the human to wait for.
    pub(crate) fn is_turn_open(&self) -> bool {
        let is_step = |record: &Record| !matches!(record, Record::Start | Record::Given { .. });
        self.turn().iter().any(is_step) && !self.waits_for_answer()
    }

    /// Returns the question that a message answers, if nothing waited for the answer: it
    /// comes without a call that it would be the result of.
    pub(crate) fn asked_beside(&self, mail: &Mail) -> Option<&str> {
        let answered = mail.in_reply_to?;
        self.records.iter().rev().find_map(|record| match record {
            Record::Asked { question, blocking: false, text, .. } if *question == answered => {
                Some(text.as_str())
            }
            _ => None,
        })
    }

    /// Returns the answer of the model, with its call, that was held back by a reminder of
    /// what is open.
    pub(crate) fn held_back(&self) -> Option<(String, String)> {
        let turn = self.turn();
        let at = turn.iter().rposition(|record| matches!(record, Record::Notice { .. }))?;
        match turn[..at].iter().rfind(|record| matches!(record, Record::Model { .. }))? {
            Record::Model { call, content: Some(text), tool_calls, .. }
                if tool_calls.is_empty() && !text.trim().is_empty() =>
            {
                Some((call.clone(), text.clone()))
            }
            _ => None,
        }
    }

    /// Returns whether the last step is a question that blocks, and whose runner has ended:
    /// the answer comes as a message to the next one. Other mail waits with it.
    pub(crate) fn waits_for_answer(&self) -> bool {
        let asked = |record: &Record| match record {
            Record::Asked { question, blocking, .. } => Some((*question, *blocking)),
            _ => None,
        };
        let mut newest = self.records.iter().enumerate().rev();
        let last = newest.find_map(|(at, record)| Some((at, asked(record)?)));
        let Some((at, (question, true))) = last else { return false };
        let later = &self.records[at..];
        let answers = |mail: &Mail| match mail.in_reply_to {
            Some(named) => named == question,
            None => mail.seq > question,
        };
        later.contains(&Record::Start)
            && later[1..].iter().all(|record| match record {
                Record::Start | Record::Given { .. } => true,
                Record::Mail(mail) => !(mail.human && answers(mail)),
                _ => false,
            })
    }

    /// Returns the call of the model that wrote this answer in the running turn.
    pub(crate) fn writer_of(&self, text: &str) -> Option<&str> {
        self.turn().iter().rev().find_map(|record| match record {
            Record::Model { call, content: Some(content), .. } if content == text => {
                Some(call.as_str())
            }
            _ => None,
        })
    }

    /// Returns whether a result was shown as a partial answer of this key.
    pub(crate) fn was_shown(&self, key: &str) -> bool {
        self.records
            .iter()
            .rev()
            .any(|record| matches!(record, Record::Said { partial: Some(of), .. } if of == key))
    }

    /// Returns the model's answer, with its call, that mail has overtaken and that was not
    /// shown to the human: the runner which was about to do that has ended.
    pub(crate) fn overtaken(&self) -> Option<(String, String)> {
        let turn = self.turn();
        let at = turn.iter().rposition(|record| matches!(record, Record::Model { .. }))?;
        let later = &turn[at + 1..];
        let is_mail = |record: &Record| matches!(record, Record::Mail(_));
        let is_plain = |record: &Record| {
            is_mail(record) || matches!(record, Record::Start | Record::Given { .. })
        };
        match &turn[at] {
            Record::Model { call, content: Some(text), tool_calls, .. }
                if tool_calls.is_empty()
                    && !text.trim().is_empty()
                    && later.iter().any(is_mail)
                    && later.iter().all(is_plain) =>
            {
                Some((call.clone(), text.clone()))
            }
            _ => None,
        }
    }

    /// Returns how the last turn ended, if there is nothing after it: its answer, or the
    /// reason why it has none.
    pub(crate) fn end(&self) -> Option<Result<&str, &str>> {
        match self.records.iter().rfind(|record| **record != Record::Start) {
            Some(Record::Finish { failed: Some(why), .. }) => Some(Err(why)),
            Some(Record::Finish { result, .. }) => Some(Ok(result.as_deref().unwrap_or_default())),
            _ => None,
        }
    }

    /// Returns the records since the last turn ended.
    pub(crate) fn turn(&self) -> &[Record] {
        let end = self.records.iter().rposition(|record| matches!(record, Record::Finish { .. }));
        &self.records[end.map_or(0, |end| end + 1)..]
    }

    /// Returns the record of this call, if it was answered before.
    pub(crate) fn answer_to(&self, key: &str) -> Option<&Record> {
        self.records.iter().rev().find(|record| match record {
            Record::Model { call, .. }
            | Record::Tool { call, .. }
            | Record::Notice { call, .. }
            | Record::Given { call }
            | Record::Finish { call, .. } => call == key,
            Record::Start
            | Record::Mail(_)
            | Record::Paid { .. }
            | Record::Said { .. }
            | Record::Asked { .. }
            | Record::Answered { .. }
            | Record::Saying(_) => false,
        })
    }

    /// Returns the mail that the runner has not been given before this call.
    pub(crate) fn not_given(&self, key: &str) -> Vec<&Mail> {
        let upto = self
            .records
            .iter()
            .position(|record| matches!(record, Record::Given { call } if call == key));
        let until = &self.records[..upto.unwrap_or(self.records.len())];
        let given = |record: &Record| matches!(record, Record::Given { .. } | Record::Start);
        let from = until.iter().rposition(given).map_or(0, |at| at + 1);
        fn mail(record: &Record) -> Option<&Mail> {
            match record {
                Record::Mail(mail) => Some(mail),
                _ => None,
            }
        }
        until[from..].iter().filter_map(mail).collect()
    }

    /// Returns the conversation as the model is to see it, without its system prompt, and
    /// with so many characters of each message for it.
    pub(crate) fn messages(&self, most: usize) -> Vec<ChatMessage> {
        let mut all: Vec<ChatMessage> = Vec::new();
        let mut unanswered = Unanswered::default();
        for record in &self.records {
            if !matches!(record, Record::Tool { .. }) {
                let message = !matches!(
                    record,
                    Record::Given { .. }
                        | Record::Paid { .. }
                        | Record::Said { .. }
                        | Record::Asked { .. }
                        | Record::Answered { .. }
                );
                if message {
                    unanswered.close(&mut all);
                }
            }
            match record {
                Record::Mail(mail) => all.extend(mail.messages(most)),
                Record::Model { content, tool_calls, .. } => {
                    unanswered.calls.clone_from(tool_calls);
                    let (content, tool_calls) = (content.clone(), tool_calls.clone());
                    all.push(ChatMessage::Assistant { content, tool_calls });
                }
                Record::Tool { tool_call_id, text, .. } => {
                    // The result of a call that the model did not make has no place.
                    let mut calls = unanswered.calls.iter();
                    let Some(at) = calls.position(|call| call.id == *tool_call_id) else {
                        continue;
                    };
                    unanswered.calls.remove(at);
                    unanswered.answer = None;
                    let tool_call_id = tool_call_id.clone();
                    all.push(ChatMessage::Tool { tool_call_id, content: text.clone() });
                }
                Record::Notice { text, .. } => all.push(notice(text)),
                Record::Finish { failed: Some(why), .. } => all.push(cut_short(why)),
                Record::Asked { .. } => unanswered.answer = Some(ANSWER_COMES.to_owned()),
                Record::Answered { text, .. } => unanswered.answer = Some(text.clone()),
                Record::Start
                | Record::Given { .. }
                | Record::Paid { .. }
                | Record::Said { .. }
                | Record::Saying(_)
                | Record::Finish { .. } => {}
            }
        }
        unanswered.close(&mut all);
        if all.first().is_some_and(|first| !matches!(first, ChatMessage::User { .. })) {
            all.insert(0, notice("You have mail."));
        }
        all
    }

    /// Returns the model's thoughts of the running turn, by the first call that followed
    /// from each. No provider wants those of earlier turns.
    pub(crate) fn thoughts(&self) -> HashMap<String, Thoughts> {
        let thought = |record: &Record| match record {
            Record::Model { tool_calls, thoughts: Some(thoughts), .. } => {
                Some((tool_calls.first()?.id.clone(), thoughts.clone()))
            }
            _ => None,
        };
        self.turn().iter().filter_map(thought).collect()
    }

    /// Returns the messages of the human that nothing has answered, oldest first.
    pub(crate) fn open(&self) -> Vec<&Mail> {
        let mut open: Vec<&Mail> = Vec::new();
        for record in self.turn() {
            match record {
                Record::Mail(mail) if mail.human && self.is_request(mail) => open.push(mail),
                Record::Said { answers, .. } => open.retain(|mail| !answers.contains(&mail.seq)),
                _ => {}
            }
        }
        open
    }

    /// Returns the open messages that the model had seen when it answered last: only those
    /// can be answered by that.
    pub(crate) fn open_and_seen(&self) -> Vec<&Mail> {
        let answered = |record: &Record| matches!(record, Record::Model { .. });
        let Some(last) = self.records.iter().rposition(answered) else { return Vec::new() };
        let later = |seq: u64| {
            let is_it = |record: &Record| matches!(record, Record::Mail(mail) if mail.seq == seq);
            self.records[last..].iter().any(is_it)
        };
        let mut open = self.open();
        open.retain(|mail| !later(mail.seq));
        open
    }

    /// Returns whether a message of the human wants an answer: a reply to a question and
    /// small talk do not.
    fn is_request(&self, mail: &Mail) -> bool {
        let asked = |record: &Record| matches!(record, Record::Asked { question, .. } if Some(*question) == mail.in_reply_to);
        let words = mail.text.to_lowercase();
        let words = words.trim_matches(|c: char| !c.is_alphanumeric());
        !SMALL_TALK.contains(&words) && !self.records.iter().any(asked)
    }

    /// Returns whether the human wrote in this turn.
    pub(crate) fn is_for_human(&self) -> bool {
        self.turn().iter().any(is_of_human)
    }

    /// Returns whether the human had written in this turn when the model answered last.
    pub(crate) fn was_for_human(&self) -> bool {
        let turn = self.turn();
        let last = turn.iter().rposition(|record| matches!(record, Record::Model { .. }));
        turn[..last.unwrap_or(turn.len())].iter().any(is_of_human)
    }

    /// Returns whether the assistant was reminded in this turn.
    pub(crate) fn was_reminded(&self) -> bool {
        self.turn().iter().any(|record| matches!(record, Record::Notice { .. }))
    }

    /// Returns what the running turn has spent.
    pub(crate) fn spent_in_turn(&self) -> Spent {
        spent(self.turn())
    }

    /// Returns what the assistant has spent in all.
    pub(crate) fn spent(&self) -> Spent {
        spent(&self.records)
    }

    /// Counts how often the last calls of the turn were this one, with this result.
    pub(crate) fn repeats(
        &self,
        name: &str,
        with: &serde_json::Map<String, serde_json::Value>,
        result: &str,
    ) -> usize {
        let tools = self.turn().iter().rev().filter_map(|record| match record {
            Record::Tool { name, arguments, text, .. } => Some((name, arguments, text)),
            _ => None,
        });
        tools
            .take_while(|(tool, arguments, text)| {
                *tool == name && *arguments == with && text.starts_with(result)
            })
            .count()
    }
}

fn is_of_human(record: &Record) -> bool {
    matches!(record, Record::Mail(mail) if mail.human)
}

/// Returns the notice to the model of a turn that ended without its answer.
pub(crate) fn cut_short(why: &str) -> ChatMessage {
    let why = crate::conversation::one_line(why.lines().next().unwrap_or_default(), 200);
    notice(&format!(
        "The turn ended here without an answer, and the user knows: {why}. Take what was left \
         undone up again only if somebody asks for it."
    ))
}

/// The calls of the model's last answer that have no result: a runner or a hub ended in the
/// middle of them.
#[derive(Default)]
struct Unanswered {
    calls: Vec<ToolCall>,
    /// What is known of the answer to a question that one of them asked.
    answer: Option<String>,
}

impl Unanswered {
    /// Answers the calls, as every provider wants.
    fn close(&mut self, all: &mut Vec<ChatMessage>) {
        let mut answer = self.answer.take();
        for call in self.calls.drain(..) {
            let known = match named(&call.name) {
                Some(LoopTool::Ask) => answer.take(),
                _ => None,
            };
            let content = known.unwrap_or_else(|| INTERRUPTED.to_owned());
            all.push(ChatMessage::Tool { tool_call_id: call.id, content });
        }
    }
}

fn spent(records: &[Record]) -> Spent {
    let mut all = Spent::default();
    for record in records {
        let (Record::Model { usage, cost_usd, .. } | Record::Paid { usage, cost_usd }) = record
        else {
            continue;
        };
        all.calls += 1;
        all.usage.input_tokens += usage.input_tokens;
        all.usage.output_tokens += usage.output_tokens;
        all.cost_usd += cost_usd;
    }
    all
}

/// Returns a list of messages with their numbers, one a line.
pub(crate) fn listed(mail: &[&Mail]) -> String {
    let line = |mail: &&Mail| {
        format!("- {}: {}", mail.seq, crate::conversation::one_line(&mail.text, QUOTED))
    };
    mail.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Finds the open message that a reference of the model means: its number, or a quote that
/// fits one message alone.
pub(crate) fn referred<'a>(open: &[&'a Mail], reference: &str) -> Option<&'a Mail> {
    let reference = reference.trim().trim_matches(['"', '\'', '“', '”', '«', '»']);
    if let Ok(seq) = reference.trim_start_matches('#').parse::<u64>() {
        return open.iter().find(|mail| mail.seq == seq).copied();
    }
    let quote = reference.to_lowercase();
    if quote.is_empty() {
        return None;
    }
    let fits = |mail: &&&Mail| mail.text.to_lowercase().contains(&quote);
    let mut fitting = open.iter().filter(fits);
    fitting.next().copied().filter(|_| fitting.next().is_none())
}

#[cfg(test)]
mod tests;
