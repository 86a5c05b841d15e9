//! One call that waits for all of one's workers.

use std::time::Duration;

use posthaste_core::messaging::message::{Details, Seq};
use posthaste_core::messaging::proof::Door;
use posthaste_core::messaging::receive::{Ask, BatchStatus, WaitFor};
use posthaste_core::orchestration::{AgentsConfig, Assign};
use posthaste_testkit::world::{Agent, Answer, World};
use tokio::time::Instant;

use super::{LONG, Yard, wish};

async fn yard_of(count: usize) -> (Yard, Vec<Agent>) {
    let config = AgentsConfig { running: count, ..AgentsConfig::default() };
    let yard = Yard::with(World::new(), config).await;
    let mut workers = Vec::new();
    for n in 0..count {
        let label = Some(format!("part {n}"));
        let task = format!("lay {n}");
        let assigned = yard.tries(Assign { label, ..wish(&yard.boss, &task) }).await;
        let id = assigned.expect("assigned").instance.id;
        yard.staff.runs(id).await;
        workers.push(yard.knows(id));
    }
    (yard, workers)
}

#[tokio::test(start_paused = true)]
async fn fifty_workers_are_gathered_by_one_call() {
    let (yard, workers) = yard_of(50).await;
    let gather = yard.boss.waits(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    for (n, worker) in workers.iter().enumerate() {
        if n % 7 == 3 {
            yard.staff.fails(&yard.world.hub, worker.id(), 1, "oh").await;
        } else {
            yard.answers(worker, &format!("brick {n}")).await;
        }
    }
    let answer = gather.await.expect("an answer");
    assert_eq!((answer.mail.len(), answer.status), (50, BatchStatus::Complete));
    assert!(answer.missing.is_empty() && answer.remaining == 0);
    let labels: Vec<_> =
        answer.mail.iter().map(|e| e.leased.message.label.clone().expect("a label")).collect();
    assert_eq!(labels[49], "part 49");
    // Nothing is open: the next one is complete at once.
    yard.boss.acks(&answer).await;
    let next = yard.boss.asks(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    assert_eq!((next.mail.len(), next.status), (0, BatchStatus::Complete));
}

#[tokio::test(start_paused = true)]
async fn a_gather_whose_time_is_up_names_who_is_missing() {
    let (yard, workers) = yard_of(3).await;
    yard.answers(&workers[0], "one").await;
    let ask = yard.boss.gather(Duration::from_secs(5), WaitFor::All, &[]);
    let answer = yard.boss.asks(ask).await;
    assert_eq!((answer.texts(), answer.status), (vec!["one"], BatchStatus::Partial));
    let missing: Vec<_> =
        answer.missing.iter().map(|m| (m.instance, m.label.as_deref(), m.status)).collect();
    assert_eq!(
        missing,
        [
            (Some(workers[1].id()), Some("part 1"), "running"),
            (Some(workers[2].id()), Some("part 2"), "running")
        ]
    );
    yard.boss.acks(&answer).await;
    // The next waits only for what is still open.
    let gather = yard.boss.waits(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    yard.answers(&workers[1], "two").await;
    yard.answers(&workers[2], "three").await;
    let answer = gather.await.expect("an answer");
    assert_eq!((answer.texts(), answer.status), (vec!["two", "three"], BatchStatus::Complete));
}

#[tokio::test(start_paused = true)]
async fn mail_on_the_way_does_not_count_as_a_result() {
    let (yard, workers) = yard_of(2).await;
    let gather = yard.boss.waits(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    for worker in &workers {
        let progress = Details { kind: "progress".parse().expect("a slug"), ..Details::default() };
        worker.sends_with(&yard.boss, "half way", progress).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!gather.is_finished());
    yard.answers(&workers[0], "one").await;
    yard.answers(&workers[1], "two").await;
    let answer = gather.await.expect("an answer");
    assert_eq!(answer.status, BatchStatus::Complete);
    // Reports come first.
    assert_eq!(answer.texts(), ["one", "two", "half way", "half way"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_worker_ends_the_wait_and_names_the_rest() {
    let (yard, workers) = yard_of(2).await;
    let gather = yard.boss.waits(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    let question = Details { kind: "question".parse().expect("a slug"), ..Details::default() };
    workers[0].sends_with(&yard.boss, "which bricks?", question).await;
    let answer = gather.await.expect("an answer");
    assert_eq!((answer.texts(), answer.status), (vec!["which bricks?"], BatchStatus::Partial));
    assert_eq!(answer.missing.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn those_named_are_waited_for_by_instance_and_by_label() {
    let (yard, workers) = yard_of(3).await;
    let (first, second) = (workers[0].id().to_string(), "part 1");
    let gather = yard.boss.waits(yard.boss.gather(LONG, WaitFor::All, &[&first, second])).await;
    yard.answers(&workers[2], "three").await;
    yard.staff.fails(&yard.world.hub, workers[0].id(), 9, "").await;
    yard.answers(&workers[1], "two").await;
    let answer = gather.await.expect("an answer");
    assert_eq!((answer.mail.len(), answer.status), (2, BatchStatus::Complete), "{answer:?}");
    yard.boss.acks(&answer).await;
    // Asked for again, they are known to have reported.
    let ask = yard.boss.gather(LONG, WaitFor::All, &[&first, second]);
    assert_eq!(yard.boss.asks(ask).await.status, BatchStatus::Complete);
}

/// The reports that a gather says were handed over before it.
fn already(answer: &Answer) -> Vec<(Seq, Option<&str>)> {
    answer.already.iter().map(|report| (report.id, report.label.as_deref())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_report_in_another_unproven_answer_is_named_at_once_and_not_claimed_to_be_here() {
    let (yard, workers) = yard_of(1).await;
    yard.answers(&workers[0], "one").await;
    let first = yard.boss.reads().await;
    let report = first.mail[0].leased.message.seq;
    let began = Instant::now();
    let again = yard.boss.asks(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "no wait would bring it");
    assert_eq!((again.texts().len(), again.status), (0, BatchStatus::Partial));
    assert_eq!(again.missing[0].status, "reported");
    assert_eq!(already(&again), [(report, Some("part 0"))]);
    yard.boss.acks(&first).await;
    let proven = yard.boss.asks(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    assert_eq!((proven.status, already(&proven)), (BatchStatus::Complete, already(&again)));
}

#[tokio::test(start_paused = true)]
async fn a_gather_names_the_reports_that_came_before_it_and_waits_for_the_others() {
    let (yard, workers) = yard_of(3).await;
    yard.answers(&workers[0], "one").await;
    yard.answers(&workers[1], "two").await;
    let before = yard.boss.takes().await;
    assert_eq!(before.texts(), ["one", "two"]);
    let gather = yard.boss.waits(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    yard.answers(&workers[2], "three").await;
    let answer = gather.await.expect("an answer");
    assert_eq!((answer.texts(), answer.status), (vec!["three"], BatchStatus::Complete));
    let labels: Vec<_> = already(&answer).into_iter().map(|(_, label)| label).collect();
    assert_eq!(labels, [Some("part 0"), Some("part 1")]);
}

#[tokio::test(start_paused = true)]
async fn reports_of_an_earlier_round_of_work_are_not_named_again() {
    let (yard, workers) = yard_of(2).await;
    for worker in &workers {
        yard.answers(worker, "done").await;
    }
    yard.boss.takes().await;
    let later = yard.assigns(&yard.boss, "one more").await;
    yard.staff.runs(later.instance.id).await;
    yard.answers(&yard.knows(later.instance.id), "done, too").await;
    let answer = yard.boss.asks(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    assert_eq!((answer.texts(), answer.status), (vec!["done, too"], BatchStatus::Complete));
    assert_eq!(already(&answer), []);
    // Asked for by name, they are.
    let named = yard.boss.asks(yard.boss.gather(LONG, WaitFor::All, &["part 1"])).await;
    assert_eq!((named.status, named.already.len()), (BatchStatus::Complete, 1));
}

#[tokio::test(start_paused = true)]
async fn a_later_gather_is_complete_with_what_came_along_with_earlier_answers() {
    let (yard, workers) = yard_of(2).await;
    yard.answers(&workers[0], "one").await;
    let along = yard.boss.asks(yard.boss.mcp("call 1")).await;
    assert_eq!(along.texts(), ["one"]);
    let gather = |call: &str| Ask {
        door: Door::Mcp,
        call: Some(call.into()),
        ..yard.boss.gather(LONG, WaitFor::All, &[])
    };
    let waiting = yard.boss.waits(gather("call 2")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    yard.answers(&workers[1], "two").await;
    let answer = waiting.await.expect("an answer");
    assert_eq!((answer.texts(), answer.status), (vec!["two"], BatchStatus::Complete));
    assert_eq!(already(&answer).len(), 1);
    assert_eq!(answer.settled.len(), 1, "it is told which counts as read");
}

#[tokio::test(start_paused = true)]
async fn work_given_out_since_makes_a_gather_partial() {
    let (yard, workers) = yard_of(1).await;
    let gather = yard.boss.waits(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    let later = yard.assigns(&yard.boss, "one more").await;
    yard.answers(&workers[0], "one").await;
    let answer = gather.await.expect("an answer");
    assert_eq!(answer.status, BatchStatus::Partial);
    assert_eq!(answer.missing[0].instance, Some(later.instance.id));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_left_and_the_status_says_call_again() {
    let (yard, workers) = yard_of(20).await;
    for worker in &workers {
        yard.answers(worker, &"x".repeat(400)).await;
    }
    let ask = Ask { most: 8, ..yard.boss.gather(LONG, WaitFor::All, &[]) };
    let mut seen = 0;
    loop {
        let answer = yard.boss.asks(ask.clone()).await;
        seen += answer.mail.len();
        yard.boss.acks(&answer).await;
        if answer.status == BatchStatus::Complete {
            break;
        }
        assert_eq!(answer.status, BatchStatus::CallAgain);
    }
    assert_eq!(seen, 20);
}

#[tokio::test(start_paused = true)]
async fn the_window_closes_when_nothing_more_can_be_expected() {
    let (yard, workers) = yard_of(2).await;
    let ask = Ask { window: Duration::from_secs(50), ..yard.boss.ask_within(LONG) };
    let wait = yard.boss.waits(ask).await;
    yard.answers(&workers[0], "one").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!wait.is_finished(), "the other may come within the window");
    yard.answers(&workers[1], "two").await;
    let answer = wait.await.expect("an answer");
    assert_eq!(answer.texts(), ["one", "two"]);
    assert!(answer.waited < Duration::from_secs(10), "{:?}", answer.waited);
}
