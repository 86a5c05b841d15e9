//! Idempotency keys as they are kept: one list for each transaction, since a row
//! for each key would cost a send a tenth of its time.

use posthaste_core::ledger::KeyDigest;
use posthaste_core::messaging::message::Seq;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};

/// 16 bytes of digest, 8 of the message's number.
const ENTRY: usize = 24;

/// The keys of one transaction.
#[derive(Default)]
pub(crate) struct KeyList {
    at: Timestamp,
    list: Vec<u8>,
}

impl KeyList {
    pub(crate) fn add(&mut self, key: KeyDigest, seq: Seq, at: Timestamp) {
        // The list is forgotten when its last key is.
        self.at = self.at.max(at);
        self.list.extend_from_slice(&key.0.to_be_bytes());
        self.list.extend_from_slice(&seq.0.to_be_bytes());
    }

    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        if !self.list.is_empty() {
            db.prepare_cached("INSERT INTO key_lists (at, list) VALUES (?1, ?2)")?
                .execute(params![self.at.0, self.list])?;
        }
        Ok(())
    }
}

/// The keys of a list that was read back.
pub(crate) fn entries(list: &[u8]) -> impl Iterator<Item = (KeyDigest, Seq)> {
    list.as_chunks::<ENTRY>().0.iter().filter_map(|entry| {
        let (key, seq) = entry.split_first_chunk::<16>()?;
        let seq = seq.try_into().map(u64::from_be_bytes).ok()?;
        Some((KeyDigest(u128::from_be_bytes(*key)), Seq(seq)))
    })
}

/// How many keys are kept.
pub(crate) fn count(db: &Connection) -> rusqlite::Result<u64> {
    let bytes: i64 =
        db.query_row("SELECT coalesce(sum(length(list)), 0) FROM key_lists", [], |row| row.get(0))?;
    Ok(bytes.cast_unsigned() / ENTRY as u64)
}
