//! The schema, and the migration steps that lead to it.

use std::path::Path;

use rusqlite::Connection;

use super::errors::explain;
use crate::OpenError;

include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// "PHST": tells our file from one of another program.
pub(crate) const APPLICATION_ID: i64 = 0x5048_5354;

/// Applies the steps that the database does not have yet, each in one transaction.
pub(crate) fn migrate(db: &Connection, file: &Path) -> Result<(), OpenError> {
    let explain = |error: rusqlite::Error| explain(file, &error);
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(explain)?;
    if tables > 0 {
        check_application(db, file)?;
    }
    let done = version(db, file)?;
    for (step, sql) in (1..).zip(MIGRATIONS).skip(done) {
        let whole = format!(
            "BEGIN IMMEDIATE; {sql}; PRAGMA application_id = {APPLICATION_ID}; \
             PRAGMA user_version = {step}; COMMIT;",
        );
        db.execute_batch(&whole).map_err(explain)?;
    }
    Ok(())
}

pub(crate) fn check_application(db: &Connection, file: &Path) -> Result<(), OpenError> {
    match number(db, "application_id").map_err(|error| explain(file, &error))? {
        APPLICATION_ID => Ok(()),
        _ => Err(OpenError::Foreign { file: file.to_owned() }),
    }
}

/// Returns the number of steps that the database has.
pub(crate) fn version(db: &Connection, file: &Path) -> Result<usize, OpenError> {
    let found = number(db, "user_version").map_err(|error| explain(file, &error))?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(OpenError::Newer { file: file.to_owned(), found, known });
    }
    Ok(usize::try_from(found).unwrap_or(0))
}

fn number(db: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, pragma, |row| row.get(0))
}
