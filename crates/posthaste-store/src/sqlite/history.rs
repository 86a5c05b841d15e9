//! Queries of the history: stretches of messages, replies, notes.

use std::collections::HashSet;

use posthaste_core::ledger::BoxNo;
use posthaste_core::messaging::delivery::{DeliveryNo, Reason};
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::store::{HistoryLook, HistoryPart, Source, StoredRecord};
use posthaste_core::ports::{Note, Noted};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::errors::ReadResult;
use super::index::{self, Of, Stretch};
use super::rows::meta::marks;
use super::rows::record::{fitting, record};
use super::rows::{Cells, Table, principal};

/// Returns the next messages of a stretch.
pub(crate) fn part(db: &Connection, look: &HistoryLook) -> ReadResult<HistoryPart> {
    let mut seqs = Vec::new();
    for source in look.sources.iter() {
        candidates(db, source, look, &mut seqs)?;
    }
    seqs.sort_unstable();
    if !look.forward {
        seqs.reverse();
    }
    seqs.dedup();
    seqs.truncate(look.most);
    let mut part = HistoryPart::default();
    let mut held = 0;
    for seq in seqs {
        part.reached = Some(seq);
        if let Some(record) = record(db, seq)? {
            held += record.message.body.len();
            part.records.push(record);
            if held >= look.bytes {
                break;
            }
        }
    }
    Ok(part)
}

/// Adds the numbers from the index lists, and from the short tail that is in no list yet.
fn candidates(
    db: &Connection,
    source: &Source,
    look: &HistoryLook,
    seqs: &mut Vec<u64>,
) -> ReadResult<()> {
    let stretch = Stretch {
        above: look.above,
        below: look.below.min(i64::MAX as u64),
        forward: look.forward,
        most: look.most,
    };
    let (above, below) = (stretch.above, stretch.below);
    let marks = marks(db)?;
    let tail = Stretch { above: above.max(marks.seq), ..stretch };
    match source {
        Source::All => select(db, "true", 0, stretch, seqs),
        Source::Thread(thread) => {
            index::seqs(db, Of::Thread(thread.0), stretch, seqs)?;
            select(db, "thread = ?1", thread.0.into(), tail, seqs)
        }
        Source::Sender(id) => {
            index::seqs(db, Of::Sender(id.0), stretch, seqs)?;
            select(db, "sender_instance = ?1", id.0.into(), tail, seqs)
        }
        Source::Listed(listed) => {
            let inside = listed.iter().map(|seq| seq.0).filter(|seq| above < *seq && *seq < below);
            match look.forward {
                true => seqs.extend(inside.take(look.most)),
                false => seqs.extend(inside.rev().take(look.most)),
            }
            Ok(())
        }
        Source::Mailboxes(boxes) => {
            for no in boxes {
                index::seqs(db, Of::Mailbox(*no), stretch, seqs)?;
            }
            in_mailboxes(db, boxes, marks.delivery, stretch, seqs)
        }
    }
}

/// Adds the messages for which `is_wanted` holds, with `of` as its first parameter.
fn select(
    db: &Connection,
    is_wanted: &str,
    of: i64,
    Stretch { above, below, forward, most }: Stretch,
    seqs: &mut Vec<u64>,
) -> ReadResult<()> {
    let order = if forward { "ASC" } else { "DESC" };
    let sql = format!(
        "SELECT seq FROM messages WHERE ?1 IS NOT NULL AND {is_wanted} AND seq > ?2 AND seq < ?3 \
         ORDER BY seq {order} LIMIT ?4"
    );
    let mut select = db.prepare_cached(&sql)?;
    for seq in select.query_map(params![of, above, below, most], |row| row.get(0))? {
        seqs.push(seq?);
    }
    Ok(())
}

/// Adds the messages with deliveries after number `after` in any of the mailboxes.
fn in_mailboxes(
    db: &Connection,
    boxes: &[BoxNo],
    after: u64,
    Stretch { above, below, forward, most }: Stretch,
    seqs: &mut Vec<u64>,
) -> ReadResult<()> {
    let order = if forward { "ASC" } else { "DESC" };
    let sql = format!(
        "SELECT seq, mailbox FROM deliveries WHERE no > ?1 AND seq > ?2 AND seq < ?3 \
         ORDER BY no {order}"
    );
    let boxes: HashSet<i64> = boxes.iter().map(|no| i64::from(*no)).collect();
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params![after, above, below])?;
    let (mut left, mut last) = (most, None);
    while left > 0
        && let Some(row) = rows.next()?
    {
        let seq = row.get(0)?;
        // The deliveries of a message have consecutive numbers.
        if last != Some(seq) && boxes.contains(&row.get(1)?) {
            seqs.push(seq);
            last = Some(seq);
            left -= 1;
        }
    }
    Ok(())
}

/// Returns the messages that name this one in `in_reply_to`, oldest first.
pub(crate) fn replies(db: &Connection, to: Seq, most: usize) -> ReadResult<Vec<StoredRecord>> {
    let mut seqs = Vec::new();
    let tail = Stretch { above: marks(db)?.seq, most, ..Stretch::ALL };
    index::seqs(db, Of::Reply(to.0), Stretch { most, ..Stretch::ALL }, &mut seqs)?;
    select(db, "in_reply_to = ?1", to.0.cast_signed(), tail, &mut seqs)?;
    seqs.sort_unstable();
    seqs.dedup();
    seqs.truncate(most);
    fitting(db, seqs, usize::MAX)
}

static NOTES: Table = Table {
    name: "delivery_notes",
    key: "no",
    columns: &["no", "delivery", "at", "what", "by", "why"],
};

/// Returns the notes of these deliveries, oldest first.
pub(crate) fn notes(db: &Connection, first: DeliveryNo, last: DeliveryNo) -> ReadResult<Vec<Note>> {
    let mut select =
        db.prepare_cached(&NOTES.select("WHERE delivery BETWEEN ?1 AND ?2 ORDER BY no"))?;
    let mut rows = select.query(params![first.0, last.0])?;
    let mut notes = Vec::new();
    while let Some(row) = rows.next()? {
        let cells = Cells::new(&NOTES, row);
        let noted = match cells.text("what")? {
            "refused" => Noted::Refused(cells.read_optional("by", principal)?),
            "requeued" => Noted::Requeued(cells.read_optional("why", Reason::read)?),
            "unreadable" => {
                Noted::Unreadable(cells.optional_text("why")?.unwrap_or_default().into())
            }
            other => return Err(cells.misread("what", &format!("`{other}` is no value"))),
        };
        let delivery = DeliveryNo(cells.get("delivery")?);
        notes.push(Note { delivery, at: Timestamp(cells.get("at")?), noted });
    }
    Ok(notes)
}
