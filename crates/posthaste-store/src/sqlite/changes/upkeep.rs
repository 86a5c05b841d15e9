//! Removes rows that are old, and notes what the next start must know.

use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::change::Old;
use rusqlite::{Connection, params};

use crate::sqlite::prune::{forget_old, note_last_numbers, remove_messages};
use crate::sqlite::rows::meta;
use crate::sqlite::{events, keys};

pub(super) fn pruned(db: &Connection, seqs: &[Seq], first_made_id: u64) -> rusqlite::Result<()> {
    note_last_numbers(db)?;
    remove_messages(db, seqs, first_made_id)
}

pub(super) fn old_forgotten(
    db: &Connection,
    keys: Old,
    ended: Old,
    settled: Old,
    events: Old,
) -> rusqlite::Result<()> {
    events::forget(db, events)?;
    keys::forget(db, keys)?;
    forget_old(db, "taken", keys)?;
    let delete = |sql: &str, old: Old| {
        db.prepare_cached(sql)?.execute(params![old.before.0, old.beyond.0]).map(drop)
    };
    delete("DELETE FROM instances WHERE ended_at < ?1 OR ended_at > ?2", ended)?;
    delete("DELETE FROM assignments WHERE settled_at < ?1 OR settled_at > ?2", settled)?;
    db.execute("DELETE FROM work WHERE instance NOT IN (SELECT id FROM instances)", [])?;
    Ok(())
}

/// Notes that no delivery with a lower number is open.
pub(super) fn low_water(db: &Connection, delivery: DeliveryNo) -> rusqlite::Result<()> {
    meta::set(db, "low_water", delivery.0)
}

/// Notes a clean stop: a delivery that is not marked was never handed out.
pub(super) fn stopped(db: &Connection) -> rusqlite::Result<()> {
    meta::set(db, "clean", 1)
}
