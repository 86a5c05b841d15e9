//! Places, and the line before them.

use std::time::Duration;

use posthaste_core::messaging::message::{Details, Kind};
use posthaste_core::messaging::receive::{BatchStatus, WaitFor};
use posthaste_core::orchestration::{AgentsConfig, AssignError};
use posthaste_core::registry::Status;
use posthaste_testkit::world::World;

use super::{LONG, Yard, wish};

async fn yard(running: usize) -> Yard {
    let config = AgentsConfig { running, line: 100, depth: 3, ..AgentsConfig::default() };
    Yard::with(World::new(), config).await
}

#[tokio::test(start_paused = true)]
async fn a_hundred_assigns_at_once_run_eight_at_a_time_and_in_order() {
    let yard = yard(8).await;
    for n in 0..100 {
        yard.assigns(&yard.boss, &n.to_string()).await;
    }
    let gather = yard.boss.waits(yard.boss.gather(LONG, WaitFor::All, &[])).await;
    let mut done = 0;
    while done < 100 {
        yard.staff.has_started((done + 8).min(100)).await;
        let at_work = yard.staff.at_work();
        assert!(at_work.len() <= 8, "{}", at_work.len());
        let mut tasks: Vec<usize> =
            at_work.iter().map(|s| s.task_text().parse().expect("a number")).collect();
        tasks.sort_unstable();
        assert_eq!(tasks[0], done, "first come, first started");
        let first = at_work.into_iter().min_by_key(|s| s.task_text().parse::<usize>().ok());
        let first = yard.knows(first.expect("somebody").worker.id);
        yard.answers(&first, "done").await;
        done += 1;
    }
    let answer = gather.await.expect("an answer");
    assert_eq!((answer.mail.len(), answer.status), (100, BatchStatus::Complete));
}

#[tokio::test(start_paused = true)]
async fn a_full_line_refuses_and_names_the_limit() {
    let yard = yard(1).await;
    yard.puts_to_work(&yard.boss, "first").await;
    for n in 0..100 {
        yard.assigns(&yard.boss, &n.to_string()).await;
    }
    let refused = yard.tries(wish(&yard.boss, "one too many")).await;
    assert!(matches!(refused, Err(AssignError::LineFull { limit: 100 })), "{refused:?}");
    // Another session has a line of its own.
    let other = yard.world.agent("other").await;
    yard.puts_to_work(&other, "elsewhere").await;
}

#[tokio::test(start_paused = true)]
async fn parents_that_wait_for_their_children_make_room_for_them() {
    let yard = yard(1).await;
    let foreman = yard.puts_to_work(&yard.boss, "lead").await;
    let assigned = yard.assigns(&foreman, "lay bricks").await;
    let mason = yard.knows(assigned.instance.id);
    tokio::task::yield_now().await;
    assert_eq!(yard.world.status(&mason), Status::Starting, "its parent has the only place");
    let gather = foreman.waits(foreman.gather(LONG, WaitFor::All, &[])).await;
    yard.staff.runs(mason.id()).await;
    // Three deep: the mason waits as well.
    let helper = yard.assigns(&mason, "carry").await;
    let inner = mason.waits(mason.gather(LONG, WaitFor::All, &[])).await;
    yard.staff.runs(helper.instance.id).await;
    yard.answers(&yard.knows(helper.instance.id), "carried").await;
    assert_eq!(inner.await.expect("an answer").texts(), ["carried"]);
    yard.answers(&mason, "a wall").await;
    assert_eq!(gather.await.expect("an answer").texts(), ["a wall"]);
}

#[tokio::test(start_paused = true)]
async fn parents_that_only_look_again_and_again_do_not_stop_the_line_for_ever() {
    let yard = yard(2).await;
    let foreman = yard.puts_to_work(&yard.boss, "lead").await;
    let other = yard.puts_to_work(&yard.boss, "lead, too").await;
    let mason = yard.assigns(&foreman, "lay bricks").await;
    let helper = yard.assigns(&other, "carry").await;
    let third = yard.assigns(&yard.boss, "paint").await;
    let moves = tokio::time::timeout(LONG, yard.staff.runs(mason.instance.id));
    moves.await.expect("the line moves");
    // One of the parents can go on now, so the rest of the line stays.
    assert_eq!(yard.staff.at_work().len(), 3);
    yard.answers(&yard.knows(mason.instance.id), "a wall").await;
    yard.answers(&foreman, "all done").await;
    yard.staff.runs(helper.instance.id).await;
    yard.answers(&yard.knows(helper.instance.id), "carried").await;
    yard.staff.runs(third.instance.id).await;
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_not_deeper_than_the_limit() {
    let yard = yard(8).await;
    let one = yard.puts_to_work(&yard.boss, "one").await;
    let two = yard.puts_to_work(&one, "two").await;
    let three = yard.puts_to_work(&two, "three").await;
    let refused = yard.tries(wish(&three, "four")).await;
    assert!(matches!(refused, Err(AssignError::TooDeep { limit: 3 })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_has_reported_does_not_count() {
    let yard = yard(1).await;
    let first = yard.puts_to_work(&yard.boss, "one").await;
    let second = yard.assigns(&yard.boss, "two").await;
    let result = Details { kind: Kind::RESULT, ..Details::default() };
    first.sends_with(&yard.boss, "done", result).await;
    yard.staff.runs(second.instance.id).await;
    assert_eq!(yard.world.status(&first), Status::Running);
}

#[tokio::test(start_paused = true)]
async fn one_who_is_stopped_in_line_never_starts() {
    let yard = yard(1).await;
    let first = yard.puts_to_work(&yard.boss, "one").await;
    let second = yard.assigns(&yard.boss, "two").await;
    yard.world.hub.stop(yard.boss.who, second.instance.id).await.expect("stopped");
    yard.answers(&first, "done").await;
    let ask = yard.boss.gather(LONG, WaitFor::All, &[]);
    let answer = yard.boss.asks(ask).await;
    assert_eq!((answer.mail.len(), answer.status), (2, BatchStatus::Complete));
    assert!(yard.staff.at_work().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_finished_though_whoever_asked_for_it_went_away() {
    let yard = yard(1).await;
    let human = yard.world.operator();
    let mut all = Vec::new();
    for n in 0..20 {
        all.push(yard.knows(yard.assigns(&human, &n.to_string()).await.instance.id));
    }
    let impatient = tokio::time::timeout(Duration::ZERO, yard.world.hub.stop_all());
    assert!(impatient.await.is_err(), "it takes longer than no time");
    let ended = async {
        while all.iter().any(|worker| yard.world.status(worker) != Status::Stopped) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, ended).await.expect("all are stopped");
}
