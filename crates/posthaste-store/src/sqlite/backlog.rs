//! The rows that were open when the store was opened: deliveries first, then keys, in
//! parts.
//!
//! A short backlog is read while opening. A long one is read after the doors have opened:
//! two threads read ahead of the caller that asks for the next part.

mod take;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_core::ports::StoreError;
use posthaste_core::ports::store::{Backlog, BacklogMark, BacklogPart, Loaded};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};
use tokio::task::{JoinHandle, spawn_blocking};

use self::take::Taker;
use super::errors::{Damage, ReadResult};
use super::files::Files;
use super::rows::meta;
use super::{keys, reader};

/// Numbers of deliveries, or keys, in one part.
const PART: u64 = 20_000;
/// Parts that are read before a caller asks for them.
const AHEAD: usize = 2;
/// Memory for pages. Each page is needed only once.
const CACHE: usize = 1 << 20;

/// The rows that existed when the store was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// No delivery with a lower number is open.
    first_delivery: u64,
    last_delivery: u64,
    last_key_list: u64,
}

impl Extent {
    pub(crate) fn of(db: &Connection) -> ReadResult<Self> {
        let last = |sql| db.query_row(sql, [], |row| row.get::<_, Option<u64>>(0));
        Ok(Self {
            first_delivery: meta::number(db, "low_water")?.max(1),
            last_delivery: last("SELECT max(no) FROM deliveries")?.unwrap_or(0),
            last_key_list: last("SELECT max(no) FROM key_lists")?.unwrap_or(0),
        })
    }

    /// Returns whether the extent holds at most `most` rows.
    pub(crate) fn is_within(&self, db: &Connection, most: u64) -> ReadResult<bool> {
        let deliveries = (self.last_delivery + 1).saturating_sub(self.first_delivery);
        Ok(deliveries <= most && keys::count(db, 0, most + 1)? <= most)
    }

    /// Returns the mark where the first part begins.
    pub(crate) fn start(&self) -> BacklogMark {
        BacklogMark { deliveries_after: self.first_delivery - 1, keys_after: 0 }
    }

    /// Returns the mark where the next part begins, if that is a part of deliveries.
    fn after(&self, from: BacklogMark) -> Option<BacklogMark> {
        let deliveries_after = from.deliveries_after.saturating_add(PART);
        (deliveries_after < self.last_delivery).then_some(BacklogMark { deliveries_after, ..from })
    }

    /// Reads the whole backlog.
    pub(crate) fn read_into(&self, db: &Connection, loaded: &mut Loaded) -> ReadResult<()> {
        let taker = Taker::new(db)?;
        let mut next = Some(self.start());
        while let Some(from) = next {
            let Backlog { part, unreadable, rest } = self.read(db, &taker, from)?;
            loaded.backlog.push(part);
            loaded.unreadable.extend(unreadable);
            next = rest;
        }
        Ok(())
    }

    fn read(&self, db: &Connection, taker: &Taker, from: BacklogMark) -> ReadResult<Backlog> {
        if from.deliveries_after < self.last_delivery {
            self.read_deliveries(db, taker, from)
        } else {
            self.read_keys(db, from)
        }
    }

    fn read_deliveries(
        &self,
        db: &Connection,
        taker: &Taker,
        from: BacklogMark,
    ) -> ReadResult<Backlog> {
        let upto = from.deliveries_after.saturating_add(PART).min(self.last_delivery);
        let (found, unreadable) = taker.take(db, from.deliveries_after, upto)?;
        let rest = BacklogMark { deliveries_after: upto, ..from };
        let is_last = upto == self.last_delivery && from.keys_after >= self.last_key_list;
        Ok(Backlog {
            part: BacklogPart::Deliveries(found),
            unreadable,
            rest: (!is_last).then_some(rest),
        })
    }

    fn read_keys(&self, db: &Connection, from: BacklogMark) -> ReadResult<Backlog> {
        let mut select = db.prepare_cached(
            "SELECT no, at, list FROM key_lists WHERE no > ?1 AND no <= ?2 ORDER BY no",
        )?;
        let mut rows = select.query(params![from.keys_after, self.last_key_list])?;
        let (mut found, mut rest) = (Vec::new(), None);
        while let Some(row) = rows.next()? {
            let at = Timestamp(row.get(1)?);
            let list = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
            found.extend(keys::entries(list).map(|(key, seq)| (key, seq, at)));
            if found.len() as u64 >= PART {
                let keys_after = row.get(0)?;
                rest =
                    (keys_after < self.last_key_list).then_some(BacklogMark { keys_after, ..from });
                break;
            }
        }
        Ok(Backlog { part: BacklogPart::Keys(found), unreadable: Vec::new(), rest })
    }
}

/// A part that is being read.
type Reading = JoinHandle<ReadResult<Backlog>>;

/// Reads the backlog while the doors are open, on connections of its own.
pub(crate) struct BacklogReader {
    extent: Extent,
    files: Arc<Files>,
    damage: Arc<Damage>,
    ahead: Mutex<VecDeque<(BacklogMark, Reading)>>,
    idle: Arc<Mutex<Vec<(Connection, Taker)>>>,
}

impl BacklogReader {
    pub(crate) fn new(extent: Extent, files: Arc<Files>, damage: Arc<Damage>) -> Self {
        Self { extent, files, damage, ahead: Mutex::default(), idle: Arc::default() }
    }

    /// Begins to read this part and the next ones, before a caller asks for them.
    pub(crate) fn read_ahead(&self, from: BacklogMark) {
        let mut ahead = self.ahead.lock();
        if ahead.front().is_none_or(|(mark, _)| *mark != from) {
            ahead.clear();
            ahead.push_back((from, self.begin(from)));
        }
        while ahead.len() <= AHEAD
            && let Some(next) = ahead.back().and_then(|(last, _)| self.extent.after(*last))
        {
            ahead.push_back((next, self.begin(next)));
        }
    }

    pub(crate) async fn next(&self, from: BacklogMark) -> Result<Backlog, StoreError> {
        self.read_ahead(from);
        let Some((_, reading)) = self.ahead.lock().pop_front() else {
            return Err(StoreError::Closed);
        };
        let read = match reading.await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(panic) => Err(panic.to_string()),
        };
        if !matches!(read, Ok(Backlog { rest: Some(_), .. })) {
            self.close();
        }
        read.map_err(|why| {
            tracing::error!(%why, "what is open cannot be read; stop the hub");
            self.damage.declare(why)
        })
    }

    /// Closes the connections.
    pub(crate) fn close(&self) {
        for (db, _) in self.idle.lock().drain(..) {
            self.files.leave_log(&db);
        }
    }

    fn begin(&self, from: BacklogMark) -> Reading {
        let (extent, files, idle) = (self.extent, Arc::clone(&self.files), Arc::clone(&self.idle));
        spawn_blocking(move || {
            let known = idle.lock().pop();
            let (db, taker) = match known {
                Some(known) => known,
                None => {
                    let db = reader::connect(files.database(), CACHE)?;
                    let taker = Taker::new(&db)?;
                    (db, taker)
                }
            };
            let read = extent.read(&db, &taker, from);
            idle.lock().push((db, taker));
            read
        })
    }
}

impl Drop for BacklogReader {
    fn drop(&mut self) {
        self.close();
    }
}
