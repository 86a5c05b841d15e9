//! When a new process of a reader has begun.
//!
//! A bridge says so by its own name; a client over HTTP by its first words. The two
//! first words of one start (a probe with `server/discover`, then `initialize`)
//! count once.

use std::collections::{HashMap, VecDeque};

use compact_str::CompactString;
use parking_lot::Mutex;
use posthaste_core::messaging::message::Principal;

/// Bridges of one reader that are remembered.
const BRIDGES: usize = 16;
/// So many readers are remembered before it is looked who still lives.
const MANY: usize = 1_024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hello {
    Discover,
    Initialize,
}

#[derive(Debug, Default)]
pub(crate) struct Starts(Mutex<HashMap<Principal, Start>>);

#[derive(Debug, Default)]
struct Start {
    bridges: VecDeque<CompactString>,
    /// The last hello, as long as no call came after it.
    hello: Option<Hello>,
    /// It has begun, and no call came after it.
    fresh: bool,
}

impl Starts {
    /// Whether this bridge is a new one.
    pub(crate) fn bridge(&self, who: Principal, bridge: &str) -> bool {
        let mut starts = self.0.lock();
        let start = starts.entry(who).or_default();
        if start.bridges.iter().any(|known| known == bridge) {
            return false;
        }
        if start.bridges.len() == BRIDGES {
            start.bridges.pop_front();
        }
        start.bridges.push_back(bridge.into());
        start.fresh = true;
        true
    }

    /// Forgets those who have ended, when there are many.
    pub(crate) fn tidy(&self, lives: impl Fn(Principal) -> bool) {
        let mut starts = self.0.lock();
        if starts.len() >= MANY && starts.len().is_power_of_two() {
            starts.retain(|who, _| lives(*who));
        }
    }

    /// Whether this is the first word of a start.
    pub(crate) fn hello(&self, who: Principal, hello: Hello) -> bool {
        let mut starts = self.0.lock();
        let start = starts.entry(who).or_default();
        start.fresh = true;
        let before = start.hello.replace(hello);
        (before, hello) != (Some(Hello::Discover), Hello::Initialize)
    }

    /// A tool is called: the next hello is another start's.
    pub(crate) fn called(&self, who: Principal) {
        if let Some(start) = self.0.lock().get_mut(&who) {
            start.hello = None;
            start.fresh = false;
        }
    }

    pub(crate) fn is_fresh(&self, who: Principal) -> bool {
        self.0.lock().get(&who).is_some_and(|start| start.fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Principal = Principal::Operator;

    #[test]
    fn a_bridge_is_new_once() {
        let starts = Starts::default();
        assert!(starts.bridge(ME, "a"));
        assert!(starts.bridge(ME, "b"));
        assert!(!starts.bridge(ME, "a"));
    }

    #[test]
    fn a_probe_and_the_handshake_after_it_are_one_start() {
        let starts = Starts::default();
        assert!(starts.hello(ME, Hello::Discover));
        assert!(!starts.hello(ME, Hello::Initialize));
        assert!(starts.hello(ME, Hello::Initialize), "another process");
        assert!(starts.hello(ME, Hello::Discover), "another process");
        starts.called(ME);
        assert!(starts.hello(ME, Hello::Initialize), "the probe led to a call of its own");
    }
}
