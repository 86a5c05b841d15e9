//! The counters of the writer loop.

use std::time::Duration;

use crate::figures::{Figures, Histogram};

const SIZES: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Upper bounds of the buckets, in microseconds.
const TIMES: [u64; 12] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_000_000];

pub(super) struct Meters {
    groups: Histogram<10>,
    commits: Histogram<12>,
}

impl Default for Meters {
    fn default() -> Self {
        Self { groups: Histogram::new(&SIZES), commits: Histogram::new(&TIMES) }
    }
}

impl Meters {
    /// Counts a committed group: its commands, and the time of the flush.
    pub(super) fn committed(&self, commands: usize, took: Duration) {
        self.groups.count(commands as u64);
        self.commits.count_time(took);
    }

    /// Returns the part of the figures that is counted here.
    pub(super) fn figures(&self) -> Figures {
        Figures {
            groups: self.groups.spread(),
            commits: self.commits.spread(),
            ..Figures::default()
        }
    }
}
