//! Counts of what was written, for the background.

use std::sync::atomic::{AtomicU64, Ordering};

use posthaste_core::ports::change::Change;

use crate::sqlite::rows::meta::Marks;

/// Counts of committed changes.
#[derive(Default)]
pub(crate) struct Written {
    seq: AtomicU64,
    delivery: AtomicU64,
    /// Keys that are in no run yet.
    pub(crate) unsorted_keys: AtomicU64,
    pub(super) transactions: AtomicU64,
    /// Number of times that messages were removed.
    prunes: AtomicU64,
}

impl Written {
    pub(crate) fn new(last: Marks, unsorted_keys: u64) -> Self {
        Self {
            seq: AtomicU64::new(last.seq),
            delivery: AtomicU64::new(last.delivery),
            unsorted_keys: AtomicU64::new(unsorted_keys),
            transactions: AtomicU64::new(0),
            prunes: AtomicU64::new(0),
        }
    }

    /// Returns the highest numbers of a message and of a delivery.
    pub(crate) fn last(&self) -> Marks {
        Marks {
            seq: self.seq.load(Ordering::Relaxed),
            delivery: self.delivery.load(Ordering::Relaxed),
        }
    }

    /// Returns the number of transactions.
    pub(crate) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// Returns the number of times that messages were removed.
    pub(crate) fn prunes(&self) -> u64 {
        self.prunes.load(Ordering::Relaxed)
    }

    pub(super) fn note(&self, changes: &[Change]) {
        let (mut seq, mut delivery, mut keys) = (0, 0, 0);
        for change in changes {
            match change {
                Change::MessageAdded { message, copies, key } => {
                    seq = seq.max(message.seq.0);
                    delivery = copies.last().map_or(delivery, |(_, last)| delivery.max(last.0));
                    keys += u64::from(key.is_some());
                }
                Change::MessagesPruned(_) => drop(self.prunes.fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
        }
        self.seq.fetch_max(seq, Ordering::Relaxed);
        self.delivery.fetch_max(delivery, Ordering::Relaxed);
        self.unsorted_keys.fetch_add(keys, Ordering::Relaxed);
    }
}
