//! One row that cannot be read: its mail is set aside, and everything else goes on.

use std::path::Path;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::delivery::{AnswerId, Reason};
use posthaste_core::messaging::message::{Details, MessageRef, Principal, Seq};
use posthaste_core::messaging::receive::{BatchStatus, WaitFor};
use posthaste_core::ports::{
    ActError, Ending, Filter, HistoryQuery, Noted, Record, RecordState, Take,
};
use posthaste_core::registry::Status;
use posthaste_store::{Place, StoreConfig};
use posthaste_testkit::profiles_suite::put;
use posthaste_testkit::store_suite::Rig;
use posthaste_testkit::working_suite;
use posthaste_testkit::world::World;
use rusqlite::Connection;
use tokio::time::timeout;

use crate::rig;

const HUMAN: Principal = Principal::Operator;
const UNREADABLE: RecordState = RecordState::Dead { reason: Reason::Unreadable, maybe_seen: true };

/// Writes into the database of a hub that does not run.
fn write(folder: &Path, sql: &str) {
    let db = Connection::open(folder.join("hub.db")).expect("a database");
    db.execute_batch(sql).expect(sql);
    db.close().expect("closed");
}

/// Three messages for bob, on disk, and nobody's hub any more.
async fn three(folder: &Path) -> Principal {
    let rig = rig::at(folder).expect("a new store");
    let bob = rig.agent("bob").await;
    for body in ["one", "two", "three"] {
        let details = Details { label: Some(body.into()), ..Details::default() };
        rig.send_with(HUMAN, &bob.to_string(), body, details).await.expect("accepted");
    }
    drop(rig);
    bob
}

async fn record(rig: &Rig, seq: u64) -> Option<Record> {
    rig.engine.message(MessageRef::Seq(Seq(seq))).await.expect("a look")
}

async fn texts(rig: &Rig, reader: Principal, answer: u64) -> Vec<String> {
    let mail = rig.read(reader, answer).await;
    mail.iter().map(|leased| leased.message.body.to_string()).collect()
}

/// What is noted of a message, where its row still says which deliveries it has.
async fn notes(rig: &Rig, seq: u64) -> Vec<Noted> {
    let record = record(rig, seq).await.expect("kept");
    let notes = rig.engine.notes(&record).await.expect("notes");
    notes.into_iter().map(|note| note.noted).collect()
}

#[tokio::test]
async fn a_message_that_cannot_be_read_does_not_stop_the_mailbox() {
    for (damage, what) in [
        ("UPDATE messages SET body = CAST(x'74ff' AS TEXT) WHERE seq = 2", "column body: "),
        ("UPDATE messages SET hop = 999 WHERE seq = 2", "column hop: 999 is no value"),
        ("UPDATE messages SET recipient = CAST(x'ff' AS TEXT) WHERE seq = 2", "column recipient: "),
        ("UPDATE deliveries SET size = -1 WHERE seq = 2", "column size: -1 is no value"),
        ("UPDATE deliveries SET attempts = 999 WHERE seq = 2", "column attempts: 999 is no value"),
        ("UPDATE deliveries SET sender = -7 WHERE seq = 2", "column sender: -7 is no value"),
    ] {
        // Before the doors open, and behind them.
        for read_at_start in [1000, 0] {
            let folder = tempfile::tempdir().expect("a scratch folder");
            let bob = three(folder.path()).await;
            write(folder.path(), damage);
            let config = StoreConfig { read_at_start, ..rig::config() };
            let place = Place::File(folder.path().to_owned());
            let rig = rig::open(&place, config, rig::limits()).expect(damage);
            assert_eq!(texts(&rig, bob, 1).await, ["one", "three"], "{damage}");
            assert!(rig.engine.is_healthy(), "{damage}: it is one row");
            rig.send(HUMAN, &bob.to_string(), "four").await.expect("mail is taken");
            assert_eq!(texts(&rig, bob, 2).await, ["four"], "{damage}");

            let dead = record(&rig, 2).await.expect("its row is still there");
            assert_eq!(dead.deliveries[0].state, UNREADABLE, "{damage}");
            let noted = notes(&rig, 2).await;
            let [Noted::Unreadable(told)] = &noted[..] else { panic!("{damage}: {noted:?}") };
            assert!(told.contains("row 2, ") && told.contains(what), "{damage}: {told}");
        }
    }
}

