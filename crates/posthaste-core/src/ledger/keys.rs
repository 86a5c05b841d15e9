//! Idempotency keys: the last ones whole, the older ones as fingerprints.
//!
//! The store keeps every key for `limits.key_retention`. A whole key takes some 140 bytes
//! of memory, so only the last `limits.keys_in_memory` are kept whole. Of an older key 32
//! bits are kept: a key whose bits are not there is new, and for a key whose bits are
//! there the store is asked. Fingerprints are kept in generations, and the oldest
//! generation is forgotten as a whole.

use std::collections::{HashSet, VecDeque};
use std::fmt::{self, Write as _};
use std::time::Duration;

use foldhash::fast::RandomState;
use sha2::{Digest, Sha256};

use super::Ledger;
use crate::Map;
use crate::limits::Limits;
use crate::messaging::message::{Draft, Seq};
use crate::time::Timestamp;

/// An idempotency key as it is kept: 128 bits of SHA-256 over sender, recipient as
/// written, and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest(pub u128);

impl KeyDigest {
    pub fn of(draft: &Draft) -> Option<Self> {
        let key = draft.details().idempotency_key.as_ref()?;
        let mut hash = Sha256::new();
        // Parts are separated by a byte that does not occur in the first two.
        let mut text = Hashed(&mut hash);
        let _ = write!(text, "{}", draft.from);
        text.0.update([0xff]);
        let _ = write!(text, "{}", draft.to);
        text.0.update([0xff]);
        text.0.update(key);
        let digest = hash.finalize();
        digest[..16].try_into().map(u128::from_be_bytes).map(Self).ok()
    }

    #[expect(clippy::cast_possible_truncation, reason = "some bits of it will do")]
    fn print(self) -> u32 {
        self.0 as u32
    }
}

/// Feeds formatted text to the hash.
struct Hashed<'a>(&'a mut Sha256);

impl fmt::Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

/// The result of a look for an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLook {
    New,
    /// The key was accepted, as this message.
    Known(Seq),
    /// The store must be asked. If the store does not know the key, the draft is planned
    /// again with this mark (`Draft::key_is_new_since`).
    Perhaps(KeyMark),
}

/// Number of keys that had been accepted when the store was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyMark(u64);

/// Fingerprints of one generation: as many as fit before the set of them doubles.
const GENERATION: usize = 114_000;
/// A generation spans at most this part of the retention.
const GENERATIONS: u32 = 24;

/// The keys that were accepted within the retention.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// Maximum number of whole keys, and of fingerprints.
    most: usize,
    most_prints: usize,
    span: Duration,
    whole: Map<KeyDigest, Seq>,
    /// Committed keys of `whole`, oldest first.
    times: VecDeque<(Timestamp, KeyDigest)>,
    older: VecDeque<Generation>,
    prints: usize,
    /// Keys up to this time have no fingerprint any more.
    unprinted: Option<Timestamp>,
    /// Keys that were committed or loaded since the start.
    accepted: u64,
}

#[derive(Debug, Clone)]
struct Generation {
    first: Timestamp,
    last: Timestamp,
    prints: HashSet<u32, RandomState>,
}

impl Keys {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            most: limits.keys_in_memory.max(1),
            most_prints: limits.key_prints,
            span: limits.key_retention / GENERATIONS,
            whole: Map::default(),
            times: VecDeque::new(),
            older: VecDeque::new(),
            prints: 0,
            unprinted: None,
            accepted: 0,
        }
    }

    /// Looks for an accepted key. `new_since`: the store did not know the key then.
    pub(super) fn look(&self, digest: KeyDigest, new_since: Option<KeyMark>) -> KeyLook {
        if let Some(seq) = self.whole.get(&digest) {
            return KeyLook::Known(*seq);
        }
        // A key that was accepted since then is still kept whole.
        let is_new = |mark: KeyMark| self.accepted - mark.0 < self.most as u64;
        let print = digest.print();
        let perhaps = self.unprinted.is_some()
            || self.older.iter().any(|generation| generation.prints.contains(&print));
        match perhaps && !new_since.is_some_and(is_new) {
            true => KeyLook::Perhaps(KeyMark(self.accepted)),
            false => KeyLook::New,
        }
    }

    /// Notes the key of a planned draft.
    pub(super) fn plan(&mut self, digest: KeyDigest, seq: Seq) {
        self.whole.insert(digest, seq);
    }

    /// Keeps the key of a committed message.
    pub(super) fn commit(&mut self, digest: KeyDigest, at: Timestamp) {
        self.accepted += 1;
        self.times.push_back((at, digest));
        while self.times.len() > self.most {
            let Some((at, digest)) = self.times.pop_front() else { break };
            self.whole.remove(&digest);
            self.print(digest, at);
        }
    }

    /// Forgets the key of a message that was not committed.
    pub(super) fn undo(&mut self, digest: KeyDigest) {
        self.whole.remove(&digest);
    }

    fn print(&mut self, digest: KeyDigest, at: Timestamp) {
        let fits =
            |g: &&mut Generation| g.prints.len() < GENERATION && at.since(g.first) <= self.span;
        match self.older.back_mut().filter(fits) {
            Some(generation) => {
                generation.last = generation.last.max(at);
                generation.prints.insert(digest.print());
            }
            None => {
                let mut prints = HashSet::with_hasher(RandomState::default());
                prints.insert(digest.print());
                self.older.push_back(Generation { first: at, last: at, prints });
            }
        }
        self.prints += 1;
        while self.prints > self.most_prints
            && let Some(oldest) = self.older.pop_front()
        {
            self.prints = self.prints.saturating_sub(oldest.prints.len());
            self.unprinted = self.unprinted.max(Some(oldest.last));
        }
    }

    /// Forgets keys from before `before`, and returns a lower bound of their number.
    pub(super) fn forget(&mut self, before: Timestamp) -> usize {
        // A run whose clock was behind left earlier times after later ones.
        let mut old = self.times.iter().take_while(|(at, _)| *at < before).count();
        for (_, key) in self.times.drain(..old) {
            self.whole.remove(&key);
        }
        while let Some(oldest) = self.older.pop_front_if(|g| g.last < before) {
            old += oldest.prints.len();
            self.prints = self.prints.saturating_sub(oldest.prints.len());
        }
        if self.unprinted.take_if(|last| *last < before).is_some() {
            old += 1;
        }
        old
    }
}

