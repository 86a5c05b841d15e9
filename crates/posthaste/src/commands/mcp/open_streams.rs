//! The open streams of this bridge's agents.
//!
//! A stream tells the hub that its agent lives. Codex serves several threads through one
//! bridge and leaves a thread without notice: an agent without a call loses its stream
//! after a while, if another agent of the bridge was used since. Its next call opens the
//! stream again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The time for which an agent without a call keeps its stream while other agents are
/// used.
const IDLE: Duration = Duration::from_secs(600);

/// An event that the calls of the bridge report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Use {
    Began(String),
    Ended(String),
}

#[derive(Debug, Default)]
pub(super) struct OpenStreams(HashMap<String, Stream>);

#[derive(Debug)]
struct Stream {
    /// The time at which a call of the agent last began or ended.
    used: Instant,
    /// Number of calls without an answer.
    calls: usize,
    stop: CancellationToken,
}

impl OpenStreams {
    /// Records a use. If this returns a token, the caller has to open a stream that the
    /// token ends.
    pub(super) fn note(&mut self, used: &Use, now: Instant) -> Option<CancellationToken> {
        match used {
            Use::Began(identity) => {
                let known = self.0.get_mut(identity);
                if let Some(stream) = known {
                    (stream.used, stream.calls) = (now, stream.calls + 1);
                    return None;
                }
                let stop = CancellationToken::new();
                let stream = Stream { used: now, calls: 1, stop: stop.clone() };
                self.0.insert(identity.clone(), stream);
                Some(stop)
            }
            Use::Ended(identity) => {
                if let Some(stream) = self.0.get_mut(identity) {
                    (stream.used, stream.calls) = (now, stream.calls.saturating_sub(1));
                }
                None
            }
        }
    }

    /// Ends the streams of agents that were left.
    pub(super) fn end_idle(&mut self, now: Instant) {
        let idle: Vec<String> = self
            .left()
            .filter(|(_, stream)| now >= stream.used + IDLE)
            .map(|(identity, _)| identity.clone())
            .collect();
        for identity in idle {
            if let Some(stream) = self.0.remove(&identity) {
                stream.stop.cancel();
            }
        }
    }

    /// Completes when `end_idle` has something to do.
    pub(super) async fn next_end(&self) {
        match self.left().map(|(_, stream)| stream.used + IDLE).min() {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Returns the streams of agents without a call, where another agent was used since.
    fn left(&self) -> impl Iterator<Item = (&String, &Stream)> {
        self.0.iter().filter(|(_, stream)| {
            let later = |other: &Stream| other.calls > 0 || other.used > stream.used;
            stream.calls == 0 && self.0.values().any(later)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn began(identity: &str) -> Use {
        Use::Began(identity.into())
    }

    fn ended(identity: &str) -> Use {
        Use::Ended(identity.into())
    }

    fn call(streams: &mut OpenStreams, identity: &str, now: Instant) -> Option<CancellationToken> {
        let opened = streams.note(&began(identity), now);
        streams.note(&ended(identity), now);
        opened
    }

    #[test]
    fn a_thread_that_was_left_loses_its_stream_and_its_next_call_opens_it_again() {
        let (mut streams, start) = (OpenStreams::default(), Instant::now());
        let first = call(&mut streams, "t1", start).expect("opened");
        assert!(call(&mut streams, "t1", start).is_none(), "it is open");
        let second = call(&mut streams, "t2", start + MINUTE).expect("opened");
        streams.end_idle(start + IDLE - MINUTE);
        assert!(!first.is_cancelled());
        streams.end_idle(start + IDLE);
        assert!(first.is_cancelled() && !second.is_cancelled());
        assert!(call(&mut streams, "t1", start + 2 * IDLE).is_some());
        streams.end_idle(start + 2 * IDLE);
        assert!(second.is_cancelled(), "it was left in turn");
    }

    #[test]
    fn whoever_is_alone_or_used_last_or_waits_keeps_its_stream() {
        let (mut streams, start) = (OpenStreams::default(), Instant::now());
        let only = call(&mut streams, "t1", start).expect("opened");
        streams.end_idle(start + 9 * IDLE);
        assert!(!only.is_cancelled(), "nobody else is here");
        let later = start + 9 * IDLE;
        streams.note(&began("t1"), later);
        let other = call(&mut streams, "t2", later + MINUTE).expect("opened");
        streams.end_idle(later + 2 * IDLE);
        assert!(!only.is_cancelled(), "its call waits for mail");
        assert!(other.is_cancelled(), "the waiting call is a use");
        streams.note(&ended("t1"), later + 2 * IDLE);
        streams.end_idle(later + 4 * IDLE);
        assert!(!only.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_stream_is_waited_for() {
        let mut streams = OpenStreams::default();
        let first = call(&mut streams, "t1", Instant::now()).expect("opened");
        tokio::time::advance(MINUTE).await;
        call(&mut streams, "t2", Instant::now());
        streams.next_end().await;
        streams.end_idle(Instant::now());
        assert!(first.is_cancelled());
    }
}
