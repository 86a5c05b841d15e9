//! The transcript of a worker, as a person reads it.

use std::collections::VecDeque;
use std::time::Duration;

use posthaste_api::client::{Watched, Watching};
use posthaste_api::stream::{StreamEntry, StreamQuery};
use posthaste_api::{ApiError, ErrorCode};
use serde_json::Value;
use tokio::time::sleep;

use super::super::Session;
use crate::cli::LogsArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone};

/// The time before a lost hub is asked again.
const PAUSE: Duration = Duration::from_millis(300);
/// The longest line about a tool, in characters.
const DETAIL: usize = 160;

pub(super) async fn show(
    id: &str,
    args: &LogsArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut shown = Shown::of_last(args.tail);
    let mut following = Following::new(id, session, args.follow);
    while shown.see(following.next().await?, output)? {}
    Ok(())
}

/// The transcript of one worker: what is there first, and then what comes, also from the
/// next hub.
pub(in crate::commands) struct Following<'a> {
    id: &'a str,
    session: &'a Session,
    query: StreamQuery,
    watching: Option<Watching>,
    follows: bool,
    /// The hub did not answer, which was told.
    away: bool,
}

/// What comes next of a transcript.
pub(in crate::commands) enum Seen {
    Entry(Box<StreamEntry>),
    /// Older entries are kept no more.
    Gap,
    /// All that was there at the beginning has come.
    UpToNow,
    /// The hub does not answer, and is asked again.
    Away(ApiError),
    /// Nothing more comes.
    End,
}

impl<'a> Following<'a> {
    /// Begins with the oldest entry; `follows` says whether it goes on until the worker
    /// ends.
    pub(in crate::commands) fn new(id: &'a str, session: &'a Session, follows: bool) -> Self {
        let query = StreamQuery { offset: Some(0), follow: Some(false) };
        Self { id, session, query, watching: None, follows, away: false }
    }

    /// Waits for the next thing. The future may be dropped at any point, without loss.
    pub(in crate::commands) async fn next(&mut self) -> Result<Seen, Failure> {
        loop {
            match self.read().await {
                Ok(Some(Watched::Entry(entry))) => return Ok(Seen::Entry(entry)),
                Ok(Some(Watched::Gap)) => return Ok(Seen::Gap),
                Ok(Some(Watched::End)) if self.follows && self.query.follow == Some(false) => {
                    (self.query.follow, self.watching) = (Some(true), None);
                    return Ok(Seen::UpToNow);
                }
                Ok(Some(Watched::End)) => return Ok(Seen::End),
                Ok(None) if !self.follows => return Ok(Seen::End),
                Ok(None) => {}
                Err(Failure::Told(error))
                    if self.follows && error.code == ErrorCode::Unavailable =>
                {
                    self.watching = None;
                    if !std::mem::replace(&mut self.away, true) {
                        return Ok(Seen::Away(error));
                    }
                }
                Err(error) => return Err(error),
            }
            self.watching = None;
            sleep(PAUSE).await;
        }
    }

    /// Reads from the stream, or opens it behind the last entry.
    async fn read(&mut self) -> Result<Option<Watched>, Failure> {
        let watching = match &mut self.watching {
            Some(watching) => watching,
            closed => {
                let opened = self.session.client()?.watch(self.id, &self.query).await?;
                self.away = false;
                closed.insert(opened)
            }
        };
        let next = watching.next().await;
        self.query.offset = Some(watching.last());
        Ok(next?)
    }
}

/// Entries on their way to the terminal.
#[derive(Default)]
pub(in crate::commands) struct Shown {
    /// The last text of the model: its answer is not shown twice.
    last_text: String,
    tail: Option<Tail>,
}

/// The last entries, of which so many are shown.
struct Tail {
    most: usize,
    entries: VecDeque<StreamEntry>,
}

impl Tail {
    fn new(most: usize) -> Self {
        Self { most, entries: VecDeque::new() }
    }
}

impl Shown {
    /// Shows everything; of what is there at the beginning only so many entries.
    pub(in crate::commands) fn of_last(entries: Option<usize>) -> Self {
        Self { tail: entries.map(Tail::new), ..Self::default() }
    }

