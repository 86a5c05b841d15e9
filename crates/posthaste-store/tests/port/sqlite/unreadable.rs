//! Values that cannot be read are errors that name table, row and column.

use std::sync::Arc;

use posthaste_core::messaging::delivery::DeliveryNo;
use posthaste_core::messaging::message::{MessageRef, Seq, Via};
use posthaste_core::ports::StoreError;
use posthaste_core::ports::store::{
    Bodies, HistoryLook, RowOf, Source, Store, StoredRecord, UnreadableRow,
};
use posthaste_store::{OpenError, SqliteStore, StoreConfig};
use rusqlite::Connection;
use tempfile::TempDir;

use super::today;

/// Today's database, brought up to date and damaged.
fn damaged(sql: &str) -> TempDir {
    let folder = today::folder();
    drop(open(&folder, 1_000).expect("it is sound"));
    let db = Connection::open(folder.path().join("hub.db")).expect("a database");
    db.execute_batch(sql).expect(sql);
    db.close().expect("closed");
    folder
}

fn open(folder: &TempDir, read_at_start: u64) -> Result<Arc<SqliteStore>, OpenError> {
    let config = StoreConfig { wal_bytes: 1 << 20, read_at_start, ..StoreConfig::default() };
    SqliteStore::open(folder.path(), config)
}

#[tokio::test]
async fn a_start_does_not_guess() {
    for (damage, named) in [
        ("UPDATE meta SET value = 'x' WHERE key = 'epoch'", "meta, row epoch, column value"),
        ("UPDATE meta SET value = x'00' WHERE key = 'id_key'", "meta, row id_key, column value"),
        ("DELETE FROM meta WHERE key = 'id_key'", "meta, row id_key: it is missing"),
        (
            "UPDATE profiles SET kind = 'ghost' WHERE name = 'bob'",
            "profiles, row bob, column kind: `ghost` is no value",
        ),
        ("UPDATE profiles SET name = '???' WHERE no = 1", "profiles, row ???, column name"),
        ("UPDATE profiles SET version = -1 WHERE no = 1", "profiles, row alice, column version"),
        (
            "UPDATE teams SET leaders = 'alice ???' WHERE name = 'builders'",
            "teams, row builders, column leaders: `alice ???` is no value",
        ),
        ("UPDATE teams SET name = '' WHERE name = 'main'", "teams, row , column name"),
        (
            "UPDATE instances SET status = 'asleep' WHERE agent = 'alice'",
            "instances, row 1367192732, column status: `asleep` is no value",
        ),
        ("UPDATE instances SET kind = 'x'", "column kind: `x` is no value"),
        ("UPDATE instances SET origin = 'x'", "column origin: `x` is no value"),
        ("UPDATE instances SET agent = '!'", "column agent"),
        ("UPDATE instances SET team = CAST(x'ff' AS TEXT)", "column team: invalid utf-8"),
        ("UPDATE instances SET parent = -3", "column parent: -3 is no value"),
        ("UPDATE instances SET secret = x'00' WHERE agent = 'bob'", "column secret"),
        ("UPDATE work SET exit_code = 1 << 40", "work, row 1864712618, column exit_code"),
        ("UPDATE tokens SET hash = x'0102' WHERE no = 1", "tokens, row 1, column hash"),
        (
            "UPDATE mailboxes SET key = 'x.y.z' WHERE no = 2",
            "mailboxes, row 2, column key: `x.y.z` is no value",
        ),
        (
            "DELETE FROM mailboxes WHERE no = 1",
            "mailboxes, row 2, column no: mailbox 1 is missing before it",
        ),
        (
            "UPDATE assignments SET report_mailbox = 'x'",
            "assignments, row 8, column report_mailbox: `x` is no value",
        ),
        ("UPDATE assignments SET report_delivery = NULL", "row 8, column report_delivery"),
        (
            "INSERT INTO needs (id, kind, blocking, address, text, options, created_at) \
             VALUES (4, 'wish', 0, 'human', 'x', '[]', 1)",
            "needs, row 4, column kind: `wish` is no value",
        ),
        (
            "INSERT INTO needs (id, kind, blocking, address, text, options, created_at) \
             VALUES (4, 'dead', 0, 'human', 'x', '{}', 1)",
            "needs, row 4, column options: `{}` is no value",
        ),
        ("INSERT INTO verdicts VALUES ('???', 'Edit', 1, 1)", "verdicts, row ???, column profile"),
        (
            "INSERT INTO taken (no, reader, seq, at) VALUES (4, 'nobody', 1, 1)",
            "taken, row 4, column reader: `nobody` is no value",
        ),
    ] {
        let folder = damaged(damage);
        let error = open(&folder, 1_000).err().expect(damage);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{damage}: {error}");
        assert!(error.to_string().contains(named), "{damage}: {error}");
    }
}

#[tokio::test]
async fn a_delivery_that_cannot_be_read_is_named_and_the_others_are_loaded() {
    for (damage, named) in [
        ("size = -1", "column size: -1 is no value"),
        ("attempts = 256", "column attempts: 256 is no value"),
        ("sender = -7", "column sender: -7 is no value"),
        ("mailbox = 1 << 33", "column mailbox: 8589934592 is no value"),
        ("seq = -1", "column seq: -1 is no value"),
    ] {
        let folder = damaged(&format!("UPDATE deliveries SET {damage} WHERE no = 3"));
        for read_at_start in [1_000, 0] {
            let store = open(&folder, read_at_start).expect(damage);
            let mut loaded = store.load().await.expect("loaded");
            let mut parts = loaded.backlog.len();
            while let Some(from) = loaded.rest {
                let next = store.backlog(from).await.expect("a part");
                parts += 1;
                loaded.unreadable.extend(next.unreadable);
                loaded.rest = next.rest;
            }
            assert!(parts >= 2, "deliveries and keys");
            let [UnreadableRow { of: RowOf::Delivery(no, _), what }] = &loaded.unreadable[..]
            else {
                panic!("{damage}: {:?}", loaded.unreadable);
            };
            assert_eq!(*no, DeliveryNo(3));
            assert_eq!(*what, format!("deliveries, row 3, {named}"));
            store.close().await.expect("closed");
        }
    }
}

