//! Rows to types and back: the SQL that more than one place needs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::ledger::{BoxNo, Queued};
use posthaste_core::messaging::delivery::{DeliveryNo, Proof, Reason};
use posthaste_core::messaging::message::{
    Kind, Message, MessageId, MessageRef, Principal, Priority, Sender, Seq, ThreadId, Via,
};
use posthaste_core::ports::RecordState;
use posthaste_core::time::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::dates::Old;
use super::faults::{self, Fault, Of};

/// All columns of a message but its body, which comes last.
const HEAD: &str = "seq, id, thread, created_at, first_delivery, copies, sender, \
    sender_instance, recipient, kind, urgent, label, in_reply_to, expires_at, via, \
    idempotency_key, metadata, hop, late";

/// A message with its deliveries as they stand on disk.
#[derive(Debug)]
pub(crate) struct RawRecord {
    pub(crate) message: Arc<Message>,
    pub(crate) deliveries: Vec<RawDelivery>,
}

#[derive(Debug)]
pub(crate) struct RawDelivery {
    pub(crate) delivery: DeliveryNo,
    pub(crate) mailbox: Mailbox,
    /// `None`: open, the ledger knows more.
    pub(crate) end: Option<RecordState>,
    pub(crate) marked: bool,
    pub(crate) attempts: u8,
    pub(crate) leased_at: Option<Timestamp>,
    pub(crate) settled_at: Option<Timestamp>,
    pub(crate) by: Option<Principal>,
}

/// How far the indexes reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) seq: u64,
    pub(crate) delivery: u64,
}

/// A text as it lies in its row. An error names the column, as that of `Row::get` does.
fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    let value = row.get_ref(column)?;
    value.as_str().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), error.into())
    })
}

fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    let instance: Option<u32> = row.get(7)?;
    let urgent: bool = row.get(10)?;
    let kind = Kind::read(text(row, 9)?);
    Ok(Message {
        seq: Seq(row.get(0)?),
        id: MessageId(row.get::<_, i64>(1)?.cast_unsigned()),
        thread: ThreadId(row.get(2)?),
        created_at: Timestamp(row.get(3)?),
        from: Sender::read(text(row, 6)?, instance.map(InstanceId), &kind),
        to: row.get(8)?,
        kind,
        priority: if urgent { Priority::Urgent } else { Priority::Normal },
        label: row.get(11)?,
        in_reply_to: row.get::<_, Option<u64>>(12)?.map(Seq),
        expires_at: row.get::<_, Option<i64>>(13)?.map(Timestamp),
        via: Via::read(text(row, 14)?),
        idempotency_key: row.get(15)?,
        metadata: row.get(16)?,
        hop: row.get(17)?,
        late: row.get(18)?,
        body: text(row, 19)?.into(),
    })
}

/// Messages that were looked for.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) messages: HashMap<Seq, Arc<Message>>,
    pub(crate) unreadable: Unreadable,
}

/// Messages that could not be read.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    /// Rows that are missing or do not read as messages.
    pub(crate) faults: Vec<Fault>,
    /// Messages on damaged pages, and what SQLite says of them.
    pub(crate) damaged: Vec<Seq>,
    pub(crate) damage: Option<rusqlite::Error>,
}

impl Unreadable {
    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty() && self.damaged.is_empty()
    }
}

/// These messages with their bodies.
pub(crate) fn messages(db: &Connection, seqs: &[Seq]) -> rusqlite::Result<Found> {
    select_messages(db, seqs, "body")
}

/// These messages without their bodies.
pub(crate) fn heads(db: &Connection, seqs: &[Seq]) -> rusqlite::Result<Found> {
    select_messages(db, seqs, "''")
}

/// A row that cannot be read does not keep the others back.
fn select_messages(db: &Connection, seqs: &[Seq], body: &str) -> rusqlite::Result<Found> {
    let mut select =
        db.prepare_cached(&format!("SELECT {HEAD}, {body} AS body FROM messages WHERE seq = ?1"))?;
    let Found { mut messages, mut unreadable } = Found::default();
    for seq in seqs {
        match select.query_row(params![seq.0], message).optional() {
            Ok(Some(found)) => drop(messages.insert(*seq, Arc::new(found))),
            Ok(None) => unreadable.faults.push(Fault::missing_message(*seq)),
            Err(error) if faults::is_damage(&error) => {
                unreadable.damaged.push(*seq);
                unreadable.damage = Some(error);
            }
            Err(error) => {
                let what = faults::misread(&error, &select).ok_or(error)?;
                let what = format!("messages, row {seq}, {what}");
                unreadable.faults.push(Fault { of: Of::Message(*seq), what });
            }
        }
    }
    Ok(Found { messages, unreadable })
}

