//! Settles deliveries, and opens dead ones again.

use posthaste_core::ledger::{End, Settled};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Principal;
use posthaste_core::time::Timestamp;
use rusqlite::{CachedStatement, Connection, params};

use super::{ROOM, one};
use crate::sqlite::rows::delivery::{ACKED, DEAD};

const SETTLE: &str = "UPDATE deliveries SET state = ?2, leased_at = ?3, settled_at = ?4, \
    settled_by = ?5, how = ?6, maybe_seen = ?7, room = ?8 WHERE no = ?1 AND state = 0";
/// Bytes that a point in time takes in a row.
const TIME: usize = 6;

/// The values that the deliveries of one answer share: only their numbers differ.
type Alike = (Option<Principal>, Option<Timestamp>, End, Timestamp);

/// The statement that settles a delivery, with the values bound to it.
pub(super) struct Settling<'c> {
    db: &'c Connection,
    update: CachedStatement<'c>,
    bound: Option<Alike>,
    by: Option<String>,
}

impl<'c> Settling<'c> {
    pub(super) fn new(db: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self { db, update: db.prepare_cached(SETTLE)?, bound: None, by: None })
    }

    pub(super) fn write(&mut self, settled: &Settled, at: Timestamp) -> rusqlite::Result<()> {
        let alike = (settled.by, settled.leased_at, settled.end, at);
        if self.bound != Some(alike) {
            self.bound = None;
            self.bind(settled, at)?;
            self.bound = Some(alike);
        }
        self.update.raw_bind_parameter(1, settled.delivery.0)?;
        one(self.update.raw_execute()?)?;
        match (settled.end, &self.by) {
            (End::Acked(proof), Some(by)) if proof.is_weak() => self
                .db
                .prepare_cached("INSERT INTO taken (reader, seq, at) VALUES (?1, ?2, ?3)")?
                .execute(params![by, settled.seq.0, at.0])
                .map(drop),
            _ => Ok(()),
        }
    }

    fn bind(&mut self, settled: &Settled, at: Timestamp) -> rusqlite::Result<()> {
        let (state, how, maybe_seen) = match settled.end {
            End::Acked(proof) => (ACKED, proof.as_str(), None),
            End::Dead { reason, maybe_seen } => (DEAD, reason.as_str(), Some(maybe_seen)),
        };
        self.by = settled.by.map(|principal| principal.to_string());
        let times = TIME + settled.leased_at.map_or(0, |_| TIME);
        let taken = times + self.by.as_ref().map_or(0, String::len) + how.len();
        self.update.raw_bind_parameter(2, state)?;
        self.update.raw_bind_parameter(3, settled.leased_at.map(|t| t.0))?;
        self.update.raw_bind_parameter(4, at.0)?;
        self.update.raw_bind_parameter(5, &self.by)?;
        self.update.raw_bind_parameter(6, how)?;
        self.update.raw_bind_parameter(7, maybe_seen)?;
        self.update.raw_bind_parameter(8, &[0; ROOM][taken.min(ROOM)..])
    }
}

/// Opens a dead delivery again.
pub(super) fn requeued(
    db: &Connection,
    delivery: DeliveryNo,
    marked: bool,
) -> rusqlite::Result<()> {
    let changed = db
        .prepare_cached(
            "UPDATE deliveries SET state = 0, marked = ?2, attempts = 0, expires_at = NULL, \
             leased_at = NULL, settled_at = NULL, settled_by = NULL, how = NULL, \
             maybe_seen = NULL, room = ?3 WHERE no = ?1 AND state = 2",
        )?
        .execute(params![delivery.0, marked, [0_u8; ROOM]])?;
    one(changed)?;
    // The delivery may be below the mark, so the next start has to look there.
    db.prepare_cached("UPDATE meta SET value = min(value, ?1) WHERE key = 'low_water'")?
        .execute(params![delivery.0])?;
    Ok(())
}
