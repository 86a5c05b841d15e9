//! What only a file can break: a second hub, damage, a full disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::address::Address;
use posthaste_core::messaging::delivery::{AnswerId, Proof};
use posthaste_core::messaging::message::{Details, Draft, Principal, Via};
use posthaste_core::messaging::send::SendError;
use posthaste_core::orchestration::{AgentsConfig, Assign, ReportState};
use posthaste_core::ports::{Ending, StoreError, What};
use posthaste_core::registry::Status;
use posthaste_store::{Inspection, OpenError, Place, StoreConfig, inspect};
use posthaste_testkit::profiles_suite::put;
use posthaste_testkit::staff::{self, Staff};
use posthaste_testkit::store_suite::Rig;
use posthaste_testkit::working_suite;
use posthaste_testkit::world::World;
use rusqlite::Connection;
use tokio::runtime::Builder;

use crate::restart::spoil;
use crate::rig;

const HUMAN: Principal = Principal::Operator;

#[tokio::test]
async fn a_second_hub_on_the_same_folder_is_told_who_holds_it() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let first = rig::at(folder.path()).expect("a new store");
    let second = rig::at(folder.path());
    let me = format!("process {}", std::process::id());
    assert!(matches!(second, Err(OpenError::Locked { holder, .. }) if holder == me));
    first.engine.close().await.expect("closed");
    rig::at(folder.path()).expect("free again");
}

#[tokio::test]
async fn a_damaged_database_is_named_and_left_alone() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = folder.path().join("hub.db");
    let rubbish = b"this is no database, but it is somebody's data".repeat(100);
    std::fs::write(&file, &rubbish).expect("written");
    let error = rig::at(folder.path()).err().expect("refused");
    assert!(matches!(&error, OpenError::Corrupt { file: f, .. } if *f == file), "{error}");
    assert!(error.hint().contains("backup"));
    assert_eq!(std::fs::read(&file).expect("still there"), rubbish);
}

/// A database of many pages, closed, and who reads its mail.
async fn fifty_texts(folder: &Path) -> (PathBuf, Principal) {
    let rig = rig::at(folder).expect("a new store");
    let bob = rig.agent("bob").await;
    for n in 0..50 {
        rig.send(HUMAN, &bob.to_string(), &n.to_string().repeat(900)).await.expect("accepted");
    }
    rig.engine.close().await.expect("closed");
    (folder.join("hub.db"), bob)
}

#[tokio::test]
async fn a_database_with_damaged_pages_is_never_replaced_by_a_new_one() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (file, _) = fifty_texts(folder.path()).await;
    let mut bytes = std::fs::read(&file).expect("a file");
    bytes[8192..].fill(0x5a);
    std::fs::write(&file, &bytes).expect("damaged");
    let error = rig::at(folder.path()).err().expect("refused");
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn mailboxes_that_do_not_read_as_they_were_written_stop_the_start() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    rig.send(HUMAN, &alice.to_string(), "for alice").await.expect("accepted");
    rig.send(HUMAN, &bob.to_string(), "for bob").await.expect("accepted");
    rig.engine.close().await.expect("closed");
    drop(rig);
    let file = folder.path().join("hub.db");
    let sound = std::fs::read(&file).expect("a file");
    for damage in [
        "UPDATE mailboxes SET key = 'rubbish' WHERE no = 0",
        "UPDATE mailboxes SET no = 7 WHERE no = 1",
        "DELETE FROM mailboxes WHERE no = 0",
        "DELETE FROM mailboxes WHERE no = 1",
    ] {
        let db = Connection::open(&file).expect("a database");
        db.execute(damage, []).expect("damaged");
        db.close().expect("closed");
        let error = rig::at(folder.path()).err().expect(damage);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{damage}: {error}");
        std::fs::write(&file, &sound).expect("as it was");
    }
    let rig = rig::at(folder.path()).expect("nothing is wrong with this one");
    assert_eq!(rig.read(bob, 1).await[0].message.body, "for bob");
}

