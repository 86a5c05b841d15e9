//! Urgent mail for a worker that runs.

use std::time::Duration;

use posthaste_core::messaging::message::{Details, Priority};
use tokio::time::{Instant, sleep};

use super::Yard;

fn urgent() -> Details {
    Details { priority: Priority::Urgent, ..Details::default() }
}

#[tokio::test(start_paused = true)]
async fn urgent_mail_is_told_at_once_to_a_worker_that_hears() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "listen").await;
    sleep(Duration::from_secs(10)).await;
    let sent = Instant::now();
    yard.boss.sends_with(&worker, "stop the saw", urgent()).await;
    let told = yard.staff.has_told(1).await;
    assert_eq!(told, [(worker.id(), "stop the saw".to_owned(), false)]);
    assert_eq!(sent.elapsed(), Duration::ZERO, "without waiting for anything");
    assert!(worker.reads().await.mail.is_empty(), "a message goes one way only");
}

#[tokio::test(start_paused = true)]
async fn urgent_mail_that_cannot_be_told_comes_with_the_next_call() {
    let yard = Yard::new().await;
    // One has no stdin that is kept, and that of the other is closed.
    for (task, marked) in [("build", false), ("deaf", true)] {
        let worker = yard.puts_to_work(&yard.boss, task).await;
        yard.boss.sends(&worker, "later").await;
        yard.boss.sends_with(&worker, "stop the saw", urgent()).await;
        sleep(Duration::from_secs(1)).await;
        let answer = worker.asks(worker.mcp("1")).await;
        assert_eq!(answer.texts(), ["stop the saw", "later"], "{task}");
        assert_eq!(answer.mail.iter().any(|e| e.leased.redelivered), marked, "{task}");
        assert!(yard.staff.has_told(0).await.is_empty(), "{task}");
        yard.answers(&worker, "done").await;
    }
}
