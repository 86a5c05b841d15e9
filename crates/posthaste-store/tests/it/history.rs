//! What the indexes give must be what is there: filled, half filled, or made from
//! a database that is older than they are.

use std::path::Path;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::address::Mailbox;
use posthaste_core::messaging::delivery::{AnswerId, Proof};
use posthaste_core::messaging::message::{Details, Principal, Seq, ThreadChoice};
use posthaste_core::ports::{Ending, Filter, HistoryQuery, Record, StoreError, Take, What};
use posthaste_core::registry::Status;
use posthaste_store::{Place, StoreConfig};
use posthaste_testkit::store_suite::Rig;
use rusqlite::Connection;

use crate::rig;

const HUMAN: Principal = Principal::Operator;
const DAY: Duration = Duration::from_secs(86_400);

fn said(records: &[Record]) -> Vec<&str> {
    records.iter().map(|r| r.message.body.as_str()).collect()
}

async fn all_of(rig: &Rig, who: Principal) -> Vec<Record> {
    let query = HistoryQuery { last: 50, of: who.instance(), ..HistoryQuery::default() };
    rig.engine.history(query).await.expect("history").records
}

/// Kinds of lists that the background fills.
const SENDERS: &str = "coalesce(sum(count), 0) FROM seq_lists WHERE kind = 2";
const REPLIES: &str = "coalesce(sum(count), 0) FROM seq_lists WHERE kind = 4";
const NOTES: &str = "count(*) FROM delivery_notes";

/// Until the background has indexed so many; the clock is paused, so it takes none.
async fn indexed(folder: &Path, index: &str, rows: i64) {
    let db = Connection::open(folder.join("hub.db")).expect("the file");
    let count = format!("SELECT {index}");
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let found: i64 = db.query_row(&count, [], |row| row.get(0)).expect("a count");
        if found >= rows {
            return;
        }
    }
    panic!("{index} was not filled");
}

#[tokio::test(start_paused = true)]
async fn ones_own_replies_in_anothers_thread_are_in_ones_history_also_after_a_restart() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let asked = rig.send(alice, &bob.to_string(), "asked").await.expect("accepted");
    let reply = Details {
        in_reply_to: Some(asked.seq),
        thread: ThreadChoice::named(asked.thread),
        ..Details::default()
    };
    rig.send_with(bob, &alice.to_string(), "replied", reply.clone()).await.expect("accepted");
    assert_eq!(said(&all_of(&rig, bob).await), ["asked", "replied"], "not indexed yet");

    indexed(folder.path(), SENDERS, 2).await;
    indexed(folder.path(), REPLIES, 1).await;
    rig.send_with(bob, &alice.to_string(), "and once more", reply).await.expect("accepted");
    let expected = ["asked", "replied", "and once more"];
    assert_eq!(said(&all_of(&rig, bob).await), expected, "index and tail");
    let replies = rig.engine.replies(asked.seq, 9).await.expect("a look");
    assert_eq!(said(&replies), expected[1..]);
    drop(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(said(&all_of(&rig, bob).await), expected);
    assert_eq!(said(&rig.engine.replies(asked.seq, 9).await.expect("a look")), expected[1..]);
    let kept = rig.engine.kept(None).await.expect("counts");
    let counts: Vec<u64> = [alice, bob].map(|who| kept.sent[&who.instance().expect("one")]).into();
    assert_eq!(counts, [1, 2], "each is counted once");
}

/// The first schema, with a message of alice, and of bob a reply in her thread.
fn first_version(folder: &Path) {
    let db = Connection::open(folder.join("hub.db")).expect("a file");
    let schema = include_str!("../../migrations/sqlite/0001_backbone.sql");
    db.execute_batch(schema).expect("the schema of then");
    db.execute_batch(
        "INSERT INTO profiles VALUES ('alice', 'external', 1), ('bob', 'external', 1);
         INSERT INTO teams VALUES ('main', '');
         INSERT INTO instances VALUES
            (161, 'alice', 'main', 'external', NULL, NULL, 7, NULL, 'running', 1, 1, NULL),
            (177, 'bob', 'main', 'external', NULL, NULL, 8, NULL, 'running', 1, 1, NULL);
         INSERT INTO mailboxes VALUES (0, 'i.000000a1'), (1, 'i.000000b1');
         INSERT INTO messages VALUES
            (1, 11, 7, 1000, 1, 1, 'alice.000000a1@main', 161, '000000b1', 'text', 0, NULL, NULL,
             NULL, 'rest', NULL, NULL, 'asked'),
            (2, 12, 7, 1001, 2, 1, 'bob.000000b1@main', 177, '000000a1', 'text', 0, NULL, 1,
             NULL, 'rest', NULL, NULL, 'replied');
         INSERT INTO deliveries (no, mailbox, seq, state, size, sender, urgent, marked, attempts)
            VALUES (1, 1, 1, 0, 5, 161, 0, 0, 0), (2, 0, 2, 0, 7, 177, 0, 0, 0);
         INSERT INTO meta VALUES ('indexed_seq', 2), ('indexed_delivery', 2), ('clean', 1);
         INSERT INTO message_ids VALUES (11, 1), (12, 2);
         INSERT INTO thread_index VALUES (7, 1), (7, 2);
         INSERT INTO mailbox_index VALUES (1, 1), (0, 2);
         PRAGMA application_id = 0x50485354; PRAGMA user_version = 1;",
    )
    .expect("the rows of then");
}

