//! Mail into a running worker.

use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::Details;
use posthaste_core::messaging::proof::Scope;
use posthaste_core::messaging::receive::Ask;
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
async fn whoever_tells_it_leaves_mail_for_the_name_to_those_who_wait_for_mail() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "listen").await;
    let sent = yard.boss.sends(&worker, "one").await;
    assert_eq!(sent.recipients[0].waiting, 0);
    yard.staff.has_told(1).await;
    assert!(!yard.world.hub.is_waiting(worker.id()));
    let other = yard.world.agent("mason").await;
    let reads = other.waits(other.ask_within(super::LONG)).await;
    yard.boss.sends("mason", "for any of you").await;
    assert_eq!(reads.await.expect("an answer").texts(), ["for any of you"]);
    assert_eq!(yard.staff.has_told(1).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_hears_is_told_of_all_mail_to_its_name_while_it_is_alone() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "listen").await;
    for text in ["one", "two"] {
        yard.boss.sends("mason", text).await;
    }
    yard.boss.sends(&worker, "three").await;
    let told = yard.staff.has_told(3).await;
    let texts: Vec<_> = told.iter().map(|(_, text, _)| text.as_str()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
}

#[tokio::test(start_paused = true)]
async fn of_mail_for_several_a_worker_is_told_one_until_it_has_proved_it() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "listen").await;
    let other = yard.world.agent("mason").await;
    let first = yard.boss.sends("mason", "one").await;
    yard.boss.sends("mason", "two").await;
    assert_eq!(yard.staff.has_told(1).await[0].1, "one");
    let answer = Details { in_reply_to: Some(first.seq), ..Details::default() };
    yard.boss.sends("mason", "three").await;
    // The other one has time for it.
    let read = other.reads().await;
    assert_eq!((read.texts(), read.remaining), (vec!["two"], 1));
    worker.sends_with(&yard.boss, "done", answer).await;
    assert_eq!(yard.staff.has_told(2).await[1].1, "three");
}

#[tokio::test(start_paused = true)]
async fn whoever_tells_it_is_no_second_process_of_it() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "listen").await;
    yard.boss.sends(&worker, "faster").await;
    yard.staff.has_told(1).await;
    yard.world.hub.begin(worker.who, Scope::All);
    // One-of mail goes to a call that waits before it goes to the driver.
    let call = Ask { timeout: super::LONG, ..worker.mcp("1") };
    let waits = worker.waits(call).await;
    let sent = yard.boss.sends("mason", "one brick").await;
    assert_eq!(waits.await.expect("an answer").texts(), ["one brick"]);
    worker.asks(worker.mcp("2")).await;
    sleep(yard.world.hub.limits().proof_grace * 2).await;
    assert_eq!(yard.world.state(sent.seq).await, RecordState::Acked(Proof::NextCall));
}
