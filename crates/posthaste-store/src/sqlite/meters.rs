//! What the writer counts while it works.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_core::figures::{Figures, Histogram};

const SIZES: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Microseconds.
const TIMES: [u64; 12] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_000_000];

pub(crate) struct Meters {
    groups: Histogram<10>,
    commits: Histogram<12>,
    /// `u64::MAX` until the log was looked at.
    log_pages: AtomicU64,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            groups: Histogram::new(&SIZES),
            commits: Histogram::new(&TIMES),
            log_pages: AtomicU64::new(u64::MAX),
        }
    }
}

impl Meters {
    /// So many writes, and how long the disk took for them.
    pub(crate) fn committed(&self, writes: usize, took: Duration) {
        self.groups.count(writes as u64);
        self.commits.count_time(took);
    }

    pub(crate) fn log_is(&self, pages: u64) {
        self.log_pages.store(pages, Ordering::Relaxed);
    }

    /// The part of the figures that is counted here.
    pub(crate) fn figures(&self) -> Figures {
        let pages = self.log_pages.load(Ordering::Relaxed);
        Figures {
            groups: self.groups.spread(),
            commits: self.commits.spread(),
            log_pages: (pages != u64::MAX).then_some(pages),
            ..Figures::default()
        }
    }
}
