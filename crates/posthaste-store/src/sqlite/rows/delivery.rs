//! Reads deliveries.

use posthaste_core::address::Mailbox;
use posthaste_core::messaging::delivery::{DeliveryNo, Proof, Reason};
use posthaste_core::ports::RecordState;
use posthaste_core::ports::store::StoredDelivery;
use posthaste_core::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::FromSql;

use super::{Cells, Table, principal};
use crate::sqlite::errors::{ReadError, ReadResult};

/// The numbers of the states in the table.
pub(crate) const OPEN: i64 = 0;
pub(crate) const ACKED: i64 = 1;
pub(crate) const DEAD: i64 = 2;

pub(crate) static DELIVERIES: Table = Table {
    name: "deliveries",
    key: "no",
    columns: &[
        "no",
        "mailbox",
        "(SELECT key FROM mailboxes WHERE mailboxes.no = deliveries.mailbox) AS key",
        "state",
        "size",
        "marked",
        "attempts",
        "leased_at",
        "settled_at",
        "settled_by",
        "how",
        "maybe_seen",
    ],
};

/// Reads a delivery; `Ok(None)` if too little of it can be read to be shown. Adds each
/// column that cannot be read to `misread`.
pub(crate) fn read(
    row: &Row<'_>,
    misread: &mut Vec<String>,
) -> rusqlite::Result<Option<StoredDelivery>> {
    let cells = Cells::new(&DELIVERIES, row);
    match whole(&cells, misread) {
        Ok(delivery) => Ok(Some(delivery)),
        Err(ReadError::Row(what)) => {
            misread.push(what);
            Ok(None)
        }
        Err(ReadError::Sqlite(error)) => Err(error),
    }
}

fn whole(cells: &Cells<'_, '_>, misread: &mut Vec<String>) -> ReadResult<StoredDelivery> {
    let at = cells.get("mailbox")?;
    let mailbox = match cells.optional_text("key")? {
        Some(_) => cells.read("key", |key| key.parse::<Mailbox>().ok())?,
        None => return Err(cells.misread("mailbox", &format!("there is no mailbox {at}"))),
    };
    Ok(StoredDelivery {
        delivery: DeliveryNo(cells.get("no")?),
        at,
        mailbox,
        end: end(cells)?,
        marked: cells.get("marked")?,
        attempts: count(cells, "attempts", misread)?,
        size: count(cells, "size", misread)?,
        leased_at: cells.get::<Option<i64>>("leased_at")?.map(Timestamp),
        settled_at: cells.get::<Option<i64>>("settled_at")?.map(Timestamp),
        by: cells.read_optional("settled_by", principal)?,
    })
}

/// Reads a number that is not essential: 0 if it cannot be read.
fn count<T: FromSql + Default>(
    cells: &Cells<'_, '_>,
    column: &str,
    misread: &mut Vec<String>,
) -> ReadResult<T> {
    match cells.get(column) {
        Err(ReadError::Row(what)) => {
            misread.push(what);
            Ok(T::default())
        }
        read => read,
    }
}

fn end(cells: &Cells<'_, '_>) -> ReadResult<Option<RecordState>> {
    match cells.get("state")? {
        OPEN => Ok(None),
        ACKED => Ok(Some(RecordState::Acked(cells.read("how", Proof::read)?))),
        DEAD => Ok(Some(RecordState::Dead {
            reason: cells.read("how", Reason::read)?,
            maybe_seen: cells.get::<Option<bool>>("maybe_seen")?.unwrap_or(false),
        })),
        other => Err(cells.misread("state", &format!("{other} is no value"))),
    }
}
