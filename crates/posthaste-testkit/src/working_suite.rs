//! The promises of the `Store` port about workers, one test each. Every backend
//! runs them all:
//!
//! ```ignore
//! posthaste_testkit::working_suite!(rig());
//! ```

use posthaste_core::address::{Address, InstanceId};
use posthaste_core::messaging::delivery::{AnswerId, Proof};
use posthaste_core::messaging::message::{Details, Draft, Kind, Principal, Seq, Via};
use posthaste_core::messaging::send::SendError;
use posthaste_core::orchestration::{AssignError, ReportState};
use posthaste_core::ports::{Ending, Filter, Hire, Hired, Leased, Take, What};
use posthaste_core::registry::{RegistryError, Status, Work};

use crate::profiles_suite::put;
use crate::store_suite::Rig;

/// Returns a request for a worker of the profile `mason`.
pub fn hire(rig: &Rig, by: Principal, task: &str, details: Details) -> Hire {
    let agent: posthaste_core::address::Name = "mason".parse().expect("a good name");
    let to = Address::Named { name: agent.clone(), team: None };
    let draft = Draft::new(by, to, task.into(), details, Via::Rest, &rig.limits);
    let draft = draft.expect("within the limits");
    let work = Some(Work::default());
    Hire { draft, agent, team: None, work, worker: None, line: 10, depth: 5 }
}

async fn hired(rig: &Rig, by: Principal, task: &str) -> Hired {
    rig.engine.put_profile(put("mason", "lays bricks")).await.expect("written");
    let label = Some(format!("the {task}"));
    let details = Details { label, ..Details::default() };
    rig.engine.hire(hire(rig, by, task, details)).await.expect("hired")
}

fn standings(rig: &Rig, by: Principal) -> Vec<(Seq, ReportState)> {
    let given = rig.engine.ledger(|l| l.given(by, false));
    given.into_iter().map(|g| (g.assignment.task, g.report)).collect()
}

fn bodies(mail: &[Leased]) -> Vec<&str> {
    mail.iter().map(|l| l.message.body.as_str()).collect()
}

fn ending(answer: Option<&str>) -> Ending {
    Ending {
        answer: answer.map(str::to_owned),
        code: Some(7),
        why: Some("exit code 7".into()),
        obituary: "it died".into(),
        ..Ending::plain(Status::Failed, Vec::new())
    }
}

pub async fn a_worker_and_its_task_come_together(rig: Rig) {
    let boss = rig.agent("boss").await;
    let hired = hired(&rig, boss, "wall").await;
    let worker = Principal::Instance(hired.instance.id);
    assert_eq!(hired.instance.status, Status::Starting);
    assert_eq!(hired.instance.parent, boss.instance());
    assert_eq!(standings(&rig, boss), [(hired.task, ReportState::Open)]);
    let line: Vec<InstanceId> = rig.engine.ledger(|l| l.in_line()).iter().map(|i| i.id).collect();
    assert_eq!(line, [hired.instance.id]);
    let mail = rig.read(worker, 1).await;
    assert_eq!(bodies(&mail), ["wall"]);
    assert_eq!(mail[0].message.seq, hired.task);
}

pub async fn a_worker_runs_with_its_token_and_is_no_longer_in_line(rig: Rig) {
    let boss = rig.agent("boss").await;
    let hired = hired(&rig, boss, "wall").await;
    let id = hired.instance.id;
    assert_eq!(rig.engine.caller(&[9; 32]), None);
    let work = Work { directory: Some("/site".into()), ..Work::default() };
    let worker = rig.engine.begin_work(id, [9; 32], work).await.expect("it runs");
    assert_eq!(worker.status, Status::Running);
    assert!(worker.work.expect("work").started_at.is_some());
    assert_eq!(rig.engine.caller(&[9; 32]), Some(Principal::Instance(id)));
    assert!(rig.engine.ledger(|l| l.in_line()).is_empty());
    assert_eq!(rig.engine.ledger(|l| l.at_work()).len(), 1);
    rig.engine.end(id, ending(None)).await.expect("ended");
    let again = rig.engine.begin_work(id, [8; 32], Work::default()).await;
    assert!(matches!(again, Err(RegistryError::Ended(_))), "{again:?}");
}

pub async fn an_end_brings_one_report_for_each_open_task(rig: Rig) {
    let boss = rig.agent("boss").await;
    let good = hired(&rig, boss, "wall").await;
    let bad = hired(&rig, boss, "roof").await;
    let told = hired(&rig, boss, "door").await;
    let result = Details { kind: Kind::RESULT, ..Details::default() };
    let worker = Principal::Instance(told.instance.id);
    rig.send_with(worker, &boss.to_string(), "a door", result.clone()).await.expect("accepted");
    let late = rig.send_with(worker, &boss.to_string(), "a better door", result).await;
    late.expect("accepted");
    rig.engine.end(good.instance.id, ending(Some("a wall"))).await.expect("ended");
    let ended = rig.engine.end(bad.instance.id, ending(None)).await.expect("ended");
    rig.engine.end(told.instance.id, ending(Some("nothing new"))).await.expect("ended");
    assert_eq!(ended.work.expect("work").exit_code, Some(7));

    let mail = rig.read(boss, 1).await;
    assert_eq!(bodies(&mail), ["a door", "a better door", "a wall", "it died"]);
    let late: Vec<bool> = mail.iter().map(|l| l.message.late).collect();
    assert_eq!(late, [false, true, false, false]);
    assert_eq!(mail[0].message.in_reply_to, Some(told.task));
    assert_eq!(mail[0].message.label.as_deref(), Some("the door"));
    assert_eq!(mail[3].message.kind, Kind::AGENT_FAILED);
    assert_eq!(mail[3].message.from.instance, Some(bad.instance.id));
    let twice = rig.engine.end(bad.instance.id, ending(None)).await;
    assert!(matches!(twice, Err(RegistryError::Ended(_))), "{twice:?}");
}

