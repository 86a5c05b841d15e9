//! Work whose giver waits for the report in the same call.

use std::sync::{Arc, Weak};
use std::time::Duration;

use posthaste_core::Hub;
use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::{Details, Priority};
use posthaste_core::messaging::proof::{Call, Door};
use posthaste_core::messaging::receive::{Ask, Budget};
use posthaste_core::orchestration::{
    Assign, AssignError, HandedOff, Handoff, HandoffEnd, HandoffError,
};
use posthaste_core::ports::RecordState;
use posthaste_core::registry::Status;
use posthaste_testkit::world::Agent;
use tokio::task::JoinHandle;

use super::{LONG, Yard, wish};

/// The same key hands off to the same worker.
const KEY: &str = "once";

type Outcome = Result<HandedOff, HandoffError>;

/// Hands work off, in a task of its own.
fn hands_off(yard: &Yard, by: &Agent, timeout: Duration, budget: Budget) -> JoinHandle<Outcome> {
    let hub: Arc<Hub> = Arc::clone(&yard.world.hub);
    let assign = Assign { idempotency_key: Some(KEY.into()), ..wish(by, "lay bricks") };
    let who = by.who;
    tokio::spawn(async move {
        let open = hub.open(who, &Call::through(Door::Rest));
        hub.handoff(open, Handoff { assign, timeout, budget, request: () }).await
    })
}

/// The worker of the only handoff, once it runs.
async fn worker(yard: &Yard) -> Agent {
    yard.staff.has_started(1).await;
    yard.knows(yard.staff.at_work()[0].worker.id)
}

async fn ends(call: JoinHandle<Outcome>) -> HandedOff {
    call.await.expect("no panic").expect("handed off")
}

/// Whether something came first; the end is a job.
fn is_interrupted(handed_off: &HandedOff) -> bool {
    match &handed_off.end {
        HandoffEnd::Job { interrupted, .. } => *interrupted,
        HandoffEnd::Reported { report, .. } => panic!("a report: {}", report.text()),
    }
}

fn of_kind(kind: &str) -> Details {
    Details { kind: kind.parse().expect("a kind"), ..Details::default() }
}

#[tokio::test(start_paused = true)]
async fn the_report_is_in_an_answer_that_its_receipt_proves() {
    let yard = Yard::new().await;
    let call = hands_off(&yard, &yard.boss, LONG, Budget::Whole);
    let worker = worker(&yard).await;
    yard.answers(&worker, "laid").await;

    let handed_off = ends(call).await;

    assert_eq!(handed_off.assigned.instance.id, worker.id());
    assert_eq!(handed_off.status, Status::Finished);
    let HandoffEnd::Reported { report, batch } = handed_off.end else { panic!("a job") };
    assert_eq!((report.text(), report.exit_code), ("laid", Some(0)));
    assert!(!report.failed() && !report.redelivered && report.next_offset().is_none());
    let (seq, receipt) = (report.message.seq, batch.receipt);
    batch.handed.written();
    assert!(matches!(yard.world.state(seq).await, RecordState::Leased));
    let acked = yard.world.hub.ack_receipt(yard.boss.who, receipt).await.expect("acked");
    assert_eq!(acked.acked, 1);
    let state = yard.world.state(seq).await;
    assert!(matches!(state, RecordState::Acked(Proof::Receipt)), "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_worker_is_a_report_and_says_how_it_ended() {
    let yard = Yard::new().await;
    let call = hands_off(&yard, &yard.boss, LONG, Budget::Whole);
    let worker = worker(&yard).await;
    yard.staff.fails(&yard.world.hub, worker.id(), 3, "no bricks").await;

    let handed_off = ends(call).await;

    assert_eq!(handed_off.status, Status::Failed);
    let HandoffEnd::Reported { report, .. } = handed_off.end else { panic!("a job") };
    assert!(report.failed() && report.text().contains("no bricks"), "{}", report.text());
    assert_eq!(report.exit_code, Some(3));
}

#[tokio::test(start_paused = true)]
async fn one_report_can_be_waited_for_and_is_ordinary_mail() {
    let yard = Yard::new().await;
    let brief = hands_off(&yard, &yard.boss, Duration::from_secs(1), Budget::Whole);
    let other = yard.puts_to_work(&yard.boss, "lay more").await;
    let first = ends(brief).await;
    assert!(!is_interrupted(&first), "time is up");
    assert_eq!(first.status, Status::Running);
    let worker = yard.knows(first.assigned.instance.id);

    let waiting = hands_off(&yard, &yard.boss, LONG, Budget::Whole);
    yard.answers(&other, "two").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished(), "the report of another is not it");
    let urgent = Details { priority: Priority::Urgent, ..Details::default() };
    worker.sends_with(&yard.boss, "fire", urgent).await;
    let second = ends(waiting).await;
    assert!(is_interrupted(&second));
    assert!(second.assigned.duplicate, "the same key is the same worker");
    yard.boss.takes().await;

    let waiting = hands_off(&yard, &yard.boss, LONG, Budget::Whole);
    let sent = worker.sends_with(&yard.boss, "one", of_kind("result")).await;
    let HandoffEnd::Reported { report, batch } = ends(waiting).await.end else { panic!("a job") };
    assert_eq!(report.message.seq, sent.seq);
    drop(batch);
    assert_eq!(yard.boss.takes().await.marked(), [("one", true)], "the answer was not written");
}

