//! Mail into a running worker.

use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::Details;
use posthaste_core::messaging::proof::Scope;
use posthaste_core::ports::RecordState;
use tokio::time::sleep;

use super::Yard;

#[tokio::test(start_paused = true)]
async fn a_worker_that_hears_is_told_of_its_mail_as_it_comes() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "listen").await;
    let first = yard.boss.sends(&worker, "faster").await;
    yard.staff.has_told(1).await;
    let second = yard.boss.sends(&worker, "slower").await;
    let told = yard.staff.has_told(2).await;
    let texts: Vec<_> = told.iter().map(|(_, text, marked)| (text.as_str(), *marked)).collect();
    assert_eq!(texts, [("faster", false), ("slower", false)]);
    // Written is not read: what it answers is proved, and the rest by its good end.
    assert_eq!(yard.world.state(first.seq).await, RecordState::Leased);
    let answer = Details { in_reply_to: Some(first.seq), ..Details::default() };
    worker.sends_with(&yard.boss, "as fast as I can", answer).await;
    assert_eq!(yard.world.state(first.seq).await, RecordState::Acked(Proof::Reply));
    yard.answers(&worker, "done").await;
    assert_eq!(yard.world.state(second.seq).await, RecordState::Acked(Proof::End));
}

#[tokio::test(start_paused = true)]
async fn whoever_tells_it_takes_nobody_elses_mail_and_does_not_count_as_waiting() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "listen").await;
    let sent = yard.boss.sends(&worker, "one").await;
    assert_eq!(sent.recipients[0].waiting, 0);
    yard.staff.has_told(1).await;
    assert!(!yard.world.hub.is_waiting(worker.id()));
    // Mail for the name is for whoever reads it, and rings nobody who may not take it.
    let other = yard.world.agent("mason").await;
    let reads = other.waits(other.ask_within(super::LONG)).await;
    yard.boss.sends("mason", "for any of you").await;
    assert_eq!(reads.await.expect("an answer").texts(), ["for any of you"]);
    assert_eq!(yard.staff.has_told(1).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_tells_it_is_no_second_process_of_it() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "listen").await;
    yard.boss.sends(&worker, "faster").await;
    yard.staff.has_told(1).await;
    yard.world.hub.begin(worker.who, Scope::All);
    let sent = yard.boss.sends("mason", "one brick").await;
    assert_eq!(worker.asks(worker.mcp("1")).await.texts(), ["one brick"]);
    worker.asks(worker.mcp("2")).await;
    sleep(yard.world.hub.limits().proof_grace * 2).await;
    assert_eq!(yard.world.state(sent.seq).await, RecordState::Acked(Proof::NextCall));
}
