//! Ends: one report for each assignment, in the same transaction.

use std::time::Duration;

use posthaste_core::messaging::message::{Details, Kind, SenderKind};
use posthaste_core::messaging::receive::{BatchStatus, WaitFor};
use posthaste_core::orchestration::{Assign, StopError};
use posthaste_core::ports::RecordState;
use posthaste_core::registry::{Relation, Status};

use super::{LONG, Yard, wish};

fn result() -> Details {
    Details { kind: Kind::RESULT, ..Details::default() }
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_worker_comes_as_its_result_with_its_label() {
    let yard = Yard::new().await;
    let label = Some("wall".into());
    let assigned = yard.tries(Assign { label, ..wish(&yard.boss, "build") }).await.expect("yes");
    yard.staff.runs(assigned.instance.id).await;
    yard.answers(&yard.knows(assigned.instance.id), "a wall").await;
    let mail = yard.boss.takes().await;
    let entry = &mail.mail[0].leased;
    assert_eq!(mail.texts(), ["a wall"]);
    assert_eq!(entry.message.kind, Kind::RESULT);
    assert_eq!(entry.message.label.as_deref(), Some("wall"));
    assert_eq!(entry.message.in_reply_to, Some(assigned.task));
    assert_eq!(entry.relation, Relation::Child);
    assert!(!entry.message.late);
    let worker = yard.world.hub.instance(assigned.instance.id).expect("known").instance;
    assert_eq!(worker.status, Status::Finished);
    assert_eq!(worker.work.expect("work").exit_code, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_is_reported_once_with_its_exit_code_and_the_end_of_its_output() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    yard.staff.fails(&yard.world.hub, worker.id(), 3, "out of bricks").await;
    let mail = yard.boss.takes().await;
    assert_eq!(mail.mail.len(), 1);
    let message = &mail.mail[0].leased.message;
    assert_eq!(message.kind, Kind::AGENT_FAILED);
    assert_eq!(message.from.kind, SenderKind::System);
    assert_eq!(message.from.instance, Some(worker.id()), "one knows of whom it speaks");
    assert!(message.body.contains("exit code 3") && message.body.contains("out of bricks"));
    assert_eq!(mail.mail[0].leased.relation, Relation::System);
}

#[tokio::test(start_paused = true)]
async fn its_own_result_settles_the_work_and_its_end_adds_nothing() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    worker.sends(&yard.boss, "half way").await;
    assert!(yard.world.hub.is_owed(yard.boss.who), "other mail settles nothing");
    worker.sends_with(&yard.boss, "a house", result()).await;
    assert!(!yard.world.hub.is_owed(yard.boss.who));
    yard.answers(&worker, "stdout that nobody asked for").await;
    assert_eq!(yard.boss.takes().await.texts(), ["half way", "a house"]);
}

#[tokio::test(start_paused = true)]
async fn a_death_after_the_report_is_no_second_report() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    worker.sends_with(&yard.boss, "a house", result()).await;
    yard.staff.fails(&yard.world.hub, worker.id(), 1, "").await;
    assert_eq!(yard.boss.takes().await.texts(), ["a house"]);
    assert_eq!(yard.world.status(&worker), Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_second_result_is_late_and_says_so() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    worker.sends_with(&yard.boss, "a house", result()).await;
    worker.sends_with(&yard.boss, "a better house", result()).await;
    let mail = yard.boss.takes().await;
    let late: Vec<bool> = mail.mail.iter().map(|e| e.leased.message.late).collect();
    assert_eq!(late, [false, true]);
    // Who was never given anything is not late.
    let peer = yard.world.agent("peer").await;
    peer.sends_with(&yard.boss, "a gift", result()).await;
    assert!(!yard.boss.takes().await.mail[0].leased.message.late);
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_two_tasks_settles_the_one_that_it_answers() {
    let yard = Yard::new().await;
    posthaste_testkit::staff::profile(&yard.world.hub, "scribe", None, "{}").await;
    let scribe = yard.world.agent("scribe").await;
    let agent: posthaste_core::address::Name = "scribe".parse().expect("a name");
    let ask = |task: &str| Assign { agent: agent.clone(), ..wish(&yard.boss, task) };
    let first = yard.tries(ask("one")).await.expect("assigned");
    let second = yard.tries(ask("two")).await.expect("assigned");
    scribe.takes().await;
    let answer = Details { in_reply_to: Some(second.task), ..result() };
    scribe.sends_with(&yard.boss, "second", answer).await;
    let open: Vec<_> =
        yard.world.hub.given(yard.boss.who).iter().map(|g| (g.assignment.task, g.report)).collect();
    assert!(
        matches!(open[0], (task, posthaste_core::orchestration::ReportState::Open) if task == first.task),
        "{open:?}"
    );
    assert_eq!(open.len(), 2, "the report of the other waits to be read");
    // Without a word about which, it is the oldest.
    scribe.sends_with(&yard.boss, "first", result()).await;
    assert!(!yard.world.hub.is_owed(yard.boss.who));
}

#[tokio::test(start_paused = true)]
async fn one_who_leaves_with_open_work_has_failed_at_it() {
    let yard = Yard::new().await;
    posthaste_testkit::staff::profile(&yard.world.hub, "scribe", None, "{}").await;
    let scribe = yard.world.agent("scribe").await;
    let agent = "scribe".parse().expect("a name");
    yard.tries(Assign { agent, ..wish(&yard.boss, "write") }).await.expect("assigned");
    yard.world.hub.end(scribe.id(), Status::Stopped, false).await.expect("ended");
    let mail = yard.boss.takes().await;
    assert_eq!(mail.mail[0].leased.message.kind, Kind::AGENT_FAILED);
    assert!(mail.texts()[0].contains("left without a result"), "{mail:?}");
}

#[tokio::test(start_paused = true)]
async fn when_the_giver_is_gone_its_own_giver_is_told_and_at_last_the_human() {
    let yard = Yard::new().await;
    let foreman = yard.puts_to_work(&yard.boss, "lead").await;
    let mason = yard.puts_to_work(&foreman, "lay bricks").await;
    let other = yard.puts_to_work(&foreman, "carry").await;
    yard.answers(&foreman, "I am off").await;
    yard.answers(&mason, "a wall").await;
    let mail = yard.boss.takes().await;
    assert_eq!(mail.texts(), ["I am off", "a wall"]);
    assert_eq!(mail.mail[1].leased.message.from.instance, Some(mason.id()));

    // The session is the boss's: with the boss it ends, and the human hears of it.
    yard.world.hub.end(yard.boss.id(), Status::Stopped, false).await.expect("ended");
    let human = yard.world.operator();
    let told = human.asks(human.ask_within(LONG)).await;
    assert!(told.texts()[0].contains("its session ended"), "{told:?}");
    assert_eq!(yard.world.status(&other), Status::Stopped);
}

#[tokio::test(start_paused = true)]
async fn stopping_a_worker_stops_all_below_it_and_each_giver_hears() {
    let yard = Yard::new().await;
    let foreman = yard.puts_to_work(&yard.boss, "lead").await;
    let mason = yard.puts_to_work(&foreman, "lay bricks").await;
    let beside = yard.puts_to_work(&yard.boss, "paint").await;

    let refused = yard.world.hub.stop(mason.who, foreman.id()).await;
    assert!(matches!(refused, Err(StopError::NotAllowed)), "{refused:?}");
    assert_eq!(yard.world.hub.stop(yard.boss.who, foreman.id()).await.expect("stopped"), 2);
    let ask = yard.boss.gather(LONG, WaitFor::Senders(1), &[]);
    let told = yard.boss.asks(ask).await;
    assert!(told.texts()[0].contains(&format!("stopped by {}", yard.boss)), "{told:?}");
    let ended = async {
        while [&foreman, &mason].iter().any(|one| yard.world.status(one) != Status::Stopped) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, ended).await.expect("both are stopped");
    assert_eq!(yard.world.status(&beside), Status::Running);
    let twice = yard.world.hub.stop(yard.boss.who, foreman.id()).await;
    assert!(matches!(twice, Err(StopError::Registry(_))), "{twice:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_taken_back_before_its_start_starts_nothing() {
    let config = posthaste_core::orchestration::AgentsConfig { running: 1, ..Default::default() };
    let yard = Yard::with(posthaste_testkit::world::World::new(), config).await;
    let first = yard.puts_to_work(&yard.boss, "one").await;
    let second = yard.assigns(&yard.boss, "two").await;
    let which = posthaste_core::messaging::message::MessageRef::Seq(second.task);
    yard.world.hub.cancel(yard.boss.who, which).await.expect("it is queued");
    yard.answers(&first, "done").await;
    let ask = yard.boss.gather(LONG, WaitFor::All, &[]);
    let told = yard.boss.asks(ask).await;
    assert_eq!(told.status, BatchStatus::Complete);
    assert!(told.texts().iter().any(|text| text.contains("taken back")), "{told:?}");
    assert!(matches!(yard.world.state(second.task).await, RecordState::Dead { .. }));
    assert!(yard.staff.at_work().is_empty());
}