#[tokio::test]
async fn a_database_that_was_emptied_or_removed_is_never_replaced_by_a_new_one() {
    let patience = std::time::Duration::from_secs(60);
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (file, log) = (folder.path().join("hub.db"), folder.path().join("hub.db-wal"));
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &bob.to_string(), "still in the log").await.expect("accepted");
    let accepted = std::fs::read(&log).expect("a log");
    rig.engine.close().await.expect("closed");
    drop(rig);
    let refused = |what: &str| {
        let error = rig::at(folder.path()).err().unwrap_or_else(|| panic!("opened: {what}"));
        assert!(matches!(&error, OpenError::Corrupt { file: f, .. } if *f == file), "{error}");
        assert!(error.hint().contains("backup"), "{what}");
        let seen = inspect(folder.path(), patience).expect_err("seen from outside as well");
        assert_eq!(seen.to_string(), error.to_string(), "{what}");
    };

    std::fs::write(&file, "").expect("emptied");
    refused("empty, after a clean stop");
    std::fs::write(&log, &accepted).expect("as a kill leaves it");
    refused("empty, beside a log");
    std::fs::remove_file(&file).expect("removed");
    refused("gone, beside a log");
    assert_eq!(std::fs::read(&log).expect("still there"), accepted);
    assert!(!file.exists());
}

#[tokio::test]
async fn a_first_start_that_was_interrupted_begins_again() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    std::fs::write(folder.path().join("hub.db.new"), "half of a database").expect("written");
    let rig = rig::at(folder.path()).expect("a new store");
    rig.agent("bob").await;
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().contains("new")));
}

#[tokio::test]
async fn a_damaged_database_takes_no_new_mail_and_gives_what_can_be_read() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (file, bob) = fifty_texts(folder.path()).await;
    let sound = std::fs::read(&file).expect("a file");
    spoil(&file, "SELECT pageno FROM dbstat WHERE name = 'messages' AND pagetype = 'leaf' LIMIT 1");

    let rig = rig::at(folder.path()).expect("what it needs at a start is sound");
    assert!(rig.engine.is_healthy());
    let read = rig.read(bob, 1).await;
    assert!((1..50).contains(&read.len()), "what can be read is read: {}", read.len());
    assert!(!rig.engine.is_healthy());
    let probed = rig.engine.probe().await.expect_err("not before it is mended");
    let StoreError::Damaged { what, hint } = &probed else { panic!("{probed}") };
    assert!(what.contains(&*file.to_string_lossy()), "{what}");
    assert!(hint.contains("backup") && hint.contains("posthaste export"), "{hint}");

    let refused = rig.send(HUMAN, &bob.to_string(), "one more").await.expect_err("not now");
    assert_eq!(refused.to_string(), probed.to_string());
    let all = What::Deliveries(read.iter().map(|leased| leased.delivery).collect());
    let acked = rig.engine.ack(bob, all, Proof::Receipt).await.expect("what was read is settled");
    assert_eq!(acked.acked, read.len());
    assert!(rig.read(bob, 2).await.is_empty(), "the rest is kept back");
    assert!(!rig.engine.is_healthy(), "a good write mends nothing");

    // Nothing was given up: whoever mends the file finds the rest waiting.
    drop(rig);
    std::fs::write(&file, &sound).expect("mended");
    let rig = rig::at(folder.path()).expect("opened again");
    let id = bob.instance().expect("an instance");
    assert!(rig.engine.ledger(|l| l.instance(id)).expect("known").unread >= 50 - read.len());
    assert!(rig.engine.is_healthy());
}

#[tokio::test]
async fn another_programs_database_is_not_touched() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = folder.path().join("hub.db");
    let db = rusqlite::Connection::open(&file).expect("a database");
    db.execute_batch("CREATE TABLE theirs (x)").expect("a table");
    drop(db);
    let refused = rig::at(folder.path());
    assert!(matches!(refused, Err(OpenError::Foreign { .. })));
}

#[tokio::test]
async fn a_newer_database_is_not_touched() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    rig.engine.close().await.expect("closed");
    drop(rig);
    let db = rusqlite::Connection::open(folder.path().join("hub.db")).expect("a database");
    db.pragma_update(None, "user_version", 999).expect("set");
    drop(db);
    assert!(matches!(rig::at(folder.path()), Err(OpenError::Newer { found: 999, .. })));
}

