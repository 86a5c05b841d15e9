//! The journal of events: one list for each transaction.

use posthaste_core::events::EventList;
use posthaste_core::ports::change::Old;
use posthaste_core::ports::store::{Group, StoredEvents};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::errors::ReadResult;
use super::prune::forget_old;
use super::reader::at_one_moment;
use super::rows::meta;

const LAST: &str = "SELECT last FROM event_lists ORDER BY no DESC LIMIT 1";

/// Writes the events of a group.
pub(crate) fn write(db: &Connection, group: &Group) -> rusqlite::Result<()> {
    let events = &group.events;
    if !events.is_empty() {
        db.prepare_cached("INSERT INTO event_lists (no, last, at, list) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![events.first(), events.last(), group.at.0, events.bytes()])?;
    }
    Ok(())
}

/// Returns the number of the last event.
pub(crate) fn last(db: &Connection) -> ReadResult<u64> {
    let mut select = db.prepare_cached(LAST)?;
    let row: Option<u64> = select.query_row([], |row| row.get(0)).optional()?;
    Ok(row.unwrap_or(0).max(meta::number(db, "last_event")?))
}

/// Returns the events after a number, all from one state of the database.
pub(crate) fn after(db: &Connection, after: u64, most: usize) -> ReadResult<StoredEvents> {
    // No number is that large.
    let after = after.min(i64::MAX as u64 - 1);
    at_one_moment(db, || read(db, after, most))
}

fn read(db: &Connection, after: u64, most: usize) -> ReadResult<StoredEvents> {
    let last = last(db)?;
    let oldest: Option<u64> =
        db.query_row("SELECT min(no) FROM event_lists", [], |row| row.get(0))?;
    let mut select = db.prepare_cached(
        "SELECT no, at, list FROM event_lists \
         WHERE no >= (SELECT coalesce(max(no), 0) FROM event_lists WHERE no <= ?1) \
         ORDER BY no",
    )?;
    let mut rows = select.query(params![after + 1])?;
    let mut events = Vec::new();
    while events.len() < most
        && let Some(row) = rows.next()?
    {
        let bytes = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let list = EventList::read(row.get(0)?, Timestamp(row.get(1)?), bytes);
        events.extend(list.into_iter().filter(|event| event.no > after));
    }
    events.truncate(most);
    Ok(StoredEvents { events, oldest: oldest.unwrap_or(last + 1), last })
}

/// Returns whether the oldest events are old.
pub(crate) fn has_old(db: &Connection, old: Old) -> ReadResult<bool> {
    let sql = "SELECT at FROM event_lists WHERE at <= ?1 OR at > ?2 ORDER BY no LIMIT 1";
    let times = params![old.now.0, old.beyond.0];
    let oldest = db.query_row(sql, times, |row| row.get(0).map(Timestamp)).optional()?;
    Ok(oldest.is_some_and(|at| old.has(at)))
}

/// Removes old lists. Notes the last number, so that no number is given again.
pub(crate) fn forget(db: &Connection, old: Old) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT INTO meta (key, value) VALUES ('last_event', coalesce(({LAST}), 0)) \
         ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)"
    );
    db.prepare_cached(&sql)?.execute([])?;
    forget_old(db, "event_lists", old)
}
