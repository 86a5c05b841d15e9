//! What is old, although the machine's clock may have been wrong, or is wrong now.
//!
//! Within a run time never goes back. So a row whose time lies in the future was written
//! before this start, and is at least as old as this run is long. Nothing else is known
//! of it: its clock was ahead, or that of this run is behind. Until the run has lasted as
//! long as such a row is kept, it stays, and it holds no other back. Rows keep the times
//! that they have: the next start may know better.

use std::time::Duration;

use posthaste_core::time::Timestamp;

/// Rows that have been kept for long enough: from before `before`, or after `beyond`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Old {
    pub(crate) before: Timestamp,
    pub(crate) beyond: Timestamp,
    pub(crate) now: Timestamp,
}

impl Old {
    /// What is kept for `kept`, in a run that began at `started`.
    pub(crate) fn new(now: Timestamp, started: Timestamp, kept: Duration) -> Self {
        let before = now - kept;
        let beyond = if started < before { now } else { Timestamp(i64::MAX) };
        Self { before, beyond, now }
    }

    pub(crate) fn has(&self, at: Timestamp) -> bool {
        at < self.before || at > self.beyond
    }
}
