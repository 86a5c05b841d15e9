//! A clock for tests that do not wait for real time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use posthaste_core::ports::Clock;
use posthaste_core::time::Timestamp;
use tokio::time::Instant;

/// A clock that begins on a fixed day in 2023 and goes on with the runtime's clock: when
/// the runtime is paused, an hour passes in no time here, too.
#[derive(Debug)]
pub struct TestClock {
    base: AtomicI64,
    began: Instant,
}

impl TestClock {
    pub fn new() -> Self {
        Self { base: AtomicI64::new(1_700_000_000_000), began: Instant::now() }
    }

    /// Sets the clock back, which breaks the promise of [`Clock`].
    pub fn set_back(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).expect("tests take less than an eon");
        self.base.fetch_sub(by, Ordering::SeqCst);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.base.load(Ordering::SeqCst)) + self.began.elapsed()
    }
}
