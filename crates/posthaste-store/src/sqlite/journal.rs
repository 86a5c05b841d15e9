//! The journal: what happened, one list for each transaction, since a row for each
//! event would cost a send a tenth of its time.
//!
//! An entry is its kind, two numbers and a short text:
//! `kind: 1, a: 8, b: 8, length: 1, text`.

use std::collections::HashMap;

use posthaste_core::address::{InstanceId, Name};
use posthaste_core::events::{About, Event, EventKind, Page, Trace};
use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{MessageRef, Seq};
use posthaste_core::ports::{Record, StoreError};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::dates::Old;
use super::rows::{self, RawRecord};
use super::{Shared, load, reader};

/// What happened in one transaction.
#[derive(Default)]
pub(crate) struct EventList {
    list: Vec<u8>,
    count: u64,
}

impl EventList {
    pub(crate) fn message(&mut self, kind: EventKind, seq: Seq, delivery: DeliveryNo) {
        self.add(kind, seq.0, delivery.0, "");
    }

    pub(crate) fn instance(&mut self, kind: EventKind, id: InstanceId) {
        self.add(kind, u64::from(id.0), 0, "");
    }

    pub(crate) fn named(&mut self, kind: EventKind, name: &str) {
        self.add(kind, 0, 0, name);
    }

    fn add(&mut self, kind: EventKind, a: u64, b: u64, text: &str) {
        self.count += 1;
        self.list.push(kind.number());
        self.list.extend_from_slice(&a.to_be_bytes());
        self.list.extend_from_slice(&b.to_be_bytes());
        // Names are shorter than 256 bytes.
        self.list.push(u8::try_from(text.len()).unwrap_or(0));
        self.list.extend_from_slice(text.as_bytes());
    }

