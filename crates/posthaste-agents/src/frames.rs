//! The frames between the hub and a keeper that holds a conversation.
//!
//! Both sides count bytes: the output that the worker wrote, and the input that the keeper
//! accepted. A frame names the count at which it begins, so a hub that starts anew goes on
//! exactly where the last one was, and no byte is lost or written twice.

use std::io;

/// Bytes of a frame before its content: its kind, its count and the length of its content.
const HEAD: usize = 13;

/// The longest content of a frame.
pub(crate) const MOST: usize = 1 << 20;

/// The longest line of a worker that the hub reads. A keeper keeps more than that, because
/// the hub confirms whole lines.
pub(crate) const LINE: usize = 4 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// To the hub, first: the worker's output is kept from `output` on, and `input` bytes
    /// were accepted for its stdin.
    Hello { output: u64, input: u64 },
    /// To the hub: output that begins at `at`.
    Output { at: u64, bytes: Vec<u8> },
    /// To the hub: input up to here was accepted.
    Accepted { upto: u64 },
    /// To the keeper, first: send the output from here on.
    Read { from: u64 },
    /// To the keeper: output up to here may be dropped.
    Confirm { upto: u64 },
    /// To the keeper: input that begins at `at`. What was accepted before is left out.
    Input { at: u64, bytes: Vec<u8> },
}

impl Frame {
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        let (kind, count, content): (u8, u64, &[u8]) = match self {
            Self::Hello { output, input } => (b'H', *output, &input.to_be_bytes()),
            Self::Output { at, bytes } => (b'O', *at, bytes),
            Self::Accepted { upto } => (b'A', *upto, &[]),
            Self::Read { from } => (b'R', *from, &[]),
            Self::Confirm { upto } => (b'C', *upto, &[]),
            Self::Input { at, bytes } => (b'I', *at, bytes),
        };
        to.push(kind);
        to.extend(count.to_be_bytes());
        // A content is at most `MOST` long.
        to.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
        to.extend(content);
    }

    fn new(kind: u8, count: u64, content: &[u8]) -> io::Result<Self> {
        Ok(match kind {
            b'H' => {
                let input: [u8; 8] = content.try_into().map_err(|_| unknown())?;
                Self::Hello { output: count, input: u64::from_be_bytes(input) }
            }
            b'O' => Self::Output { at: count, bytes: content.to_vec() },
            b'A' => Self::Accepted { upto: count },
            b'R' => Self::Read { from: count },
            b'C' => Self::Confirm { upto: count },
            b'I' => Self::Input { at: count, bytes: content.to_vec() },
            _ => return Err(unknown()),
        })
    }
}

fn unknown() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no frame of a session")
}

/// Bytes on their way to frames.
#[derive(Debug, Default)]
pub(crate) struct Decoder(Vec<u8>);

impl Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Returns the next whole frame.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        let Some((head, rest)) = self.0.split_first_chunk::<HEAD>() else { return Ok(None) };
        let (kind, counts) = (head[0], &head[1..]);
        let (count, length) = counts.split_at(8);
        let count = u64::from_be_bytes(count.try_into().expect("8 bytes"));
        let length = u32::from_be_bytes(length.try_into().expect("4 bytes")) as usize;
        if length > MOST {
            return Err(unknown());
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let frame = Frame::new(kind, count, content)?;
        self.0.drain(..HEAD + length);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame> {
        vec![
            Frame::Hello { output: 7, input: u64::MAX },
            Frame::Output { at: 7, bytes: b"{}\n".to_vec() },
            Frame::Accepted { upto: 3 },
            Frame::Read { from: 7 },
            Frame::Confirm { upto: 10 },
            Frame::Input { at: 0, bytes: Vec::new() },
        ]
    }

    #[test]
    fn what_one_side_writes_the_other_reads_however_it_is_cut() {
        let mut bytes = Vec::new();
        all().iter().for_each(|frame| frame.encode(&mut bytes));
        for piece in [1, 2, 13, 1000] {
            let mut decoder = Decoder::default();
            let mut read = Vec::new();
            for part in bytes.chunks(piece) {
                decoder.push(part);
                while let Some(frame) = decoder.next().expect("frames") {
                    read.push(frame);
                }
            }
            assert_eq!(read, all());
        }
    }

    #[test]
    fn bytes_that_are_no_frames_are_an_error_and_no_panic() {
        for case in posthaste_testkit::fuzz::cases(1_000, &["H\0\0\0\0\0\0\0\x01\0\0\0\x02ab"]) {
            let mut decoder = Decoder::default();
            decoder.push(&case.bytes);
            while let Ok(Some(_)) = decoder.next() {}
        }
    }
}
