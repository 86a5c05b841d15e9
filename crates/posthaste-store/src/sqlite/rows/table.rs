//! Tables with their columns. Rows are read by the names of the columns.

use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};

use crate::sqlite::errors::{ReadError, ReadResult, of_value};

/// A table and the columns to read.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The column that identifies a row.
    pub(crate) key: &'static str,
    /// Names, or expressions that end with `AS name`.
    pub(crate) columns: &'static [&'static str],
}

impl Table {
    /// Returns `SELECT` the columns `FROM` the table, followed by `rest`.
    pub(crate) fn select(&self, rest: &str) -> String {
        self.select_from(&format!("{} {rest}", self.name))
    }

    /// `SELECT` the columns, `FROM` a source that has them.
    pub(crate) fn select_from(&self, source: &str) -> String {
        format!("SELECT {} FROM {source}", self.columns.join(", "))
    }

    fn place(&self, name: &str) -> usize {
        let is_called = |column: &&str| {
            column
                .strip_suffix(name)
                .is_some_and(|before| before.is_empty() || before.ends_with(" AS "))
        };
        // A place behind the last column leads to an error that names the column.
        self.columns.iter().position(is_called).unwrap_or(usize::MAX)
    }
}

/// A row of [`Table::select`]. Its errors name table, row and column.
pub(crate) struct Cells<'r, 's> {
    pub(crate) table: &'static Table,
    pub(crate) row: &'r Row<'s>,
}

impl<'r, 's> Cells<'r, 's> {
    pub(crate) fn new(table: &'static Table, row: &'r Row<'s>) -> Self {
        Self { table, row }
    }

    pub(crate) fn get<T: FromSql>(&self, column: &str) -> ReadResult<T> {
        self.row.get(self.table.place(column)).map_err(|error| match of_value(&error) {
            Some(why) => self.misread(column, &why),
            None => error.into(),
        })
    }

    pub(crate) fn text(&self, column: &str) -> ReadResult<&'r str> {
        match self.optional_text(column)? {
            Some(text) => Ok(text),
            None => Err(self.misread(column, "Null is the wrong type")),
        }
    }

    pub(crate) fn optional_text(&self, column: &str) -> ReadResult<Option<&'r str>> {
        match self.row.get_ref(self.table.place(column))? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(why) => Err(self.misread(column, &why.to_string())),
            },
            other => Err(self.misread(column, &format!("{} is the wrong type", other.data_type()))),
        }
    }

    /// Reads a column whose words stand for values.
    pub(crate) fn read<T>(
        &self,
        column: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> ReadResult<T> {
        let word = self.text(column)?;
        read(word).ok_or_else(|| self.misread(column, &format!("`{word}` is no value")))
    }

    /// Reads a column whose words stand for values, or which is null.
    pub(crate) fn read_optional<T>(
        &self,
        column: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> ReadResult<Option<T>> {
        match self.optional_text(column)? {
            Some(_) => self.read(column, read).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the error of this row and column.
    pub(crate) fn misread(&self, column: &str, why: &str) -> ReadError {
        ReadError::Row(format!("{}, row {}, column {column}: {why}", self.table.name, self.name()))
    }

    /// Returns the key of this row.
    fn name(&self) -> String {
        match self.row.get_ref(self.table.place(self.table.key)) {
            Ok(ValueRef::Integer(number)) => number.to_string(),
            Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => "?".into(),
        }
    }
}