pub async fn what_was_given_out_is_known_until_its_report_is_proved(rig: Rig) {
    let boss = rig.agent("boss").await;
    let hired = hired(&rig, boss, "wall").await;
    rig.engine.end(hired.instance.id, ending(Some("a wall"))).await.expect("ended");
    let [(task, ReportState::Waits(report))] = standings(&rig, boss)[..] else {
        panic!("{:?}", standings(&rig, boss))
    };
    assert_eq!(task, hired.task);
    let mail = rig.read(boss, 1).await;
    assert_eq!(standings(&rig, boss), [(task, ReportState::Handed(report))]);
    let what = What::Deliveries(vec![mail[0].delivery]);
    rig.engine.ack(boss, what, Proof::Receipt).await.expect("acked");
    assert_eq!(standings(&rig, boss), []);
    let done = rig.engine.ledger(|l| l.assignment(task)).expect("it is still known");
    assert_eq!(done.report, ReportState::Done(report));
    assert_eq!(rig.engine.ledger(|l| l.given(boss, true)).len(), 1);
}

pub async fn a_round_is_what_was_given_out_since_no_report_was_due_or_unread(rig: Rig) {
    let boss = rig.agent("boss").await;
    let round = || -> Vec<Seq> {
        rig.engine
            .ledger(|l| l.given_in_round(boss))
            .into_iter()
            .map(|g| g.assignment.task)
            .collect()
    };
    let wall = hired(&rig, boss, "wall").await;
    rig.engine.end(wall.instance.id, ending(Some("a wall"))).await.expect("ended");
    let roof = hired(&rig, boss, "roof").await;
    assert_eq!(round(), [wall.task, roof.task], "the report on the wall was unread");
    rig.engine.end(roof.instance.id, ending(None)).await.expect("ended");
    let read = rig.read(boss, 1).await.iter().map(|l| l.delivery).collect();
    assert_eq!(round(), [wall.task, roof.task]);
    rig.engine.ack(boss, What::Deliveries(read), Proof::Receipt).await.expect("acked");
    assert_eq!(round(), [wall.task, roof.task], "until more is given out");
    let door = hired(&rig, boss, "door").await;
    assert_eq!(round(), [door.task]);
}

pub async fn a_read_can_leave_new_reports_where_they_are(rig: Rig) {
    let boss = rig.agent("boss").await;
    let wall = hired(&rig, boss, "wall").await;
    rig.engine.end(wall.instance.id, ending(Some("a wall"))).await.expect("ended");
    let filter = Filter { holds_reports: true, ..Filter::default() };
    let take = Take {
        reader: boss,
        answer: AnswerId(1),
        filter: filter.clone(),
        messages: 10,
        bytes: usize::MAX,
        clips: None,
    };
    let found = rig.engine.lease(take).await.expect("a lease");
    assert_eq!((found.mail.len(), found.remaining), (0, 0));
    assert_eq!(rig.engine.survey(boss, filter).await.expect("a survey").waiting, 0);
    assert_eq!(bodies(&rig.read(boss, 2).await), ["a wall"]);
}

pub async fn the_same_key_gives_the_same_worker(rig: Rig) {
    let boss = rig.agent("boss").await;
    rig.engine.put_profile(put("mason", "lays bricks")).await.expect("written");
    let keyed = || Details { idempotency_key: Some("k".into()), ..Details::default() };
    let first = rig.engine.hire(hire(&rig, boss, "wall", keyed())).await.expect("hired");
    let again = rig.engine.hire(hire(&rig, boss, "wall", keyed())).await.expect("known");
    assert_eq!((again.instance.id, again.task), (first.instance.id, first.task));
    assert!(again.duplicate && !first.duplicate);
    let other = rig.engine.hire(hire(&rig, boss, "roof", keyed())).await;
    let reused = matches!(&other, Err(AssignError::Send(SendError::KeyReused { .. })));
    assert!(reused, "{other:?}");
    let known = rig.engine.hired(&hire(&rig, boss, "wall", keyed()).draft).await.expect("read");
    assert_eq!(known.map(|hired| (hired.task, hired.duplicate)), Some((first.task, true)));
    let keyless = rig.engine.hired(&hire(&rig, boss, "wall", Details::default()).draft).await;
    assert!(keyless.expect("read").is_none());
}

/// Runs every promise against the store that `$rig` makes (an async expression).
#[macro_export]
macro_rules! working_suite {
    ($rig:expr) => {
        $crate::working_suite! { $rig;
            a_worker_and_its_task_come_together
            a_worker_runs_with_its_token_and_is_no_longer_in_line
            an_end_brings_one_report_for_each_open_task
            what_was_given_out_is_known_until_its_report_is_proved
            a_round_is_what_was_given_out_since_no_report_was_due_or_unread
            a_read_can_leave_new_reports_where_they_are
            the_same_key_gives_the_same_worker
        }
    };
    ($rig:expr; $($promise:ident)*) => {
        $(
            #[tokio::test]
            async fn $promise() {
                $crate::working_suite::$promise($rig.await).await;
            }
        )*
    };
}
