//! Idempotency keys: one list for each transaction, since a row for each key would cost a
//! send a tenth of its time.
//!
//! Behind, some thousand keys at a time are sorted into a run, which has one part for each
//! first byte of a digest. A key is looked for in one part of each run, and in the few
//! lists that are in no run yet. Runs are only appended: no page in the middle of a tree is
//! touched.

use posthaste_core::ledger::KeyDigest;
use posthaste_core::messaging::message::Seq;
use posthaste_core::ports::change::Old;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::errors::ReadResult;
use super::prune::forget_old;
use super::reader::at_one_moment;
use super::rows::meta;

/// In a list: 16 bytes of digest, 8 of the message's number.
const ENTRY: usize = 24;
/// In a run: the same, and 8 of its time.
const SORTED: usize = 32;
/// Keys of one run.
pub(crate) const RUN: u64 = 8_192;
/// Parts of a run.
const PARTS: u64 = 256;
/// The last list that is in a run.
const MARK: &str = "sorted_key_list";

/// The keys of one transaction.
#[derive(Default)]
pub(crate) struct KeyList {
    at: Timestamp,
    list: Vec<u8>,
}

impl KeyList {
    pub(crate) fn add(&mut self, key: KeyDigest, seq: Seq, at: Timestamp) {
        // The list is forgotten when its last key is.
        self.at = self.at.max(at);
        self.list.extend_from_slice(&key.0.to_be_bytes());
        self.list.extend_from_slice(&seq.0.to_be_bytes());
    }

    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        if !self.list.is_empty() {
            db.prepare_cached("INSERT INTO key_lists (at, list) VALUES (?1, ?2)")?
                .execute(params![self.at.0, self.list])?;
        }
        Ok(())
    }
}

/// The keys of a list that was read back.
pub(crate) fn entries(list: &[u8]) -> impl Iterator<Item = (KeyDigest, Seq)> {
    list.as_chunks::<ENTRY>().0.iter().filter_map(|entry| {
        let (key, seq) = entry.split_first_chunk::<16>()?;
        let seq = seq.try_into().map(u64::from_be_bytes).ok()?;
        Some((KeyDigest(u128::from_be_bytes(*key)), Seq(seq)))
    })
}

/// How many keys there are in the lists after this one, counted until there are `enough`.
pub(crate) fn count(db: &Connection, after: u64, enough: u64) -> ReadResult<u64> {
    let mut select = db.prepare("SELECT length(list) FROM key_lists WHERE no > ?1 ORDER BY no")?;
    let mut rows = select.query(params![after])?;
    let mut count = 0;
    while count < enough
        && let Some(row) = rows.next()?
    {
        count += row.get::<_, u64>(0)? / ENTRY as u64;
    }
    Ok(count)
}

/// The last list that is in a run.
pub(crate) fn sorted(db: &Connection) -> ReadResult<u64> {
    meta::number(db, MARK)
}

/// The last message that was accepted under this key and is not older than `since`.
pub(crate) fn find(
    db: &Connection,
    digest: KeyDigest,
    since: Timestamp,
) -> ReadResult<Option<Seq>> {
    // What is being sorted at this moment is found in one of the two places. Younger keys
    // are in later lists, and those are in no run yet.
    at_one_moment(db, || match in_lists(db, digest, since)? {
        None => in_runs(db, digest, since),
        found => Ok(found),
    })
}

fn in_lists(db: &Connection, digest: KeyDigest, since: Timestamp) -> ReadResult<Option<Seq>> {
    let mut select = db.prepare_cached("SELECT list FROM key_lists WHERE no > ?1 AND at >= ?2")?;
    let mut rows = select.query(params![sorted(db)?, since.0])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let list = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let found = entries(list).filter(|(key, _)| *key == digest).map(|(_, seq)| seq).max();
        last = last.max(found);
    }
    Ok(last)
}

