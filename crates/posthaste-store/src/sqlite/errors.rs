//! Errors of reading, and their explanation for operators.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use posthaste_core::ports::StoreError;
use rusqlite::{Error, ErrorCode};

use crate::OpenError;

/// The reason why a query failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Sqlite(#[from] Error),
    /// One row: table, row, column, and what is wrong there.
    #[error("{0}")]
    Row(String),
}

pub(crate) type ReadResult<T> = Result<T, ReadError>;

/// Returns whether SQLite says that the file itself is damaged.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Explains an error of one value; `None` for every other error.
pub(crate) fn of_value(error: &Error) -> Option<String> {
    match error {
        Error::FromSqlConversionFailure(_, _, why) => Some(why.to_string()),
        Error::IntegralValueOutOfRange(_, value) => Some(format!("{value} is no value")),
        Error::InvalidColumnType(_, _, kind) => Some(format!("{kind} is the wrong type")),
        Error::Utf8Error(_, why) => Some(why.to_string()),
        _ => None,
    }
}

/// Explains why a start failed on this file.
pub(crate) fn explain(file: &Path, error: &Error) -> OpenError {
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(_) if !is_damage(error) => OpenError::Unusable { path: file.to_owned(), why },
        _ => OpenError::Corrupt { file: file.to_owned(), why },
    }
}

/// Like [`explain`], for errors of reading rows.
pub(crate) fn explain_read(file: &Path, error: &ReadError) -> OpenError {
    match error {
        ReadError::Sqlite(error) => explain(file, error),
        ReadError::Row(why) => OpenError::Corrupt { file: file.to_owned(), why: why.clone() },
    }
}

/// Damage that was found while the hub runs. It stays until the next start.
pub(crate) struct Damage {
    file: PathBuf,
    found: OnceLock<StoreError>,
}

impl Damage {
    pub(crate) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), found: OnceLock::new() }
    }

    pub(crate) fn found(&self) -> Option<StoreError> {
        self.found.get().cloned()
    }

    /// Explains an error to the caller. Damage is also kept for [`found`](Self::found).
    pub(crate) fn explain(&self, error: &Error) -> StoreError {
        if !is_damage(error) {
            return StoreError::Unavailable(error.to_string().into());
        }
        let first = || {
            tracing::error!(%error, "the database is damaged: no new mail is accepted");
            self.describe(error.to_string())
        };
        self.found.get_or_init(first).clone()
    }

    /// Declares damage because the hub cannot read something that it must know.
    pub(crate) fn declare(&self, why: String) -> StoreError {
        self.found.get_or_init(|| self.describe(why)).clone()
    }

    /// Describes the damage as a start would have, had it read these rows itself.
    fn describe(&self, why: String) -> StoreError {
        let error = OpenError::Corrupt { file: self.file.clone(), why };
        let hint = format!(
            "no new mail is accepted. Save what can still be read with `posthaste export`, see \
             `posthaste doctor`, and stop the hub; then {}",
            error.hint()
        );
        StoreError::Damaged { what: error.to_string().into(), hint: hint.into() }
    }
}
