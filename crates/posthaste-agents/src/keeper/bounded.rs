//! A bounded file: the beginning and the end of the output.

use std::collections::VecDeque;
use std::io::Write;

/// Number of bytes kept of the end, where the output exceeds the bound.
const END: u64 = 64 * 1024;

/// Returns how many of so many bytes are written as they come.
pub(crate) fn kept_at_once(bytes: u64) -> u64 {
    bytes - END.min(bytes / 2)
}

/// Writes through up to its bound, and then remembers only the last bytes.
pub(super) struct Bounded<W> {
    file: W,
    /// Number of bytes that may still be written at once.
    room: u64,
    end: VecDeque<u8>,
    /// Number of bytes kept of the end.
    end_bytes: usize,
    /// Number of bytes that came after the room was used up.
    beyond: u64,
    /// Number of bytes that the disk did not take.
    refused: u64,
}

impl<W: Write> Bounded<W> {
    pub(super) fn new(file: W, bytes: u64) -> Self {
        let room = kept_at_once(bytes);
        Self {
            file,
            room,
            end: VecDeque::new(),
            end_bytes: usize::try_from(bytes - room).unwrap_or(0),
            beyond: 0,
            refused: 0,
        }
    }

    /// Takes output. Never fails: a full disk costs the text and not the worker.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let now = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        let (now, later) = bytes.split_at(now);
        self.room -= now.len() as u64;
        self.write(now);
        self.beyond += later.len() as u64;
        let last = &later[later.len().saturating_sub(self.end_bytes)..];
        let too_many = (self.end.len() + last.len()).saturating_sub(self.end_bytes);
        self.end.drain(..too_many);
        self.end.extend(last);
    }

    fn write(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && self.file.write_all(bytes).is_err() {
            self.refused += bytes.len() as u64;
        }
    }

    /// Writes the end, with a note where bytes are left out. Returns the number of lost
    /// bytes.
    pub(super) fn finish(mut self) -> u64 {
        let between = self.beyond - self.end.len() as u64;
        if between > 0 {
            let note = format!(
                "\n[posthaste: {between} bytes are left out here; agents.output_bytes is the bound]\n"
            );
            self.write(note.as_bytes());
        }
        let end: Vec<u8> = std::mem::take(&mut self.end).into();
        self.write(&end);
        between + self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(bound: u64, pieces: &[&[u8]]) -> (String, u64) {
        let mut file = Vec::new();
        let mut bounded = Bounded::new(&mut file, bound);
        for piece in pieces {
            bounded.take(piece);
        }
        let dropped = bounded.finish();
        (String::from_utf8(file).expect("text"), dropped)
    }

    #[test]
    fn what_fits_is_kept_as_it_came() {
        assert_eq!(kept(10, &[b"01234", b"56789"]), ("0123456789".into(), 0));
        assert_eq!(kept(10, &[]), (String::new(), 0));
    }

    #[test]
    fn of_a_flood_the_beginning_and_the_end_are_kept() {
        for pieces in [&[b"0123456789abcdef".as_slice()] as &[&[u8]], &[b"0123456789", b"abcdef"]] {
            let (text, dropped) = kept(10, pieces);
            assert!(text.starts_with("01234\n[posthaste: 6 bytes"), "{text}");
            assert!(text.ends_with("\nbcdef"), "{text}");
            assert_eq!(dropped, 6);
        }
    }

    #[test]
    fn a_full_disk_is_told_and_stops_nobody() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut bounded = Bounded::new(Full, 100);
        bounded.take(b"hello");
        assert_eq!(bounded.finish(), 5);
    }
}
