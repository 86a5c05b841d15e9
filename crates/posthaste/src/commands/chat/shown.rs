//! The entries of a conversation on their way to a person: each once, and again when its
//! state has changed.

use std::collections::HashMap;

use posthaste_api::chat::{ChatEntry, ChatView};

use crate::paint::{Text, Tone};

/// The longest quote, and the longest line about a tool, in characters.
const QUOTE: usize = 60;
const DETAIL: usize = 120;

/// What was shown.
#[derive(Default)]
pub(super) struct Shown {
    /// The state of each entry that was shown, by its name.
    states: HashMap<String, Option<String>>,
    /// The number and the text of each message of the operator.
    own: Vec<(u64, String)>,
    /// The agent was at work.
    working: bool,
}

/// An entry that is new, or has another state.
pub(super) struct News<'a> {
    pub(super) entry: &'a ChatEntry,
    pub(super) is_new: bool,
}

impl Shown {
    /// Returns what is new in the conversation, in order.
    pub(super) fn news<'a>(&mut self, view: &'a ChatView) -> Vec<News<'a>> {
        let mut news = Vec::new();
        for entry in &view.entries {
            let before = self.states.insert(name(entry), entry.state.clone());
            if before.as_ref() != Some(&entry.state) {
                news.push(News { entry, is_new: before.is_none() });
            }
            if let (None, "user", Some(seq)) = (&before, entry.kind.as_str(), entry.seq) {
                self.own.push((seq, entry.text.clone()));
            }
        }
        news
    }

    /// Returns whether the agent has begun to work since the last look.
    pub(super) fn begins_to_work(&mut self, view: &ChatView) -> bool {
        !std::mem::replace(&mut self.working, view.working) && view.working
    }

    /// Returns an entry as a person reads it; `None` if it says nothing new.
    pub(super) fn text(&self, news: &News<'_>) -> Option<Text> {
        let News { entry, is_new } = news;
        let state = entry.state.as_deref().unwrap_or_default();
        let number = entry.seq.or(entry.need).unwrap_or_default();
        let faint = |text: String| Text::new().add(Tone::Faint, text);
        match (entry.kind.as_str(), is_new) {
            ("user", true) => Some(
                faint(format!("[{number}] "))
                    .add(Tone::Strong, continued(&entry.text))
                    .add(Tone::Faint, format!(" ({state})")),
            ),
            ("user", false) if state == "failed" => {
                Some(Text::new().add(Tone::Bad, format!("[{number}] {}", why_not(entry))))
            }
            ("user", false) => Some(faint(format!("[{number}] {state}"))),
            ("partial" | "answer", true) => {
                let said = match state {
                    "failed" => Text::new().add(Tone::Bad, framed(&entry.text)),
                    _ => Text::new().plain(framed(&entry.text)),
                };
                Some(match self.quote(entry) {
                    Some(quote) => faint(format!("> {quote}\n")).then(said),
                    None => said,
                })
            }
            ("question", true) => Some(question(entry)),
            ("permission", true) if state != "open" => Some(faint(format!(
                "! it asked for permission: {} ({state})",
                continued(&entry.text)
            ))),
            ("permission", true) => {
                let need = entry.need.unwrap_or_default();
                let text = Text::new().add(Tone::Warn, "! it asks for permission: ");
                let text = text.plain(continued(&entry.text));
                Some(text.then(faint(format!("\n  yes or no, or /answer {need} yes"))))
            }
            ("question" | "permission", false) => {
                let asked = one_line(&entry.text, QUOTE);
                Some(faint(format!("  it is {state}: {asked}")))
            }
            ("tool", _) => Some(tool(entry, state)),
            _ => None,
        }
    }

    /// Returns a line of the message that an answer names, unless it is the last one.
    fn quote(&self, entry: &ChatEntry) -> Option<String> {
        if let Some(quote) = &entry.quote {
            return Some(one_line(quote, QUOTE));
        }
        let seq = entry.seq.unwrap_or(u64::MAX);
        let last = self.own.iter().rev().find(|(own, _)| *own < seq)?.0;
        let named: Vec<u64> = match entry.answers.is_empty() {
            true => entry.in_reply_to.into_iter().collect(),
            false => entry.answers.clone(),
        };
        if named.iter().all(|named| *named == last) {
            return None;
        }
        let texts = named.iter().filter_map(|seq| {
            let own = self.own.iter().find(|(own, _)| own == seq)?;
            Some(format!("[{seq}] {}", one_line(&own.1, QUOTE)))
        });
        let quote = texts.collect::<Vec<_>>().join("; ");
        (!quote.is_empty()).then_some(quote)
    }
}

