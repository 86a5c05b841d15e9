//! Indexes that are filled behind, in steps: nothing on the send path has a random key.

use rusqlite::{Connection, params};

use super::rows::meta::{self, Marks};

/// Indexes messages and deliveries from one pair of numbers up to another.
pub(crate) fn fill(db: &Connection, from: Marks, to: Marks) -> rusqlite::Result<()> {
    let seqs = params![from.seq, to.seq];
    db.prepare_cached(
        "INSERT OR IGNORE INTO thread_index (thread, seq) \
         SELECT thread, seq FROM messages WHERE seq > ?1 AND seq <= ?2 ORDER BY thread, seq",
    )?
    .execute(seqs)?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO sender_index (sender, seq) \
         SELECT sender_instance, seq FROM messages \
         WHERE seq > ?1 AND seq <= ?2 AND sender_instance IS NOT NULL \
         ORDER BY sender_instance, seq",
    )?
    .execute(seqs)?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO reply_index (answered, seq) \
         SELECT in_reply_to, seq FROM messages \
         WHERE seq > ?1 AND seq <= ?2 AND in_reply_to IS NOT NULL ORDER BY in_reply_to, seq",
    )?
    .execute(seqs)?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO mailbox_index (mailbox, seq) \
         SELECT mailbox, seq FROM deliveries WHERE no > ?1 AND no <= ?2 ORDER BY mailbox, seq",
    )?
    .execute(params![from.delivery, to.delivery])?;
    meta::set(db, "indexed_seq", to.seq)?;
    meta::set(db, "indexed_delivery", to.delivery)
}
