//! Keeping a rate to the microsecond.
//!
//! The runtime's clock ticks in milliseconds, which is longer than what is
//! measured. So a pacer sleeps through most of the gap and looks at the clock for
//! the rest; sockets are served in between.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// What is left to wait awake: the coarse clock may be late by more than a tick.
const AWAKE: Duration = Duration::from_millis(2);

pub(crate) async fn until(moment: Instant) {
    let left = moment.saturating_duration_since(Instant::now());
    if left > AWAKE {
        sleep(left - AWAKE).await;
    }
    while Instant::now() < moment {
        yield_now().await;
    }
}

/// The moments of a fixed rate, each due whether or not the one before is done.
pub(crate) struct Pace {
    next: Instant,
    gap: Duration,
}

impl Pace {
    pub(crate) fn new(per_second: u32) -> Self {
        let gap = Duration::from_secs(1) / per_second;
        Self { next: Instant::now() + gap, gap }
    }

    /// Waits for the next moment and tells when it was due.
    pub(crate) async fn next(&mut self) -> Instant {
        let due = self.next;
        self.next += self.gap;
        until(due).await;
        due
    }
}