/// A message as far as it can be read, for those who look at what became of it.
fn remains(row: &Row<'_>) -> Message {
    let text = |i| match row.get_ref(i) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        _ => None,
    };
    let number = |i| row.get::<_, i64>(i).ok();
    let count = |i| number(i).and_then(|n| u64::try_from(n).ok());
    let instance = count(7).and_then(|n| u32::try_from(n).ok()).map(InstanceId);
    let kind = Kind::read(&text(9).unwrap_or_default());
    let urgent = number(10).is_some_and(|n| n != 0);
    Message {
        seq: Seq(count(0).unwrap_or_default()),
        id: MessageId(number(1).unwrap_or_default().cast_unsigned()),
        thread: ThreadId(count(2).and_then(|n| n.try_into().ok()).unwrap_or_default()),
        created_at: Timestamp(number(3).unwrap_or_default()),
        from: Sender::read(&text(6).unwrap_or_default(), instance, &kind),
        to: text(8).unwrap_or_default(),
        kind,
        priority: if urgent { Priority::Urgent } else { Priority::Normal },
        label: text(11),
        in_reply_to: count(12).map(Seq),
        expires_at: number(13).map(Timestamp),
        via: Via::read(&text(14).unwrap_or_default()),
        idempotency_key: text(15),
        metadata: text(16),
        hop: count(17).and_then(|n| n.try_into().ok()).unwrap_or_default(),
        late: number(18).is_some_and(|n| n != 0),
        body: text(19).unwrap_or_default().into(),
    }
}

/// One message with its deliveries, by number or by id.
pub(crate) fn record(db: &Connection, which: MessageRef) -> rusqlite::Result<Option<RawRecord>> {
    let seq = match which {
        MessageRef::Seq(seq) => Some(seq.0),
        MessageRef::Id(id) => by_id(db, id)?,
    };
    let Some(seq) = seq else { return Ok(None) };
    let sql = format!("SELECT {HEAD}, body FROM messages WHERE seq = ?1");
    let found = db
        .prepare_cached(&sql)?
        .query_row(params![seq], |row| {
            let count = |i| row.get::<_, u64>(i).unwrap_or_default();
            Ok((message(row).unwrap_or_else(|_| remains(row)), count(4), count(5)))
        })
        .optional()?;
    let Some((message, first, copies)) = found else { return Ok(None) };
    let mut select = db.prepare_cached(
        "SELECT d.no, m.key, d.state, d.marked, d.leased_at, d.settled_at, d.settled_by, d.how, \
         d.maybe_seen, d.attempts FROM deliveries d LEFT JOIN mailboxes m ON m.no = d.mailbox \
         WHERE d.no >= ?1 AND d.no < ?1 + ?2 ORDER BY d.no",
    )?;
    let rows = select.query_map(params![first, copies], |row| {
        // Without its mailbox it is at least the operator's to see.
        let key = row.get_ref(1)?.as_str().ok();
        Ok(RawDelivery {
            delivery: DeliveryNo(row.get(0)?),
            mailbox: key.and_then(|key| key.parse().ok()).unwrap_or(Mailbox::Human),
            end: end(row.get(2)?, row.get::<_, Option<String>>(7)?.as_deref(), row.get(8)?),
            marked: row.get(3)?,
            attempts: row.get(9).unwrap_or_default(),
            leased_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
            settled_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
            by: row.get::<_, Option<String>>(6)?.as_deref().and_then(principal),
        })
    })?;
    Ok(Some(RawRecord { message: Arc::new(message), deliveries: rows.collect::<Result<_, _>>()? }))
}