#[tokio::test]
async fn a_delivery_without_its_message_does_not_stop_the_mailbox() {
    for damage in
        ["DELETE FROM messages WHERE seq = 2", "UPDATE deliveries SET seq = 99 WHERE seq = 2"]
    {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let bob = three(folder.path()).await;
        write(folder.path(), damage);
        let rig = rig::at(folder.path()).expect(damage);
        assert_eq!(texts(&rig, bob, 1).await, ["one", "three"], "{damage}");
        assert!(texts(&rig, bob, 2).await.is_empty(), "{damage}");
        let figures = rig.engine.figures().await.expect("figures");
        let dead: Vec<_> = figures.tally.dead().filter(|(_, count)| *count > 0).collect();
        assert_eq!(dead, [("unreadable", 1)], "{damage}");
    }
}

#[tokio::test]
async fn who_reads_only_some_of_the_mail_is_not_stopped_either() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bob = three(folder.path()).await;
    write(folder.path(), "UPDATE messages SET label = CAST(x'ff' AS TEXT) WHERE seq = 2");
    let rig = rig::at(folder.path()).expect("a store");
    let take = Take {
        reader: bob,
        answer: AnswerId(1),
        filter: Filter { label: Some("three".into()), ..Filter::default() },
        messages: 10,
        bytes: usize::MAX,
        clips: None,
    };
    let lease = rig.engine.lease(take).await.expect("a lease");
    let read: Vec<_> = lease.mail.iter().map(|leased| leased.message.body.as_str()).collect();
    assert_eq!(read, ["three"]);
    assert_eq!(record(&rig, 2).await.expect("kept").deliveries[0].state, UNREADABLE);
}

#[tokio::test]
async fn a_row_that_was_repaired_is_queued_again() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bob = three(folder.path()).await;
    write(folder.path(), "UPDATE messages SET body = CAST(x'ff' AS TEXT) WHERE seq = 2");
    let rig = rig::at(folder.path()).expect("a store");
    assert_eq!(texts(&rig, bob, 1).await, ["one", "three"]);
    rig.engine.requeue(Seq(2)).await.expect("the operator tries");
    assert!(texts(&rig, bob, 2).await.is_empty(), "it is as bad as before");
    assert_eq!(record(&rig, 2).await.expect("kept").deliveries[0].state, UNREADABLE);

    write(folder.path(), "UPDATE messages SET body = 'two' WHERE seq = 2");
    rig.engine.requeue(Seq(2)).await.expect("it is dead");
    assert_eq!(texts(&rig, bob, 3).await, ["two"]);
}

#[tokio::test]
async fn mail_in_a_mailbox_that_is_not_known_is_not_queued_again() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bob = three(folder.path()).await;
    let dead = "state = 2, how = 'cancelled', settled_at = 0";
    write(folder.path(), &format!("UPDATE deliveries SET mailbox = 77, {dead} WHERE seq = 2"));
    let rig = rig::at(folder.path()).expect("a store");
    let refused = rig.engine.requeue(Seq(2)).await;
    assert!(matches!(refused, Err(ActError::Conflict(_))), "{refused:?}");
    rig.send(HUMAN, &bob.to_string(), "four").await.expect("the writer lives");
}

#[tokio::test]
async fn whoever_looks_sees_what_is_left_of_a_damaged_message() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bob = three(folder.path()).await;
    write(folder.path(), "UPDATE messages SET body = CAST(x'74776fff' AS TEXT) WHERE seq = 2");
    let rig = rig::at(folder.path()).expect("a store");
    let query = HistoryQuery { last: 10, ..HistoryQuery::default() };
    let page = rig.engine.history(query).await.expect("one bad row is no bad page");
    let bodies: Vec<_> = page.records.iter().map(|r| r.message.body.as_str()).collect();
    assert_eq!(bodies, ["one", "two\u{fffd}", "three"]);
    assert_eq!(texts(&rig, bob, 1).await, ["one", "three"], "readers get no half message");
}

#[tokio::test]
async fn the_sender_of_an_unreadable_message_is_told_so() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = Place::File(folder.path().to_owned());
    // Every text lies on disk.
    let world = World::open(&place, Limits { window_messages: 0, ..Limits::default() });
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let sent = alice.sends(&bob, "lost").await.seq;
    alice.sends(&bob, "found").await;
    write(folder.path(), "UPDATE messages SET body = CAST(x'ff' AS TEXT) WHERE seq = 1");
    assert_eq!(bob.reads().await.texts(), ["found"]);
    world.hub.ready().await.expect("one row is no reason to stop");

    let trail = world.hub.trail(alice.who, MessageRef::Seq(sent)).await.expect("a look");
    let trail = trail.expect("its sender may see it");
    assert!(trail.verdict.starts_with("dead: the database cannot read it"), "{}", trail.verdict);
    let told: Vec<_> = trail.steps.iter().map(|step| (step.event, &*step.text)).collect();
    let set_aside = told.iter().find(|(event, _)| *event == "unreadable").expect("a step");
    assert!(set_aside.1.contains("messages, row 1, column body"), "{told:?}");
    assert!(told.iter().any(|(event, _)| *event == "dead"), "{told:?}");
}

