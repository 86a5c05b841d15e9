//! Rows and pages that are not as they were written: the store opens or says why not,
//! and answers each question or refuses it.

use std::path::Path;

use posthaste_core::messaging::delivery::AnswerId;
use posthaste_core::messaging::message::{MessageRef, Principal, Seq};
use posthaste_core::ports::{Filter, HistoryQuery, Take};
use posthaste_testkit::fuzz;
use posthaste_testkit::profiles_suite::put;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::rig;

const HUMAN: Principal = Principal::Operator;

/// A database with something in most tables, closed.
async fn sound(folder: &Path) -> (Vec<u8>, Principal) {
    let rig = rig::at(folder).expect("a new store");
    let bob = rig.agent("bob").await;
    rig.engine.put_profile(put("mason", "lays bricks")).await.expect("kept");
    for n in 0..6 {
        let sent = rig.send(HUMAN, &bob.to_string(), &format!("text {n}")).await;
        let seq = sent.expect("accepted").seq;
        rig.send(bob, "human", "an answer").await.expect("accepted");
        assert!(seq.0 > 0);
    }
    rig.send(HUMAN, "bob", "to whoever is bob").await.expect("accepted");
    rig.engine.close().await.expect("closed");
    drop(rig);
    let db = Connection::open(folder.join("hub.db")).expect("a database");
    db.pragma_update(None, "journal_mode", "delete").expect("one file");
    drop(db);
    (std::fs::read(folder.join("hub.db")).expect("a file"), bob)
}

/// Asks whatever a hub asks. Each answer may be an error.
async fn try_everything(folder: &Path, bob: Principal) {
    let rig = match rig::at(folder) {
        Ok(rig) => rig,
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.hint().is_empty(), "{error}");
            return;
        }
    };
    let refused = |told: String| assert!(!told.is_empty());
    for (n, reader) in [bob, HUMAN].into_iter().enumerate() {
        let take = Take {
            reader,
            answer: AnswerId(1 + n as u64),
            filter: Filter::default(),
            messages: 50,
            bytes: usize::MAX,
            clips: None,
        };
        let _ = rig.engine.lease(take).await.map_err(|e| refused(e.to_string()));
    }
    let query = HistoryQuery { last: 50, ..HistoryQuery::default() };
    let _ = rig.engine.history(query).await.map_err(|e| refused(e.to_string()));
    for seq in 0..15 {
        let message = rig.engine.message(MessageRef::Seq(Seq(seq))).await;
        let _ = message.map_err(|e| refused(e.to_string()));
    }
    let _ = rig.engine.events(0, 100).await.map_err(|e| refused(e.to_string()));
    let _ = rig.engine.sweep().await.map_err(|e| refused(e.to_string()));
    let _ = rig.engine.figures().await.map_err(|e| refused(e.to_string()));
    let _ = rig.send(HUMAN, "human", "x").await.map_err(|e| refused(e.to_string()));
    let _ = rig.engine.close().await.map_err(|e| refused(e.to_string()));
}

/// Every column of every table of ours.
fn columns(db: &Connection) -> Vec<(String, String)> {
    let sql = "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c \
        WHERE t.type = 'table' AND t.sql NOT LIKE '%VIRTUAL%' AND t.name NOT LIKE 'sqlite%'";
    let mut select = db.prepare(sql).expect("a query");
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.collect::<Result<_, _>>().expect("columns")
}

#[tokio::test]
async fn no_value_in_any_column_breaks_the_store() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (bytes, bob) = sound(scratch.path()).await;
    let texts = ["human", "i.00000001", "n.bob@main", "00000001", "text", "{}", "2026-01-01"];
    for mut case in fuzz::cases(150, &texts) {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let file = folder.path().join("hub.db");
        std::fs::write(&file, &bytes).expect("a copy");
        let db = Connection::open(&file).expect("a database");
        let (table, column) = case.dice.pick(&columns(&db)).clone();
        let numbers = [i64::MIN, -1, 0, 1, 7, i64::from(u32::MAX) + 1, i64::MAX];
        let value = match case.dice.below(5) {
            0 => Value::Null,
            1 => Value::Integer(*case.dice.pick(&numbers)),
            2 => Value::Blob(case.bytes.clone()),
            3 => Value::Real(1e300),
            _ => Value::Text(case.text()),
        };
        let wanted = if case.dice.one_in(2) { "1" } else { "rowid % 2" };
        case.bytes = format!("UPDATE {table} SET {column} = {value:?} WHERE {wanted}").into_bytes();
        let sql = format!("UPDATE OR IGNORE \"{table}\" SET \"{column}\" = ?1 WHERE {wanted}");
        // The schema refuses some values by itself, and some tables have no rowid.
        let _ = db.execute(&sql, [value]);
        drop(db);
        try_everything(folder.path(), bob).await;
    }
}

#[tokio::test]
async fn no_damaged_page_breaks_the_store() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (bytes, bob) = sound(scratch.path()).await;
    for mut case in fuzz::cases::<&str>(100, &[]) {
        let mut damaged = bytes.clone();
        for _ in 0..=case.dice.below(30) {
            let at = case.dice.below(damaged.len());
            damaged[at] = u8::try_from(case.dice.below(256)).expect("a byte");
        }
        if case.dice.one_in(8) {
            damaged.truncate(case.dice.below(bytes.len()));
        }
        let folder = tempfile::tempdir().expect("a scratch folder");
        std::fs::write(folder.path().join("hub.db"), &damaged).expect("a copy");
        try_everything(folder.path(), bob).await;
    }
}