#[tokio::test(start_paused = true)]
async fn questions_and_human_mail_end_the_wait_of_an_agent_and_other_mail_does_not() {
    for (kind, by_human) in [("question", false), ("text", true)] {
        let yard = Yard::new().await;
        let call = hands_off(&yard, &yard.boss, LONG, Budget::Whole);
        let worker = worker(&yard).await;
        worker.sends(&yard.boss, "by the way").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!call.is_finished());
        let sender = if by_human { yard.world.operator() } else { worker };
        sender.sends_with(&yard.boss, "which wall?", of_kind(kind)).await;
        assert!(is_interrupted(&ends(call).await), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_operators_own_mail_does_not_keep_the_operator_from_waiting() {
    let yard = Yard::new().await;
    let operator = yard.world.operator();
    yard.boss.sends_with("human", "which wall?", of_kind("question")).await;
    let call = hands_off(&yard, &operator, LONG, Budget::Whole);
    let worker = worker(&yard).await;
    yard.answers(&worker, "laid").await;
    let HandoffEnd::Reported { report, .. } = ends(call).await.end else { panic!("a job") };
    assert_eq!(report.text(), "laid");
}

#[tokio::test(start_paused = true)]
async fn a_report_that_another_call_holds_is_told_again_and_cut_to_the_same_budget() {
    let budget = Budget::Json { chars: 100, beside: |_| 40 };
    let yard = Yard::new().await;
    let call = hands_off(&yard, &yard.boss, LONG, budget);
    let worker = worker(&yard).await;
    yard.answers(&worker, &"x".repeat(500)).await;
    let HandoffEnd::Reported { report, batch } = ends(call).await.end else { panic!("a job") };
    assert!(report.text().len() <= 60 && report.next_offset() == Some(report.text().len()));
    batch.handed.written();

    let again = ends(hands_off(&yard, &yard.boss, LONG, budget)).await;

    let HandoffEnd::Reported { report, batch } = again.end else { panic!("a job") };
    assert!(batch.mail.is_empty() && report.redelivered, "another answer holds it");
    assert_eq!((report.text().len(), report.next_offset()), (100, Some(100)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_handoff_leaves_its_call_open_and_its_answer_may_carry_mail() {
    let yard = Yard::new().await;
    yard.world.operator().sends(&yard.boss, "good morning").await;
    let hub = &yard.world.hub;
    let assign = Assign { agent: "nobody".parse().expect("a name"), ..wish(&yard.boss, "work") };
    let open = hub.open(yard.boss.who, &Call::through(Door::Mcp));
    let handoff = Handoff { assign, timeout: LONG, budget: Budget::Whole, request: () };

    let refused = hub.handoff(open, handoff).await.expect_err("there is no such profile");

    let HandoffError::Refused { error, open } = refused else { panic!("{refused}") };
    assert!(matches!(*error, AssignError::NoProfile { .. }), "{error}");
    let batch = hub.enclose(*open, Some(Budget::Whole)).await.expect("an answer");
    assert_eq!(batch.mail[0].text(), "good morning");
}

#[tokio::test(start_paused = true)]
async fn nothing_of_the_request_is_kept_through_the_wait() {
    let yard = Yard::new().await;
    let hub = Arc::clone(&yard.world.hub);
    let request = Arc::new("the body");
    let kept: Weak<_> = Arc::downgrade(&request);
    let (assign, who) = (wish(&yard.boss, "lay bricks"), yard.boss.who);
    let call = tokio::spawn(async move {
        let open = hub.open(who, &Call::through(Door::Rest));
        hub.handoff(open, Handoff { assign, timeout: LONG, budget: Budget::Whole, request }).await
    });
    worker(&yard).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(kept.upgrade().is_none() && !call.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_giver_that_goes_away_finds_the_report_in_its_inbox_unmarked() {
    let yard = Yard::new().await;
    let call = hands_off(&yard, &yard.boss, LONG, Budget::Whole);
    let worker = worker(&yard).await;
    call.abort();
    assert!(call.await.expect_err("aborted").is_cancelled());
    yard.answers(&worker, "laid").await;
    let answer = yard.boss.asks(Ask::now(yard.boss.who)).await;
    assert_eq!(answer.marked(), [("laid", false)]);
}
