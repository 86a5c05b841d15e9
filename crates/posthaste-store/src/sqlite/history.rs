//! Looking through what is kept: stretches of history, replies, notes.

use posthaste_core::messaging::delivery::{DeliveryNo, Reason};
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::store::{HistoryLook, HistoryPart, Source, StoredRecord};
use posthaste_core::ports::{Note, Noted};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, ToSql, params};

use super::errors::ReadResult;
use super::rows::meta::marks;
use super::rows::record::records;
use super::rows::{Cells, Table, principal};

/// The next messages of a stretch.
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
    part.reached = records(db, seqs, look.bytes, &mut part.records)?;
    Ok(part)
}

/// Numbers from the indexes, and from the short tail that is not indexed yet.
fn candidates(
    db: &Connection,
    source: &Source,
    look: &HistoryLook,
    seqs: &mut Vec<u64>,
) -> ReadResult<()> {
    // The mark first: what is indexed meanwhile is found twice, not missed.
    let marks = marks(db)?;
    let below = look.below.min(i64::MAX as u64);
    let order = if look.forward { "ASC" } else { "DESC" };
    let mut add = |sql: &str, of: &dyn ToSql, above: u64| -> ReadResult<()> {
        let sql = format!("{sql} AND seq > ?2 AND seq < ?3 ORDER BY seq {order} LIMIT ?4");
        let mut select = db.prepare_cached(&sql)?;
        let rows = select.query_map(params![of, above, below, look.most], |row| row.get(0))?;
        for seq in rows {
            seqs.push(seq?);
        }
        Ok(())
    };
    let above = look.above;
    let tail = above.max(marks.seq);
    match source {
        Source::All => add("SELECT seq FROM messages WHERE ?1", &true, above),
        Source::Thread(thread) => {
            add("SELECT seq FROM thread_index WHERE thread = ?1", &thread.0, above)?;
            add("SELECT seq FROM messages WHERE thread = ?1", &thread.0, tail)
        }
        Source::Sender(id) => {
            add("SELECT seq FROM sender_index WHERE sender = ?1", &id.0, above)?;
            add("SELECT seq FROM messages WHERE sender_instance = ?1", &id.0, tail)
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
                add("SELECT seq FROM mailbox_index WHERE mailbox = ?1", no, above)?;
            }
            let sql = format!(
                "SELECT seq, mailbox FROM deliveries WHERE no > ?1 AND seq > ?2 AND seq < ?3 \
                 ORDER BY no {order}"
            );
            let mut select = db.prepare_cached(&sql)?;
            let mut rows = select.query(params![marks.delivery, above, below])?;
            let mut left = look.most;
            while left > 0
                && let Some(row) = rows.next()?
            {
                if boxes.contains(&row.get(1)?) {
                    seqs.push(row.get(0)?);
                    left -= 1;
                }
            }
            Ok(())
        }
    }
}

/// Messages that name this one in `in_reply_to`, oldest first.
pub(crate) fn replies(db: &Connection, to: Seq, most: usize) -> ReadResult<Vec<StoredRecord>> {
    let marks = marks(db)?;
    let mut seqs: Vec<u64> = Vec::new();
    for (sql, above) in [
        ("SELECT seq FROM reply_index WHERE answered = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3", 0),
        (
            "SELECT seq FROM messages WHERE in_reply_to = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
            marks.seq,
        ),
    ] {
        let mut select = db.prepare_cached(sql)?;
        let rows = select.query_map(params![to.0, above, most], |row| row.get(0))?;
        for seq in rows {
            seqs.push(seq?);
        }
    }
    seqs.sort_unstable();
    seqs.dedup();
    seqs.truncate(most);
    let mut found = Vec::with_capacity(seqs.len());
    records(db, seqs, usize::MAX, &mut found)?;
    Ok(found)
}

static NOTES: Table = Table {
    name: "delivery_notes",
    key: "no",
    columns: &["no", "delivery", "at", "what", "by", "why"],
};

/// What was noted of these deliveries, oldest first.
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