#[tokio::test]
async fn a_full_store_refuses_and_recovers_without_losing_anything() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let small = StoreConfig { max_bytes: 600 << 10, ..rig::config() };
    let place = Place::File(folder.path().to_owned());
    let rig = rig::open(&place, small, rig::limits()).expect("a small store");
    let bob = rig.agent("bob").await;
    let body = "x".repeat(12_000);
    let mut accepted = 0;
    let refused = loop {
        let key = format!("k{accepted}");
        let details = Details { idempotency_key: Some(key), ..Details::default() };
        match rig.send_with(HUMAN, &bob.to_string(), &body, details).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 60, "the limit was never reached");
    };
    assert!(matches!(refused, SendError::Store(StoreError::Unavailable(_))), "{refused}");
    assert!(!rig.engine.is_healthy());
    assert!(rig.engine.probe().await.is_err(), "there is no room yet");
    assert!(accepted > 5);
    rig.engine.close().await.ok();
    drop(rig);

    // The operator makes room: nothing half-written, the same key is still new.
    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(
        rig.engine
            .ledger(|l| l.instance(bob.instance().expect("an instance")))
            .expect("known")
            .unread,
        accepted
    );
    let key = Details { idempotency_key: Some(format!("k{accepted}")), ..Details::default() };
    let sent = rig.send_with(HUMAN, &bob.to_string(), &body, key).await.expect("room again");
    assert!(!sent.duplicate);
    assert_eq!(sent.seq.0, accepted as u64 + 1, "the refused one took no number");
    assert!(rig.engine.is_healthy());
}

#[tokio::test]
async fn an_end_that_the_disk_does_not_take_has_not_happened() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let small = StoreConfig { max_bytes: 700 << 10, ..rig::config() };
    let place = Place::File(folder.path().to_owned());
    let rig = rig::open(&place, small, rig::limits()).expect("a small store");
    rig.engine.put_profile(put("mason", "lays bricks")).await.expect("written");
    let boss = rig.agent("boss").await;
    let wish = |task: &str| working_suite::hire(&rig, boss, task, Details::default());
    let worker = rig.engine.hire(wish("wall")).await.expect("hired");
    let id = worker.instance.id;
    while rig.send(HUMAN, &boss.to_string(), &"x".repeat(20_000)).await.is_ok() {}
    while rig.send(HUMAN, &boss.to_string(), "x").await.is_ok() {}
    let refused = rig.engine.hire(wish(&"roof".repeat(5_000))).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(rig.engine.ledger(|l| l.in_line()).len(), 1, "no worker without its task");
    let answer = Some("a wall ".repeat(4_000));
    let ending = Ending { answer, ..Ending::plain(Status::Finished, Vec::new()) };
    let refused = rig.engine.end(id, ending.clone()).await;
    assert!(refused.is_err(), "{refused:?}");
    let status = |rig: &Rig| rig.engine.ledger(|l| l.instance(id)).expect("known").instance.status;
    assert_eq!(status(&rig), Status::Starting);
    assert_eq!(
        rig.engine.ledger(|l| l.assignment(worker.task)).expect("open").report,
        ReportState::Open
    );
    rig.engine.close().await.ok();
    drop(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(status(&rig), Status::Starting);
    rig.engine.end(id, ending).await.expect("room again");
    let given = rig.engine.ledger(|l| l.given(boss, false));
    assert!(matches!(given[0].report, ReportState::Waits(_)), "{given:?}");
}

