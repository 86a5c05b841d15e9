//! What is written together: a command that the disk does not take fails alone, and
//! nobody is answered from what was undone with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::{Details, Principal};
use posthaste_core::messaging::send::SendError;
use posthaste_core::ports::{Acked, Clock, Ending, StoreError, What};
use posthaste_core::registry::Status;
use posthaste_core::time::Timestamp;
use posthaste_store::Place;
use posthaste_testkit::profiles_suite::put;
use posthaste_testkit::store_suite::{HandClock, Rig, SpyQueue};
use posthaste_testkit::working_suite;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::rig;

const HUMAN: Principal = Principal::Operator;

/// A store whose disk refuses one text, and the end of anybody.
fn picky() -> (TempDir, Rig) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let db = Connection::open(folder.path().join("hub.db")).expect("a second connection");
    db.execute_batch(
        "CREATE TRIGGER text BEFORE INSERT ON messages WHEN NEW.body = 'poison'
         BEGIN SELECT RAISE(ABORT, 'not this text'); END;
         CREATE TRIGGER ending BEFORE UPDATE ON instances WHEN NEW.ended_at IS NOT NULL
         BEGIN SELECT RAISE(ABORT, 'nobody ends'); END;",
    )
    .expect("triggers");
    (folder, rig)
}

fn key(key: &str) -> Details {
    Details { idempotency_key: Some(key.into()), ..Details::default() }
}

#[tokio::test]
async fn a_second_ack_is_not_answered_by_a_first_that_was_undone() {
    let (folder, rig) = picky();
    let bob = rig.agent("bob").await;
    let to = bob.to_string();
    rig.send(HUMAN, &to, "x").await.expect("accepted");
    let mail = rig.read(bob, 1).await;
    let ack = || rig.engine.ack(bob, What::Deliveries(vec![mail[0].delivery]), Proof::Receipt);
    let (poison, first, second) = tokio::join!(rig.send(HUMAN, &to, "poison"), ack(), ack());
    poison.expect_err("not this text");
    assert_eq!(first.expect("acked").acked, 1);
    assert_eq!(second.expect("acked before"), Acked::default());

    rig.send(HUMAN, &to, "y").await.expect("accepted");
    let mail = rig.read(bob, 2).await;
    let db = Connection::open(folder.path().join("hub.db")).expect("a second connection");
    db.execute_batch(
        "CREATE TRIGGER acks BEFORE UPDATE ON deliveries
         BEGIN SELECT RAISE(ABORT, 'nothing is settled'); END;",
    )
    .expect("a trigger");
    let ack = || rig.engine.ack(bob, What::Deliveries(vec![mail[0].delivery]), Proof::Receipt);
    let (first, second) = tokio::join!(ack(), ack());
    first.expect_err("nothing is settled");
    second.expect_err("nothing is settled");
}

#[tokio::test]
async fn a_mailbox_is_not_full_of_what_was_undone() {
    let (_folder, rig) = picky();
    let bob = rig.agent("bob").await;
    let to = bob.to_string();
    for _ in 1..rig.limits.mailbox_messages {
        rig.send(HUMAN, &to, "x").await.expect("accepted");
    }
    let (poison, last) = tokio::join!(rig.send(HUMAN, &to, "poison"), rig.send(HUMAN, &to, "x"));
    poison.expect_err("not this text");
    last.expect("there is room for one");
}

#[tokio::test]
async fn a_key_is_not_known_from_what_was_undone() {
    let (_folder, rig) = picky();
    let bob = rig.agent("bob").await.to_string();
    let (poison, sent) = tokio::join!(
        rig.send_with(HUMAN, &bob, "poison", key("once")),
        rig.send_with(HUMAN, &bob, "x", key("once")),
    );
    poison.expect_err("not this text");
    assert!(!sent.expect("accepted").duplicate);

    let boss = rig.agent("boss").await;
    rig.engine.put_profile(put("mason", "lays bricks")).await.expect("written");
    let wish = |task| rig.engine.hire(working_suite::hire(&rig, boss, task, key("once")));
    let (poison, hired) = tokio::join!(wish("poison"), wish("wall"));
    assert!(poison.is_err(), "not this text");
    assert!(!hired.expect("hired").duplicate);
}

#[tokio::test]
async fn nobody_is_gone_whose_end_was_undone() {
    let (_folder, rig) = picky();
    let bob = rig.agent("bob").await;
    let id = bob.instance().expect("an instance");
    let ending = Ending::plain(Status::Finished, Vec::new());
    let to = bob.to_string();
    let (ended, sent) = tokio::join!(rig.engine.end(id, ending), rig.send(HUMAN, &to, "x"));
    ended.expect_err("nobody ends");
    sent.expect("bob is here");
}

#[tokio::test]
async fn a_refusal_beside_a_failure_keeps_its_reason() {
    let (_folder, rig) = picky();
    let bob = rig.agent("bob").await.to_string();
    let first = rig.send_with(HUMAN, &bob, "x", key("once")).await.expect("accepted");
    let (poison, reused, again) = tokio::join!(
        rig.send(HUMAN, &bob, "poison"),
        rig.send_with(HUMAN, &bob, "y", key("once")),
        rig.send_with(HUMAN, &bob, "x", key("once")),
    );
    poison.expect_err("not this text");
    assert!(reused.expect_err("another text").to_string().contains("key"));
    assert_eq!(again.expect("known").seq, first.seq);
    let (poison, unknown) =
        tokio::join!(rig.send(HUMAN, &bob, "poison"), rig.send(HUMAN, "nobody", "x"));
    poison.expect_err("not this text");
    assert!(unknown.expect_err("unknown").to_string().contains("nobody"));
}

/// Goes until it is broken.
#[derive(Debug, Default)]
struct FragileClock {
    broken: AtomicBool,
}

impl Clock for FragileClock {
    fn now(&self) -> Timestamp {
        if self.broken.load(Ordering::SeqCst) {
            // A panic without the hook, by which fuzz tests of this process count them.
            std::panic::resume_unwind(Box::new("the clock is broken"));
        }
        HandClock::default().now()
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_panics_leaves_nobody_waiting() {
    let (queue, clock) = (Arc::new(SpyQueue::default()), Arc::new(FragileClock::default()));
    let (config, limits) = (rig::config(), rig::limits());
    let (bell, time) = (queue.clone(), clock.clone());
    let engine = posthaste_store::open(&Place::Memory, config, limits.clone(), bell, time).await;
    let engine = engine.expect("a store in memory");
    let rig = Rig { engine, queue, clock: Arc::default(), limits, keep: Box::new(()) };
    let bob = rig.agent("bob").await.to_string();
    clock.broken.store(true, Ordering::SeqCst);
    let unknown = rig.send(HUMAN, &bob, "x").await.expect_err("the writer looks at the clock");
    assert!(matches!(unknown, SendError::Store(StoreError::Unknown(_))), "{unknown}");

    let patience = Duration::from_secs(60);
    let later = tokio::time::timeout(patience, rig.send(HUMAN, &bob, "y")).await;
    later.expect("it is answered").expect_err("nobody writes any more");
    assert!(!rig.engine.is_healthy());
    let why = tokio::time::timeout(patience, rig.engine.failed()).await;
    assert!(why.expect("whoever runs the hub is told").contains("the writer"));
    let closed = tokio::time::timeout(patience, rig.engine.close()).await;
    closed.expect("it ends").expect_err("no clean stop is noted");
}
