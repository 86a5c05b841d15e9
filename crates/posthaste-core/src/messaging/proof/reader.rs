//! What is known of a reader: since when it is the one it is, whether it is alone, and
//! which ids count as received by it.
//!
//! Two processes may use one identity. Whether an earlier one lives is known exactly
//! while a stream of it is open.

use std::collections::VecDeque;

use super::Proofs;
use crate::messaging::delivery::AnswerId;
use crate::messaging::message::{Principal, Seq};

#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) beginning: u64,
    /// Two processes use the one identity: only strong proofs count.
    pub(super) shared: bool,
    /// Streams that are open, each with the beginning that it belongs to.
    pub(super) streams: Vec<(u64, u64)>,
    pub(super) answers: VecDeque<AnswerId>,
    pub(super) taken: VecDeque<Taken>,
}

impl Reader {
    pub(super) fn carry_streams(&mut self) {
        let now = self.beginning;
        self.streams.iter_mut().for_each(|(_, beginning)| *beginning = now);
    }

    /// For ever, or while a stream of an earlier beginning is open.
    pub(super) fn is_shared(&self) -> bool {
        self.shared || self.streams.iter().any(|(_, beginning)| *beginning != self.beginning)
    }
}

/// An id taken as received, and the proven answer that told the reader so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) seq: Seq,
    pub(super) told: Option<AnswerId>,
}

impl Proofs {
    /// A stream of the reader is open from now on: it lives.
    pub fn attach(&mut self, who: Principal, most: usize) -> Option<u64> {
        self.next += 1;
        let reader = self.readers.entry(who).or_default();
        let room = reader.streams.len() < most;
        room.then(|| reader.streams.push((self.next, reader.beginning)))?;
        Some(self.next)
    }

    /// The streams that are open belong to the reader that has just begun: it said so
    /// twice.
    pub fn keep_streams(&mut self, who: Principal) {
        if let Some(reader) = self.readers.get_mut(&who) {
            reader.carry_streams();
        }
    }

    pub fn detach(&mut self, who: Principal, stream: u64) {
        if let Some(reader) = self.readers.get_mut(&who) {
            reader.streams.retain(|(id, _)| *id != stream);
        }
    }
}
