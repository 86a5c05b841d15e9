//! Counts messages, by the indexes and the short unindexed tail.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use posthaste_core::address::InstanceId;
use posthaste_core::messaging::message::{Seq, ThreadId};
use posthaste_core::ports::ThreadSummary;
use posthaste_core::ports::store::{CountsOf, StoredCounts};
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::errors::ReadResult;
use super::index::{self, Of, Stretch};
use super::rows::meta::marks;

/// A single statement sees a single state: the mark and the index cannot drift apart.
const MAILBOXES: &str = "SELECT of, sum(n) FROM ( \
    SELECT of, sum(count) AS n FROM seq_lists WHERE kind = 3 GROUP BY of \
    UNION ALL \
    SELECT mailbox, count(*) FROM deliveries WHERE no > \
        coalesce((SELECT value FROM meta WHERE key = 'indexed_delivery'), 0) GROUP BY mailbox \
    ) GROUP BY of";

const MAILBOX: &str = "SELECT ?1, \
    (SELECT coalesce(sum(count), 0) FROM seq_lists WHERE kind = 3 AND of = ?1) + \
    (SELECT count(*) FROM deliveries WHERE mailbox = ?1 AND no > \
        coalesce((SELECT value FROM meta WHERE key = 'indexed_delivery'), 0))";

const SENDERS: &str = "SELECT of, sum(n) FROM ( \
    SELECT of, sum(count) AS n FROM seq_lists WHERE kind = 2 GROUP BY of \
    UNION ALL \
    SELECT sender_instance, count(*) FROM messages WHERE sender_instance IS NOT NULL AND seq > \
        coalesce((SELECT value FROM meta WHERE key = 'indexed_seq'), 0) GROUP BY sender_instance \
    ) GROUP BY of";

const SENDER: &str = "SELECT ?1, \
    (SELECT coalesce(sum(count), 0) FROM seq_lists WHERE kind = 2 AND of = ?1) + \
    (SELECT count(*) FROM messages WHERE sender_instance = ?1 AND seq > \
        coalesce((SELECT value FROM meta WHERE key = 'indexed_seq'), 0))";

const THREAD: &str = "SELECT \
    (SELECT coalesce(sum(count), 0) FROM seq_lists WHERE kind = 1 AND of = ?1) + \
    (SELECT count(*) FROM messages WHERE thread = ?1 AND seq > \
        coalesce((SELECT value FROM meta WHERE key = 'indexed_seq'), 0)), \
    (SELECT created_at FROM messages WHERE seq = max( \
        coalesce((SELECT max(last) FROM seq_lists WHERE kind = 1 AND of = ?1), 0), \
        coalesce((SELECT max(seq) FROM messages WHERE thread = ?1 AND seq > \
        coalesce((SELECT value FROM meta WHERE key = 'indexed_seq'), 0)), 0)))";

/// Counts the mail of these mailboxes and of this sender, or of all.
pub(crate) fn kept(db: &Connection, of: Option<CountsOf>) -> ReadResult<StoredCounts> {
    let mut counts = StoredCounts { since: since(db)?, ..StoredCounts::default() };
    match of {
        None => {
            count(db, MAILBOXES, [], &mut counts.received, |no| no)?;
            count(db, SENDERS, [], &mut counts.sent, InstanceId)?;
        }
        Some(CountsOf { mailboxes, sender }) => {
            for no in mailboxes {
                count(db, MAILBOX, params![no], &mut counts.received, |no| no)?;
            }
            if let Some(id) = sender {
                count(db, SENDER, params![id.0], &mut counts.sent, InstanceId)?;
            }
        }
    }
    Ok(counts)
}

fn count<K: Hash + Eq>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    into: &mut HashMap<K, u64>,
    key: impl Fn(u32) -> K,
) -> ReadResult<()> {
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query(params)?;
    while let Some(row) = rows.next()? {
        into.insert(key(row.get(0)?), row.get(1)?);
    }
    Ok(())
}

fn since(db: &Connection) -> ReadResult<Option<Timestamp>> {
    let first = "SELECT created_at FROM messages ORDER BY seq LIMIT 1";
    Ok(db.prepare_cached(first)?.query_row([], |row| row.get(0).map(Timestamp)).optional()?)
}

/// Summarizes a thread. `unread` lists all unread messages of the reader, of any thread.
pub(crate) fn thread(
    db: &Connection,
    thread: ThreadId,
    unread: &[Seq],
) -> ReadResult<ThreadSummary> {
    let (total, last_at) = db.prepare_cached(THREAD)?.query_row(params![thread.0], |row| {
        Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.map(Timestamp)))
    })?;
    Ok(ThreadSummary { total, unread: among(db, thread, total, unread)?, last_at })
}

