//! What is looked at while it changes.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use posthaste_core::messaging::delivery::{AnswerId, Proof};
use posthaste_core::messaging::message::{MessageRef, Principal};
use posthaste_core::ports::{Filter, RecordState, Take, What};
use posthaste_store::StoreConfig;

use crate::rig;

const HUMAN: Principal = Principal::Operator;

#[tokio::test]
async fn a_stop_leaves_nobody_waiting_for_an_answer() {
    for _ in 0..20 {
        let rig = rig::file().await;
        let bob = rig.agent("bob").await;
        rig.send(HUMAN, &bob.to_string(), "x").await.expect("accepted");
        let sweeps: Vec<_> = (0..30)
            .map(|_| {
                let store = Arc::clone(&rig.engine);
                tokio::spawn(async move { store.sweep().await })
            })
            .collect();
        tokio::task::yield_now().await;
        let closed = tokio::time::timeout(Duration::from_secs(30), rig.engine.close()).await;
        closed.expect("it ends").expect("in order");
        for sweep in sweeps {
            let swept = tokio::time::timeout(Duration::from_secs(30), sweep).await;
            // Done, or refused: but answered.
            drop(swept.expect("it is answered").expect("no panic"));
        }
        assert!(rig.engine.sweep().await.is_err(), "the store is closed");
    }
}

#[tokio::test]
async fn a_page_of_the_journal_is_of_one_moment() {
    let rig = rig::file().await;
    let bob = rig.agent("bob").await;
    let done = AtomicBool::new(false);
    let read = async {
        let (mut after, mut heard) = (0, Vec::new());
        loop {
            let over = done.load(Ordering::Acquire);
            let page = rig.engine.events(after, 9).await.expect("a page");
            assert!(page.upto <= page.last, "{} is beyond {}", page.upto, page.last);
            heard.extend(page.events.iter().map(|e| e.no));
            after = page.upto;
            if over && page.events.is_empty() {
                return heard;
            }
        }
    };
    let write = async {
        for n in 0..300 {
            rig.send(HUMAN, &bob.to_string(), &n.to_string()).await.expect("accepted");
            if n % 50 == 49 {
                let mail = rig.read(bob, n).await;
                let what = What::Deliveries(mail.iter().map(|l| l.delivery).collect());
                rig.engine.ack(bob, what, Proof::Receipt).await.expect("acked");
            }
        }
        done.store(true, Ordering::Release);
    };
    let (heard, ()) = tokio::join!(read, write);
    assert_eq!(heard, (1..=heard.len() as u64).collect::<Vec<_>>(), "each once, in order");
    assert_eq!(heard.len() as u64, *rig.engine.last_event().borrow());
}

#[tokio::test]
async fn mail_that_is_being_acked_is_never_told_as_queued() {
    let rig = rig::file().await;
    let bob = rig.agent("bob").await;
    for n in 0..100 {
        let sent = rig.send(HUMAN, &bob.to_string(), "x").await.expect("accepted");
        let take = Take {
            reader: bob,
            answer: AnswerId(n),
            filter: Filter::default(),
            messages: 9,
            bytes: usize::MAX,
            clips: None,
        };
        let lease = rig.engine.lease(take).await.expect("a lease");
        let what = What::Deliveries(vec![lease.mail[0].delivery]);
        let ack = rig.engine.ack(bob, what, Proof::Receipt);
        let look = async {
            loop {
                let record = rig.engine.message(MessageRef::Seq(sent.seq)).await.expect("a look");
                let state = record.expect("kept").deliveries[0].state;
                assert_ne!(state, RecordState::Queued, "it was leased before");
                if matches!(state, RecordState::Acked(_)) {
                    return;
                }
            }
        };
        let (acked, ()) = tokio::join!(ack, look);
        assert_eq!(acked.expect("acked").acked, 1);
    }
}

#[tokio::test]
async fn a_page_of_the_journal_holds_no_more_text_than_an_answer() {
    let limits = posthaste_core::Limits { answer_bytes: 10_000, ..rig::limits() };
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = posthaste_store::Place::File(folder.path().to_owned());
    let rig = rig::open(&place, StoreConfig { wal_bytes: 0, ..StoreConfig::default() }, limits);
    let rig = rig.expect("a store");
    let bob = rig.agent("bob").await;
    for _ in 0..10 {
        rig.send(HUMAN, &bob.to_string(), &"x".repeat(4_000)).await.expect("accepted");
    }
    let page = rig.engine.events(0, 99).await.expect("a page");
    assert_eq!((page.events.len(), page.upto, page.last), (3, 3, 11), "one joined, two messages");
    let largest = rig.engine.events(u64::MAX, 99).await.expect("no number is that large");
    assert!(largest.events.is_empty());
}

#[tokio::test]
async fn mail_that_is_queued_again_while_it_is_pruned_is_kept_or_was_gone_before() {
    let mut kept = 0;
    // The sweep does one thing after the other: it is met at each of them. Looks into a
    // store in memory take no time, so that they meet there alike each time.
    for steps in 1..=4 {
        let rig = rig::memory().await;
        let bob = rig.agent("bob").await;
        let sent = rig.send(HUMAN, &bob.to_string(), "x").await.expect("accepted");
        rig.engine.cancel(sent.seq).await.expect("cancelled");
        rig.clock.advance(rig.limits.dead_retention + Duration::from_secs(1));

        let mut sweep = Box::pin(rig.engine.sweep());
        let mut left = steps;
        let met = poll_fn(|cx| {
            assert!(sweep.as_mut().poll(cx).is_pending(), "it has {steps} steps");
            left -= 1;
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        met.await;
        let (requeued, swept) = tokio::join!(rig.engine.requeue(sent.seq), sweep);
        swept.expect("swept");
        let there = rig.engine.message(MessageRef::Seq(sent.seq)).await.expect("a look").is_some();
        assert_eq!(there, requeued.is_ok(), "met at step {steps}");
        assert_eq!(rig.read(bob, 1).await.len(), usize::from(there), "met at step {steps}");
        kept += u32::from(there);
    }
    assert!((1..6).contains(&kept), "both happen: {kept}");
}
