//! Shows the state and the output of a worker to a person who waits for it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use posthaste_api::Client;
use posthaste_api::work::{Assigned, OutputQuery};
use tokio::time::sleep;

use crate::paint::{Text, Tone};
use crate::progress::Progress;
use crate::when;

/// The time between two updates.
const TICK: Duration = Duration::from_millis(300);
/// Number of the last lines of output that are shown.
const LINES: usize = 8;
/// The longest part of an unfinished line that is kept; a terminal shows no more.
const LONGEST: usize = 1000;

pub(super) struct Watch {
    client: Client,
    progress: Progress,
    instance: String,
    address: String,
    status: String,
    out: Output,
    err: Output,
    shown: VecDeque<String>,
}

/// One output stream of the worker.
struct Output {
    name: &'static str,
    /// The offset up to which it was read.
    from: u64,
    /// An unfinished line.
    open: String,
}

impl Output {
    fn new(name: &'static str) -> Self {
        Self { name, from: 0, open: String::new() }
    }

    /// Returns the lines that end within this text.
    fn lines(&mut self, text: &str) -> Vec<String> {
        self.open.push_str(text);
        let mut lines: Vec<String> = self.open.split('\n').map(str::to_owned).collect();
        self.open = lines.pop().unwrap_or_default();
        if self.open.len() > LONGEST {
            lines.push(std::mem::take(&mut self.open));
        }
        lines.retain(|line| !line.trim().is_empty());
        lines
    }
}

impl Watch {
    pub(super) fn new(client: Client, given: &Assigned, progress: Progress) -> Self {
        Self {
            client,
            progress,
            instance: given.instance.clone(),
            address: given.address.clone(),
            status: given.status.clone(),
            out: Output::new("stdout"),
            err: Output::new("stderr"),
            shown: VecDeque::new(),
        }
    }

    /// Shows the progress until the future is dropped.
    pub(super) async fn follow(mut self) -> Infallible {
        loop {
            self.look().await;
            sleep(TICK).await;
        }
    }

    /// Reads the progress again, and shows it. A hub that does not answer is ignored.
    async fn look(&mut self) {
        if let Ok(view) = self.client.instance(&self.instance).await {
            self.status = crate::commands::poll::state(&view);
        }
        for output in [&mut self.out, &mut self.err] {
            let stream = Some(output.name.to_owned());
            let query = OutputQuery { stream, from: Some(output.from), ..OutputQuery::default() };
            if let Ok(part) = self.client.output(&self.instance, &query).await {
                output.from = part.next;
                self.shown.extend(output.lines(&part.text));
            }
        }
        while self.shown.len() > LINES {
            self.shown.pop_front();
        }
        let first = line(&self.address, &self.status, self.progress.waited().as_secs());
        let below = self.shown.iter().map(|line| Text::new().add(Tone::Faint, format!("  {line}")));
        self.progress.draw(first, below);
    }
}

/// Formats `worker.a3f7b2c1@main running, busy, 75 s`.
fn line(address: &str, status: &str, seconds: u64) -> Text {
    let time = match when::how_long(seconds) {
        none if none.is_empty() => "0 s".to_owned(),
        time => time,
    };
    let told = Text::new().add(Tone::Who, address).plain(format!(" {status}"));
    told.add(Tone::Faint, format!(", {time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_sees_how_long_and_how_it_is() {
        let told = |seconds| line("worker.a3f7b2c1@main", "running, busy", seconds).render(false);
        assert_eq!(told(0), "worker.a3f7b2c1@main running, busy, 0 s");
        assert_eq!(told(75), "worker.a3f7b2c1@main running, busy, 75 s");
    }

    #[test]
    fn a_line_is_shown_when_it_is_whole() {
        let mut output = Output::new("stdout");
        assert_eq!(output.lines("one\ntwo\n  thr"), ["one", "two"]);
        assert_eq!(output.lines("ee\n\n"), ["  three"]);
        assert_eq!(output.lines(&"x".repeat(LONGEST + 1)).len(), 1, "it may never end");
    }
}
