//! A data folder that is moved, deleted or taken under a running hub.

use std::path::PathBuf;
use std::time::Duration;

use posthaste_core::NotReady;
use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{HistoryQuery, StoreError};
use posthaste_store::{FolderLock, OpenError};
use posthaste_testkit::store_suite::Rig;
use posthaste_testkit::world::World;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::rig;

const HUMAN: Principal = Principal::Operator;

/// Within this time everything is noticed.
const SOON: Duration = Duration::from_secs(1);

/// A place for a data folder, and one to move it to.
fn places() -> (TempDir, PathBuf, PathBuf) {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (data, away) = (scratch.path().join("data"), scratch.path().join("away"));
    (scratch, data, away)
}

async fn refused(rig: &Rig, to: &str) -> (String, String) {
    let error = rig.send(HUMAN, to, "refused").await.expect_err("it must be refused");
    let SendError::Store(StoreError::Misplaced { what, hint }) = error else { panic!("{error}") };
    (what.to_string(), hint.to_string())
}

async fn texts(rig: &Rig, reader: Principal, answer: u64) -> Vec<String> {
    let mail = rig.read(reader, answer).await;
    mail.iter().map(|leased| leased.message.body.to_string()).collect()
}

#[tokio::test]
async fn a_data_folder_that_was_moved_takes_no_mail_until_it_is_back() {
    let (_scratch, data, away) = places();
    let rig = rig::at(&data).expect("a new store");
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &bob.to_string(), "before").await.expect("accepted");
    std::fs::rename(&data, &away).expect("moved");

    let (what, hint) = refused(&rig, &bob.to_string()).await;
    assert!(what.contains("moved") && what.contains(&*data.to_string_lossy()), "{what}");
    assert!(hint.contains("--data"), "{hint}");
    assert!(!rig.engine.is_healthy());
    let probed = rig.engine.probe().await.expect_err("it is not in its place");
    assert!(matches!(probed, StoreError::Misplaced { .. }), "{probed}");
    assert_eq!(texts(&rig, bob, 1).await, ["before"], "what is known is still read");

    // An empty folder in its place is not it.
    std::fs::create_dir(&data).expect("made");
    refused(&rig, &bob.to_string()).await;
    std::fs::remove_dir(&data).expect("removed");

    std::fs::rename(&away, &data).expect("moved back");
    let sent = rig.send(HUMAN, &bob.to_string(), "after").await.expect("accepted");
    assert_eq!(sent.seq.0, 2, "what was refused took no number");
    assert!(rig.engine.is_healthy());
    rig.engine.close().await.expect("closed");
    drop(rig);
    let rig = rig::at(&data).expect("opened again");
    assert_eq!(texts(&rig, bob, 1).await, ["before", "after"]);
}

