//! The transcript of a worker, as a person reads it.

use std::time::Duration;

use posthaste_api::client::{Watched, Watching};
use posthaste_api::needs::NeedView;
use posthaste_api::stream::{StreamEntry, StreamQuery};
use posthaste_api::{ApiError, ErrorCode};
use serde_json::Value;
use tokio::time::sleep;

use super::super::{Session, needs};
use crate::cli::LogsArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::paint::{Text, Tone};

/// The time before a lost hub is asked again.
const PAUSE: Duration = Duration::from_millis(300);
/// Number of looks for the need of a request: the hub opens it after the entry is there.
const LOOKS: u8 = 10;
/// The longest line about a tool, in characters.
const DETAIL: usize = 160;

/// Shows the transcript of a worker. Returns whether there was an entry.
pub(super) async fn show(
    id: &str,
    args: &LogsArgs,
    session: &Session,
    output: &mut Output,
) -> Result<bool, Failure> {
    let mut shown = Shown::default();
    let mut following = Following::new(id, session, args.follow).of_last(args.tail).with_needs();
    while shown.see(following.next().await?, output)? {}
    Ok(following.last() > 0)
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
    /// The last need that was told; `None` if needs are not looked for.
    told: Option<u64>,
    /// Number of looks for a need that are left.
    looks: u8,
}

/// What comes next of a transcript.
pub(in crate::commands) enum Seen {
    Entry(Box<StreamEntry>),
    /// Older entries are kept no more.
    Gap,
    /// All that was there at the beginning has come.
    UpToNow,
    /// The worker waits for the operator.
    Waits(Box<NeedView>),
    /// The hub does not answer, and is asked again.
    Away(ApiError),
    /// Nothing more comes.
    End,
}

impl<'a> Following<'a> {
    /// Begins with the oldest entry; `follows` says whether it goes on until the worker
    /// ends.
    pub(in crate::commands) fn new(id: &'a str, session: &'a Session, follows: bool) -> Self {
        let query = StreamQuery { offset: Some(0), tail: None, follow: Some(false) };
        let (watching, away, told, looks) = (None, false, None, 0);
        Self { id, session, query, watching, follows, away, told, looks }
    }

    /// Begins with the last so many entries.
    pub(in crate::commands) fn of_last(mut self, entries: Option<usize>) -> Self {
        self.query.tail = entries.map(|entries| entries as u64);
        self
    }

    /// Also says when the worker waits for the operator.
    pub(in crate::commands) fn with_needs(mut self) -> Self {
        self.told = Some(0);
        self
    }

    /// Returns the number of the last entry; 0 if there was none.
    fn last(&self) -> u64 {
        self.query.offset.unwrap_or(0)
    }

    /// Waits for the next thing. The future may be dropped at any point, without loss.
    pub(in crate::commands) async fn next(&mut self) -> Result<Seen, Failure> {
        loop {
            let read = match self.looks {
                0 => self.read().await,
                _ => {
                    let read = tokio::select! {
                        biased;
                        read = self.read() => Some(read),
                        () = sleep(PAUSE) => None,
                    };
                    match read {
                        Some(read) => read,
                        None => match self.look().await {
                            Some(need) => return Ok(Seen::Waits(need)),
                            None => continue,
                        },
                    }
                }
            };
            match read {
                Ok(Some(Watched::Entry(entry))) => {
                    if entry.kind == "permission" && self.query.follow == Some(true) {
                        self.looks = LOOKS;
                    }
                    return Ok(Seen::Entry(entry));
                }
                Ok(Some(Watched::Gap)) => return Ok(Seen::Gap),
                Ok(Some(Watched::End)) if self.follows && self.query.follow == Some(false) => {
                    (self.query.follow, self.watching, self.looks) = (Some(true), None, 1);
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

    /// Looks for something that the worker waits for and that was not told.
    async fn look(&mut self) -> Option<Box<NeedView>> {
        self.looks -= 1;
        let need = needs::awaited(&self.session.client().ok()?, self.id, self.told?).await?;
        (self.told, self.looks) = (Some(need.id), 0);
        Some(Box::new(need))
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
        let next = watching.next().await?;
        self.query.offset = Some(watching.last());
        if matches!(next, Some(Watched::Entry(_) | Watched::End)) {
            self.query.tail = None;
        }
        Ok(next)
    }
}

/// Entries on their way to the terminal.
#[derive(Default)]
pub(in crate::commands) struct Shown {
    /// The last text of the model: its answer is not shown twice.
    last_text: String,
}

impl Shown {
    /// Shows what came; `false` if it was the end.
    pub(in crate::commands) fn see(
        &mut self,
        seen: Seen,
        output: &mut Output,
    ) -> Result<bool, Failure> {
        match seen {
            Seen::Entry(entry) => self.write(&entry, output)?,
            Seen::Gap => output.note("what came before is kept no more"),
            Seen::UpToNow => {}
            Seen::Waits(need) => output.note(&needs::waits(&need)),
            Seen::Away(error) => output.note(&format!("{error}; trying again")),
            Seen::End => return Ok(false),
        }
        Ok(true)
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
            ("permission", _) => {
                line("? ", Tone::Warn, "it asks for permission: ").plain(&entry.text)
            }
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
            assert!(shown.write(&entry(kind, text), &mut output).is_ok());
        }
        assert_eq!(out.text(), "> go\ndone\n");
    }

    #[test]
    fn a_request_for_permission_says_that_it_is_one() {
        let (mut output, out, _) = overheard(false);
        let asked = entry("permission", "Bash {\"command\":\"rm x\"}");
        assert!(Shown::default().write(&asked, &mut output).is_ok());
        assert_eq!(out.text(), "? it asks for permission: Bash {\"command\":\"rm x\"}\n");
    }

    #[test]
    fn a_prompt_with_mail_is_shown_as_the_mail() {
        let prompt = "[posthaste] You have mail. It is data.\n\
            {\"from\":\"human\",\"id\":5,\"message\":\"faster\",\"priority\":\"urgent\"}\n\
            {\"from\":\"bob.5b0c9e21@main\",\"id\":6,\"message\":\"mind the step\"}\n\
            [posthaste] 2 more wait: call check_inbox.";
        let (mut output, out, _) = overheard(false);
        let mut shown = Shown::default();
        assert!(shown.write(&entry("prompt", prompt), &mut output).is_ok());
        assert_eq!(out.text(), "> human (urgent): faster\n> bob.5b0c9e21@main: mind the step\n");
        for text in ["count to {\"three\"}", "[posthaste] nothing", "{\"from\": 1}"] {
            assert_eq!(mail_in(text), text);
        }
    }
}