    /// Writes the list after event `last`; what the last one is then.
    pub(crate) fn write(&self, db: &Connection, last: u64, at: Timestamp) -> rusqlite::Result<u64> {
        if self.count > 0 {
            db.prepare_cached("INSERT INTO event_lists VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![last + 1, last + self.count, at.0, self.list])?;
        }
        Ok(last + self.count)
    }
}

/// The number of the last event.
pub(crate) fn last(db: &Connection) -> rusqlite::Result<u64> {
    let row: Option<u64> =
        db.query_row("SELECT max(last) FROM event_lists", [], |row| row.get(0))?;
    let noted = rows::meta(db, "last_event")?.unwrap_or(0).cast_unsigned();
    Ok(row.unwrap_or(0).max(noted))
}

/// Whether anything is old.
pub(crate) fn has_old(db: &Connection, old: Old) -> rusqlite::Result<bool> {
    let sql = "SELECT at FROM event_lists WHERE at <= ?1 OR at > ?2 ORDER BY no LIMIT 1";
    let times = params![old.now.0, old.beyond.0];
    let oldest = db.query_row(sql, times, |row| row.get(0).map(Timestamp)).optional()?;
    Ok(oldest.is_some_and(|at| old.has(at)))
}

/// Removes old lists; numbers are never given again.
pub(crate) fn forget(db: &Connection, old: Old) -> rusqlite::Result<()> {
    rows::set_meta(db, "last_event", last(db)?.cast_signed())?;
    rows::forget(db, "event_lists", old)
}

/// An entry that was read back; the kind is unknown if a later version wrote it.
struct Entry {
    no: u64,
    at: Timestamp,
    kind: Option<EventKind>,
    trace: Option<Trace>,
}

fn entries(first: u64, at: Timestamp, mut list: &[u8]) -> Vec<Entry> {
    let mut found = Vec::new();
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
    while let Some((head, rest)) = list.split_first_chunk::<18>() {
        let Some((text, rest)) = rest.split_at_checked(usize::from(head[17])) else { break };
        list = rest;
        let kind = EventKind::read(head[0]);
        let (a, b) = (number(&head[1..9]), number(&head[9..17]));
        let trace = kind.and_then(|kind| match kind {
            EventKind::Accepted
            | EventKind::Acked
            | EventKind::Dead
            | EventKind::Returned
            | EventKind::Requeued
            | EventKind::Settled => Some(Trace::Message { seq: Seq(a), delivery: DeliveryNo(b) }),
            EventKind::Joined
            | EventKind::Ended
            | EventKind::Lost
            | EventKind::Starting
            | EventKind::Running => u32::try_from(a).ok().map(|id| Trace::Instance(InstanceId(id))),
            EventKind::Team => name(text).map(Trace::Team),
            EventKind::Profile => name(text).map(Trace::Profile),
        });
        found.push(Entry { no: first + found.len() as u64, at, kind, trace });
    }
    found
}

fn name(text: &[u8]) -> Option<Name> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

struct Raw {
    entries: Vec<Entry>,
    records: HashMap<Seq, RawRecord>,
    oldest: u64,
    last: u64,
}

/// All of one moment.
fn read(db: &Connection, after: u64, most: usize, bytes: usize) -> rusqlite::Result<Raw> {
    db.execute_batch("SAVEPOINT look")?;
    let found = read_now(db, after, most, bytes);
    db.execute_batch("RELEASE look")?;
    found
}

fn read_now(db: &Connection, after: u64, most: usize, bytes: usize) -> rusqlite::Result<Raw> {
    let last = last(db)?;
    let oldest: Option<u64> =
        db.query_row("SELECT min(no) FROM event_lists", [], |row| row.get(0))?;
    let mut select = db.prepare_cached(
        "SELECT no, at, list FROM event_lists \
         WHERE no >= (SELECT coalesce(max(no), 0) FROM event_lists WHERE no <= ?1) \
         ORDER BY no",
    )?;
    let mut rows = select.query(params![after.saturating_add(1)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let list = entries(row.get(0)?, Timestamp(row.get(1)?), row.get_ref(2)?.as_blob()?);
        found.extend(list.into_iter().filter(|entry| entry.no > after));
        if found.len() >= most {
            found.truncate(most);
            break;
        }
    }
    let mut records: HashMap<Seq, RawRecord> = HashMap::new();
    let (mut room, mut fit) = (bytes, 0);
    for entry in &found {
        if let Some(Trace::Message { seq, .. }) = &entry.trace {
            if !records.contains_key(seq)
                && let Some(record) = rows::record(db, MessageRef::Seq(*seq))?
            {
                records.insert(*seq, record);
            }
            let size = records.get(seq).map_or(0, |r| r.message.body.len());
            if size > room && fit > 0 {
                break;
            }
            room = room.saturating_sub(size);
        }
        fit += 1;
    }
    found.truncate(fit);
    Ok(Raw { entries: found, records, oldest: oldest.unwrap_or(last + 1), last })
}

/// The events after a number.
pub(crate) async fn page(shared: &Shared, after: u64, most: usize) -> Result<Page, StoreError> {
    load::known(&shared.known).await?;
    // No number is that large.
    let after = after.min(i64::MAX as u64 - 1);
    let bytes = shared.limits.answer_bytes;
    let raw = shared.readers.query(move |db| read(db, after, most, bytes)).await?;
    let records = reader::stand_all(shared, raw.records.into_values().collect()).await?;
    let records: HashMap<Seq, Record> = records.into_iter().map(|r| (r.message.seq, r)).collect();
    let upto = raw.entries.last().map_or(after, |entry| entry.no);
    let ledger = shared.now();
    let events = raw.entries.into_iter().filter_map(|entry| {
        let about = match entry.trace? {
            Trace::Message { seq, delivery } => match records.get(&seq) {
                Some(record) => {
                    let delivery = (delivery.0 > 0).then_some(delivery);
                    About::Message(Box::new(record.clone()), delivery)
                }
                None => About::Pruned(seq),
            },
            Trace::Instance(id) => match ledger.instance(id) {
                Some(view) => About::Instance(Box::new(view.instance)),
                None => About::Forgotten(id),
            },
            Trace::Team(name) => About::Team(name),
            Trace::Profile(name) => About::Profile(name),
        };
        Some(Event { no: entry.no, at: entry.at, kind: entry.kind?, about })
    });
    Ok(Page { events: events.collect(), oldest: raw.oldest, last: raw.last, upto })
}
