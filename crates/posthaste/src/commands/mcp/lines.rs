//! The client's side: lines in, lines out.
//!
//! A thread of its own reads stdin, because a read cannot be cancelled; the thread ends
//! with the process. Lines are bounded: the rest of a longer line is dropped, and the
//! next line is read as usual.

use std::io::{self, BufRead, Write};

use bytes::Bytes;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;

use crate::terminal::tame;

/// The longest line that is passed on, which is the longest request that the hub takes.
pub(super) const LONGEST: usize = 8 << 20;
/// Number of bytes kept of a longer line, to find out which request to refuse.
const KEPT: usize = 4 * LONGEST;
/// Number of lines that may wait.
const AHEAD: usize = 16;

/// One line of the client, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Bytes),
    /// The beginning of a line that is longer than [`LONGEST`].
    TooLong(Bytes),
}

/// Returns the lines of stdin. `closed` is cancelled when there are no more.
pub(super) fn of_stdin(closed: CancellationToken) -> io::Result<Receiver<Line>> {
    let (sender, lines) = mpsc::channel(AHEAD);
    let read = move || {
        let _ended = closed.drop_guard();
        read_all(&mut io::stdin().lock(), &sender);
    };
    std::thread::Builder::new().name("stdin".into()).spawn(read)?;
    Ok(lines)
}

/// Reads to the end, or until the receiver is dropped.
fn read_all(input: &mut impl BufRead, lines: &Sender<Line>) {
    // A line that cannot be read is the end: there is no way to go on behind it.
    while let Ok(Some(line)) = next(input) {
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Returns the next line that is not blank.
pub(super) fn next(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    loop {
        let (mut line, mut length, mut ended) = (Vec::new(), 0, false);
        while !ended {
            let chunk = match input.fill_buf() {
                Ok(chunk) => chunk,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if chunk.is_empty() {
                break;
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            line.extend_from_slice(&part[..part.len().min(KEPT - line.len())]);
            length += part.len();
            ended = end.is_some();
            let taken = part.len() + usize::from(ended);
            input.consume(taken);
        }
        let blank = line.iter().all(u8::is_ascii_whitespace);
        match (blank && length == line.len(), ended) {
            (true, true) => continue,
            (true, false) => return Ok(None),
            (false, _) if length > LONGEST => return Ok(Some(Line::TooLong(line.into()))),
            (false, _) => return Ok(Some(Line::Whole(line.trim_ascii().to_vec().into()))),
        }
    }
}

/// Writes to the client.
#[derive(Clone)]
pub(super) struct Out {
    /// Cancelled when the client does not read any more.
    gone: CancellationToken,
}

impl Out {
    pub(super) fn new(gone: CancellationToken) -> Self {
        Self { gone }
    }

    /// Writes one message as one line: a line ending inside JSON is only space.
    pub(super) fn line(&self, message: &[u8]) {
        let mut line = message.trim_ascii().to_vec();
        if line.is_empty() {
            return;
        }
        line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        line.push(b'\n');
        let mut out = io::stdout().lock();
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            self.gone.cancel();
        }
    }

    /// Writes a note to stderr, for a person who reads the client's log.
    pub(super) fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "posthaste mcp: {}", tame(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut text: &[u8]) -> Vec<Line> {
        std::iter::from_fn(|| next(&mut text).expect("memory can be read")).collect()
    }

    fn whole(text: &str) -> Line {
        Line::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn blank_lines_are_no_lines_and_the_last_needs_no_end() {
        assert_eq!(all(b"\n  \r\n{}\r\n\n[1]"), [whole("{}"), whole("[1]")]);
        assert_eq!(all(b""), []);
        assert_eq!(all(b" \t"), []);
    }

    #[test]
    fn a_line_that_is_too_long_costs_only_itself() {
        let mut text = vec![b'x'; LONGEST + 1];
        text.extend_from_slice(b"\n{}\n");
        let lines = all(&text);
        assert!(matches!(&lines[0], Line::TooLong(kept) if kept.len() == LONGEST + 1));
        assert_eq!(lines[1..], [whole("{}")]);

        let mut text = vec![b' '; KEPT];
        text.extend_from_slice(b"{}\n{}\n");
        let lines = all(&text);
        assert!(matches!(&lines[0], Line::TooLong(kept) if kept.len() == KEPT));
        assert_eq!(lines[1..], [whole("{}")]);

        let text = vec![b'y'; LONGEST];
        assert!(matches!(&all(&text)[..], [Line::Whole(line)] if line.len() == LONGEST));
    }
}