#[tokio::test]
async fn many_bad_rows_are_set_aside_a_thousand_at_a_time() {
    const BAD: u64 = 2_500;
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bob = three(folder.path()).await;
    let one = "INSERT INTO bad SELECT * FROM deliveries WHERE no = 3; UPDATE bad SET size = -1";
    let more = "UPDATE bad SET no = no + 1; INSERT INTO deliveries SELECT * FROM bad;";
    let more = more.repeat(usize::try_from(BAD).expect("a number"));
    let table = "CREATE TEMP TABLE bad AS SELECT * FROM deliveries WHERE 0";
    write(folder.path(), &format!("BEGIN; {table}; {one}; {more} COMMIT"));
    let rig = rig::at(folder.path()).expect("a store");
    assert_eq!(texts(&rig, bob, 1).await, ["one", "two", "three"]);
    let all = async {
        loop {
            rig.engine.probe().await.expect("the writer goes on");
            let figures = rig.engine.figures().await.expect("figures");
            if figures.tally.dead().any(|dead| dead == ("unreadable", BAD)) {
                break;
            }
        }
    };
    timeout(Duration::from_secs(60), all).await.expect("all are set aside");
    drop(rig);

    let db = Connection::open(folder.path().join("hub.db")).expect("a database");
    let sql = "SELECT max(last - no + 1) FROM event_lists";
    let most: u64 = db.query_row(sql, [], |row| row.get(0)).expect("events");
    assert_eq!(most, 1_000, "events of one transaction");
}

#[tokio::test]
async fn a_bad_row_does_not_stop_the_mailbox_although_nothing_can_be_written() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (data, away) = (scratch.path().join("data"), scratch.path().join("away"));
    let bob = three(&data).await;
    write(&data, "UPDATE messages SET body = CAST(x'ff' AS TEXT) WHERE seq = 2");
    let rig = rig::at(&data).expect("a store");
    std::fs::rename(&data, &away).expect("moved");
    assert_eq!(texts(&rig, bob, 1).await, ["one", "three"]);
    assert!(texts(&rig, bob, 2).await.is_empty(), "it is not tried again");

    drop(rig);
    let rig = rig::at(&away).expect("where it is now");
    assert_eq!(texts(&rig, bob, 1).await, ["one", "three"]);
    assert_eq!(record(&rig, 2).await.expect("kept").deliveries[0].state, UNREADABLE);
}

#[tokio::test]
async fn a_gather_names_the_worker_whose_report_cannot_be_read() {
    for damage in [
        "UPDATE messages SET body = CAST(x'ff' AS TEXT) WHERE seq = 2",
        "UPDATE deliveries SET size = -1 WHERE seq = 2",
    ] {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let rig = rig::at(folder.path()).expect("a new store");
        let boss = rig.agent("boss").await;
        let wish = |task| working_suite::hire(&rig, boss, task, Details::default());
        rig.engine.put_profile(put("mason", "lays bricks")).await.expect("written");
        let worker = rig.engine.hire(wish("wall")).await.expect("hired").instance.id;
        let answer = Some("a wall".to_owned());
        let ending = Ending { answer, ..Ending::plain(Status::Finished, Vec::new()) };
        rig.engine.end(worker, ending).await.expect("ended");
        let report = rig.engine.ledger(|l| l.given(boss, true))[0]
            .assignment
            .report
            .clone()
            .expect("a report");
        assert_eq!(report.seq, Seq(2));
        rig.engine.close().await.expect("closed");
        drop(rig);
        write(folder.path(), damage);

        // Also when the report is known to be dead.
        for _ in 0..2 {
            let place = Place::File(folder.path().to_owned());
            let world = World::open(&place, Limits::default());
            let boss = world.knows(boss);
            let worker = worker.to_string();
            let gather = boss.gather(Duration::from_secs(60), WaitFor::All, &[&worker]);
            let answer = boss.asks(gather).await;
            assert_eq!(answer.status, BatchStatus::Partial, "{damage}");
            let named: Vec<_> = answer.missing.iter().map(|m| (m.instance, m.status)).collect();
            let id = worker.parse().ok();
            assert_eq!(named, [(id, "unreadable")], "{damage}");
            world.hub.close().await.expect("closed");
        }
    }
}
