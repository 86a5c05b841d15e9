//! Reads messages with their deliveries.

use std::sync::{Arc, LazyLock};

use posthaste_core::messaging::id_key::IdKey;
use posthaste_core::messaging::message::{MessageId, MessageRef, Seq};
use posthaste_core::ports::store::StoredRecord;
use rusqlite::{Connection, OptionalExtension, params};

use super::delivery::{self, DELIVERIES};
use super::message;
use crate::sqlite::errors::ReadResult;

static OF_MESSAGE: LazyLock<String> =
    LazyLock::new(|| DELIVERIES.select("WHERE no >= ?1 AND no < ?1 + ?2 ORDER BY no"));

/// Finds messages by their ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids {
    pub(crate) key: IdKey,
    /// The number of the first message whose id is made by the key.
    pub(crate) first_made: u64,
}

impl Ids {
    pub(crate) fn find(&self, db: &Connection, which: MessageRef) -> ReadResult<Option<u64>> {
        match which {
            MessageRef::Seq(seq) => Ok(Some(seq.0)),
            MessageRef::Id(id) => self.by_id(db, id),
        }
    }

    fn by_id(&self, db: &Connection, id: MessageId) -> ReadResult<Option<u64>> {
        let Seq(seq) = self.key.seq(id);
        let id = id.0.cast_signed();
        let is_number = i64::try_from(seq).is_ok();
        if is_number
            && seq >= self.first_made
            && db
                .prepare_cached("SELECT 1 FROM messages WHERE seq = ?1 AND id = ?2")?
                .exists(params![seq, id])?
        {
            return Ok(Some(seq));
        }
        let mut old = db.prepare_cached("SELECT seq FROM message_ids WHERE id = ?1")?;
        Ok(old.query_row(params![id], |row| row.get(0)).optional()?)
    }
}

/// Reads one message with its deliveries.
pub(crate) fn record(db: &Connection, seq: u64) -> ReadResult<Option<StoredRecord>> {
    let mut select = db.prepare_cached(&message::WITH_BODY)?;
    let mut rows = select.query(params![seq])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (message, mut unreadable) = message::read(row, seq);
    let mut places = [0_u64; message::PLACES.len()];
    for (place, column) in places.iter_mut().zip(message::PLACES) {
        match row.get(column) {
            Ok(number) => *place = number,
            Err(error) => {
                unreadable.push(format!("messages, row {seq}, column {column}: {error}"));
            }
        }
    }
    let [first, copies] = places;
    let mut select = db.prepare_cached(&OF_MESSAGE)?;
    let mut rows = select.query(params![first, copies])?;
    let mut deliveries = Vec::new();
    while let Some(row) = rows.next()? {
        deliveries.extend(delivery::read(row, &mut unreadable)?);
    }
    Ok(Some(StoredRecord { message: Arc::new(message), deliveries, unreadable }))
}

/// Returns as many records as fit: their bodies hold at most `bytes`, except that the
/// first always fits.
pub(crate) fn fitting(
    db: &Connection,
    seqs: impl IntoIterator<Item = u64>,
    bytes: usize,
) -> ReadResult<Vec<StoredRecord>> {
    let (mut found, mut room) = (Vec::new(), bytes);
    for seq in seqs {
        let Some(record) = record(db, seq)? else { continue };
        let size = record.message.body.len();
        if size > room && !found.is_empty() {
            break;
        }
        room = room.saturating_sub(size);
        found.push(record);
    }
    Ok(found)
}