impl Ledger {
    /// Looks for the key of a draft among the accepted ones.
    pub fn look_for_key(&self, draft: &Draft) -> KeyLook {
        match KeyDigest::of(draft) {
            Some(digest) => self.keys.look(digest, draft.key_is_new_since()),
            None => KeyLook::New,
        }
    }

    /// Forgets keys from before `before`, and counts them.
    pub fn forget_keys(&mut self, before: Timestamp) -> usize {
        self.keys.forget(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(whole: usize, prints: usize) -> Keys {
        let limits = Limits { keys_in_memory: whole, key_prints: prints, ..Limits::default() };
        Keys::new(&limits)
    }

    fn digest(n: u64) -> KeyDigest {
        KeyDigest(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    fn accept(keys: &mut Keys, n: u64) {
        keys.plan(digest(n), Seq(n));
        keys.commit(digest(n), Timestamp(i64::try_from(n).expect("few")));
    }

    #[test]
    fn the_last_keys_are_known_and_of_older_ones_the_store_is_asked() {
        let mut keys = keys(10, 1_000);
        (1..=100).for_each(|n| accept(&mut keys, n));
        assert_eq!(keys.look(digest(91), None), KeyLook::Known(Seq(91)));
        assert_eq!(keys.look(digest(90), None), KeyLook::Perhaps(KeyMark(100)));
        assert_eq!(keys.look(digest(101), None), KeyLook::New);
        // The store did not know the key, and few keys have come since.
        assert_eq!(keys.look(digest(90), Some(KeyMark(91))), KeyLook::New);
        assert_eq!(keys.look(digest(90), Some(KeyMark(90))), KeyLook::Perhaps(KeyMark(100)));
    }

    #[test]
    fn without_fingerprints_the_store_is_asked_for_every_key() {
        let mut keys = keys(10, 20);
        (1..=100).for_each(|n| accept(&mut keys, n));
        assert!(keys.prints <= 20);
        assert_eq!(keys.look(digest(1), None), KeyLook::Perhaps(KeyMark(100)));
        assert_eq!(keys.look(digest(5_000), None), KeyLook::Perhaps(KeyMark(100)));
        keys.forget(Timestamp(101));
        assert_eq!(keys.look(digest(5_000), None), KeyLook::New);
    }

    #[test]
    fn a_planned_key_is_known_until_it_is_undone() {
        let mut keys = keys(10, 20);
        keys.plan(digest(1), Seq(1));
        assert_eq!(keys.look(digest(1), None), KeyLook::Known(Seq(1)));
        keys.undo(digest(1));
        assert_eq!(keys.look(digest(1), None), KeyLook::New);
    }

    #[test]
    fn old_keys_are_forgotten() {
        let mut keys = keys(10, 1_000);
        (1..=100).for_each(|n| accept(&mut keys, n));
        assert_eq!(keys.forget(Timestamp(50)), 0, "a generation goes as a whole");
        assert_eq!(keys.forget(Timestamp(96)), 90 + 5);
        assert_eq!(keys.forget(Timestamp(101)), 5);
        assert_eq!(keys.look(digest(50), None), KeyLook::New);
    }
}