fn by_id(db: &Connection, id: MessageId) -> rusqlite::Result<Option<u64>> {
    let id = id.0.cast_signed();
    let indexed = db
        .prepare_cached("SELECT seq FROM message_ids WHERE id = ?1")?
        .query_row(params![id], |row| row.get(0))
        .optional()?;
    if indexed.is_some() {
        return Ok(indexed);
    }
    let mark = marks(db)?;
    db.prepare_cached("SELECT seq FROM messages WHERE seq > ?1 AND id = ?2")?
        .query_row(params![mark.seq, id], |row| row.get(0))
        .optional()
}

fn end(state: i64, how: Option<&str>, maybe_seen: Option<bool>) -> Option<RecordState> {
    match state {
        1 => Some(RecordState::Acked(how.and_then(Proof::read).unwrap_or(Proof::Auto))),
        2 => Some(RecordState::Dead {
            reason: how.and_then(Reason::read).unwrap_or(Reason::Cancelled),
            maybe_seen: maybe_seen.unwrap_or(false),
        }),
        _ => None,
    }
}

pub(crate) fn principal(text: &str) -> Option<Principal> {
    match text {
        "human" => Some(Principal::Operator),
        id => id.parse().ok().map(Principal::Instance),
    }
}

/// What is dead of a message.
pub(crate) struct Dead {
    /// As they would be queued again.
    pub(crate) deliveries: Vec<(BoxNo, Queued)>,
    /// Into a full mailbox, too.
    pub(crate) always_fits: bool,
}

pub(crate) fn dead_of(db: &Connection, seq: Seq) -> rusqlite::Result<Dead> {
    let kind: Option<String> = db
        .prepare_cached("SELECT kind FROM messages WHERE seq = ?1")?
        .query_row(params![seq.0], |row| row.get(0))
        .optional()?;
    let always_fits = kind.is_some_and(|kind| Kind::read(&kind).always_fits());
    let mut select = db.prepare_cached(
        "SELECT d.no, d.mailbox, d.size, d.sender, d.urgent, d.marked OR coalesce(d.maybe_seen, 0) \
         FROM messages m JOIN deliveries d \
         ON d.no >= m.first_delivery AND d.no < m.first_delivery + m.copies \
         WHERE m.seq = ?1 AND d.state = 2",
    )?;
    let rows = select.query_map(params![seq.0], |row| {
        let queued = Queued {
            delivery: DeliveryNo(row.get(0)?),
            seq,
            message: None,
            size: row.get(2)?,
            sender: row.get::<_, Option<u32>>(3)?.map(InstanceId),
            attempts: 0,
            urgent: row.get(4)?,
            marked: row.get(5)?,
            leased_before: row.get(5)?,
            doubted: false,
            expires_at: None,
        };
        Ok((row.get(1)?, queued))
    })?;
    Ok(Dead { deliveries: rows.collect::<Result<_, _>>()?, always_fits })
}

// Notes about the whole.

pub(crate) fn meta(db: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row(params![key], |row| row.get(0))
        .optional()
}

pub(crate) fn set_meta(db: &Connection, key: &str, value: i64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) \
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    )?
    .execute(params![key, value])?;
    Ok(())
}

/// When a message was accepted.
pub(crate) fn accepted_at(db: &Connection, seq: Seq) -> rusqlite::Result<Option<Timestamp>> {
    let mut select = db.prepare_cached("SELECT created_at FROM messages WHERE seq = ?1")?;
    select.query_row([seq.0], |row| row.get(0).map(Timestamp)).optional()
}

/// The highest numbers ever given: a pruned number is never given again.
pub(crate) fn counters(db: &Connection) -> rusqlite::Result<(u64, u64)> {
    let max = |sql: &str, key| -> rusqlite::Result<u64> {
        let row: Option<i64> = db.query_row(sql, [], |row| row.get(0))?;
        let noted = meta(db, key)?.unwrap_or(0);
        Ok(row.unwrap_or(0).max(noted).cast_unsigned())
    };
    Ok((
        max("SELECT max(seq) FROM messages", "last_seq")?,
        max("SELECT max(no) FROM deliveries", "last_delivery")?,
    ))
}

pub(crate) fn note_counters(db: &Connection) -> rusqlite::Result<()> {
    let (seq, delivery) = counters(db)?;
    set_meta(db, "last_seq", seq.cast_signed())?;
    set_meta(db, "last_delivery", delivery.cast_signed())
}

