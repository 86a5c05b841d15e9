//! Finds messages that were kept long enough, and removes them.

use std::collections::HashSet;

use posthaste_core::Map;
use posthaste_core::ledger::BoxNo;
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::change::Old;
use posthaste_core::ports::store::{Aged, Ages};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::errors::ReadResult;
use super::index::{self, Of};
use super::rows::meta::marks;
use super::{events, needs};

/// Lists the messages whose last delivery was settled long enough ago. A message with an
/// open delivery is never among them, whatever its age.
pub(crate) fn aged(db: &Connection, ages: Ages, most: usize) -> ReadResult<Aged> {
    Ok(Aged {
        messages: messages(db, ages, most)?,
        has_events: events::has_old(db, ages.events)?,
        has_needs: needs::has_old(db, ages.needs)?,
    })
}

fn messages(db: &Connection, Ages { acked, dead, .. }: Ages, most: usize) -> ReadResult<Vec<Seq>> {
    // Younger messages cannot have been settled before this: stop there.
    let end: Option<i64> = db
        .prepare_cached("SELECT max(first_delivery + copies) FROM messages WHERE seq = ?1")?
        .query_row(params![last_before(db, acked, dead)?], |row| row.get(0))?;
    let Some(end) = end else { return Ok(Vec::new()) };
    let mut select = db.prepare_cached(
        "SELECT seq, state > 0 AND CASE state WHEN 2 THEN settled_at < ?3 OR settled_at > ?5 \
         ELSE settled_at < ?2 OR settled_at > ?4 END FROM deliveries WHERE no < ?1 ORDER BY no",
    )?;
    let times = [acked.before.0, dead.before.0, acked.beyond.0, dead.beyond.0];
    let mut rows = select.query(params![end, times[0], times[1], times[2], times[3]])?;
    // The deliveries of a message have consecutive numbers.
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

/// Finds the last message that may be old, by bisection: numbers and times grow together,
/// and messages of the future were accepted before this start.
fn last_before(db: &Connection, acked: Old, dead: Old) -> ReadResult<u64> {
    let young = acked.before.max(dead.before);
    let bounds = |sql| db.query_row::<Option<u64>, _, _>(sql, [], |row| row.get(0));
    let (Some(mut low), Some(mut high)) =
        (bounds("SELECT min(seq) FROM messages")?, bounds("SELECT max(seq) FROM messages")?)
    else {
        return Ok(0);
    };
    let mut at =
        db.prepare_cached("SELECT created_at FROM messages WHERE seq >= ?1 ORDER BY seq LIMIT 1")?;
    let mut is_old = |seq: u64| -> ReadResult<bool> {
        let at = at.query_row(params![seq], |row| row.get(0).map(Timestamp))?;
        Ok(at < young || at > acked.now)
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

/// Removes messages with their deliveries, notes and index entries. Skips a message that
/// has an open delivery: it may have been queued again since the list was made.
pub(crate) fn remove_messages(
    db: &Connection,
    seqs: &[Seq],
    first_made_id: u64,
) -> rusqlite::Result<()> {
    let mut listed: Map<Of, Vec<u64>> = Map::default();
    for seq in seqs {
        remove_message(db, seq.0, first_made_id, &mut listed)?;
    }
    for (of, mut seqs) in listed {
        seqs.sort_unstable();
        index::remove(db, of, &seqs)?;
    }
    Ok(())
}

/// Removes one message, and adds the lists that may name it to `listed`.
fn remove_message(
    db: &Connection,
    seq: u64,
    first_made_id: u64,
    listed: &mut Map<Of, Vec<u64>>,
) -> rusqlite::Result<()> {
    let mut select = db.prepare_cached(
        "SELECT id, first_delivery, copies, thread, sender_instance, in_reply_to \
         FROM messages WHERE seq = ?1",
    )?;
    let mut rows = select.query(params![seq])?;
    let Some(row) = rows.next()? else { return Ok(()) };
    let (id, first, copies): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let deliveries = params![first, first + copies];
    let is_open = db
        .prepare_cached("SELECT 1 FROM deliveries WHERE no >= ?1 AND no < ?2 AND state = 0")?
        .exists(deliveries)?;
    if is_open {
        return Ok(());
    }
    // A value that cannot be read is in no list.
    let mut lists: Vec<Of> = row.get(3).map(Of::Thread).into_iter().collect();
    lists.extend(row.get::<_, Option<u32>>(4).ok().flatten().map(Of::Sender));
    lists.extend(row.get::<_, Option<u64>>(5).ok().flatten().map(Of::Reply));
    let mut select =
        db.prepare_cached("SELECT mailbox FROM deliveries WHERE no >= ?1 AND no < ?2")?;
    let mut boxes = select.query(deliveries)?;
    while let Some(row) = boxes.next()? {
        lists.extend(row.get(0).ok().map(Of::Mailbox));
    }
    for of in lists {
        listed.entry(of).or_default().push(seq);
    }
    for table in ["deliveries WHERE no", "delivery_notes WHERE delivery"] {
        db.prepare_cached(&format!("DELETE FROM {table} BETWEEN ?1 AND ?2 - 1"))?
            .execute(deliveries)?;
    }
    if seq < first_made_id {
        db.prepare_cached("DELETE FROM message_ids WHERE id = ?1")?.execute(params![id])?;
    }
    db.prepare_cached("DELETE FROM messages WHERE seq = ?1")?.execute(params![seq])?;
    Ok(())
}

/// Notes the highest numbers before messages are removed: no number is given again.
pub(crate) fn note_last_numbers(db: &Connection) -> rusqlite::Result<()> {
    for (key, highest) in [
        ("last_seq", "SELECT max(seq) FROM messages"),
        ("last_delivery", "SELECT max(no) FROM deliveries"),
    ] {
        let sql = format!(
            "INSERT INTO meta (key, value) VALUES (?1, coalesce(({highest}), 0)) \
             ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)"
        );
        db.prepare_cached(&sql)?.execute(params![key])?;
    }
    Ok(())
}

/// Removes the old rows of an appended table, up to the first young one.
pub(crate) fn forget_old(db: &Connection, table: &'static str, old: Old) -> rusqlite::Result<()> {
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

/// Returns those of the mailboxes that no kept delivery names.
pub(crate) fn unnamed(db: &Connection, mailboxes: &[BoxNo]) -> ReadResult<Vec<BoxNo>> {
    let indexed = marks(db)?.delivery;
    let recent: HashSet<BoxNo> = db
        .prepare_cached("SELECT DISTINCT mailbox FROM deliveries WHERE no > ?1")?
        .query_map(params![indexed], |row| row.get::<_, i64>(0))?
        // A damaged number names no mailbox, and keeps none.
        .filter_map(|no| no.map(|no| BoxNo::try_from(no).ok()).transpose())
        .collect::<rusqlite::Result<_>>()?;
    let mut names = db.prepare_cached("SELECT 1 FROM seq_lists WHERE kind = ?1 AND of = ?2")?;
    let mut unnamed = Vec::new();
    for no in mailboxes.iter().filter(|no| !recent.contains(no)) {
        let (kind, of) = Of::Mailbox(*no).key();
        if !names.exists(params![kind, of])? {
            unnamed.push(*no);
        }
    }
    Ok(unnamed)
}
