//! The hub's lines, read on a thread of their own, because a read cannot be cancelled.
//!
//! Lines are bounded: the rest of a longer line is dropped, and the next line is read as
//! usual.

use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The longest line that is read, in bytes.
pub(crate) const LONGEST: usize = 64 << 20;
/// Number of lines that may wait.
const AHEAD: usize = 16;

/// One thing that the input brought.
#[derive(Debug)]
pub(crate) enum Event {
    /// A line without its end.
    Line(Vec<u8>),
    /// A line that is longer than [`LONGEST`].
    TooLong,
    /// There are no more lines.
    End,
    /// The input cannot be read any further.
    Broken(io::Error),
}

/// Returns what the input brings; the last event is `End` or `Broken`.
pub(crate) fn events(input: impl BufRead + Send + 'static) -> io::Result<Receiver<Event>> {
    let (sender, events) = sync_channel(AHEAD);
    thread::Builder::new().name("stdin".into()).spawn(move || read_all(input, &sender))?;
    Ok(events)
}

fn read_all(mut input: impl BufRead, events: &SyncSender<Event>) {
    loop {
        let event = next(&mut input, LONGEST).unwrap_or_else(Event::Broken);
        let is_last = matches!(event, Event::End | Event::Broken(_));
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

/// Returns the next line that is not blank.
pub(crate) fn next(input: &mut impl BufRead, longest: usize) -> io::Result<Event> {
    loop {
        let (mut line, mut length, mut ended) = (Vec::new(), 0_usize, false);
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
            line.extend_from_slice(&part[..part.len().min(longest - line.len())]);
            length = length.saturating_add(part.len());
            ended = end.is_some();
            let taken = part.len() + usize::from(ended);
            input.consume(taken);
        }
        if length > longest {
            return Ok(Event::TooLong);
        }
        match (line.iter().all(u8::is_ascii_whitespace), ended) {
            (true, true) => continue,
            (true, false) => return Ok(Event::End),
            (false, _) => return Ok(Event::Line(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut text: &[u8], longest: usize) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            match next(&mut text, longest).expect("memory can be read") {
                Event::Line(line) => seen.push(String::from_utf8(line).expect("it is text")),
                Event::TooLong => seen.push("too long".to_owned()),
                Event::End => return seen,
                Event::Broken(e) => panic!("{e}"),
            }
        }
    }

    #[test]
    fn blank_lines_are_no_lines_and_the_last_needs_no_end() {
        assert_eq!(all(b"\n  \r\n{}\n\n[1]", 10), ["{}", "[1]"]);
        assert!(all(b"", 10).is_empty());
        assert!(all(b" \t", 10).is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_costs_only_itself() {
        assert_eq!(all(b"12345\n123456\n1\n", 5), ["12345", "too long", "1"]);
        assert_eq!(all(b"          \n1\n123456789", 5), ["too long", "1", "too long"]);
    }
}
