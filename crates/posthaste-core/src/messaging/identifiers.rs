//! How messages and threads are named.

use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;

use super::draft::DraftError;
use crate::hex;

/// The place of a message in the one line of all messages. Who has seen `n` has
/// seen all below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a message: 16 hex digits, made from its number (`messaging/ids.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub u64);

impl MessageId {
    pub fn text(self) -> CompactString {
        hex::text::<16>("", self.0)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// A message named by a client: its number or its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRef {
    Seq(Seq),
    Id(MessageId),
}

impl FromStr for MessageRef {
    type Err = DraftError;

    /// Sixteen hex digits are an id, fewer digits a number.
    fn from_str(text: &str) -> Result<Self, DraftError> {
        let hex = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let parsed = if hex {
            u64::from_str_radix(text, 16).ok().map(|id| Self::Id(MessageId(id)))
        } else {
            // No store counts further. Only as it is printed: `+5` or `05` is no number, and
            // one with zeros in front could be taken for an id.
            let number = text.parse().ok().filter(|n| (1..=i64::MAX as u64).contains(n));
            number.filter(|n| n.to_string() == text).map(|n| Self::Seq(Seq(n)))
        };
        parsed.ok_or_else(|| DraftError::Invalid {
            field: "message id",
            why: "give a message's number, like 4711, or its id of 16 hex digits".into(),
        })
    }
}

impl fmt::Display for MessageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seq(seq) => seq.fmt(f),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// A conversation: `t-` and 8 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// The operator's own thread.
    pub const OPERATOR: Self = Self(0);

    pub fn text(self) -> CompactString {
        hex::text::<8>("t-", self.0.into())
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl FromStr for ThreadId {
    type Err = DraftError;

    fn from_str(text: &str) -> Result<Self, DraftError> {
        text.strip_prefix("t-")
            .filter(|hex| hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .map(Self)
            .ok_or_else(|| DraftError::Invalid {
                field: "thread_id",
                why: "a thread is `t-` and 8 hex digits".into(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_named_by_number_or_by_id() {
        assert_eq!("4711".parse(), Ok(MessageRef::Seq(Seq(4711))));
        assert_eq!("00000000000000ff".parse(), Ok(MessageRef::Id(MessageId(255))));
        for bad in ["", "0", "-1", "0x10", "abc", "99999999999999999999"] {
            assert!(bad.parse::<MessageRef>().is_err(), "{bad}");
        }
    }
}
