//! Notes about the whole store, in the table `meta`.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::errors::{ReadError, ReadResult, of_value};

pub(crate) fn get<T: FromSql>(db: &Connection, key: &str) -> ReadResult<Option<T>> {
    let found = db
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row(params![key], |row| row.get(0))
        .optional();
    found.map_err(|error| match of_value(&error) {
        Some(why) => ReadError::Row(format!("meta, row {key}, column value: {why}")),
        None => error.into(),
    })
}

/// Returns a number; 0 if it was never noted.
pub(crate) fn number(db: &Connection, key: &str) -> ReadResult<u64> {
    get(db, key).map(Option::unwrap_or_default)
}

pub(crate) fn set(db: &Connection, key: &str, value: u64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) \
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    )?
    .execute(params![key, value.cast_signed()])?;
    Ok(())
}

/// Numbers of a message and of a delivery, such as those up to which the indexes reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) seq: u64,
    pub(crate) delivery: u64,
}

pub(crate) fn marks(db: &Connection) -> ReadResult<Marks> {
    Ok(Marks { seq: number(db, "indexed_seq")?, delivery: number(db, "indexed_delivery")? })
}

/// Returns the highest numbers ever given: a pruned number is never given again.
pub(crate) fn last_numbers(db: &Connection) -> ReadResult<Marks> {
    let highest = |sql: &str, key| -> ReadResult<u64> {
        let row: Option<u64> = db.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(row.unwrap_or(0).max(number(db, key)?))
    };
    Ok(Marks {
        seq: highest("SELECT max(seq) FROM messages", "last_seq")?,
        delivery: highest("SELECT max(no) FROM deliveries", "last_delivery")?,
    })
}