/// Counts these messages in the thread. The shorter list is looked up in the other one: a
/// reader with much mail may ask for a short thread every few seconds.
fn among(db: &Connection, thread: ThreadId, total: u64, unread: &[Seq]) -> ReadResult<u64> {
    let mut found = 0;
    if unread.len() as u64 <= total {
        let mut in_it =
            db.prepare_cached("SELECT 1 FROM messages WHERE seq = ?1 AND thread = ?2")?;
        for seq in unread {
            found += u64::from(in_it.exists(params![seq.0, thread.0])?);
        }
    } else {
        let unread: HashSet<u64> = unread.iter().map(|seq| seq.0).collect();
        let all = seqs_of(db, thread)?;
        found = all.into_iter().filter(|seq| unread.contains(seq)).count() as u64;
    }
    Ok(found)
}

/// Returns the numbers of all messages of a thread.
fn seqs_of(db: &Connection, thread: ThreadId) -> ReadResult<HashSet<u64>> {
    let mark = marks(db)?.seq;
    let mut all = Vec::new();
    index::seqs(db, Of::Thread(thread.0), Stretch::ALL, &mut all)?;
    let mut tail = db.prepare_cached("SELECT seq FROM messages WHERE thread = ?1 AND seq > ?2")?;
    for seq in tail.query_map(params![thread.0, mark], |row| row.get(0))? {
        all.push(seq?);
    }
    Ok(all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::super::index::Batch;
    use super::super::migrate::MIGRATIONS;
    use super::super::rows::meta::Marks;
    use super::*;

    /// Makes a database with so many indexed messages in each of two threads, 1 and 2, and
    /// one message of each that is not indexed yet.
    fn database(first: u64, second: u64) -> Connection {
        let db = Connection::open_in_memory().expect("a database");
        MIGRATIONS.iter().for_each(|step| db.execute_batch(step).expect("the schema"));
        let threads = (0..first).map(|_| 1).chain((0..second).map(|_| 2));
        let mut seq = 0;
        for thread in threads.chain([1, 2]) {
            seq += 1;
            let insert = "INSERT INTO messages (seq, id, thread, created_at, first_delivery, copies, \
                sender, recipient, kind, urgent, via, body) \
                VALUES (?1, ?1, ?2, ?1, ?1, 1, 'a', 'b', 'text', 0, 'rest', 'x')";
            db.execute(insert, params![seq, thread]).expect("a message");
        }
        let upto = Marks { seq: first + second, delivery: 0 };
        let batch = Batch::gather(&db, Marks::default(), upto).expect("a batch");
        batch.write(&db).expect("indexed");
        db
    }

    /// Returns the work of SQLite to count thread 1: steps of its virtual machine, and
    /// steps of full scans.
    fn effort(db: &Connection) -> (i32, i32) {
        let mut count = db.prepare(THREAD).expect("a statement");
        let total: u64 = count.query_row(params![1], |row| row.get(0)).expect("a count");
        assert_eq!(total, 11);
        let steps = |of| count.get_status(of);
        (steps(StatementStatus::VmStep), steps(StatementStatus::FullscanStep))
    }

    #[test]
    fn counting_a_thread_costs_the_same_however_much_mail_others_have() {
        let (alone, among_many) = (database(10, 10), database(10, 5_000));
        assert_eq!(effort(&alone), effort(&among_many));
        assert_eq!(effort(&among_many).1, 0, "no table is read through");
        let mut seqs: Vec<u64> =
            seqs_of(&among_many, ThreadId(1)).expect("its messages").into_iter().collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=10).chain([5_011]).collect::<Vec<u64>>());
    }

    #[test]
    fn of_much_unread_mail_only_what_is_in_the_thread_is_counted() {
        let db = database(10, 100);
        let unread = |seqs: &[u64]| {
            let seqs: Vec<Seq> = seqs.iter().map(|seq| Seq(*seq)).collect();
            let summary = thread(&db, ThreadId(1), &seqs).expect("counts");
            assert_eq!(summary.total, 11);
            summary.unread
        };
        assert_eq!(unread(&[]), 0);
        assert_eq!(unread(&[3, 4, 70]), 2, "less than the thread holds");
        let elsewhere: Vec<u64> = (11..=110).chain([112]).collect();
        assert_eq!(unread(&elsewhere), 0, "much, and all of it elsewhere");
        let everything: Vec<u64> = (1..=112).collect();
        assert_eq!(unread(&everything), 11);
    }
}
