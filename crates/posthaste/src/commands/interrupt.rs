//! Ctrl-C for commands that have something left to say or to do when it comes. The signal
//! itself ends all other commands.

use posthaste_api::ApiError;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, internal};

/// Catches Ctrl-C: from now on the signal ends nothing by itself, and every step that may
/// take long must be run with [`Self::or`].
pub(super) struct Interrupt(Signal);

impl Interrupt {
    pub(super) fn new() -> Result<Self, ApiError> {
        let signal = signal(SignalKind::interrupt());
        signal.map(Self).map_err(|e| internal(format!("no signals: {e}")))
    }

    /// Returns the result of this work, unless Ctrl-C comes first.
    pub(super) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            _ = self.0.recv() => Err(Failure::Interrupted),
        }
    }
}
