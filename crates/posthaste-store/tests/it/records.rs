//! What a kept message cannot be without.

use std::collections::BTreeSet;

use posthaste_core::messaging::message::{MessageId, Principal};
use posthaste_store::Place;
use rusqlite::Connection;

use crate::rig;

const HUMAN: Principal = Principal::Operator;
const MANY: usize = 50;

async fn ids(rig: &posthaste_testkit::store_suite::Rig, to: Principal) -> Vec<MessageId> {
    let mut ids = Vec::new();
    for _ in 0..MANY {
        let sent = rig.send(HUMAN, &to.to_string(), "the same words").await;
        ids.push(sent.expect("accepted").id);
    }
    ids
}

#[tokio::test]
async fn an_id_is_sixteen_lower_case_hex_digits_that_nobody_can_guess() {
    let first = rig::memory().await;
    let bob = first.agent("bob").await;
    let mut all = ids(&first, bob).await;
    let second = rig::open(&Place::Memory, rig::config(), rig::limits()).expect("another store");
    let bob = second.agent("bob").await;
    all.extend(ids(&second, bob).await);

    let distinct: BTreeSet<MessageId> = all.iter().copied().collect();
    assert_eq!(distinct.len(), 2 * MANY, "also where numbers, texts and readers are the same");
    // A counter, a time or a short number would leave some bits as they are.
    let (ones, zeros) = all.iter().fold((0, 0), |(ones, zeros), id| (ones | id.0, zeros | !id.0));
    assert_eq!((ones, zeros), (u64::MAX, u64::MAX), "each of the 64 bits is random");

    all.extend([MessageId(0xff), MessageId(u64::MAX)]);
    for id in all {
        let text = id.to_string();
        assert_eq!(text.len(), 16, "{text}");
        assert!(text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{text}");
        assert_eq!(u64::from_str_radix(&text, 16), Ok(id.0), "{text}");
    }
}

#[tokio::test]
async fn the_database_takes_no_message_without_a_time_and_no_delivery_without_a_state() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &bob.to_string(), "hello").await.expect("accepted");
    let db = Connection::open(folder.path().join("hub.db")).expect("a second connection");
    for (table, column) in [("messages", "created_at"), ("deliveries", "state")] {
        for value in ["NULL", "'yesterday'", "1.5", "x'00'"] {
            let sql = format!("UPDATE {table} SET {column} = {value}");
            let refused = db.execute(&sql, []).expect_err(&sql);
            assert!(refused.to_string().contains(column), "{sql}: {refused}");
        }
    }
    let (time, state): (i64, i64) = db
        .query_row(
            "SELECT created_at, state FROM messages JOIN deliveries USING (seq)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("the message");
    assert_eq!((time, state), (1_700_000_000_000, 0), "the hub's time, and open");
}
