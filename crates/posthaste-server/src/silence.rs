//! Closes connections on which a client sends nothing for too long.
//!
//! hyper has one time limit for a head, and counts it from the end of the answer before.
//! There are two: between two requests a client may be silent for `server.idle_timeout`,
//! because programs keep connections for later; a head that has begun must be whole within
//! `server.head_timeout`, because a few slow callers would otherwise hold all slots. So
//! hyper gets a timer that knows whether bytes came.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use pin_project_lite::pin_project;
use tokio::time::{Instant as Now, sleep_until};

use crate::written::Outgoing;

/// hyper's timer for one connection.
pub(crate) struct Silence {
    head: Duration,
    wire: Arc<Outgoing>,
    /// True before the first request. Its head is due at once: no client connects for
    /// nothing.
    first: AtomicBool,
}

impl Silence {
    pub(crate) fn new(head: Duration, wire: Arc<Outgoing>) -> Self {
        Self { head, wire, first: AtomicBool::new(true) }
    }
}

impl Timer for Silence {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    /// Begins a timer. hyper calls this when it begins to wait for a head.
    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let begun = self.first.swap(false, Ordering::Relaxed);
        let due = if begun { Now::now() + self.head } else { deadline.into() };
        self.wire.forget_arrivals();
        Box::pin(Waiting {
            due: sleep_until(due),
            begun,
            head: self.head,
            wire: Arc::clone(&self.wire),
        })
    }

    fn now(&self) -> Instant {
        Now::now().into_std()
    }
}

pin_project! {
    /// A timer that ends when the head is overdue.
    struct Waiting {
        #[pin]
        due: tokio::time::Sleep,
        begun: bool,
        head: Duration,
        wire: Arc<Outgoing>,
    }
}

impl Future for Waiting {
    type Output = ();

    /// hyper polls this after each read that did not bring the whole head.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if !*this.begun && this.wire.has_arrived() {
            *this.begun = true;
            this.due.as_mut().reset(Now::now() + *this.head);
        }
        this.due.poll(cx)
    }
}

impl Sleep for Waiting {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_keeps_little_more_than_its_alarm() {
        let alarm = size_of::<tokio::time::Sleep>();
        assert!(size_of::<Waiting>() <= alarm + 32, "{} and {alarm}", size_of::<Waiting>());
        assert!(size_of::<Silence>() <= 32, "{}", size_of::<Silence>());
    }
}