#[tokio::test(start_paused = true)]
async fn a_database_from_before_the_indexes_shows_what_one_sent_and_what_was_answered() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    first_version(folder.path());
    let rig = rig::at(folder.path()).expect("an older store is brought up to date");
    let bob = Principal::Instance("000000b1".parse().expect("an id"));
    assert_eq!(said(&all_of(&rig, bob).await), ["asked", "replied"], "not indexed yet");
    assert_eq!(said(&rig.engine.replies(Seq(1), 9).await.expect("a look")), ["replied"]);

    indexed(folder.path(), SENDERS, 2).await;
    indexed(folder.path(), REPLIES, 1).await;
    assert_eq!(said(&all_of(&rig, bob).await), ["asked", "replied"]);
    assert_eq!(said(&rig.engine.replies(Seq(1), 9).await.expect("a look")), ["replied"]);
    let kept = rig.engine.kept(None).await.expect("counts");
    assert_eq!(kept.received.values().sum::<u64>(), 2, "nothing is counted twice");
}

#[tokio::test]
async fn a_mark_that_was_not_kept_leaves_the_mail_unread() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let sent = rig.send(alice, &bob.to_string(), "unread").await.expect("accepted");
    let db = Connection::open(folder.path().join("hub.db")).expect("the file");
    db.execute_batch(
        "CREATE TRIGGER broken BEFORE UPDATE ON deliveries BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .expect("a fault");
    let query = HistoryQuery {
        thread: Some(sent.thread),
        unread_by: Some(bob),
        last: 9,
        of: bob.instance(),
        ..HistoryQuery::default()
    };
    let failed = rig.engine.mark_read(bob, query.clone()).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");

    db.execute_batch("DROP TRIGGER broken").expect("mended");
    let read = rig.engine.mark_read(bob, query).await.expect("read");
    assert_eq!(read.marked, [sent.seq]);
}

