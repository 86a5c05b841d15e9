//! A database whose times lie in the future: the machine's clock was wrong and is right
//! again, or it is wrong now, and the hub was started anew.

use std::path::Path;
use std::time::Duration;

use posthaste_core::messaging::delivery::{AnswerId, Proof};
use posthaste_core::messaging::message::{Details, MessageRef, Principal, Seq};
use posthaste_core::ports::{Clock, Filter, Take, What};
use posthaste_testkit::store_suite::Rig;

use crate::rig;

const HUMAN: Principal = Principal::Operator;
const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// A store that was used while the clock was a year ahead.
async fn used_in_the_future(folder: &Path, use_it: impl AsyncFn(&Rig)) {
    let rig = rig::at(folder).expect("a new store");
    rig.clock.advance(YEAR);
    use_it(&rig).await;
    rig.engine.close().await.expect("closed");
}

fn keyed(key: &str) -> Details {
    Details { idempotency_key: Some(key.into()), ..Details::default() }
}

async fn read_and_ack(rig: &Rig, reader: Principal) -> usize {
    let take = Take {
        reader,
        answer: AnswerId(1),
        filter: Filter::default(),
        messages: 10,
        bytes: usize::MAX,
        clips: None,
    };
    let mail = rig.engine.lease(take).await.expect("a lease").mail;
    let what = What::Deliveries(mail.iter().map(|leased| leased.delivery).collect());
    rig.engine.ack(reader, what, Proof::Receipt).await.expect("acked");
    mail.len()
}

async fn is_kept(rig: &Rig, seq: Seq) -> bool {
    rig.engine.message(MessageRef::Seq(seq)).await.expect("a look").is_some()
}

#[tokio::test]
async fn old_mail_is_forgotten_although_its_time_was_in_the_future() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    used_in_the_future(folder.path(), async |rig| {
        let bob = rig.agent("bob").await;
        rig.send(HUMAN, &bob.to_string(), "settled").await.expect("accepted");
        assert_eq!(read_and_ack(rig, bob).await, 1);
        rig.send(HUMAN, &bob.to_string(), "unread").await.expect("accepted");
    })
    .await;

    let rig = rig::at(folder.path()).expect("opened again");
    let carol = rig.agent("carol").await;
    let later = rig.send(HUMAN, &carol.to_string(), "later").await.expect("accepted");
    read_and_ack(&rig, carol).await;
    rig.clock.advance(DAY + Duration::from_secs(60));
    rig.engine.sweep().await.expect("swept");
    assert!(!is_kept(&rig, Seq(1)).await, "settled more than a day ago");
    assert!(!is_kept(&rig, later.seq).await, "settled more than a day ago");
    assert!(is_kept(&rig, Seq(2)).await, "unread mail is never removed by age");
}

#[tokio::test]
async fn an_agent_that_was_seen_in_the_future_is_forgotten_in_time() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    used_in_the_future(folder.path(), async |rig| {
        rig.agent("bob").await;
    })
    .await;

    let rig = rig::at(folder.path()).expect("opened again");
    let now = rig.clock.now();
    let gone = rig.engine.forget_gone(now - Duration::from_secs(1)).await.expect("a look");
    assert!(gone.is_empty(), "it was seen when the hub ended, as far as anybody knows");
    rig.clock.advance(DAY);
    let now = rig.clock.now();
    let gone = rig.engine.forget_gone(now - Duration::from_secs(3_600)).await.expect("a look");
    assert_eq!(gone.len(), 1);
}

#[tokio::test]
async fn a_key_of_the_future_is_forgotten_after_a_day_and_holds_no_other_back() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    used_in_the_future(folder.path(), async |rig| {
        let bob = rig.agent("bob").await;
        for key in ["one", "two", "three"] {
            let sent = rig.send_with(HUMAN, &bob.to_string(), "early", keyed(key)).await;
            sent.expect("accepted");
        }
    })
    .await;

    let rig = rig::at(folder.path()).expect("opened again");
    let carol = rig.agent("carol").await.to_string();
    let again = async |key| {
        rig.send_with(HUMAN, &carol, "late", keyed(key)).await.expect("accepted").duplicate
    };
    assert!(!again("late").await && again("late").await, "a key is known at once");
    rig.clock.advance(DAY + Duration::from_secs(60));
    rig.engine.sweep().await.expect("swept");
    assert!(!again("late").await, "and no longer after a day");
}

#[tokio::test]
async fn a_start_with_a_clock_that_is_behind_loses_nothing() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    let rig = rig::later(folder, YEAR).expect("a new store");
    let bob = rig.agent("bob").await;
    let to = bob.to_string();
    let sent = rig.send_with(HUMAN, &to, "x", keyed("k")).await.expect("accepted");
    assert_eq!(read_and_ack(&rig, bob).await, 1);
    rig.engine.close().await.expect("closed");
    drop(rig);

    let rig = rig::at(folder).expect("a start a year behind");
    rig.engine.seen(bob);
    rig.engine.sweep().await.expect("swept");
    rig.clock.advance(DAY / 2);
    rig.engine.sweep().await.expect("swept, and bob is lost");
    rig.engine.close().await.expect("closed");
    drop(rig);

    let rig = rig::later(folder, YEAR + DAY / 2).expect("a start with the right clock");
    rig.engine.sweep().await.expect("swept");
    let now = rig.clock.now();
    let gone = rig.engine.forget_gone(now - DAY).await.expect("a look");
    assert!(gone.is_empty(), "it was here half a day ago");
    assert!(is_kept(&rig, sent.seq).await, "it was settled half a day ago");
    let again = rig.send_with(HUMAN, &to, "x", keyed("k")).await.expect("accepted");
    assert!(again.duplicate, "the key was given half a day ago");
}

#[tokio::test]
async fn rows_of_the_future_hold_no_others_back_although_the_hub_never_runs_for_a_day() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let folder = folder.path();
    used_in_the_future(folder, async |rig| {
        let bob = rig.agent("bob").await;
        rig.send_with(HUMAN, &bob.to_string(), "early", keyed("early")).await.expect("accepted");
        assert_eq!(read_and_ack(rig, bob).await, 1);
    })
    .await;

    let rig = rig::at(folder).expect("opened again");
    let carol = rig.agent("carol").await;
    let sent = rig.send(HUMAN, &carol.to_string(), "later").await.expect("accepted");
    assert_eq!(read_and_ack(&rig, carol).await, 1);
    rig.engine.close().await.expect("closed");
    drop(rig);

    let rig = rig::later(folder, DAY * 2).expect("opened again");
    rig.engine.sweep().await.expect("swept");
    assert!(!is_kept(&rig, sent.seq).await, "settled two days ago");
    assert!(is_kept(&rig, Seq(1)).await, "nobody knows how old it is");
}