async fn record(store: &SqliteStore, seq: u64) -> StoredRecord {
    let which = vec![MessageRef::Seq(Seq(seq))];
    let found = store.records(which, usize::MAX).await.expect("records");
    found.into_iter().next().expect("kept")
}

#[tokio::test]
async fn an_unreadable_message_shows_what_can_be_read() {
    for (damage, named) in [
        ("via = 'pigeon'", "column via: `pigeon` is no value"),
        ("kind = 'Not A Word'", "column kind: `Not A Word` is no value"),
        ("hop = 999", "column hop: 999 is no value"),
        ("urgent = 7", "column urgent: 7 is no value"),
        ("thread = -1", "column thread: -1 is no value"),
        ("sender = CAST(x'ff' AS TEXT)", "column sender: invalid utf-8"),
        ("sender_instance = -1", "column sender_instance: -1 is no value"),
        ("body = CAST(x'6f6bff' AS TEXT)", "column body: invalid utf-8"),
    ] {
        let folder = damaged(&format!("UPDATE messages SET {damage} WHERE seq = 2"));
        let store = open(&folder, 1_000).expect(damage);
        let named = format!("messages, row 2, {named}");
        let shown = record(&store, 2).await;
        assert!(shown.unreadable[0].starts_with(&named), "{:?}", shown.unreadable);
        assert_eq!(
            (shown.message.seq, shown.message.via == Via::Cli),
            (Seq(2), !damage.starts_with("via"))
        );
        let body = if damage.starts_with("body") { "ok\u{fffd}" } else { "a reply" };
        assert_eq!(shown.message.body, body);
        assert_eq!(shown.deliveries.len(), 1, "its deliveries are sound");

        let replies = store.replies(Seq(1), 9).await.expect("replies");
        assert_eq!(replies, std::slice::from_ref(&shown));
        let look = HistoryLook {
            sources: [Source::All].into(),
            above: 1,
            below: 3,
            forward: false,
            most: 9,
            bytes: 9,
        };
        assert_eq!(store.history(look).await.expect("history").records, [shown]);

        let found = store.messages(vec![Seq(1), Seq(2), Seq(77)], Bodies::With).await;
        let found = found.expect("messages");
        assert_eq!(found.messages.keys().copied().collect::<Vec<_>>(), [Seq(1)]);
        let of: Vec<_> = found.unreadable.iter().map(|row| row.of).collect();
        assert_eq!(of, [RowOf::Message(Seq(2)), RowOf::Message(Seq(77))]);
        assert!(found.unreadable[0].what.starts_with(&named), "{damage}");
        assert_eq!(found.unreadable[1].what, "messages, row 77: it is missing");
        assert!(found.damaged.is_empty());
    }
}

#[tokio::test]
async fn an_unreadable_delivery_is_left_out_and_named() {
    for (damage, seq, named, left) in [
        ("how = 'magic'", 1, "column how: `magic` is no value", 0),
        ("how = 'magic'", 4, "column how: `magic` is no value", 0),
        ("how = NULL", 1, "column how: Null is the wrong type", 0),
        ("state = 9", 1, "column state: 9 is no value", 0),
        ("settled_by = 'nobody'", 1, "column settled_by: `nobody` is no value", 0),
        ("mailbox = 77", 1, "column mailbox: there is no mailbox 77", 0),
        // Without these it can be shown.
        ("size = -1", 1, "column size: -1 is no value", 1),
        ("attempts = 999", 4, "column attempts: 999 is no value", 1),
    ] {
        let folder = damaged(&format!("UPDATE deliveries SET {damage} WHERE no = {seq}"));
        let store = open(&folder, 1_000).expect(damage);
        let shown = record(&store, seq).await;
        assert_eq!(shown.unreadable, [format!("deliveries, row {seq}, {named}")], "{damage}");
        assert_eq!(shown.deliveries.len(), left, "{damage}");
    }
}

#[tokio::test]
async fn other_rows_are_errors_of_the_question() {
    let folder = damaged(
        "UPDATE profiles SET tags = 'none' WHERE name = 'counter';
         UPDATE delivery_notes SET what = 'sung'",
    );
    let store = open(&folder, 1_000).expect("a start reads neither");
    let told = |error: StoreError| error.to_string();
    let name = "counter".parse().expect("a name");
    let error = told(store.profile(name).await.expect_err("it cannot be read"));
    assert!(error.contains("profiles, row counter, column tags: `none` is no value"), "{error}");
    let error = store.notes(DeliveryNo(1)..=DeliveryNo(9)).await.expect_err("nor can this");
    let error = told(error);
    assert!(error.contains("delivery_notes, row 1, column what: `sung` is no value"), "{error}");
    assert!(store.condition().trouble.is_none(), "a row is not the file");
    let alice = store.profile("alice".parse().expect("a name")).await.expect("readable");
    assert!(alice.is_some());
}
