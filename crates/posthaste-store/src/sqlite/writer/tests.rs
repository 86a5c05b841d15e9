use futures_util::FutureExt;
use posthaste_core::address::{InstanceId, Mailbox};
use posthaste_core::events::EventList;
use posthaste_core::ports::change::Change;
use posthaste_core::ports::store::Store;
use posthaste_core::time::Timestamp;
use rusqlite::params;
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::{SqliteStore, StoreConfig};

fn open() -> (TempDir, Arc<SqliteStore>) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let config = StoreConfig { wal_bytes: 1 << 20, ..StoreConfig::default() };
    let store = SqliteStore::open(folder.path(), config).expect("a store");
    (folder, store)
}

fn group(no: u32) -> Group {
    let mailbox = Mailbox::Instance(InstanceId(no));
    let changes = vec![Change::MailboxOpened { no, mailbox }];
    let events = EventList::of(&changes, 0);
    Group { epoch: Epoch(1), at: Timestamp(1), changes, events }
}

fn mailboxes(folder: &TempDir) -> u64 {
    let db = Connection::open(folder.path().join("hub.db")).expect("the file");
    let count = "SELECT count(*) FROM mailboxes";
    db.query_row(count, [], |row| row.get(0)).expect("a count")
}

#[tokio::test]
async fn after_a_panic_nothing_is_written_and_whoever_runs_the_hub_is_told() {
    let (folder, store) = open();
    let writer = Arc::clone(&store.shared.writer);
    // Panics without the hook, which would print the panic.
    let panics = |_: &Connection| std::panic::resume_unwind(Box::new("in the middle"));
    let lost = writer.write::<()>(Flush::Now, panics).await.expect_err("it panicked");
    assert!(matches!(lost, CommitError::Unknown(StoreError::Unknown(_))), "{lost:?}");
    let later = store.commit(group(0)).await.expect_err("the connection is gone");
    assert!(matches!(later, CommitError::Nothing(StoreError::Closed)), "{later:?}");
    let why = timeout(Duration::from_secs(60), store.failed()).await.expect("it is told");
    assert!(why.contains("the writer"), "{why}");
    store.close().await.expect("it ends");
    assert_eq!(mailboxes(&folder), 0);
}

#[tokio::test]
async fn a_group_waits_for_the_work_behind_and_is_written_although_nobody_waits() {
    let (folder, store) = open();
    let held = Arc::clone(&store.shared.writer.desk).lock_owned().await;
    assert!(store.commit(group(0)).now_or_never().is_none(), "the desk is taken");
    drop(held);
    store.commit(group(1)).await.expect("written after it");
    assert_eq!(mailboxes(&folder), 2);
}

#[tokio::test]
async fn a_light_group_is_written_at_the_first_poll_where_the_disk_is_quick() {
    let (folder, store) = open();
    store.shared.writer.desk.lock().await.pace = Duration::from_micros(100);
    let written = store.commit(group(0)).now_or_never().expect("ready at once");
    written.expect("written");
    assert_eq!(mailboxes(&folder), 1);
    store.shared.writer.desk.lock().await.pace = SLOW;
    assert!(store.commit(group(1)).now_or_never().is_none(), "on a thread");
    // The group is written all the same: the next one waits for it.
    store.commit(group(2)).await.expect("written");
    assert_eq!(mailboxes(&folder), 3);
}

#[tokio::test]
async fn work_that_is_not_flushed_leaves_the_connection_flushing() {
    let (_folder, store) = open();
    let writer = || Arc::clone(&store.shared.writer);
    let level =
        |db: &Connection| db.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
    let within = writer().write(Flush::Later, level).await.expect("done").0;
    let fails = |db: &Connection| db.execute("INSERT INTO meta VALUES (?1)", params![1]);
    writer().write(Flush::Later, fails).await.expect_err("a bad statement");
    let after = writer().with(level).await.expect("done");
    assert_eq!((within, after), (1, 2), "NORMAL, then FULL");
}

#[tokio::test]
async fn only_what_one_change_caused_is_blamed_on_it() {
    let (folder, store) = open();
    store.commit(group(0)).await.expect("written");
    let again = store.commit(group(0)).await.expect_err("its number is taken");
    assert!(matches!(again, CommitError::OneChange(_)), "{again:?}");
    let other = Connection::open(folder.path().join("hub.db")).expect("the file");
    let trigger =
        "CREATE TRIGGER no BEFORE INSERT ON mailboxes BEGIN SELECT RAISE(ABORT, 'x'); END";
    other.execute_batch(trigger).expect("a trigger");
    let refused = store.commit(group(1)).await.expect_err("refused by a trigger");
    assert!(matches!(refused, CommitError::OneChange(_)), "{refused:?}");
    other.execute_batch("DROP TRIGGER no; BEGIN IMMEDIATE").expect("it is locked");
    let writer = Arc::clone(&store.shared.writer);
    writer.with(|db| db.busy_timeout(Duration::ZERO)).await.expect("set");
    let busy = store.commit(group(1)).await.expect_err("somebody else writes");
    assert!(matches!(busy, CommitError::Nothing(_)), "{busy:?}");
    other.execute_batch("COMMIT").expect("free again");
    store.commit(group(1)).await.expect("written");
}
