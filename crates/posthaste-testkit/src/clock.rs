//! Time in a test that does not wait for it.

use posthaste_core::ports::Clock;
use posthaste_core::time::Timestamp;
use tokio::time::Instant;

/// A fixed day in 2023, and from there on whatever the runtime's clock says: when
/// the runtime is paused, an hour passes in no time, here too.
#[derive(Debug, Clone, Copy)]
pub struct TestClock {
    base: Timestamp,
    began: Instant,
}

impl TestClock {
    pub fn new() -> Self {
        Self { base: Timestamp(1_700_000_000_000), began: Instant::now() }
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.base + self.began.elapsed()
    }
}
