//! Handles lines of the log that cannot be written.
//!
//! Such a line is counted and is never a reason to fail: the disk that is full of
//! messages may hold the log as well. The logging library would complain about it on
//! stderr, and panic if stderr fails as well.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use posthaste_core::figures::LOST_LOG_LINES;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::cli::LogFormat;

/// Takes every line, and writes those that can be written.
pub(super) struct Log<W> {
    to: Arc<Mutex<Lines<W>>>,
}

struct Lines<W> {
    out: W,
    format: LogFormat,
    /// Number of lines that were lost since the last good one.
    lost: u64,
    /// The last bytes written are not a whole line.
    torn: bool,
}

impl<W> Log<W> {
    pub(super) fn new(out: W, format: LogFormat) -> Self {
        Self { to: Arc::new(Mutex::new(Lines { out, format, lost: 0, torn: false })) }
    }
}

impl<W: Write> MakeWriter<'_> for Log<W> {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self { to: Arc::clone(&self.to) }
    }
}

impl<W: Write> Write for Log<W> {
    /// Accepts one line of the log; never fails.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.to.lock().take(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Lines<W> {
    fn take(&mut self, line: &[u8]) {
        if self.lost > 0 {
            let note = self.note();
            if self.put(note.as_bytes()) {
                self.lost = 0;
            }
        }
        if self.lost > 0 || !self.put(line) {
            self.lost += 1;
            LOST_LOG_LINES.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes a line; returns whether all of it was written.
    fn put(&mut self, line: &[u8]) -> bool {
        let whole = match self.torn {
            true => [b"\n", line].concat(),
            false => line.to_vec(),
        };
        let mut left = &whole[..];
        while !left.is_empty() {
            match self.out.write(left) {
                Ok(0) => return false,
                Ok(written) => {
                    left = &left[written..];
                    self.torn = !left.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Returns the note about lost lines.
    fn note(&self) -> String {
        let mut at = String::new();
        let _ = SystemTime.format_time(&mut format::Writer::new(&mut at));
        let (target, lost) = ("posthaste::log", self.lost);
        let message = "lines of the log were lost: they could not be written";
        match self.format {
            LogFormat::Human => format!("{at}  WARN {target}: {message} lines={lost}\n"),
            LogFormat::Json => {
                let fields = json!({ "message": message, "lines": lost });
                let line = json!({
                    "timestamp": at, "level": "WARN", "fields": fields, "target": target,
                });
                format!("{line}\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many bytes.
    #[derive(Default)]
    struct Disk {
        room: usize,
        kept: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            let some = &bytes[..bytes.len().min(self.room)];
            self.room -= some.len();
            self.kept.extend_from_slice(some);
            Ok(some.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn said(log: &Log<Disk>) -> Vec<String> {
        let text = String::from_utf8(log.to.lock().out.kept.clone()).expect("text");
        text.lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn lines_that_a_full_disk_loses_are_counted_and_told_when_there_is_room() {
        let mut log = Log::new(Disk { room: 10, ..Disk::default() }, LogFormat::Human);
        for line in ["first\n", "second\n", "third\n", "fourth\n"] {
            log.write_all(line.as_bytes()).expect("the log never fails");
        }
        assert_eq!(said(&log), ["first", "seco"]);

        log.to.lock().out.room = 5;
        log.write_all(b"fifth\n").expect("the log never fails");
        log.to.lock().out.room = 1000;
        log.write_all(b"sixth\n").expect("the log never fails");
        log.write_all(b"seventh\n").expect("the log never fails");
        let said = said(&log);
        let [first, second, torn, note, sixth, seventh] = &said[..] else { panic!("{said:?}") };
        assert_eq!([first, second, sixth, seventh], ["first", "seco", "sixth", "seventh"]);
        assert_eq!(torn.len(), 4, "a note that was cut off is a line of its own: {torn}");
        assert!(note.contains("WARN") && note.ends_with("lines=4"), "{note}");
    }

    #[test]
    fn a_log_for_programs_tells_of_lost_lines_in_their_form() {
        let mut log = Log::new(Disk::default(), LogFormat::Json);
        log.write_all(b"{}\n").expect("the log never fails");
        log.to.lock().out.room = 1000;
        log.write_all(b"{}\n").expect("the log never fails");
        let said = said(&log);
        let note: serde_json::Value = serde_json::from_str(&said[0]).expect("JSON");
        assert_eq!((&note["level"], &note["fields"]["lines"]), (&json!("WARN"), &json!(1)));
        assert_eq!(said[1], "{}");
    }
}