pub(crate) fn marks(db: &Connection) -> rusqlite::Result<Marks> {
    Ok(Marks {
        seq: meta(db, "indexed_seq")?.unwrap_or(0).cast_unsigned(),
        delivery: meta(db, "indexed_delivery")?.unwrap_or(0).cast_unsigned(),
    })
}

pub(crate) fn index(db: &Connection, from: Marks, to: Marks) -> rusqlite::Result<()> {
    let seqs = params![from.seq, to.seq];
    db.prepare_cached(
        "INSERT OR IGNORE INTO message_ids (id, seq) \
         SELECT id, seq FROM messages WHERE seq > ?1 AND seq <= ?2 ORDER BY id",
    )?
    .execute(seqs)?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO thread_index (thread, seq) \
         SELECT thread, seq FROM messages WHERE seq > ?1 AND seq <= ?2 ORDER BY thread, seq",
    )?
    .execute(seqs)?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO sender_index (sender, seq) \
         SELECT sender_instance, seq FROM messages \
         WHERE seq > ?1 AND seq <= ?2 AND sender_instance IS NOT NULL \
         ORDER BY sender_instance, seq",
    )?
    .execute(seqs)?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO reply_index (answered, seq) \
         SELECT in_reply_to, seq FROM messages \
         WHERE seq > ?1 AND seq <= ?2 AND in_reply_to IS NOT NULL ORDER BY in_reply_to, seq",
    )?
    .execute(seqs)?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO mailbox_index (mailbox, seq) \
         SELECT mailbox, seq FROM deliveries WHERE no > ?1 AND no <= ?2 ORDER BY mailbox, seq",
    )?
    .execute(params![from.delivery, to.delivery])?;
    set_meta(db, "indexed_seq", to.seq.cast_signed())?;
    set_meta(db, "indexed_delivery", to.delivery.cast_signed())
}

/// Removes a message, its deliveries and what points at it, unless one of them is
/// open: it may have been queued again since the list of the old was made.
pub(crate) fn remove_message(db: &Connection, seq: Seq) -> rusqlite::Result<()> {
    let found = db
        .prepare_cached("SELECT id, thread, first_delivery, copies FROM messages WHERE seq = ?1")?
        .query_row(params![seq.0], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, i64>(3)?,
            ))
        })
        .optional()?;
    let Some((id, thread, first, copies)) = found else { return Ok(()) };
    let is_open = db
        .prepare_cached("SELECT 1 FROM deliveries WHERE no >= ?1 AND no < ?2 AND state = 0")?
        .exists(params![first, first + copies])?;
    if is_open {
        return Ok(());
    }
    db.prepare_cached(
        "DELETE FROM sender_index WHERE seq = ?1 AND sender = \
         (SELECT sender_instance FROM messages WHERE seq = ?1)",
    )?
    .execute(params![seq.0])?;
    db.prepare_cached(
        "DELETE FROM reply_index WHERE seq = ?1 AND answered = \
         (SELECT in_reply_to FROM messages WHERE seq = ?1)",
    )?
    .execute(params![seq.0])?;
    let range = params![first, first + copies, seq.0];
    db.prepare_cached(
        "DELETE FROM mailbox_index WHERE seq = ?3 AND mailbox IN \
         (SELECT mailbox FROM deliveries WHERE no >= ?1 AND no < ?2)",
    )?
    .execute(range)?;
    for table in ["deliveries WHERE no", "delivery_notes WHERE delivery"] {
        db.prepare_cached(&format!("DELETE FROM {table} BETWEEN ?1 AND ?2 - 1"))?
            .execute(params![first, first + copies])?;
    }
    db.prepare_cached("DELETE FROM thread_index WHERE thread = ?1 AND seq = ?2")?
        .execute(params![thread, seq.0])?;
    db.prepare_cached("DELETE FROM message_ids WHERE id = ?1")?.execute(params![id])?;
    db.prepare_cached("DELETE FROM messages WHERE seq = ?1")?.execute(params![seq.0])?;
    Ok(())
}

