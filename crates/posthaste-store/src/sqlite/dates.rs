//! Times in the future, after the machine's clock was wrong and is right again.
//!
//! Rows are appended with times that grow, and what is old is found by that. A row of the
//! future would hold back everything behind it until its time comes, perhaps for years.
//! So a start dates such rows to now. A message's `expires_at` is a date that its sender
//! chose, and stays.

use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};

/// Every column that says when something happened, and that an age is counted from.
const TIMES: [(&str, &str); 13] = [
    ("messages", "created_at"),
    ("deliveries", "leased_at"),
    ("deliveries", "settled_at"),
    ("delivery_notes", "at"),
    ("event_lists", "at"),
    ("key_lists", "at"),
    ("taken", "at"),
    ("instances", "created_at"),
    ("instances", "last_seen"),
    ("instances", "ended_at"),
    ("work", "started_at"),
    ("assignments", "opened_at"),
    ("assignments", "settled_at"),
];

/// The youngest row of everything that a hub writes when it does anything at all: cheap
/// to look at, and in the future if any row is.
const YOUNGEST: [&str; 3] = [
    "SELECT created_at FROM messages ORDER BY seq DESC LIMIT 1",
    "SELECT at FROM event_lists ORDER BY no DESC LIMIT 1",
    "SELECT max(last_seen) FROM instances",
];

/// Dates what lies in the future to `now`; whether there was any.
pub(crate) fn heal(db: &Connection, now: Timestamp) -> rusqlite::Result<bool> {
    let mut youngest = YOUNGEST.iter().map(|sql| latest(db, sql));
    let ahead = youngest.try_fold(false, |ahead, at| at.map(|at| ahead || at > Some(now)))?;
    if ahead {
        let change = db.unchecked_transaction()?;
        for (table, column) in TIMES {
            let sql = format!("UPDATE {table} SET {column} = ?1 WHERE {column} > ?1");
            change.execute(&sql, params![now.0])?;
        }
        change.commit()?;
    }
    Ok(ahead)
}

fn latest(db: &Connection, sql: &str) -> rusqlite::Result<Option<Timestamp>> {
    let mut rows = db.prepare(sql)?;
    let mut rows = rows.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(row.get::<_, Option<i64>>(0)?.map(Timestamp))
}