#[test]
fn what_is_returned_while_its_reply_is_written_is_offered_again_if_the_disk_is_full() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let small = StoreConfig { max_bytes: 600 << 10, ..rig::config() };
    let place = Place::File(folder.path().to_owned());
    // One thread for the disk: whoever occupies it keeps the flush waiting.
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        let rig = rig::open(&place, small, rig::limits()).expect("a small store");
        let bob = rig.agent("bob").await;
        let sent = rig.send(HUMAN, &bob.to_string(), "ready?").await.expect("accepted");
        let held: Vec<_> = rig.read(bob, 1).await.iter().map(|leased| leased.delivery).collect();
        let (release, occupied) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || occupied.recv());

        let details = Details { in_reply_to: Some(sent.seq), ..Details::default() };
        let body = "y".repeat(900_000);
        let draft = Draft::new(bob, Address::Human, body.into(), details, Via::Rest, &rig.limits);
        let reply = rig.engine.append(draft.expect("within the limits"));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        rig.engine.give_back(bob, &held, AnswerId(1), true);
        assert!(rig.read(bob, 2).await.is_empty(), "it is being settled");
        rig.queue.0.lock().clear();
        drop(release);

        let refused = reply.await;
        assert!(matches!(refused, Err(SendError::Store(_))), "{refused:?}");
        let rung: Vec<_> = rig.queue.0.lock().iter().map(|ticket| ticket.delivery).collect();
        assert_eq!(rung, held, "whoever waits is told");
        let again = rig.read(bob, 3).await;
        let marks: Vec<_> = again.iter().map(|l| (l.redelivered, l.doubted)).collect();
        assert_eq!(marks, [(true, true)]);
    });
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_mail_could_not_be_read_hears_of_it_later() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    // Every text lies on disk.
    let limits = Limits { window_messages: 0, ..Limits::default() };
    let world = World::open(&Place::File(folder.path().to_owned()), limits);
    let staff = Arc::new(Staff::default());
    staff::profile(&world.hub, "mason", Some("command"), "{}").await;
    world.hub.employ(Arc::clone(&staff) as _, AgentsConfig::default()).await;
    let boss = world.agent("boss").await;
    let assign = Assign {
        by: boss.who,
        agent: "mason".parse().expect("a name"),
        worker: None,
        terms: None,
        team: None,
        message: "listen".into(),
        label: None,
        directory: None,
        worktree: None,
        timeout: None,
        idempotency_key: None,
        via: Via::Rest,
    };
    let worker = world.hub.assign(assign).await.expect("assigned").instance.id;
    staff.runs(worker).await;

    // Whoever looks for a text fails; what is written goes where it belongs.
    let db = Connection::open(folder.path().join("hub.db")).expect("a second connection");
    let columns = "SELECT group_concat(name, ', ') FROM pragma_table_info('messages')";
    let columns: String = db.query_row(columns, [], |row| row.get(0)).expect("columns");
    let values = columns.split(", ").map(|name| format!("NEW.{name}")).collect::<Vec<_>>();
    let failing = columns.replace("body", "json_extract(body || '{', '$') AS body");
    db.execute_batch(&format!(
        "ALTER TABLE messages RENAME TO kept; \
         CREATE VIEW messages AS SELECT {failing} FROM kept; \
         CREATE TRIGGER keep INSTEAD OF INSERT ON messages \
         BEGIN INSERT INTO kept ({columns}) VALUES ({}); END",
        values.join(", ")
    ))
    .expect("a view");
    boss.sends(&worker, "faster").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    db.execute_batch("DROP VIEW messages; ALTER TABLE kept RENAME TO messages")
        .expect("a table again");

    let told = tokio::time::timeout(Duration::from_secs(600), staff.has_told(1)).await;
    assert_eq!(told.expect("it is told"), [(worker, "faster".to_owned(), false)]);
    world.hub.close().await.expect("a clean stop");
}

#[tokio::test]
async fn a_look_from_outside_finds_what_a_start_would_and_changes_nothing() {
    let patience = std::time::Duration::from_secs(60);
    let folder = tempfile::tempdir().expect("a scratch folder");
    assert_eq!(inspect(folder.path(), patience).expect("nothing wrong"), None);

    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &bob.to_string(), "hello").await.expect("accepted");
    let beside = inspect(folder.path(), patience).expect("sound").expect("a database");
    assert!(beside.whole, "beside a hub that runs");
    rig.engine.close().await.expect("closed");
    drop(rig);

    let names = || {
        let list = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let mut names: Vec<_> = list.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let found = inspect(folder.path(), patience).expect("sound").expect("a database");
    let schema = beside.schema;
    assert!(matches!(found, Inspection { whole: true, bytes: 1.., .. } if found.schema == schema));
    assert_eq!(names(), before);

    let file = folder.path().join("hub.db");
    let db = rusqlite::Connection::open(&file).expect("a database");
    db.pragma_update(None, "user_version", 999).expect("set");
    drop(db);
    let newer = inspect(folder.path(), patience);
    assert!(matches!(newer, Err(OpenError::Newer { found: 999, .. })), "{newer:?}");
    let db = rusqlite::Connection::open(&file).expect("a database");
    db.pragma_update(None, "application_id", 1).expect("set");
    drop(db);
    let foreign = inspect(folder.path(), patience);
    assert!(matches!(foreign, Err(OpenError::Foreign { .. })), "{foreign:?}");
}

#[tokio::test]
async fn an_end_takes_the_room_that_was_kept_for_it() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    for _ in 0..50 {
        rig.send(HUMAN, &bob.to_string(), "x").await.expect("accepted");
    }
    let look = Connection::open(folder.path().join("hub.db")).expect("a second connection");
    let size = || -> (i64, i64) {
        let sql = "SELECT sum(payload), count(*) FROM dbstat WHERE name = 'deliveries'";
        look.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a size")
    };
    let open = size();

    let mail = rig.read(bob, 1).await;
    let all = What::Deliveries(mail.iter().map(|leased| leased.delivery).collect());
    let acked = rig.engine.ack(bob, all, Proof::Receipt).await.expect("acked");
    assert_eq!(acked.acked, 50);
    assert_eq!(size(), open, "bytes and pages of all rows");
}
