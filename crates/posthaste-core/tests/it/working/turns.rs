//! Turns of a worker whose driver holds a conversation with it.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Limits;
use posthaste_core::messaging::delivery::{Proof, Reason};
use posthaste_core::messaging::message::{Details, Kind, Priority};
use posthaste_core::messaging::receive::{Batch, Entry};
use posthaste_core::needs::NeedKind;
use posthaste_core::orchestration::{AgentsConfig, TurnActivity};
use posthaste_core::ports::{Found, RecordState};
use posthaste_core::registry::Status;
use posthaste_store::Place;
use posthaste_testkit::staff::Staff;
use posthaste_testkit::world::{Agent, World};
use tokio::time::timeout;

use super::{LONG, Yard};

const TURN: RecordState = RecordState::Acked(Proof::Turn);

fn urgent() -> Details {
    Details { priority: Priority::Urgent, ..Details::default() }
}

/// All mail for the next prompt of a worker.
async fn prompt(world: &World, worker: &Agent) -> Batch {
    world.hub.mail_for_prompt(worker.id()).await
}

fn texts(batch: &Batch) -> Vec<(&str, bool)> {
    batch.mail.iter().map(|entry| (entry.text(), entry.leased.redelivered)).collect()
}

/// The model was given this prompt, whose mail its driver has written.
async fn begins(world: &World, worker: &Agent, batch: Batch) {
    let seqs = batch.mail.iter().map(|entry: &Entry| entry.leased.message.seq).collect();
    batch.handed.written();
    world.hub.turn_began(worker.id(), seqs).await;
}

/// Whether nothing comes for a long time.
async fn is_quiet<T>(waits: impl Future<Output = T>) -> bool {
    timeout(Duration::from_secs(30), waits).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn one_prompt_takes_all_mail_that_waits_and_its_turn_proves_it() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let mut sent = Vec::new();
    for text in ["one", "two"] {
        sent.push(yard.boss.sends(&worker, text).await.seq);
    }
    // It is alone of its name, so that mail is its own.
    sent.push(yard.boss.sends("mason", "three").await.seq);
    let batch = prompt(&yard.world, &worker).await;
    assert_eq!(texts(&batch), [("one", false), ("two", false), ("three", false)]);
    assert!(worker.reads().await.mail.is_empty(), "a message goes one way only");
    for seq in &sent {
        assert_eq!(yard.world.state(*seq).await, RecordState::Leased, "written is not read");
    }
    begins(&yard.world, &worker, batch).await;
    for seq in sent {
        assert_eq!(yard.world.state(seq).await, TURN);
    }
    assert!(is_quiet(prompt(&yard.world, &worker)).await);
}

#[tokio::test(start_paused = true)]
async fn of_mail_for_several_a_prompt_takes_one() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let other = yard.world.agent("mason").await;
    for text in ["one", "two", "three"] {
        yard.boss.sends("mason", text).await;
    }
    let first = prompt(&yard.world, &worker).await;
    assert_eq!((texts(&first), first.remaining), (vec![("one", false)], 2));
    begins(&yard.world, &worker, first).await;
    assert_eq!(other.takes().await.texts(), ["two"]);
    assert_eq!(texts(&prompt(&yard.world, &worker).await), [("three", false)]);
}

#[tokio::test(start_paused = true)]
async fn mail_of_a_prompt_that_never_began_comes_again_marked() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let seq = yard.boss.sends(&worker, "one").await.seq;
    drop(prompt(&yard.world, &worker).await);
    yard.world.settles().await;
    yard.boss.sends(&worker, "two").await;
    let again = prompt(&yard.world, &worker).await;
    assert_eq!(texts(&again), [("one", true), ("two", false)]);
    begins(&yard.world, &worker, again).await;
    assert_eq!(yard.world.state(seq).await, TURN);
}

#[tokio::test(start_paused = true)]
async fn a_turn_reports_once_and_the_worker_lives_on() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let task = yard.world.hub.taken_on(worker.id())[0].task;
    yard.world.hub.turn_began(worker.id(), vec![task]).await;
    assert_eq!(yard.world.state(task).await, TURN);
    yard.world.hub.turn_ended(worker.id(), "built".to_owned(), Vec::new()).await;
    yard.world.hub.turn_ended(worker.id(), "built".to_owned(), Vec::new()).await;
    yard.world.hub.turn_ended(worker.id(), "and painted".to_owned(), Vec::new()).await;
    let told = yard.boss.takes().await;
    assert_eq!(told.texts(), ["built"]);
    let report = &told.mail[0].leased.message;
    assert_eq!((report.kind.as_str(), report.in_reply_to), ("result", Some(task)));
    assert!(!report.late);
    assert_eq!(yard.world.status(&worker), Status::Running);
    // Its end is no second report.
    yard.answers(&worker, "the end").await;
    assert!(yard.boss.reads().await.mail.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_never_empty_nor_longer_than_a_message() {
    let yard = Yard::new().await;
    for (answer, told) in [(" \n", "(it finished without a word)"), ("ok", "ok")] {
        let worker = yard.puts_to_work(&yard.boss, "build").await;
        yard.world.hub.turn_ended(worker.id(), answer.to_owned(), Vec::new()).await;
        assert_eq!(yard.boss.takes().await.texts(), [told]);
    }
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let most = yard.world.hub.limits().body_bytes;
    yard.world.hub.turn_ended(worker.id(), "ä".repeat(most), Vec::new()).await;
    let told = yard.boss.takes().await;
    assert!(told.mail[0].leased.message.body.len() <= most);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_reported_in_its_turn_is_not_reported_again() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let task = yard.world.hub.taken_on(worker.id())[0].task;
    let result = Details { kind: Kind::RESULT, in_reply_to: Some(task), ..Details::default() };
    worker.sends_with(&yard.boss, "built, see the branch", result).await;
    yard.world.hub.turn_ended(worker.id(), "I have told my boss.".to_owned(), Vec::new()).await;
    assert_eq!(yard.boss.takes().await.texts(), ["built, see the branch"]);
}

#[tokio::test(start_paused = true)]
async fn mail_that_the_worker_read_in_its_turn_is_proved_by_the_end_of_the_turn() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let read = yard.boss.sends(&worker, "read").await.seq;
    assert_eq!(worker.asks(worker.mcp("1")).await.texts(), ["read"]);
    let dropped = yard.boss.sends(&worker, "dropped").await.seq;
    assert_eq!(worker.asks(worker.mcp("2")).await.texts(), ["dropped"]);
    yard.world.hub.cancel_call(worker.who, "2");
    yard.world.hub.turn_ended(worker.id(), "done".to_owned(), Vec::new()).await;
    yard.world.settles().await;
    assert_eq!(yard.world.state(read).await, TURN);
    assert_eq!(yard.world.state(dropped).await, RecordState::Queued, "its client dropped it");
    // A reader over REST says by itself what it has.
    assert_eq!(worker.reads().await.marked(), [("dropped", true)]);
    yard.world.hub.turn_ended(worker.id(), "done".to_owned(), Vec::new()).await;
    yard.world.settles().await;
    assert_eq!(yard.world.state(dropped).await, RecordState::Leased);
}