fn in_runs(db: &Connection, digest: KeyDigest, since: Timestamp) -> ReadResult<Option<Seq>> {
    let Some((first, last)) = runs(db)? else { return Ok(None) };
    let wanted = digest.0.to_be_bytes();
    let mut part = db.prepare_cached("SELECT list FROM key_runs WHERE no = ?1 AND at >= ?2")?;
    for run in (first..=last).rev() {
        let mut rows = part.query(params![run * PARTS + u64::from(wanted[0]), since.0])?;
        let Some(row) = rows.next()? else { continue };
        let list = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let of_key = list.as_chunks::<SORTED>().0.iter().filter(|entry| entry[..16] == wanted);
        let young = of_key.filter(|entry| number(&entry[24..]).cast_signed() >= since.0);
        let found = young.map(|entry| Seq(number(&entry[16..24]))).max();
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}

/// The first and the last run.
fn runs(db: &Connection) -> ReadResult<Option<(u64, u64)>> {
    let end = |sql| db.prepare_cached(sql)?.query_row([], |row| row.get::<_, Option<u64>>(0));
    let first = end("SELECT min(no) FROM key_runs")?;
    let last = end("SELECT max(no) FROM key_runs")?;
    Ok(first.zip(last).map(|(first, last)| (first / PARTS, last / PARTS)))
}

/// Keys that are to be one run.
pub(crate) struct Run {
    parts: Vec<Vec<u8>>,
    /// Of the last key.
    at: Timestamp,
    /// The last list that is in it.
    upto: u64,
    pub(crate) keys: u64,
}

impl Run {
    /// The next keys that are in no run yet; `None` if there are too few.
    pub(crate) fn gather(db: &Connection) -> ReadResult<Option<Self>> {
        let mut select =
            db.prepare_cached("SELECT no, at, list FROM key_lists WHERE no > ?1 ORDER BY no")?;
        let mut rows = select.query(params![sorted(db)?])?;
        let (at, parts) = (Timestamp(i64::MIN), vec![Vec::new(); 256]);
        let mut run = Self { parts, at, upto: 0, keys: 0 };
        while run.keys < RUN {
            let Some(row) = rows.next()? else { return Ok(None) };
            let at = Timestamp(row.get(1)?);
            (run.upto, run.at) = (row.get(0)?, run.at.max(at));
            let list = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
            for entry in list.as_chunks::<ENTRY>().0 {
                let part = &mut run.parts[usize::from(entry[0])];
                part.extend_from_slice(entry);
                part.extend_from_slice(&at.0.to_be_bytes());
                run.keys += 1;
            }
        }
        Ok(Some(run))
    }

    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let last: Option<u64> =
            db.query_row("SELECT max(no) FROM key_runs", [], |row| row.get(0))?;
        let run = last.map_or(0, |last| last / PARTS + 1);
        let mut insert =
            db.prepare_cached("INSERT INTO key_runs (no, at, list) VALUES (?1, ?2, ?3)")?;
        for (part, list) in (run * PARTS..).zip(&self.parts) {
            if !list.is_empty() {
                insert.execute(params![part, self.at.0, list])?;
            }
        }
        meta::set(db, MARK, self.upto)
    }
}

/// Forgets keys that are old.
pub(crate) fn forget(db: &Connection, old: Old) -> rusqlite::Result<()> {
    forget_old(db, "key_lists", old)?;
    forget_old(db, "key_runs", old)
}

#[cfg(test)]
mod tests {
    use super::super::migrate::MIGRATIONS;
    use super::*;

    /// Digests as random as those of SHA-256.
    fn digest(of: u64) -> KeyDigest {
        let mixed = u128::from(of).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        KeyDigest(mixed ^ mixed >> 61)
    }

    fn database() -> Connection {
        let db = Connection::open_in_memory().expect("a database");
        MIGRATIONS.iter().for_each(|step| db.execute_batch(step).expect("the schema"));
        db
    }

    /// Lists of seven keys; every 1,000th key is that of 999 messages before.
    fn lists(db: &Connection, seqs: std::ops::Range<u64>) {
        let seqs: Vec<u64> = seqs.collect();
        for part in seqs.chunks(7) {
            let mut list = KeyList::default();
            for seq in part {
                let of = if seq % 1_000 == 999 { seq - 999 } else { *seq };
                list.add(digest(of), Seq(*seq), Timestamp(seq.cast_signed()));
            }
            list.write(db).expect("written");
        }
    }

    fn check(db: &Connection, last: u64) {
        let find = |of, since| find(db, digest(of), Timestamp(since)).expect("a look");
        for seq in (1..last).step_by(97) {
            let newest = match seq % 1_000 {
                0 if seq + 999 < last => Some(Seq(seq + 999)),
                999 => None,
                _ => Some(Seq(seq)),
            };
            assert_eq!(find(seq, 0), newest, "{seq}");
            assert_eq!(find(seq, last.cast_signed()), None, "{seq} is too old");
        }
        assert_eq!(find(last + 5, 0), None);
    }

    #[test]
    fn a_key_is_found_in_lists_and_in_runs() {
        let db = database();
        assert!(Run::gather(&db).expect("a look").is_none());
        lists(&db, 0..8_000);
        assert!(Run::gather(&db).expect("a look").is_none(), "too few");
        check(&db, 8_000);
        lists(&db, 8_000..30_000);
        check(&db, 30_000);
        let mut sorted = 0;
        while let Some(run) = Run::gather(&db).expect("a look") {
            run.write(&db).expect("written");
            sorted += run.keys;
            check(&db, 30_000);
        }
        assert!((24_576..24_600).contains(&sorted), "{sorted}");
        assert_eq!(count(&db, super::sorted(&db).expect("a mark"), u64::MAX).expect("a count"), {
            30_000 - sorted
        });
        lists(&db, 30_000..31_000);
        check(&db, 31_000);
    }

    #[test]
    fn old_keys_are_forgotten_in_both() {
        let db = database();
        lists(&db, 0..20_000);
        while let Some(run) = Run::gather(&db).expect("a look") {
            run.write(&db).expect("written");
        }
        let (now, before) = (Timestamp(20_000), Timestamp(12_000));
        forget(&db, Old { before, beyond: Timestamp(i64::MAX), now }).expect("forgotten");
        let rows = |table: &str| -> u64 {
            let sql = format!("SELECT count(*) FROM {table}");
            db.query_row(&sql, [], |row| row.get(0)).expect("a count")
        };
        assert_eq!(rows("key_runs"), 256, "the second run has younger keys");
        assert!((1_140..1_150).contains(&rows("key_lists")), "{}", rows("key_lists"));
        assert_eq!(find(&db, digest(15_001), Timestamp(0)).expect("a look"), Some(Seq(15_001)));
        assert_eq!(find(&db, digest(5_001), Timestamp(0)).expect("a look"), None);
    }
}
