//! One budget for the bodies of all requests in flight.
//!
//! A body takes its share before it is read, and gives it back when its handler is done:
//! by then the text is in the store or was refused. A call that waits gives its share back
//! before the wait, and keeps nothing of its request. A body with an announced length
//! takes its whole share at once, so that a body that was let in can finish. A body
//! without one takes a share of what has come so far.
//!
//! A quarter of the budget is for small bodies alone, so a few large and slow ones cannot
//! shut out small requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use posthaste_api::error::{ApiError, ErrorCode};
use serde_json::json;

use crate::config::ServerConfig;
use crate::failure::Failure;

/// The budget.
#[derive(Debug)]
pub(crate) struct Bodies {
    held: AtomicUsize,
    most: usize,
    small: usize,
}

impl Bodies {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self { held: AtomicUsize::new(0), most: config.bodies_bytes, small: config.small_bytes }
    }

    /// Returns the number of bytes that are held now.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns an empty share.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { of: Arc::clone(self), bytes: 0 }
    }
}

/// The share of one body in the budget, given back on drop.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Bodies>,
    bytes: usize,
}

impl Share {
    /// Grows the share by so many bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let Bodies { held, most, small } = &*self.of;
        let length = self.bytes + bytes;
        let room = if length <= *small { *most } else { most - most / 4 };
        let grown = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= room);
        match held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => {
                self.bytes = length;
                Ok(())
            }
            Err(_) => Err(busy(*most)),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Holds the share of a routed request until the request is answered or waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(Arc<Mutex<Option<Share>>>);

impl Held {
    pub(crate) fn keep(&self, share: Share) {
        *self.0.lock() = Some(share);
    }

    pub(crate) fn take(&self) -> Option<Share> {
        self.0.lock().take()
    }
}

fn busy(most: usize) -> Failure {
    let why = "the hub is reading as many request bodies as it may; nothing was done";
    let error = ApiError::new(ErrorCode::Unavailable, why)
        .hint("try again in a second, or raise server.bodies_bytes")
        .details(json!({ "limit": most, "key": "server.bodies_bytes" }));
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies() -> Arc<Bodies> {
        let config =
            ServerConfig { bodies_bytes: 1_000, small_bytes: 100, ..ServerConfig::default() };
        Arc::new(Bodies::new(&config))
    }

    #[test]
    fn large_bodies_leave_a_quarter_to_small_ones() {
        let bodies = bodies();
        let (mut large, mut other, mut small) = (bodies.share(), bodies.share(), bodies.share());
        large.grow(750).expect("three quarters");
        assert!(other.grow(101).is_err(), "no more for a large one");
        small.grow(100).expect("room for a small one");
        assert!(small.grow(1).is_err(), "which does not become large there");
        assert_eq!(bodies.held(), 850);
        drop(large);
        other.grow(650).expect("room again");
        assert_eq!(bodies.held(), 750);
    }

    #[test]
    fn a_share_that_could_not_grow_gives_back_what_it_had() {
        let bodies = bodies();
        let mut share = bodies.share();
        share.grow(700).expect("room");
        assert!(share.grow(usize::MAX - 700).is_err());
        assert_eq!(bodies.held(), 700);
        drop(share);
        assert_eq!(bodies.held(), 0);
    }
}
