//! `posthaste logs`: shows the output of a worker, as it is written; of a worker whose
//! driver holds a conversation with it, the transcript.

pub(super) mod transcript;

use std::time::Duration;

use posthaste_api::Client;
use posthaste_api::client::ClientError;
use posthaste_api::instances::InstanceView;
use posthaste_api::work::{OutputQuery, OutputView};
use tokio::time::sleep;

use super::{Session, agent, needs};
use crate::cli::LogsArgs;
use crate::failure::Failure;
use crate::output::Output;

/// The time between two reads of a growing output.
const PAUSE: Duration = Duration::from_millis(300);
/// Number of bytes read at a time.
const STRETCH: usize = 256 * 1024;

pub(super) async fn run(
    args: &LogsArgs,
    session: &Session,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut client = session.client()?;
    let id = agent::find_to_read(&args.instance, &client, output).await?;
    let logs = Logs { id, stream: if args.stderr { "stderr" } else { "stdout" } };
    let mut from = match args.tail {
        Some(lines) => logs.tail(&client, lines).await?,
        None => 0,
    };
    let raw = output.is_raw(args.raw);
    let mut is_line_open = false;
    let mut said = false;
    let mut away = false;
    loop {
        let read = match raw {
            true => logs.bytes(&client, from, STRETCH).await,
            false => logs.text(&client, from, STRETCH).await,
        };
        let (bytes, part) = match read {
            Ok(read) => read,
            // The hub comes back, and with it the worker's output.
            Err(e) if args.follow && e.is_passing() => {
                if !std::mem::replace(&mut away, true) {
                    output.note(&format!("{e}; trying again"));
                }
                sleep(PAUSE).await;
                client = session.client().unwrap_or(client);
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        if part.transcript && !args.stderr {
            let said = transcript::show(&logs.id, args, session, output).await?;
            return logs.tell_state(said, session, output).await;
        }
        away = false;
        from = part.next;
        said |= part.total > 0;
        if raw {
            output.raw(&bytes)?;
        } else if !output.json() {
            output.part(&part.text)?;
            is_line_open = part.text.chars().last().map_or(is_line_open, |last| last != '\n');
        } else if !part.text.is_empty() || part.ended || !args.follow {
            output.answer(&part)?;
        }
        output.flush()?;
        if part.next < part.total {
            continue;
        }
        if part.ended || !args.follow {
            close(is_line_open, part.dropped, output)?;
            return match args.stderr {
                true => Ok(()),
                false => logs.tell_state(said, session, output).await,
            };
        }
        sleep(PAUSE).await;
    }
}

/// Ends an open line, so that the next prompt of the shell begins a line of its own.
fn close(is_line_open: bool, dropped: u64, output: &mut Output) -> Result<(), Failure> {
    if is_line_open {
        output.part("\n")?;
    }
    if dropped > 0 {
        output
            .note(&format!("{dropped} bytes more were written and not kept (agents.output_bytes)"));
    }
    Ok(())
}

struct Logs {
    id: String,
    stream: &'static str,
}

impl Logs {
    fn query(&self, from: u64, most: usize) -> OutputQuery {
        let stream = Some(self.stream.to_owned());
        OutputQuery { stream, from: Some(from), most: Some(most), ..OutputQuery::default() }
    }

    /// Says why a worker has no more to say: it failed, it ended without a word, or it waits
    /// for the operator.
    async fn tell_state(
        &self,
        said: bool,
        session: &Session,
        output: &mut Output,
    ) -> Result<(), Failure> {
        output.flush()?;
        let client = session.client()?;
        let who = client.instance(&self.id).await?;
        if let Some(note) = ending(&who, said) {
            output.note(&note);
        } else if let Some(need) = needs::awaited(&client, &self.id, 0).await {
            output.note(&needs::waits(&need));
        }
        Ok(())
    }

    /// Reads a stretch as text, for people and for JSON.
    async fn text(
        &self,
        client: &Client,
        from: u64,
        most: usize,
    ) -> Result<(Vec<u8>, OutputView), ClientError> {
        Ok((Vec::new(), client.output(&self.id, &self.query(from, most)).await?))
    }

    /// Reads a stretch as bytes.
    async fn bytes(
        &self,
        client: &Client,
        from: u64,
        most: usize,
    ) -> Result<(Vec<u8>, OutputView), ClientError> {
        client.output_bytes(&self.id, &self.query(from, most)).await
    }

    /// Returns the offset at which the last lines begin. Reads more and more of the end
    /// until it contains them.
    async fn tail(&self, client: &Client, lines: usize) -> Result<u64, ClientError> {
        let total = self.text(client, 0, 16).await?.1.total;
        let mut begin = total;
        let mut end = Vec::new();
        while begin > 0 && line_starts(&end, lines).is_none() {
            let next = begin.saturating_sub(STRETCH as u64);
            let most = usize::try_from(begin - next).unwrap_or(STRETCH).max(16);
            let (bytes, _) = self.bytes(client, next, most).await?;
            end.splice(0..0, bytes);
            begin = next;
        }
        let skip = line_starts(&end, lines).unwrap_or(0);
        Ok(begin + skip as u64)
    }
}

/// Says how a worker ended, where what it said does not.
fn ending(who: &InstanceView, said: bool) -> Option<String> {
    let why = who.why.as_deref().unwrap_or(&who.status);
    match (&*who.status, said) {
        ("failed", true) => Some(format!("it failed: {why}")),
        ("failed" | "stopped" | "finished", false) => {
            let id = &who.instance;
            Some(format!("it said nothing; it ended: {why} (posthaste logs --stderr {id})"))
        }
        _ => None,
    }
}

/// Returns the offset at which the last so many lines of a text begin, if it has more
/// lines.
fn line_starts(text: &[u8], lines: usize) -> Option<usize> {
    let whole = text.strip_suffix(b"\n").unwrap_or(text);
    if lines == 0 {
        return Some(text.len());
    }
    let ends = whole.iter().enumerate().rev().filter(|(_, b)| **b == b'\n');
    ends.map(|(at, _)| at + 1).nth(lines - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_begin_after_the_end_of_the_one_before() {
        let text = b"one\ntwo\nthree\n";
        assert_eq!(line_starts(text, 1), Some(8));
        assert_eq!(line_starts(text, 2), Some(4));
        assert_eq!(line_starts(text, 3), None, "all of it");
        assert_eq!(line_starts(b"one\ntwo", 1), Some(4));
        assert_eq!(line_starts(text, 0), Some(14));
        assert_eq!(line_starts(b"", 5), None);
    }
}
