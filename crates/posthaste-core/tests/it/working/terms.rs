//! Workers on terms of their own: without a task, and with work for one that is here.

use posthaste_core::messaging::message::Principal;
use posthaste_core::messaging::proof::{Call, Door};
use posthaste_core::messaging::receive::Budget;
use posthaste_core::orchestration::{
    AgentsConfig, Assign, AssignError, HandoffEnd, OpenWorker, Patience,
};
use posthaste_core::registry::{Instance, Terms};
use posthaste_testkit::world::{Agent, World};
use tokio::time::sleep;

use super::{LONG, Yard, wish};

fn terms() -> Terms {
    Terms {
        driver: Some("command".into()),
        config: Some(r#"{"stdin":"mail"}"#.into()),
        allowed_tools: None,
        record: Some("a record".into()),
    }
}

async fn opens(yard: &Yard, agent: &str, terms: Terms) -> Result<Instance, AssignError> {
    let agent = agent.parse().expect("a name");
    let by = yard.boss.who;
    let (team, label, directory, worktree) = (None, None, None, None);
    let open = OpenWorker { by, agent, team, label, directory, worktree, terms };
    yard.world.hub.open_worker(open).await
}

/// A worker without a task, which runs.
async fn opened(yard: &Yard) -> Agent {
    let instance = opens(yard, "anybody", terms()).await.expect("opened");
    yard.staff.runs(instance.id).await;
    yard.knows(instance.id)
}

#[tokio::test(start_paused = true)]
async fn a_worker_may_start_without_a_task_and_without_a_profile() {
    let yard = Yard::new().await;
    let worker = opened(&yard).await;

    let start = yard.staff.runs(worker.id()).await;
    assert_eq!(start.task, None);
    assert_eq!(start.job.profile.template.config, r#"{"stdin":"mail"}"#);
    yard.boss.sends(&worker, "good morning").await;
    assert_eq!(yard.staff.has_told(1).await[0].1, "good morning");
    let work = yard.world.hub.instance(worker.id()).expect("known").instance.work.expect("work");
    assert_eq!(work.record(), Some("a record"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_hears_nothing_needs_a_task() {
    let yard = Yard::new().await;
    let deaf = Terms { config: Some("{}".into()), ..terms() };
    let refused = opens(&yard, "anybody", deaf).await.expect_err("it would never do anything");
    assert!(matches!(refused, AssignError::NeedsTask { .. }), "{refused}");
    let undriven = Terms { driver: None, ..terms() };
    let refused = opens(&yard, "anybody", undriven).await.expect_err("nobody knows how");
    assert!(matches!(refused, AssignError::NoProfile { .. }), "{refused}");
    assert_eq!(yard.staff.began(), 0);
}

#[tokio::test(start_paused = true)]
async fn work_may_be_given_to_one_that_is_here() {
    let yard = Yard::new().await;
    let worker = opened(&yard).await;
    let give = |task: &str| Assign { worker: Some(worker.id()), ..wish(&yard.boss, task) };

    for (task, answer) in [("one", "first"), ("two", "second")] {
        let given = yard.tries(give(task)).await.expect("assigned");
        assert_eq!(given.instance.id, worker.id());
        yard.staff.has_told(1).await;
        yard.world.hub.turn_ended(worker.id(), answer.to_owned(), Vec::new()).await;
        let report = yard.world.hub.taken_on(worker.id()).pop().expect("given").report;
        assert!(report.is_some(), "{task}");
    }

    assert_eq!(yard.staff.began(), 1);
    let busy = yard.puts_to_work(&yard.boss, "build").await;
    let more = Assign { worker: Some(busy.id()), ..wish(&yard.boss, "more") };
    let refused = yard.tries(more).await.expect_err("it hears nothing");
    assert!(matches!(refused, AssignError::HearsNothing { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_of_which_a_door_keeps_a_record_is_not_ended_for_being_idle() {
    let world = World::with(posthaste_core::Limits::default());
    let yard = Yard::with(world, AgentsConfig::default()).await;
    let kept = opened(&yard).await;
    let task = Assign { worker: Some(kept.id()), ..wish(&yard.boss, "one") };
    yard.tries(task).await.expect("assigned");
    yard.world.hub.turn_ended(kept.id(), "done".to_owned(), Vec::new()).await;

    sleep(LONG * 10).await;

    assert!(yard.world.hub.lives(kept.id()));
    yard.world.hub.put_record(kept.id(), "another".to_owned()).await.expect("written");
    let work = yard.world.hub.instance(kept.id()).expect("known").instance.work.expect("work");
    assert_eq!(work.record(), Some("another"));
    let nobody = yard.world.hub.put_record(yard.boss.id(), "x".to_owned()).await;
    assert!(nobody.is_err(), "only workers have one");
}

#[tokio::test(start_paused = true)]
async fn a_report_that_a_call_waits_for_is_told_in_that_call_alone() {
    let yard = Yard::new().await;
    // The giver is itself a worker whose driver feeds it its mail.
    let giver = opened(&yard).await;
    let hub = std::sync::Arc::clone(&yard.world.hub);
    let given = yard.tries(wish(&giver, "dig")).await.expect("assigned");
    let digger = given.instance.id;
    let by = Principal::Instance(giver.id());
    let call = tokio::spawn(async move {
        let open = hub.open(by, &Call::through(Door::Rest));
        let patience = Patience { timeout: LONG, budget: Budget::Whole, plain: true };
        hub.report_on(open, given, patience).await
    });
    yard.staff.runs(digger).await;
    sleep(std::time::Duration::from_secs(1)).await;

    yard.staff.answers(&yard.world.hub, digger, "dug").await;

    let end = call.await.expect("no panic").expect("handed off").end;
    let HandoffEnd::Reported { report, batch } = end else { panic!("a job") };
    assert_eq!((report.text(), report.redelivered), ("dug", false));
    batch.handed.written();
    yard.boss.sends(&giver, "next").await;
    let told = yard.staff.has_told(1).await;
    assert_eq!(told.iter().map(|t| &*t.1).collect::<Vec<_>>(), ["next"]);
}