#[tokio::test(start_paused = true)]
async fn each_file_of_the_database_is_missed_within_a_second() {
    for file in ["hub.db", "hub.db-wal", "hub.db-shm"] {
        let (_scratch, data, away) = places();
        let rig = rig::at(&data).expect("a new store");
        let bob = rig.agent("bob").await.to_string();
        std::fs::rename(data.join(file), &away).expect("moved");
        sleep(SOON).await;
        assert!(!rig.engine.is_healthy(), "{file}");
        let (what, _) = refused(&rig, &bob).await;
        assert!(what.contains(file), "{what}");
        std::fs::copy(&away, data.join(file)).expect("a copy is another file");
        let (what, _) = refused(&rig, &bob).await;
        assert!(what.contains("another file"), "{what}");
        std::fs::rename(&away, data.join(file)).expect("moved back");
        rig.send(HUMAN, &bob, "after").await.expect("accepted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_whose_folder_was_deleted_is_not_ready_although_nobody_sends() {
    let (_scratch, data, _) = places();
    let world = World::at(&data);
    let bob = world.agent("bob").await;
    world.hub.ready().await.expect("all is well");
    std::fs::remove_dir_all(&data).expect("deleted");
    sleep(SOON).await;
    assert!(!world.hub.is_healthy());
    let told = world.hub.ready().await.expect_err("there is no folder");
    let NotReady::Misplaced(StoreError::Misplaced { what, hint }) = told else { panic!("{told}") };
    assert!(what.contains("deleted"), "{what}");
    assert!(hint.contains("posthaste export"), "{hint}");
    let draft = world.operator().draft(&bob, "x", Default::default());
    world.hub.send(draft).await.expect_err("it would be lost");
}

#[tokio::test(start_paused = true)]
async fn a_lock_file_that_was_removed_is_made_again() {
    let (_scratch, data, _) = places();
    let rig = rig::at(&data).expect("a new store");
    let bob = rig.agent("bob").await.to_string();
    std::fs::remove_file(data.join("hub.lock")).expect("removed");
    sleep(SOON).await;
    rig.send(HUMAN, &bob, "x").await.expect("accepted");
    let second = rig::at(&data);
    assert!(matches!(second, Err(OpenError::Locked { .. })), "the folder is still taken");
    rig.engine.close().await.expect("closed");
    rig::at(&data).expect("free again");
}

#[tokio::test(start_paused = true)]
async fn a_hub_whose_folder_another_one_has_taken_says_that_it_cannot_go_on() {
    let (_scratch, data, _) = places();
    let rig = rig::at(&data).expect("a new store");
    let bob = rig.agent("bob").await.to_string();
    std::fs::remove_file(data.join("hub.lock")).expect("removed");
    let _other = FolderLock::take(&data).expect("another hub is quicker");
    sleep(SOON).await;
    let (what, _) = refused(&rig, &bob).await;
    assert!(what.contains("another hub uses"), "{what}");
    let why = timeout(Duration::from_secs(60), rig.engine.failed()).await;
    assert!(why.expect("it ends").contains("another hub uses"));
}

#[tokio::test]
async fn a_hub_whose_folder_another_one_has_taken_writes_nothing_more() {
    let (_scratch, data, _) = places();
    let first = rig::at(&data).expect("a new store");
    let bob = first.agent("bob").await;
    first.send(HUMAN, &bob.to_string(), "of the first").await.expect("accepted");
    std::fs::remove_file(data.join("hub.lock")).expect("removed");
    let second = rig::at(&data).expect("it has a lock file of its own");

    let (what, _) = refused(&first, &bob.to_string()).await;
    assert!(what.contains("another hub uses"), "{what}");
    let sent = second.send(HUMAN, &bob.to_string(), "of the second").await.expect("accepted");
    assert_eq!(sent.seq.0, 2, "there is no other second message");
    assert_eq!(texts(&second, bob, 1).await, ["of the first", "of the second"]);

    second.engine.close().await.expect("closed");
    drop(second);
    let (what, _) = refused(&first, &bob.to_string()).await;
    assert!(what.contains("another hub uses"), "it does not know what the other wrote: {what}");
}

#[tokio::test]
async fn what_a_hub_knows_can_be_saved_although_its_folder_was_deleted() {
    let (_scratch, data, _) = places();
    let rig = rig::at(&data).expect("a new store");
    let bob = rig.agent("bob").await.to_string();
    rig.send(HUMAN, &bob, "kept").await.expect("accepted");
    std::fs::remove_dir_all(&data).expect("deleted");
    let (_, hint) = refused(&rig, &bob).await;
    assert!(hint.contains("posthaste export --hub URL --token TOKEN"), "{hint}");

    let query = || HistoryQuery { last: 10, ..HistoryQuery::default() };
    let (one, other) = tokio::join!(rig.engine.history(query()), rig.engine.history(query()));
    for page in [one, other] {
        let records = page.expect("it is still open").records;
        assert_eq!(records.iter().map(|r| &*r.message.body).collect::<Vec<_>>(), ["kept"]);
    }
}

/// SQLite removes the log of a database by its path, when the last connection closes.
#[tokio::test]
async fn a_hub_that_was_moved_leaves_the_files_of_its_successor_alone() {
    let (_scratch, data, away) = places();
    let first = rig::at(&data).expect("a new store");
    let bob = first.agent("bob").await;
    first.send(HUMAN, &bob.to_string(), "old").await.expect("accepted");
    std::fs::rename(&data, &away).expect("moved");

    let second = rig::at(&data).expect("a new store in its place");
    let eve = second.agent("eve").await;
    second.send(HUMAN, &eve.to_string(), "new").await.expect("accepted");
    first.engine.close().await.expect_err("its stop could not be noted");
    assert!(data.join("hub.db-wal").exists(), "the second one needs it");
    second.send(HUMAN, &eve.to_string(), "newer").await.expect("accepted");
    drop((first, second));

    let first = rig::at(&away).expect("where it is now");
    assert_eq!(texts(&first, bob, 1).await, ["old"]);
    let second = rig::at(&data).expect("opened again");
    assert_eq!(texts(&second, eve, 1).await, ["new", "newer"]);
}
