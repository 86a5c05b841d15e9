//! Which messages are in a thread, from a sender, in a mailbox, or answer another: lists of
//! numbers, filled behind, since nothing on the send path may have a random key.
//!
//! A step takes some thousand messages and writes one row for each thread, sender, mailbox
//! and answered message among them. What is above the marks ([`Marks`]) is in no list: a
//! question also looks at that short tail.

mod numbers;

use posthaste_core::Map;
use rusqlite::{Connection, params};

use self::numbers::{decode, encode};
use super::errors::ReadResult;
use super::rows::meta::{self, Marks};

/// Numbers of one list: about as much as fits into a leaf of the tree.
const LIST: usize = 1_000;

/// What a list is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Of {
    Thread(u32),
    Sender(u32),
    Mailbox(u32),
    /// The message that is answered.
    Reply(u64),
}

impl Of {
    /// As it is written down: a kind and a number.
    pub(crate) fn key(self) -> (i64, i64) {
        match self {
            Self::Thread(id) => (1, id.into()),
            Self::Sender(id) => (2, id.into()),
            Self::Mailbox(no) => (3, no.into()),
            Self::Reply(seq) => (4, seq.cast_signed()),
        }
    }
}

/// Numbers that are looked for: between two others, from one end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) above: u64,
    pub(crate) below: u64,
    pub(crate) forward: bool,
    pub(crate) most: usize,
}

impl Stretch {
    pub(crate) const ALL: Self =
        Self { above: 0, below: i64::MAX as u64, forward: true, most: usize::MAX };
}

/// Lists that may have numbers above `?3` and below `?4`. The one before may reach above.
macro_rules! lists_between {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM seq_lists WHERE kind = ?1 AND of = ?2 AND first < ?4 AND last > ?3 \
             AND first >= coalesce((SELECT max(first) FROM seq_lists \
             WHERE kind = ?1 AND of = ?2 AND first <= ?3), 0)"
        )
    };
}
/// Adds the messages of a stretch, in its order.
pub(crate) fn seqs(
    db: &Connection,
    of: Of,
    stretch: Stretch,
    into: &mut Vec<u64>,
) -> ReadResult<()> {
    let Stretch { above, below, forward, most } = stretch;
    let mut select = db.prepare_cached(match forward {
        true => concat!(lists_between!("first, list"), " ORDER BY first"),
        false => concat!(lists_between!("first, list"), " ORDER BY first DESC"),
    })?;
    let (kind, of) = of.key();
    let mut rows = select.query(params![kind, of, above, below])?;
    let end = into.len().saturating_add(most);
    let mut list = Vec::new();
    while into.len() < end
        && let Some(row) = rows.next()?
    {
        list.clear();
        decode(row.get(0)?, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?, &mut list);
        list.retain(|seq| above < *seq && *seq < below);
        if !forward {
            list.reverse();
        }
        list.truncate(end - into.len());
        into.append(&mut list);
    }
    Ok(())
}

/// Messages that are to be written into lists.
#[derive(Debug)]
pub(crate) struct Batch {
    lists: Vec<(Of, Vec<u64>)>,
    upto: Marks,
}

impl Batch {
    /// Reads what is above `from`, up to `upto`.
    pub(crate) fn gather(db: &Connection, from: Marks, upto: Marks) -> ReadResult<Self> {
        let mut lists: Map<Of, Vec<u64>> = Map::default();
        let mut select = db.prepare_cached(
            "SELECT seq, thread, sender_instance, in_reply_to FROM messages \
             WHERE seq > ?1 AND seq <= ?2 ORDER BY seq",
        )?;
        let mut rows = select.query(params![from.seq, upto.seq])?;
        while let Some(row) = rows.next()? {
            // What cannot be read is in no list: it is found by its number.
            let Ok(seq) = row.get(0) else { continue };
            if let Ok(thread) = row.get(1) {
                lists.entry(Of::Thread(thread)).or_default().push(seq);
            }
            if let Ok(Some(sender)) = row.get(2) {
                lists.entry(Of::Sender(sender)).or_default().push(seq);
            }
            if let Ok(Some(answered)) = row.get(3) {
                lists.entry(Of::Reply(answered)).or_default().push(seq);
            }
        }
        let mut select = db.prepare_cached(
            "SELECT mailbox, seq FROM deliveries WHERE no > ?1 AND no <= ?2 ORDER BY no",
        )?;
        let mut rows = select.query(params![from.delivery, upto.delivery])?;
        while let Some(row) = rows.next()? {
            if let (Ok(mailbox), Ok(seq)) = (row.get(0), row.get(1)) {
                lists.entry(Of::Mailbox(mailbox)).or_default().push(seq);
            }
        }
        let mut lists: Vec<(Of, Vec<u64>)> = lists.into_iter().collect();
        lists.sort_unstable_by_key(|(of, _)| *of);
        for (_, seqs) in &mut lists {
            // Numbers of deliveries and of messages grow together, unless a row is damaged.
            seqs.sort_unstable();
            seqs.dedup();
        }
        Ok(Self { lists, upto })
    }

    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut insert = db.prepare_cached(
            "INSERT OR REPLACE INTO seq_lists (kind, of, first, last, count, list) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for (of, seqs) in &self.lists {
            let (kind, of) = of.key();
            for part in seqs.chunks(LIST) {
                let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
                let list = encode(*first, part);
                insert.execute(params![kind, of, first, last, part.len(), list])?;
            }
        }
        meta::set(db, "indexed_seq", self.upto.seq)?;
        meta::set(db, "indexed_delivery", self.upto.delivery)
    }
}

/// Removes these messages, in order, from the lists of one thread, sender or mailbox.
pub(crate) fn remove(db: &Connection, of: Of, seqs: &[u64]) -> rusqlite::Result<()> {
    let (Some(lowest), Some(highest)) = (seqs.first(), seqs.last()) else { return Ok(()) };
    let (kind, of) = of.key();
    let mut select = db.prepare_cached(lists_between!("first, list"))?;
    let mut rows = select.query(params![kind, of, lowest - 1, highest + 1])?;
    let mut changed = Vec::new();
    while let Some(row) = rows.next()? {
        let first: u64 = row.get(0)?;
        let mut left = Vec::new();
        decode(first, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?, &mut left);
        let before = left.len();
        left.retain(|seq| seqs.binary_search(seq).is_err());
        if left.len() < before {
            changed.push((first, left));
        }
    }
    drop(rows);
    for (first, left) in changed {
        match left.last() {
            Some(last) => db
                .prepare_cached(
                    "UPDATE seq_lists SET last = ?4, count = ?5, list = ?6 \
                     WHERE kind = ?1 AND of = ?2 AND first = ?3",
                )?
                .execute(params![kind, of, first, last, left.len(), encode(first, &left)])?,
            None => db
                .prepare_cached("DELETE FROM seq_lists WHERE kind = ?1 AND of = ?2 AND first = ?3")?
                .execute(params![kind, of, first])?,
        };
    }
    Ok(())
}
