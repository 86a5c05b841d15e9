//! The hub's counters, for monitoring.
//!
//! Numbers only: no name, no address and no text is ever part of a figure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::messaging::delivery::Reason;
use crate::registry::Status;
use crate::time::Timestamp;

/// Number of lines that this process could not write to its log.
pub static LOST_LOG_LINES: AtomicU64 = AtomicU64::new(0);

/// Counts of mail and workers since the hub started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of accepted messages.
    pub accepted: u64,
    /// Number of leases.
    pub leased: u64,
    pub acked: u64,
    /// Number of deliveries that were returned without proof.
    pub returned: u64,
    dead: [u64; Reason::ALL.len()],
    /// Number of workers that ended: finished, failed, stopped.
    ended: [u64; ENDS.len()],
}

const ENDS: [Status; 3] = [Status::Finished, Status::Failed, Status::Stopped];

impl Tally {
    pub(crate) fn died(&mut self, reason: Reason) {
        self.dead[reason as usize] += 1;
    }

    pub(crate) fn ended(&mut self, status: Status) {
        if let Some(at) = ENDS.iter().position(|end| *end == status) {
            self.ended[at] += 1;
        }
    }

    /// Returns the number of ended workers by status.
    pub fn ends(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ENDS.iter().map(|end| end.as_str()).zip(self.ended)
    }

    /// Returns the number of dead deliveries by reason.
    pub fn dead(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Reason::ALL.iter().map(|(reason, word)| (*word, self.dead[*reason as usize]))
    }
}

/// The figures of a store.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub tally: Tally,
    /// Number of deliveries that are not settled.
    pub open: u64,
    /// Time when the oldest of them was accepted.
    pub oldest: Option<Timestamp>,
    /// Number of writes in each transaction.
    pub groups: Spread,
    /// Duration of each commit, in microseconds.
    pub commits: Spread,
    /// Pages in the write-ahead log when it was last looked at.
    pub log_pages: Option<u64>,
}

/// Counts values by size. Counting takes no lock and no memory.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    bounds: &'static [u64; N],
    counts: [AtomicU64; N],
    /// Sum and number of all values.
    sum: AtomicU64,
    total: AtomicU64,
}

impl<const N: usize> Histogram<N> {
    /// `bounds` are the largest values of the buckets, growing.
    pub const fn new(bounds: &'static [u64; N]) -> Self {
        Self {
            bounds,
            counts: [const { AtomicU64::new(0) }; N],
            sum: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }

    pub fn count(&self, value: u64) {
        if let Some(at) = self.bounds.iter().position(|bound| value <= *bound) {
            self.counts[at].fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a time in microseconds.
    pub fn count_time(&self, time: Duration) {
        self.count(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub fn spread(&self) -> Spread {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Spread {
            buckets: self.bounds.iter().copied().zip(self.counts.iter().map(read)).collect(),
            sum: read(&self.sum),
            total: read(&self.total),
        }
    }
}

/// The counts of a [`Histogram`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spread {
    /// The largest value of each bucket, and the number of values in it.
    pub buckets: Vec<(u64, u64)>,
    pub sum: u64,
    pub total: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_into_the_first_bucket_that_holds_it() {
        let sizes = Histogram::new(&[1, 10, 100]);
        for value in [0, 1, 2, 10, 11, 1000] {
            sizes.count(value);
        }
        let spread = sizes.spread();
        assert_eq!(spread.buckets, [(1, 2), (10, 2), (100, 1)]);
        assert_eq!((spread.sum, spread.total), (1024, 6));
    }
}