/// Says why a message gets no answer.
fn why_not(entry: &ChatEntry) -> String {
    match entry.reason.as_deref().unwrap_or_default() {
        "turn_failed" => "failed: the turn failed".to_owned(),
        "turn_cancelled" => "failed: the turn was cancelled".to_owned(),
        "agent_ended" => "failed: the agent ended before it answered".to_owned(),
        dead => format!("failed: it did not arrive ({dead})"),
    }
}

/// Returns the name of an entry: a message's number, a need's, or a call's id.
fn name(entry: &ChatEntry) -> String {
    match (entry.seq, entry.need, &entry.call) {
        (Some(seq), ..) => format!("message {seq}"),
        (None, Some(need), _) => format!("need {need}"),
        (None, None, Some(call)) => format!("call {call}"),
        (None, None, None) => format!("entry {}", entry.no.unwrap_or_default()),
    }
}

/// Begins each line of a text, so that none looks like a line of the window itself.
const BAR: &str = "| ";

fn framed(text: &str) -> String {
    format!("{BAR}{}", continued(text))
}

/// Does so from the second line on: the first one stands behind words of the window.
fn continued(text: &str) -> String {
    text.trim_end().replace('\n', &format!("\n{BAR}"))
}

fn question(entry: &ChatEntry) -> Text {
    let mut text = Text::new().add(Tone::Warn, "? ").plain(continued(&entry.text));
    for (at, option) in entry.options.iter().enumerate() {
        text = text.add(Tone::Strong, format!("\n  {}) ", at + 1)).plain(continued(option));
    }
    let Some(need) = entry.need else { return text };
    let how = match (entry.blocking == Some(true), entry.options.is_empty()) {
        (true, true) => "it waits for your answer".to_owned(),
        (true, false) => "it waits: answer with a number, or in words".to_owned(),
        (false, true) => format!("answer with /answer {need} TEXT; it goes on meanwhile"),
        (false, false) => {
            format!("answer with a number, or with /answer {need} TEXT; it goes on meanwhile")
        }
    };
    text.add(Tone::Faint, format!("\n  {how}"))
}

fn tool(entry: &ChatEntry, state: &str) -> Text {
    let name = entry.name.as_deref().unwrap_or_default();
    let detail = one_line(&entry.text, DETAIL);
    match state {
        "running" => Text::new().add(Tone::Faint, format!("* {name} {detail}")),
        "failed" => Text::new().add(Tone::Bad, format!("* {name} failed")),
        _ => Text::new().add(Tone::Faint, format!("* {name} {state}")),
    }
}

fn one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns whether an entry waits for the operator.
pub(super) fn is_open(entry: &ChatEntry) -> bool {
    entry.need.is_some() && entry.state.as_deref() == Some("open")
}

/// Returns the text that a person's line stands for: a number is one of the options that
/// are open, and a plain yes or no is about the oldest request that is shown.
pub(super) fn meant(line: &str, view: Option<&ChatView>) -> String {
    let line = line.trim();
    let entries = || view.into_iter().flat_map(|view| &view.entries);
    if let Ok(number) = line.parse::<usize>() {
        let questions = || entries().filter(|entry| entry.kind == "question" && is_open(entry));
        // The one for which the agent waits comes first, also if it offers nothing.
        let waits = questions().find(|entry| entry.blocking == Some(true));
        let asked = waits.or_else(|| questions().find(|entry| !entry.options.is_empty()));
        let chosen = asked.and_then(|entry| {
            let option = entry.options.get(number.checked_sub(1)?)?;
            Some(format!("/answer {} {option}", entry.need?))
        });
        return chosen.unwrap_or_else(|| line.to_owned());
    }
    let request = entries().find(|entry| entry.kind == "permission" && is_open(entry));
    // Of a request that was closed a moment ago the hub says so: it is no word on another
    // one, which comes only now.
    let last = entries().rfind(|entry| entry.kind != "tool");
    let request = request.or(last.filter(|entry| entry.kind == "permission"));
    // As the hub reads a verdict.
    let word = line.trim_matches([' ', '\t', '.', ',', '!']).to_ascii_lowercase();
    match (request.and_then(|entry| entry.need), word.as_str()) {
        // What is allowed is what the person has seen.
        (Some(need), "y" | "yes" | "allow" | "n" | "no" | "deny") => {
            format!("/answer {need} {word}")
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