#[tokio::test(start_paused = true)]
async fn urgent_mail_is_taken_in_mid_turn_and_the_rest_is_left() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let hub = &yard.world.hub;
    yard.boss.sends(&worker, "when you have time").await;
    assert!(is_quiet(hub.urgent_mail(worker.id())).await);
    let seq = yard.boss.sends_with(&worker, "at once", urgent()).await.seq;
    let batch = hub.urgent_mail(worker.id()).await;
    assert_eq!(texts(&batch), [("at once", false)]);
    begins(&yard.world, &worker, batch).await;
    assert_eq!(yard.world.state(seq).await, TURN);
    assert_eq!(texts(&prompt(&yard.world, &worker).await), [("when you have time", false)]);
}

#[tokio::test(start_paused = true)]
async fn urgent_mail_is_left_to_a_worker_that_waits_for_mail_by_itself() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let waits = worker.waits(worker.ask_within(LONG)).await;
    let (hub, id) = (Arc::clone(&yard.world.hub), worker.id());
    let driver = tokio::spawn(async move { hub.urgent_mail(id).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    yard.boss.sends_with(&worker, "at once", urgent()).await;
    assert_eq!(waits.await.expect("an answer").texts(), ["at once"]);
    assert!(is_quiet(driver).await);
}

#[tokio::test(start_paused = true)]
async fn mail_that_five_turns_refused_is_dead_and_asks_the_operator() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let seq = yard.boss.sends(&worker, "poison").await.seq;
    for refused in 0..5 {
        let batch = prompt(&yard.world, &worker).await;
        assert_eq!(texts(&batch), [("poison", refused > 0)]);
        yard.world.hub.mail_refused(worker.id(), vec![seq]).await;
        batch.handed.written();
    }
    let dead = RecordState::Dead { reason: Reason::Refused, maybe_seen: true };
    assert_eq!(yard.world.state(seq).await, dead);
    let needs = crate::needs::open(&yard.world).await;
    assert_eq!(needs.iter().map(|need| need.kind).collect::<Vec<_>>(), [NeedKind::Dead]);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_waits_while_the_hub_stops_is_not_answered() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let hub = Arc::clone(&yard.world.hub);
    hub.stop_waiting();
    assert!(is_quiet(hub.mail_for_prompt(worker.id())).await, "it would ask again at once");
    assert!(is_quiet(hub.urgent_mail(worker.id())).await);
}

#[tokio::test(start_paused = true)]
async fn the_activity_of_a_worker_is_known_while_it_lives() {
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let hub = &yard.world.hub;
    assert_eq!(hub.turn_activity(worker.id()), None);
    hub.note_activity(worker.id(), Some(TurnActivity::Busy));
    assert_eq!(hub.turn_activity(worker.id()), Some(TurnActivity::Busy));
    hub.note_activity(worker.id(), None);
    assert_eq!(hub.turn_activity(worker.id()), None);
}

#[tokio::test]
async fn after_a_restart_the_driver_takes_the_mail_of_its_prompt_again_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || World::open(&Place::File(folder.path().to_owned()), Limits::default());
    let yard = Yard::with(open(), AgentsConfig::default()).await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let mut seqs = Vec::new();
    // Much more than one prompt would carry by itself.
    let long = "x".repeat(30_000);
    for _ in 0..3 {
        seqs.push(yard.boss.sends(&worker, &long).await.seq);
    }
    let boss = yard.boss.who;
    yard.world.hub.close().await.expect("closed");
    drop(yard);

    let world = open();
    let staff = Arc::new(Staff::default());
    staff.leaves(worker.id(), Found::Running);
    world.hub.employ(staff as _, AgentsConfig::default()).await;
    world.knows(boss).sends(&worker, "new").await;
    let again = world.hub.mail_again(worker.id(), &seqs).await.expect("mail");
    let taken: Vec<_> = again.mail.iter().map(|entry| entry.leased.message.seq).collect();
    assert_eq!(taken, seqs, "all of it, and in order");
    assert_eq!(texts(&prompt(&world, &world.knows(worker.who)).await), [("new", false)]);
    again.handed.written();
    world.hub.turn_began(worker.id(), seqs.clone()).await;
    for seq in seqs {
        assert_eq!(world.state(seq).await, TURN);
    }
    world.hub.close().await.expect("closed");
}
