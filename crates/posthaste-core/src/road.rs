//! Following messages on their road, for tracing.
//!
//! A hub without a follower pays one look at an empty place. A follower learns the
//! actors, the message and the times, and never the text of a message.

use std::str::FromStr;
use std::time::Duration;

use crate::messaging::delivery::Proof;
use crate::messaging::message::{MessageId, Principal, Seq};
use crate::ports::Leased;

/// The follower of every step of every message. It must not block and cannot fail.
pub trait Road: Send + Sync {
    /// The message is on disk. The store took `stored` of the time.
    fn accepted(&self, message: Accepted);
    /// A reader has leased the mail.
    fn leased(&self, mail: &[Leased], by: Principal, took: Duration);
    /// The messages are acked.
    fn acked(&self, what: &[Seq], by: Principal, proof: Proof, took: Duration);
}

/// A message that was accepted just now.
#[derive(Debug, Clone, Copy)]
pub struct Accepted {
    pub seq: Seq,
    pub id: MessageId,
    pub from: Principal,
    /// The trace of the sender's work, if the sender names one.
    pub parent: Option<TraceParent>,
    /// Time from the draft to the receipt.
    pub took: Duration,
    /// The store's part of that time.
    pub stored: Duration,
}

/// The trace that a sender is in, in W3C's form `00-TRACE-SPAN-FLAGS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    pub trace: u128,
    pub span: u64,
    /// Set if the sender records its part.
    pub sampled: bool,
}

/// A text that does not follow the form. It is ignored, as the standard asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotATrace;

impl FromStr for TraceParent {
    type Err = NotATrace;

    fn from_str(text: &str) -> Result<Self, NotATrace> {
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            let part = parts.next().filter(|part| part.len() == length)?;
            let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            part.bytes().all(hex).then_some(part)
        };
        let (version, trace, span, flags) =
            (part(2).ok_or(NotATrace)?, part(32), part(16), part(2));
        // A later version may add parts; this one has four.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(NotATrace);
        }
        let trace = trace.and_then(|t| u128::from_str_radix(t, 16).ok()).filter(|t| *t != 0);
        let span = span.and_then(|s| u64::from_str_radix(s, 16).ok()).filter(|s| *s != 0);
        let flags = flags.and_then(|f| u8::from_str_radix(f, 16).ok());
        match (trace, span, flags) {
            (Some(trace), Some(span), Some(flags)) => {
                Ok(Self { trace, span, sampled: flags & 1 == 1 })
            }
            _ => Err(NotATrace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_as_the_standard_writes_it() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read: TraceParent = good.parse().expect("the standard's own example");
        assert_eq!(read.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((read.span, read.sampled), (0x00f0_67aa_0ba9_02b7, true));
        let unsampled = good.replace("-01", "-00").parse::<TraceParent>();
        assert!(!unsampled.expect("good").sampled);
        let later = good.replace("00-4", "01-4") + "-more";
        assert!(later.parse::<TraceParent>().is_ok());
    }

    #[test]
    fn what_is_no_trace_is_ignored() {
        let zeros = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            &zeros,
        ] {
            assert_eq!(bad.parse::<TraceParent>(), Err(NotATrace), "{bad}");
        }
    }
}
