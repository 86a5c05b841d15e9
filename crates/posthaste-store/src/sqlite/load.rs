//! What is open, read back after a start.
//!
//! A little is read before the doors open. A million open deliveries are read
//! behind them: the hub answers and accepts at once, while everything that must
//! know what is open (reads, acks, keys, history) waits until it is known.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::address::InstanceId;
use posthaste_core::ledger::{BoxNo, KeyDigest, Ledger, Queued};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::StoreError;
use posthaste_core::time::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use tokio::sync::watch;

use super::faults::{self, Fault, Of};
use super::ops::set_aside;
use super::{Shared, keys, open, rows};

/// Rows that go into the ledger at a time, under its lock.
const PART: usize = 2_000;

const OPEN_DELIVERIES: &str = "SELECT no, mailbox, seq, size, sender, urgent, marked, attempts, \
    expires_at FROM deliveries WHERE no BETWEEN ?1 AND ?2 AND state = 0 ORDER BY no";

/// How far the reading is.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    NotYet,
    All,
    /// The rows cannot be read.
    Broken(StoreError),
}

/// Returns once everything is known.
pub(crate) async fn known(state: &watch::Sender<Known>) -> Result<(), StoreError> {
    if matches!(&*state.borrow(), Known::All) {
        return Ok(());
    }
    let mut state = state.subscribe();
    let known = state.wait_for(|s| !matches!(s, Known::NotYet)).await;
    match known.as_deref() {
        Ok(Known::Broken(error)) => Err(error.clone()),
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::Closed),
    }
}

/// Rows of the last run that the ledger does not know yet.
#[derive(Debug, Clone)]
pub(crate) struct Rest {
    /// Whether the hub had stopped cleanly.
    clean: bool,
    deliveries: (u64, u64),
    /// The last list of keys, and how many keys there are in all.
    keys: (u64, u64),
    keys_since: Timestamp,
    now: Timestamp,
}

/// Some of them.
pub(crate) enum Part {
    Deliveries(Vec<(BoxNo, Queued)>),
    Keys(Vec<(KeyDigest, Seq, Timestamp)>),
}

impl Part {
    /// A mailbox that is missing is an error: the next new one would get its number, and
    /// its mail.
    pub(crate) fn into_ledger(self, ledger: &mut Ledger) -> rusqlite::Result<()> {
        match self {
            Self::Deliveries(list) => {
                for (at, entry) in list {
                    let delivery = entry.delivery.0;
                    if !ledger.load_delivery(at, entry) {
                        let why =
                            format!("delivery {delivery} is in mailbox {at}, which is missing");
                        return Err(open::misread(1, Type::Integer, why));
                    }
                }
            }
            Self::Keys(list) => {
                list.into_iter().for_each(|(key, seq, at)| ledger.load_key(key, seq, at));
            }
        }
        Ok(())
    }
}

impl Rest {
    pub(crate) fn of(
        db: &Connection,
        now: Timestamp,
        keys_kept: Duration,
    ) -> rusqlite::Result<Self> {
        let last = |sql| db.query_row(sql, [], |row| row.get::<_, Option<u64>>(0));
        let low = rows::meta(db, "low_water")?.unwrap_or(0).cast_unsigned();
        Ok(Self {
            clean: rows::meta(db, "clean")? == Some(1),
            deliveries: (low, last("SELECT max(no) FROM deliveries")?.unwrap_or(0)),
            keys: (last("SELECT max(no) FROM key_lists")?.unwrap_or(0), keys::count(db)?),
            keys_since: now - keys_kept,
            now,
        })
    }

    /// Whether it is no more than `most` rows.
    pub(crate) fn is_within(&self, most: u64) -> bool {
        let (low, high) = self.deliveries;
        high.saturating_sub(low).max(self.keys.1) <= most
    }

    /// Hands over all rows, in order. What was open is open again: every start
    /// returns all leases. A delivery that cannot be read is left out and returned.
    pub(crate) fn read(
        &self,
        db: &Connection,
        mut hand_over: impl FnMut(Part) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Vec<Fault>> {
        let mut faults = Vec::new();
        let columns = db.prepare(OPEN_DELIVERIES)?;
        let mut select = db.prepare(OPEN_DELIVERIES)?;
        let mut rows = select.query(params![self.deliveries.0, self.deliveries.1])?;
        let mut part = Vec::new();
        while let Some(row) = rows.next()? {
            match self.queued(row) {
                Ok(entry) => part.push(entry),
                Err(error) => {
                    let what = faults::misread(&error, &columns).ok_or(error)?;
                    let seq = Seq(row.get(2).unwrap_or_default());
                    let delivery = DeliveryNo(row.get(0)?);
                    let what = format!("deliveries, row {}, {what}", delivery.0);
                    faults.push(Fault { of: Of::Delivery(delivery, seq), what });
                }
            }
            if part.len() == PART {
                hand_over(Part::Deliveries(std::mem::take(&mut part)))?;
            }
        }
        hand_over(Part::Deliveries(part))?;

        let mut select =
            db.prepare("SELECT at, list FROM key_lists WHERE no <= ?1 AND at >= ?2 ORDER BY no")?;
        let mut rows = select.query(params![self.keys.0, self.keys_since.0])?;
        let mut part = Vec::new();
        while let Some(row) = rows.next()? {
            let at = Timestamp(row.get(0)?).min(self.now);
            part.extend(keys::entries(row.get_ref(1)?.as_blob()?).map(|(key, seq)| (key, seq, at)));
            if part.len() >= PART {
                hand_over(Part::Keys(std::mem::take(&mut part)))?;
            }
        }
        hand_over(Part::Keys(part))?;
        Ok(faults)
    }

    fn queued(&self, row: &Row<'_>) -> rusqlite::Result<(BoxNo, Queued)> {
        let queued = Queued {
            delivery: DeliveryNo(row.get(0)?),
            seq: Seq(row.get(2)?),
            message: None,
            size: row.get(3)?,
            sender: row.get::<_, Option<u32>>(4)?.map(InstanceId),
            urgent: row.get(5)?,
            // After a clean stop what was never handed out is unmarked; after a kill
            // nobody can tell, and everything is marked.
            marked: !self.clean || row.get(6)?,
            leased_before: false,
            doubted: false,
            attempts: row.get(7)?,
            expires_at: row.get::<_, Option<i64>>(8)?.map(Timestamp),
        };
        Ok((row.get(1)?, queued))
    }
}

/// Reads the rest behind the doors.
pub(crate) async fn run(shared: Arc<Shared>, folder: PathBuf, rest: Rest) {
    let file = folder.join(open::FILE);
    let (theirs, path) = (Arc::clone(&shared), file.clone());
    let work = tokio::task::spawn_blocking(move || -> rusqlite::Result<Vec<Fault>> {
        let db = Connection::open(&path)?;
        rest.read(&db, |part| part.into_ledger(&mut theirs.ledger.lock()))
    });
    let result = match work.await {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(panic) => Err(panic.to_string()),
    };
    let known = result.map_err(|why| {
        tracing::error!(%why, "what is open cannot be read; stop the hub");
        shared.healthy.store(false, std::sync::atomic::Ordering::Relaxed);
        open::damaged(&file, why)
    });
    shared.commands.release(known.as_ref().map(drop).map_err(Clone::clone));
    match known {
        Ok(faults) => {
            shared.ledger.lock().mark_reports(&faults::deliveries(&faults), true);
            shared.known.send_replace(Known::All);
            // What is not set aside now is found again at the next start.
            let _ = set_aside::all(&shared, faults).await;
        }
        Err(error) => drop(shared.known.send_replace(Known::Broken(error))),
    }
}