#[tokio::test(start_paused = true)]
async fn what_is_pruned_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let asked = rig.send(alice, &bob.to_string(), "asked").await.expect("accepted");
    let reply = Details { in_reply_to: Some(asked.seq), ..Details::default() };
    rig.send_with(bob, &alice.to_string(), "replied", reply).await.expect("accepted");
    for (reader, seq) in [(bob, asked.seq), (alice, Seq(2))] {
        let take = |answer| Take {
            reader,
            answer: AnswerId(answer),
            filter: Filter::default(),
            messages: 9,
            bytes: usize::MAX,
            clips: None,
        };
        rig.engine.lease(take(1)).await.expect("a lease");
        rig.engine.nack(reader, What::Messages(vec![seq])).await.expect("refused");
        rig.engine.lease(take(2)).await.expect("a lease");
        rig.engine.ack(reader, What::Messages(vec![seq]), Proof::Receipt).await.expect("acked");
    }
    indexed(folder.path(), REPLIES, 1).await;
    indexed(folder.path(), NOTES, 2).await;

    rig.clock.advance(rig.limits.settled_retention + Duration::from_secs(1));
    assert_eq!(rig.engine.sweep().await.expect("swept").pruned, 2);
    let db = Connection::open(folder.path().join("hub.db")).expect("the file");
    for table in ["messages", "deliveries", "delivery_notes", "seq_lists", "message_ids"] {
        let count = format!("SELECT count(*) FROM {table}");
        let rows: i64 = db.query_row(&count, [], |row| row.get(0)).expect("a count");
        assert_eq!(rows, 0, "{table}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_a_mailbox_is_free_when_its_owner_and_its_mail_are_forgotten() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let limits = Limits { settled_retention: DAY * 3, dead_retention: DAY, ..rig::limits() };
    let open = || rig::open(&Place::File(folder.path().to_owned()), rig::config(), limits.clone());
    let rig = open().expect("a new store");
    let keys = || {
        let db = Connection::open(folder.path().join("hub.db")).expect("the file");
        let mut select = db.prepare("SELECT key FROM mailboxes ORDER BY no").expect("a query");
        let keys = select.query_map([], |row| row.get::<_, Option<String>>(0)).expect("rows");
        keys.map(|key| key.expect("a row")).collect::<Vec<_>>()
    };
    let reads = async |rig: &Rig, who: Principal, body: &str| {
        rig.send(HUMAN, &who.to_string(), body).await.expect("accepted");
        let read = rig.read(who, 1).await;
        assert_eq!(read.iter().map(|mail| &*mail.message.body).collect::<Vec<_>>(), [body]);
        let seqs = read.iter().map(|mail| mail.message.seq).collect();
        rig.engine.ack(who, What::Messages(seqs), Proof::Receipt).await.expect("acked");
    };
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    reads(&rig, alice, "for alice").await;
    reads(&rig, bob, "for bob").await;
    let own = |who: Principal| Some(Mailbox::Instance(who.instance()?).to_string());
    let (alices, bobs) = (own(alice), own(bob));
    assert_eq!(keys(), [alices.clone(), bobs.clone()]);

    let id = alice.instance().expect("an instance");
    rig.engine.end(id, Ending::plain(Status::Stopped, Vec::new())).await.expect("ended");
    rig.clock.advance(DAY + Duration::from_secs(1));
    rig.engine.sweep().await.expect("swept");
    assert_eq!(keys(), [alices.clone(), bobs.clone()], "her mail is kept, and names it");
    let kept = rig.engine.history(HistoryQuery { last: 9, ..HistoryQuery::default() }).await;
    assert_eq!(said(&kept.expect("history").records), ["for alice", "for bob"]);

    rig.clock.advance(DAY * 2);
    rig.send(HUMAN, &bob.to_string(), "damaged").await.expect("accepted");
    let db = Connection::open(folder.path().join("hub.db")).expect("the file");
    let damage = "UPDATE deliveries SET mailbox = -1 WHERE no = (SELECT max(no) FROM deliveries)";
    assert_eq!(db.execute(damage, []).expect("damaged"), 1);
    rig.engine.sweep().await.expect("swept, although a number cannot be read");
    assert_eq!(keys(), [None, bobs.clone()], "bob is here, although his mail is forgotten");
    db.execute("UPDATE deliveries SET state = 2, mailbox = 1 WHERE mailbox = -1", []).expect("off");
    drop(db);
    rig.engine.close().await.expect("closed");
    drop(rig);

    let rig = open().expect("opened again");
    let (carol, dave) = (rig.agent("carol").await, rig.agent("dave").await);
    reads(&rig, bob, "again for bob").await;
    reads(&rig, carol, "for carol").await;
    reads(&rig, dave, "for dave").await;
    assert_eq!(keys(), [own(carol), bobs, own(dave)]);
}

#[tokio::test]
async fn a_long_search_ends_with_a_place_to_go_on_and_not_in_silence() {
    let limits = Limits { mailbox_messages: 30_000, ..rig::limits() };
    let config = StoreConfig { waiting: 30_000, ..rig::config() };
    let rig = rig::open(&Place::Memory, config, limits).expect("a store in memory");
    let bob = rig.agent("bob").await;
    let needle = Details { label: Some("needle".into()), ..Details::default() };
    rig.send_with(Principal::Operator, &bob.to_string(), "found", needle).await.expect("accepted");
    let bobs = bob.to_string();
    let hay = (0..20_500).map(|_| rig.send(Principal::Operator, &bobs, "hay"));
    for sent in futures_util::future::join_all(hay).await {
        sent.expect("accepted");
    }
    let mut query =
        HistoryQuery { label: Some("needle".into()), last: 200, ..HistoryQuery::default() };
    let first = rig.engine.history(query.clone()).await.expect("history");
    assert!(first.records.is_empty() && first.next.is_some(), "there is more to look at");
    query.before = first.next;
    let rest = rig.engine.history(query).await.expect("history");
    assert_eq!((said(&rest.records), rest.next), (vec!["found"], None));
}
