//! What a restart keeps, and what it marks.

use std::time::Duration;

use posthaste_core::messaging::delivery::{AnswerId, Proof};
use posthaste_core::messaging::message::{Details, MessageRef, Principal};
use posthaste_core::ports::{Filter, Leased, RecordState, Take, What};
use posthaste_core::{Hub, NotReady};
use posthaste_testkit::store_suite::Rig;

use crate::rig;

const HUMAN: Principal = Principal::Operator;

async fn read(rig: &Rig, reader: Principal, answer: u64, messages: usize) -> Vec<Leased> {
    let take = Take {
        reader,
        answer: AnswerId(answer),
        filter: Filter::default(),
        messages,
        bytes: usize::MAX,
    };
    rig.store.lease(take).await.expect("a lease").mail
}

fn seen(mail: &[Leased]) -> Vec<(&str, bool)> {
    mail.iter().map(|l| (l.message.body.as_str(), l.redelivered)).collect()
}

/// The process is gone without a word; only the lock goes with it.
fn kill(rig: Rig) {
    drop(rig);
}

#[tokio::test]
async fn after_a_clean_stop_only_never_leased_mail_is_unmarked() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    for body in ["acked", "held", "returned", "untouched"] {
        rig.send(HUMAN, &bob.to_string(), body).await.expect("accepted");
    }
    let mail = read(&rig, bob, 1, 3).await;
    let one = |i: usize| What::Deliveries(vec![mail[i].delivery]);
    rig.store.ack(bob, one(0), Proof::Receipt).await.expect("acked");
    rig.store.give_back(bob, vec![mail[2].delivery], AnswerId(1), false);
    rig.store.close().await.expect("closed");
    drop(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    let mail = read(&rig, bob, 2, 9).await;
    assert_eq!(seen(&mail), [("held", true), ("returned", true), ("untouched", false)]);
}

#[tokio::test]
async fn after_a_kill_everything_is_there_and_marked() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    rig.send(HUMAN, &bob.to_string(), "acked").await.expect("accepted");
    let mail = read(&rig, bob, 1, 9).await;
    let what = What::Deliveries(vec![mail[0].delivery]);
    rig.store.ack(bob, what, Proof::Receipt).await.expect("acked");
    rig.send(HUMAN, &bob.to_string(), "waits").await.expect("accepted");
    kill(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(seen(&read(&rig, bob, 2, 9).await), [("waits", true)]);
}

#[tokio::test]
async fn instances_tokens_teams_keys_and_numbers_survive() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let key = || Details { idempotency_key: Some("once".into()), ..Details::default() };
    let first = rig.send_with(alice, "bob", "hello", key()).await.expect("accepted");
    let before = rig.store.instance(bob.instance().expect("an instance")).expect("known");
    rig.store.close().await.expect("closed");
    drop(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    let after = rig.store.instance(bob.instance().expect("an instance")).expect("known");
    assert_eq!(before.instance.address, after.instance.address);
    assert_eq!(before.instance.thread, after.instance.thread);
    let again = rig.send_with(alice, "bob", "hello", key()).await.expect("accepted");
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    let next = rig.send(alice, "bob", "more").await.expect("accepted");
    assert_eq!(next.seq.0, first.seq.0 + 1);
    let by_id = rig.store.message(MessageRef::Id(first.id)).await.expect("a look");
    assert_eq!(by_id.expect("found").message.body, "hello");
}

#[tokio::test]
async fn an_idempotency_key_is_forgotten_after_its_time() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let (alice, _bob) = (rig.agent("alice").await, rig.agent("bob").await);
    let key = || Details { idempotency_key: Some("once".into()), ..Details::default() };
    rig.send_with(alice, "bob", "hello", key()).await.expect("accepted");
    rig.clock.advance(rig.limits.key_retention + Duration::from_secs(1));
    rig.store.sweep().await.expect("swept");
    let again = rig.send_with(alice, "bob", "hello", key()).await.expect("accepted");
    assert!(!again.duplicate);
}

#[tokio::test]
async fn the_dead_and_the_refused_stay_so() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    let dead = rig.send(HUMAN, &bob.to_string(), "dead").await.expect("accepted");
    rig.store.cancel(dead.seq).await.expect("cancelled");
    rig.send(HUMAN, &bob.to_string(), "nacked").await.expect("accepted");
    for attempt in 1..=4 {
        let mail = read(&rig, bob, attempt, 9).await;
        rig.store.nack(bob, What::Deliveries(vec![mail[0].delivery])).await.expect("refused");
    }
    kill(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    let mail = read(&rig, bob, 9, 9).await;
    assert_eq!(seen(&mail), [("nacked", true)]);
    let nacked = rig.store.nack(bob, What::Deliveries(vec![mail[0].delivery])).await;
    assert_eq!(nacked.expect("refused").refused, 1, "the fifth, counted over the restart");
    rig.store.requeue(dead.seq).await.expect("queued again");
    kill(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(seen(&read(&rig, bob, 1, 9).await), [("dead", true)]);
    let record = rig.store.message(MessageRef::Seq(dead.seq)).await.expect("a look");
    let state = record.expect("found").deliveries[0].state;
    assert_eq!(state, RecordState::Leased);
}

#[tokio::test]
async fn ids_taken_by_a_weak_proof_are_named_again_after_a_start() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    let sent = rig.send(HUMAN, &bob.to_string(), "x").await.expect("accepted");
    let mail = read(&rig, bob, 1, 9).await;
    let what = What::Deliveries(vec![mail[0].delivery]);
    rig.store.ack(bob, what, Proof::NextCall).await.expect("acked");
    kill(rig);
    let rig = rig::at(folder.path()).expect("opened again");
    assert_eq!(rig.store.taken(bob), [sent.seq]);
}

#[tokio::test]
async fn a_store_that_still_reads_what_is_open_is_not_ready() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let rig = rig::at(folder.path()).expect("a new store");
    let bob = rig.agent("bob").await;
    for _ in 0..420 {
        rig.agent("one").await;
    }
    // More than is read before the doors open.
    for _ in 0..50 {
        rig.send(HUMAN, "@everyone", "to all").await.expect("accepted");
    }
    assert!(rig.store.is_ready());
    kill(rig);

    let rig = rig::at(folder.path()).expect("opened again");
    assert!(!rig.store.is_ready(), "nothing has run since it was opened");
    let (store, queue, clock) = (rig.store.clone(), rig.queue.clone(), rig.clock.clone());
    let hub = Hub::start(store, queue, clock, rig.limits.clone());
    assert!(matches!(hub.ready().await, Err(NotReady::Reading)));
    assert_eq!(read(&rig, bob, 1, 99).await.len(), 50, "a read waits until all is known");
    assert!(rig.store.is_ready());
    hub.ready().await.expect("now it is");
}