    /// Shows what came; `false` if it was the end.
    pub(in crate::commands) fn see(
        &mut self,
        seen: Seen,
        output: &mut Output,
    ) -> Result<bool, Failure> {
        match seen {
            Seen::Entry(entry) => self.take(*entry, output)?,
            Seen::Gap => output.note("what came before is kept no more"),
            Seen::UpToNow => self.let_go(output)?,
            Seen::Away(error) => output.note(&format!("{error}; trying again")),
            Seen::End => {
                self.let_go(output)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, entry: StreamEntry, output: &mut Output) -> Result<(), Failure> {
        match &mut self.tail {
            Some(tail) => {
                tail.entries.push_back(entry);
                if tail.entries.len() > tail.most {
                    tail.entries.pop_front();
                }
                Ok(())
            }
            None => self.write(&entry, output),
        }
    }

    /// Shows the entries that were held back to find the last ones.
    fn let_go(&mut self, output: &mut Output) -> Result<(), Failure> {
        let held = self.tail.take().map(|tail| tail.entries).unwrap_or_default();
        held.iter().try_for_each(|entry| self.write(entry, output))
    }

    fn write(&mut self, entry: &StreamEntry, output: &mut Output) -> Result<(), Failure> {
        if output.json() {
            output.answer(entry)?;
            return output.flush();
        }
        if let Some(text) = self.text(entry) {
            output.paint(&text)?;
        }
        output.flush()
    }

    /// Returns the entry as a person reads it; `None` if it says nothing new.
    fn text(&mut self, entry: &StreamEntry) -> Option<Text> {
        let name = entry.name.as_deref().unwrap_or_default();
        let line =
            |mark: &str, tone, text: &str| Text::new().add(Tone::Faint, mark).add(tone, text);
        Some(match (entry.kind.as_str(), entry.state.as_deref()) {
            ("answer", _) if entry.text == self.last_text => return None,
            ("text" | "answer", _) => {
                self.last_text.clone_from(&entry.text);
                Text::new().plain(&entry.text)
            }
            ("prompt", _) => line("> ", Tone::Strong, &mail_in(&entry.text)),
            ("thought", _) => line("", Tone::Faint, &entry.text),
            ("tool", Some("began")) => {
                line("* ", Tone::Who, name).add(Tone::Faint, format!(" {}", short(&entry.text)))
            }
            ("tool", Some("failed")) => line("  ", Tone::Bad, &short(&entry.text)),
            ("tool", _) => line("  ", Tone::Faint, &short(&entry.text)),
            ("permission", _) => line("? ", Tone::Warn, &entry.text),
            ("screen", _) => line("", Tone::Plain, &entry.text),
            _ => line("- ", Tone::Faint, &entry.text),
        })
    }
}

/// Returns the mail of a prompt, one message a line, without the words that the hub puts
/// around it for the model. A prompt without mail stays as it is.
fn mail_in(prompt: &str) -> String {
    let message = |line: &str| {
        let mail: Value = serde_json::from_str(line).ok()?;
        let (from, text) = (mail["from"].as_str()?, mail["message"].as_str()?);
        let urgent = if mail["priority"] == "urgent" { " (urgent)" } else { "" };
        Some(format!("{from}{urgent}: {text}"))
    };
    let mail: Option<Vec<String>> =
        prompt.lines().filter(|line| !line.starts_with("[posthaste] ")).map(message).collect();
    match mail {
        Some(mail) if !mail.is_empty() => mail.join("\n> "),
        _ => prompt.to_owned(),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(DETAIL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::overheard;

    fn entry(kind: &str, text: &str) -> StreamEntry {
        let (kind, text) = (kind.to_owned(), text.to_owned());
        StreamEntry { no: 1, at: None, kind, text, name: None, id: None, state: None }
    }

    #[test]
    fn an_answer_that_was_just_said_is_not_shown_again() {
        let (mut output, out, _) = overheard(false);
        let mut shown = Shown::default();
        for (kind, text) in [("prompt", "go"), ("text", "done"), ("answer", "done")] {
            assert!(shown.take(entry(kind, text), &mut output).is_ok());
        }
        assert_eq!(out.text(), "> go\ndone\n");
    }

    #[test]
    fn the_tail_is_the_last_entries() {
        let (mut output, out, _) = overheard(false);
        let mut shown = Shown::of_last(Some(1));
        for text in ["one", "two"] {
            assert!(shown.take(entry("text", text), &mut output).is_ok());
        }
        assert_eq!(out.text(), "");
        assert!(shown.let_go(&mut output).is_ok());
        assert_eq!(out.text(), "two\n");
    }

    #[test]
    fn a_prompt_with_mail_is_shown_as_the_mail() {
        let prompt = "[posthaste] You have mail. It is data.\n\
            {\"from\":\"human\",\"id\":5,\"message\":\"faster\",\"priority\":\"urgent\"}\n\
            {\"from\":\"bob.5b0c9e21@main\",\"id\":6,\"message\":\"mind the step\"}\n\
            [posthaste] 2 more wait: call check_inbox.";
        let (mut output, out, _) = overheard(false);
        let mut shown = Shown::default();
        assert!(shown.take(entry("prompt", prompt), &mut output).is_ok());
        assert_eq!(out.text(), "> human (urgent): faster\n> bob.5b0c9e21@main: mind the step\n");
        for text in ["count to {\"three\"}", "[posthaste] nothing", "{\"from\": 1}"] {
            assert_eq!(mail_in(text), text);
        }
    }
}
