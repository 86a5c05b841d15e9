//! Reads open deliveries, many at a time.
//!
//! A million of them must be read within a fraction of a second, and asking for each
//! column of each row would take most of it. So SQLite hands a row over in one call, to an
//! aggregate function of ours that collects the rows of a part.

use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_core::address::InstanceId;
use posthaste_core::ledger::{BoxNo, Queued};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::store::{RowOf, UnreadableRow};
use posthaste_core::time::Timestamp;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::{Connection, params};

use crate::sqlite::errors::{ReadError, ReadResult};
use crate::sqlite::rows::{Cells, Table};

const TAKE: &str = "SELECT take_open(no, mailbox, seq, size, sender, urgent, marked, attempts, \
    expires_at) FROM deliveries WHERE no > ?1 AND no <= ?2 AND state = 0";

/// The same columns, to find out which one of a row cannot be read.
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

/// The rows of a part.
#[derive(Default)]
struct Taken {
    rows: Vec<(BoxNo, Queued)>,
    /// Numbers of deliveries that cannot be read.
    unreadable: Vec<u64>,
}

/// OpenRows deliveries, and those of them that cannot be read.
pub(crate) type OpenRows = (Vec<(BoxNo, Queued)>, Vec<UnreadableRow>);

/// Reads open deliveries through one connection.
pub(crate) struct Taker {
    taken: Arc<Mutex<Taken>>,
}

impl Taker {
    /// Registers the aggregate function on the connection.
    pub(crate) fn new(db: &Connection) -> rusqlite::Result<Self> {
        let taken = Arc::new(Mutex::new(Taken::default()));
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
        db.create_aggregate_function("take_open", 9, flags, Take(Arc::clone(&taken)))?;
        Ok(Self { taken })
    }

    /// Returns the open deliveries with numbers above `after`, up to `upto`.
    pub(crate) fn take(&self, db: &Connection, after: u64, upto: u64) -> ReadResult<OpenRows> {
        db.prepare_cached(TAKE)?.query_row(params![after, upto], |_| Ok(()))?;
        let Taken { rows, unreadable } = std::mem::take(&mut *self.taken.lock());
        let named = unreadable.into_iter().map(|no| misread(db, no));
        Ok((rows, named.collect::<Result<_, _>>()?))
    }
}

struct Take(Arc<Mutex<Taken>>);

impl Aggregate<Taken, bool> for Take {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Taken> {
        Ok(Taken::default())
    }

    fn step(&self, row: &mut Context<'_>, taken: &mut Taken) -> rusqlite::Result<()> {
        match queued(row) {
            Ok(read) => taken.rows.push(read),
            Err(_) => taken.unreadable.push(row.get(0)?),
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, taken: Option<Taken>) -> rusqlite::Result<bool> {
        *self.0.lock() = taken.unwrap_or_default();
        Ok(true)
    }
}

/// Reads the columns in the order of [`TAKE`].
fn queued(row: &Context<'_>) -> rusqlite::Result<(BoxNo, Queued)> {
    let queued = Queued {
        delivery: DeliveryNo(row.get(0)?),
        seq: Seq(row.get(2)?),
        message: None,
        size: row.get(3)?,
        sender: row.get::<Option<u32>>(4)?.map(InstanceId),
        urgent: row.get(5)?,
        marked: row.get(6)?,
        leased_before: false,
        doubted: false,
        attempts: row.get(7)?,
        expires_at: row.get::<Option<i64>>(8)?.map(Timestamp),
    };
    Ok((row.get(1)?, queued))
}

/// Finds the column that cannot be read in this row.
fn misread(db: &Connection, no: u64) -> ReadResult<UnreadableRow> {
    let mut select = db.prepare_cached(&OPEN.select("WHERE no = ?1"))?;
    let mut rows = select.query(params![no])?;
    let Some(row) = rows.next()? else { return Err(rusqlite::Error::QueryReturnedNoRows.into()) };
    let cells = Cells::new(&OPEN, row);
    let check = || -> ReadResult<()> {
        cells.get::<BoxNo>("mailbox")?;
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
        Ok(()) => format!("deliveries, row {no}: it cannot be read"),
    };
    let seq = Seq(cells.get("seq").unwrap_or_default());
    Ok(UnreadableRow { of: RowOf::Delivery(DeliveryNo(no), seq), what })
}