/// Messages whose last delivery was settled long enough ago. What is open is
/// never among them, whatever its age.
pub(crate) fn prunable(
    db: &Connection,
    acked: Old,
    dead: Old,
    most: usize,
) -> rusqlite::Result<Vec<Seq>> {
    // Younger messages cannot have been settled before: stop there.
    let end: Option<i64> = db
        .prepare_cached("SELECT max(first_delivery + copies) FROM messages WHERE seq = ?1")?
        .query_row(params![last_before(db, acked)?], |row| row.get(0))?;
    let Some(end) = end else { return Ok(Vec::new()) };
    let mut select = db.prepare_cached(
        "SELECT seq, state > 0 AND CASE state WHEN 2 THEN settled_at < ?3 OR settled_at > ?5 \
         ELSE settled_at < ?2 OR settled_at > ?4 END FROM deliveries WHERE no < ?1 ORDER BY no",
    )?;
    let times = [acked.before.0, dead.before.0, acked.beyond.0, dead.beyond.0];
    let mut rows = select.query(params![end, times[0], times[1], times[2], times[3]])?;
    // The deliveries of a message stand together.
    let mut found = Vec::new();
    let mut current: Option<(Seq, bool)> = None;
    while let Some(row) = rows.next()? {
        let Ok(seq) = row.get(0).map(Seq) else { continue };
        let old = row.get::<_, Option<bool>>(1)?.unwrap_or(false);
        match &mut current {
            Some((same, all)) if *same == seq => *all &= old,
            _ => {
                found.extend(current.filter(|(_, all)| *all).map(|(seq, _)| seq));
                if found.len() >= most {
                    return Ok(found);
                }
                current = Some((seq, old));
            }
        }
    }
    found.extend(current.filter(|(_, all)| *all).map(|(seq, _)| seq));
    Ok(found)
}

/// Which of these mailboxes no delivery names.
pub(crate) fn unnamed(db: &Connection, mailboxes: &[BoxNo]) -> rusqlite::Result<Vec<BoxNo>> {
    let indexed = marks(db)?.delivery;
    let recent: HashSet<BoxNo> = db
        .prepare_cached("SELECT DISTINCT mailbox FROM deliveries WHERE no > ?1")?
        .query_map(params![indexed], |row| row.get::<_, i64>(0))?
        // A damaged number names no mailbox, and keeps none.
        .filter_map(|no| no.map(|no| BoxNo::try_from(no).ok()).transpose())
        .collect::<rusqlite::Result<_>>()?;
    let mut names = db.prepare_cached("SELECT 1 FROM mailbox_index WHERE mailbox = ?1")?;
    let mut unnamed = Vec::new();
    for no in mailboxes.iter().filter(|no| !recent.contains(no)) {
        if !names.exists(params![no])? {
            unnamed.push(*no);
        }
    }
    Ok(unnamed)
}

/// Removes the old rows of an appended table, up to the first young one.
pub(crate) fn forget(db: &Connection, table: &'static str, old: Old) -> rusqlite::Result<()> {
    let first = format!("SELECT no FROM {table} WHERE at BETWEEN ?1 AND ?2 ORDER BY no LIMIT 1");
    let first: Option<i64> = db
        .prepare_cached(&first)?
        .query_row(params![old.before.0, old.now.0], |row| row.get(0))
        .optional()?;
    let delete = format!("DELETE FROM {table} WHERE no < ?1 AND (at < ?2 OR at > ?3)");
    let first = first.unwrap_or(i64::MAX);
    db.prepare_cached(&delete)?.execute(params![first, old.before.0, old.beyond.0])?;
    Ok(())
}

/// The last message that may be old, by bisection: numbers and times grow together, and
/// those of the future were accepted before this start.
fn last_before(db: &Connection, old: Old) -> rusqlite::Result<u64> {
    let bounds = |sql| db.query_row::<Option<u64>, _, _>(sql, [], |row| row.get(0));
    let (Some(mut low), Some(mut high)) =
        (bounds("SELECT min(seq) FROM messages")?, bounds("SELECT max(seq) FROM messages")?)
    else {
        return Ok(0);
    };
    let mut at =
        db.prepare_cached("SELECT created_at FROM messages WHERE seq >= ?1 ORDER BY seq LIMIT 1")?;
    let mut is_old = |seq: u64| -> rusqlite::Result<bool> {
        let at = at.query_row(params![seq], |row| row.get(0).map(Timestamp))?;
        Ok(at < old.before || at > old.now)
    };
    if !is_old(low)? {
        return Ok(0);
    }
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if is_old(middle)? { low = middle } else { high = middle - 1 }
    }
    Ok(low)
}
