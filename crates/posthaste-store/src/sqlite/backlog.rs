//! What was open when the store was opened: deliveries first, then keys, in parts.
//!
//! A little is read while opening. A million open deliveries are read behind: two threads
//! read ahead of whoever asks for the next part.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use posthaste_core::address::InstanceId;
use posthaste_core::ledger::{BoxNo, Queued};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::StoreError;
use posthaste_core::ports::store::{
    Backlog, BacklogMark, BacklogPart, Loaded, RowOf, UnreadableRow,
};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, Row, params};
use tokio::task::{JoinHandle, spawn_blocking};

use super::errors::{Damage, ReadError, ReadResult};
use super::files::Files;
use super::rows::{Cells, Table, meta};
use super::{keys, reader};

/// Numbers of deliveries, or keys, in one part.
const PART: u64 = 20_000;
/// Parts that are read before anybody asks for them.
const AHEAD: usize = 2;
/// Memory for pages: each is needed once.
const CACHE: usize = 1 << 20;

static OPEN: Table = Table {
    name: "deliveries",
    key: "no",
    columns: &[
        "no",
        "mailbox",
        "seq",
        "size",
        "sender",
        "urgent",
        "marked",
        "attempts",
        "expires_at",
    ],
};

static SELECT: LazyLock<String> =
    LazyLock::new(|| OPEN.select("WHERE no > ?1 AND no <= ?2 AND state = 0 ORDER BY no"));

/// Which rows were there when the store was opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// No delivery below the first is open.
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

    /// Whether these are no more than `most` rows.
    pub(crate) fn is_within(&self, db: &Connection, most: u64) -> ReadResult<bool> {
        let deliveries = (self.last_delivery + 1).saturating_sub(self.first_delivery);
        Ok(deliveries <= most && keys::count(db, 0, most + 1)? <= most)
    }

    /// Where the first part begins.
    pub(crate) fn start(&self) -> BacklogMark {
        BacklogMark { deliveries_after: self.first_delivery - 1, keys_after: 0 }
    }

    /// Where the part after this one begins, if that is a part of deliveries.
    fn after(&self, from: BacklogMark) -> Option<BacklogMark> {
        let deliveries_after = from.deliveries_after.saturating_add(PART);
        (deliveries_after < self.last_delivery).then_some(BacklogMark { deliveries_after, ..from })
    }

    /// Reads everything.
    pub(crate) fn read_into(&self, db: &Connection, loaded: &mut Loaded) -> ReadResult<()> {
        let mut next = Some(self.start());
        while let Some(from) = next {
            let Backlog { part, unreadable, rest } = self.read(db, from)?;
            loaded.backlog.push(part);
            loaded.unreadable.extend(unreadable);
            next = rest;
        }
        Ok(())
    }

    fn read(&self, db: &Connection, from: BacklogMark) -> ReadResult<Backlog> {
        if from.deliveries_after < self.last_delivery {
            self.read_deliveries(db, from)
        } else {
            self.read_keys(db, from)
        }
    }

    fn read_deliveries(&self, db: &Connection, from: BacklogMark) -> ReadResult<Backlog> {
        let upto = from.deliveries_after.saturating_add(PART).min(self.last_delivery);
        let mut select = db.prepare_cached(&SELECT)?;
        let mut rows = select.query(params![from.deliveries_after, upto])?;
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            match queued(row) {
                Ok(entry) => {
                    if found.is_empty() {
                        found.reserve(usize::try_from(PART).unwrap_or(0));
                    }
                    found.push(entry);
                }
                Err(_) => unreadable.push(misread(row)?),
            }
        }
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

/// A row of [`OPEN`], read by the places of its columns: there may be a million.
fn queued(row: &Row<'_>) -> rusqlite::Result<(BoxNo, Queued)> {
    let queued = Queued {
        delivery: DeliveryNo(row.get(0)?),
        seq: Seq(row.get(2)?),
        message: None,
        size: row.get(3)?,
        sender: row.get::<_, Option<u32>>(4)?.map(InstanceId),
        urgent: row.get(5)?,
        marked: row.get(6)?,
        leased_before: false,
        doubted: false,
        attempts: row.get(7)?,
        expires_at: row.get::<_, Option<i64>>(8)?.map(Timestamp),
    };
    Ok((row.get(1)?, queued))
}

/// What is wrong with a row of [`OPEN`].
fn misread(row: &Row<'_>) -> ReadResult<UnreadableRow> {
    let cells = Cells::new(&OPEN, row);
    let check = || -> ReadResult<()> {
        cells.get::<u32>("mailbox")?;
        cells.get::<u64>("seq")?;
        cells.get::<u32>("size")?;
        cells.get::<Option<u32>>("sender")?;
        cells.get::<bool>("urgent")?;
        cells.get::<bool>("marked")?;
        cells.get::<u8>("attempts")?;
        cells.get::<Option<i64>>("expires_at").map(drop)
    };
    let what = match check() {
        Err(ReadError::Row(what)) => what,
        Err(error) => return Err(error),
        Ok(()) => "deliveries: a row cannot be read".into(),
    };
    let seq = Seq(cells.get("seq").unwrap_or_default());
    Ok(UnreadableRow { of: RowOf::Delivery(DeliveryNo(cells.get("no")?), seq), what })
}

/// A part that is being read.
type Reading = JoinHandle<ReadResult<Backlog>>;

/// Reads the backlog behind the open doors, on connections of its own.
pub(crate) struct BacklogReader {
    extent: Extent,
    files: Arc<Files>,
    damage: Arc<Damage>,
    ahead: Mutex<VecDeque<(BacklogMark, Reading)>>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl BacklogReader {
    pub(crate) fn new(extent: Extent, files: Arc<Files>, damage: Arc<Damage>) -> Self {
        Self { extent, files, damage, ahead: Mutex::default(), idle: Arc::default() }
    }

    /// Begins to read this part and those after it, before anybody asks for them.
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

    /// Lets go of the connections.
    pub(crate) fn close(&self) {
        for db in self.idle.lock().drain(..) {
            self.files.leave_log(&db);
        }
    }

    fn begin(&self, from: BacklogMark) -> Reading {
        let (extent, files, idle) = (self.extent, Arc::clone(&self.files), Arc::clone(&self.idle));
        spawn_blocking(move || {
            let known = idle.lock().pop();
            let db = known.map_or_else(|| reader::connect(files.database(), CACHE), Ok)?;
            let read = extent.read(&db, from);
            idle.lock().push(db);
            read
        })
    }
}
