//! Messages: one list of columns, made from [`Message`], for writing and reading.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use posthaste_core::messaging::message::{Message, Seq};
use posthaste_core::ports::store::{Bodies, FoundMessages, RowOf, UnreadableRow};
use posthaste_core::stored::{Column, Row, Value};
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::sqlite::errors::{Damage, ReadResult, is_damage};

/// The store's own columns of a message: the numbers of its deliveries.
pub(crate) const PLACES: [&str; 2] = ["first_delivery", "copies"];

/// Writes a message: its columns in order, then [`PLACES`].
pub(crate) static INSERT: LazyLock<String> = LazyLock::new(|| {
    let columns = [Message::COLUMNS, &PLACES].concat();
    let mut values = String::new();
    for place in 1..=columns.len() {
        let _ = write!(values, "{}?{place}", if place == 1 { "" } else { ", " });
    }
    format!("INSERT INTO messages ({}) VALUES ({values})", columns.join(", "))
});

/// Reads a message by its number: its columns in order, then [`PLACES`].
pub(crate) static WITH_BODY: LazyLock<String> = LazyLock::new(|| select(Bodies::With));
static WITHOUT_BODY: LazyLock<String> = LazyLock::new(|| select(Bodies::Without));

fn select(bodies: Bodies) -> String {
    let column = |name: &&'static str| match bodies {
        Bodies::Without if *name == "body" => "'' AS body",
        Bodies::With | Bodies::Without => name,
    };
    let columns: Vec<&str> = Message::COLUMNS.iter().map(column).chain(PLACES).collect();
    format!("SELECT {} FROM messages WHERE seq = ?1", columns.join(", "))
}

/// Binds the columns of a message, and the numbers of its deliveries.
pub(crate) fn bind(
    insert: &mut CachedStatement<'_>,
    message: &Message,
    places: [u64; PLACES.len()],
) -> rusqlite::Result<()> {
    let mut place = 0;
    for value in message.values() {
        place += 1;
        match value {
            Value::Integer(number) => insert.raw_bind_parameter(place, number)?,
            Value::Text(text) => insert.raw_bind_parameter(place, text)?,
            Value::Nothing => insert.raw_bind_parameter(place, rusqlite::types::Null)?,
        }
    }
    for number in places {
        place += 1;
        insert.raw_bind_parameter(place, number.cast_signed())?;
    }
    Ok(())
}

/// A row of [`WITH_BODY`].
pub(crate) struct MessageRow<'r, 's>(pub(crate) &'r rusqlite::Row<'s>);

impl Row for MessageRow<'_, '_> {
    fn value(&self, column: Column) -> Result<Value<'_>, String> {
        match self.0.get_ref(column.place) {
            Ok(ValueRef::Integer(number)) => Ok(Value::Integer(number)),
            Ok(ValueRef::Text(bytes)) => {
                std::str::from_utf8(bytes).map(Value::Text).map_err(|why| why.to_string())
            }
            Ok(ValueRef::Null) => Ok(Value::Nothing),
            Ok(other) => Err(format!("{} is the wrong type", other.data_type())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn remains(&self, column: Column) -> Option<String> {
        match self.0.get_ref(column.place) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
            _ => None,
        }
    }
}

/// Reads a message as far as possible; also returns each column that cannot be read, as
/// table, row, column and reason.
pub(crate) fn read(row: &rusqlite::Row<'_>, seq: u64) -> (Message, Vec<String>) {
    let (message, misread) = Message::read(&MessageRow(row));
    let named = misread.iter().map(|misread| format!("messages, row {seq}, {misread}"));
    (message, named.collect())
}

/// Reads these messages. One that cannot be read does not keep the others back.
pub(crate) fn messages(
    db: &Connection,
    seqs: &[Seq],
    bodies: Bodies,
    damage: &Damage,
) -> ReadResult<FoundMessages> {
    let sql = match bodies {
        Bodies::With => &WITH_BODY,
        Bodies::Without => &WITHOUT_BODY,
    };
    let mut select = db.prepare_cached(sql)?;
    let mut found = FoundMessages::default();
    for seq in seqs {
        let unreadable = |what| UnreadableRow { of: RowOf::Message(*seq), what };
        match select.query_row(params![seq.0], |row| Ok(read(row, seq.0))).optional() {
            Ok(Some((message, misread))) => match misread.into_iter().next() {
                None => drop(found.messages.insert(*seq, Arc::new(message))),
                Some(what) => found.unreadable.push(unreadable(what)),
            },
            Ok(None) => {
                let what = format!("messages, row {seq}: it is missing");
                found.unreadable.push(unreadable(what));
            }
            Err(error) if is_damage(&error) => {
                damage.explain(&error);
                found.damaged.push(*seq);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_written_and_read_in_one_order() {
        let all = format!("{}, first_delivery, copies", Message::COLUMNS.join(", "));
        let last = Message::COLUMNS.len() + 2;
        assert!(INSERT.contains(&format!("({all}) VALUES (?1, ?2, ")), "{}", *INSERT);
        assert!(INSERT.ends_with(&format!(", ?{last})")), "{}", *INSERT);
        assert!(WITH_BODY.contains(&format!("{all} FROM messages")), "{}", *WITH_BODY);
        let without = all.replace(" body,", " '' AS body,");
        assert!(WITHOUT_BODY.contains(&format!("{without} FROM")), "{}", *WITHOUT_BODY);
    }
}
