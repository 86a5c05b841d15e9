//! Rows that cannot be read.

use std::collections::HashSet;

use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::Seq;
use rusqlite::{Error, Statement};

/// One row that does not read as what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) of: Of,
    /// Table, row, column, and what is wrong there.
    pub(crate) what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// A message: none of its deliveries can be handed out.
    Message(Seq),
    /// A delivery, with its message if that is known.
    Delivery(DeliveryNo, Seq),
}

impl Fault {
    pub(crate) fn missing_message(seq: Seq) -> Self {
        Self { of: Of::Message(seq), what: format!("messages, row {seq}: it is missing") }
    }
}

/// Deliveries whose own rows cannot be read.
pub(crate) fn deliveries(faults: &[Fault]) -> HashSet<DeliveryNo> {
    let delivery = |fault: &Fault| match fault.of {
        Of::Delivery(delivery, _) => Some(delivery),
        Of::Message(_) => None,
    };
    faults.iter().filter_map(delivery).collect()
}

/// Which column of a row cannot be read, and why; `None` for every other error.
pub(crate) fn misread(error: &Error, columns: &Statement<'_>) -> Option<String> {
    let (column, why) = match error {
        Error::FromSqlConversionFailure(column, _, why) => (*column, why.to_string()),
        Error::IntegralValueOutOfRange(column, value) => (*column, format!("{value} is no value")),
        Error::InvalidColumnType(column, _, kind) => (*column, format!("{kind} is the wrong type")),
        Error::Utf8Error(column, why) => (*column, why.to_string()),
        _ => return None,
    };
    let name = columns.column_name(column).unwrap_or("?");
    Some(format!("column {name}: {why}"))
}

/// Whether SQLite says that the file itself is damaged.
pub(crate) fn is_damage(error: &Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}
