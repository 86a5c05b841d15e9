//! Ctrl-C for commands that have something left to say or to do when it comes. All others end
//! by the signal itself.

use posthaste_api::ApiError;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, internal};

/// From now on Ctrl-C ends nothing by itself: everything that may take long must be done
/// [`Self::or`] be interrupted.
pub(super) struct Interrupt(Signal);

impl Interrupt {
    pub(super) fn new() -> Result<Self, ApiError> {
        let signal = signal(SignalKind::interrupt());
        signal.map(Self).map_err(|e| internal(format!("no signals: {e}")))
    }

    /// What comes of this, unless Ctrl-C comes first.
    pub(super) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            _ = self.0.recv() => Err(Failure::Interrupted),
        }
    }
}
