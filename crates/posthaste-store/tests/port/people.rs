//! What each change of instances, tokens, teams and assignments leaves behind.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::address::InstanceId;
use posthaste_core::messaging::delivery::{DeliveryNo, Reason};
use posthaste_core::messaging::message::{Principal, Seq, ThreadId};
use posthaste_core::orchestration::{Assignment, Report};
use posthaste_core::ports::change::Change;
use posthaste_core::registry::{AgentKind, Instance, Leader, Origin, Status, Team, Terms, Work};

use crate::rig::{Rig, START, instance, mailbox, minutes_after, name, reader};

const ONE: InstanceId = InstanceId(1);

/// Instances have no equality of their own: what is printed is everything.
fn same(one: &Instance, other: &Instance) {
    assert_eq!(format!("{one:#?}"), format!("{other:#?}"));
}

fn work() -> Work {
    Work {
        directory: Some("/tmp/it's here".into()),
        worktree: true,
        branch: Some("posthaste/1".into()),
        timeout: Some(Duration::from_millis(90_001)),
        started_at: Some(START),
        exit_code: Some(-9),
        why: Some("killed".into()),
        terms: Some(terms()),
    }
}

fn terms() -> Terms {
    Terms {
        driver: Some("command".into()),
        config: Some(r#"{"command":"it's here"}"#.into()),
        allowed_tools: Some(vec!["Read".into(), "Bash(git *)".into()]),
        record: Some(r#"{"session":"cao-1"}"#.into()),
    }
}

pub(crate) async fn an_instance_comes_back_with_every_field(mut rig: Rig) {
    let plain = instance(2, minutes_after(START, 1));
    let (agent, team, kind) = (name("carver"), name("other"), AgentKind::Mechanical);
    let full = Instance {
        address: format!("carver.{ONE}@other").into(),
        keys: Instance::keys(ONE, &agent, &team, kind),
        agent,
        team,
        kind,
        origin: Origin::Assigned,
        label: Some("a label".into()),
        parent: Some(InstanceId(u32::MAX)),
        thread: ThreadId(u32::MAX),
        key: Some("a key".into()),
        secret: Some([0xfe; 32]),
        status: Status::Starting,
        last_seen: minutes_after(START, 9),
        work: Some(work().into()),
        ..instance(1, START)
    };
    let operators = Instance { origin: Origin::Operator, ..instance(0, minutes_after(START, 2)) };
    let all = [full, plain, operators];
    // Written in another order than they were made in.
    for i in [2, 0, 1] {
        rig.commit(vec![Change::InstanceAdded(all[i].clone().into())]).await;
    }
    for _ in 0..2 {
        let found = rig.reopen().await.loaded.instances;
        assert_eq!(found.len(), 3);
        found.iter().zip(&all).for_each(|(one, other)| same(one, other));
    }
}

pub(crate) async fn whoever_joins_again_has_a_new_status_secret_and_sign_of_life(mut rig: Rig) {
    let first = Instance { secret: Some([1; 32]), status: Status::Lost, ..instance(1, START) };
    rig.commit(vec![Change::InstanceAdded(first.clone().into())]).await;
    let again = Instance {
        secret: Some([2; 32]),
        status: Status::Running,
        last_seen: minutes_after(START, 5),
        ..first
    };
    rig.commit(vec![Change::InstanceAdded(again.clone().into())]).await;
    let start = rig.reopen().await;
    assert_eq!(start.loaded.instances.len(), 1);
    same(start.instance(ONE), &again);
}

pub(crate) async fn a_started_instance_has_its_work(mut rig: Rig) {
    let asked_for = Work { directory: Some("/tmp".into()), ..Work::default() };
    let new =
        Instance { status: Status::Starting, work: Some(asked_for.into()), ..instance(1, START) };
    rig.commit(vec![Change::InstanceAdded(new.clone().into())]).await;
    let began = Work { exit_code: None, why: None, ..work() };
    let started = Instance {
        status: Status::Running,
        last_seen: minutes_after(START, 1),
        work: Some(began.into()),
        ..new
    };
    rig.commit(vec![Change::InstanceStarted(started.clone().into())]).await;
    same(rig.reopen().await.instance(ONE), &started);
}

pub(crate) async fn an_ended_instance_has_no_tokens(mut rig: Rig) {
    let new = Instance { work: Some(work().into()), ..instance(1, START) };
    rig.commit(vec![
        Change::InstanceAdded(new.clone().into()),
        Change::InstanceAdded(instance(2, START).into()),
        Change::TokenAdded { token: [1; 32], of: ONE },
        Change::TokenAdded { token: [2; 32], of: InstanceId(2) },
        Change::TokenAdded { token: [3; 32], of: ONE },
    ])
    .await;
    let ended = Instance {
        status: Status::Failed,
        ended_at: Some(minutes_after(START, 1)),
        work: Some(Work { exit_code: Some(3), why: Some("it fell".into()), ..work() }.into()),
        ..new
    };
    rig.commit(vec![Change::InstanceEnded(ended.clone().into())]).await;
    let start = rig.reopen().await;
    same(start.instance(ONE), &ended);
    assert_eq!(start.loaded.tokens, [([2; 32], InstanceId(2))]);
}

pub(crate) async fn a_record_is_replaced_and_nothing_else(mut rig: Rig) {
    let plain = Work { terms: None, ..work() };
    let with_terms = Instance { work: Some(work().into()), ..instance(1, START) };
    let without = Instance {
        work: Some(plain.clone().into()),
        status: Status::Finished,
        ended_at: Some(START),
        ..instance(2, minutes_after(START, 1))
    };
    let external = instance(3, minutes_after(START, 2));
    for one in [&with_terms, &without, &external] {
        rig.commit(vec![Change::InstanceAdded(one.clone().into())]).await;
    }
    rig.commit(vec![Change::InstanceEnded(without.clone().into())]).await;
    let written = |id| Change::RecordWritten { worker: InstanceId(id), record: "new".into() };
    rig.commit(vec![written(1), written(2), written(3), written(77)]).await;

    let start = rig.reopen().await;
    let record = Some("new".to_owned());
    let terms = Terms { record: record.clone(), ..terms() };
    let expected = Work { terms: Some(terms), ..work() };
    same(start.instance(ONE), &Instance { work: Some(expected.into()), ..with_terms });
    let expected = Work { terms: Some(Terms { record, ..Terms::default() }), ..plain };
    same(start.instance(InstanceId(2)), &Instance { work: Some(expected.into()), ..without });
    same(start.instance(InstanceId(3)), &external);
}

pub(crate) async fn the_later_sign_of_life_counts(mut rig: Rig) {
    rig.commit(vec![Change::InstanceAdded(instance(1, START).into())]).await;
    let seen = |minutes, status| Change::InstanceSeen {
        id: ONE,
        at: minutes_after(START, minutes),
        status,
    };
    rig.commit(vec![seen(9, Status::Running)]).await;
    rig.commit(vec![seen(4, Status::Lost)]).await;
    let nobody = Change::InstanceSeen { id: InstanceId(77), at: START, status: Status::Running };
    rig.commit(vec![nobody]).await;
    let start = rig.reopen().await;
    let found = start.instance(ONE);
    assert_eq!((found.last_seen, found.status), (minutes_after(START, 9), Status::Lost));
    assert_eq!(start.loaded.instances.len(), 1);
}

pub(crate) async fn tokens_come_oldest_first(mut rig: Rig) {
    rig.commit(vec![Change::InstanceAdded(instance(1, START).into())]).await;
    for byte in [9, 3, 7, 5] {
        rig.commit(vec![Change::TokenAdded { token: [byte; 32], of: ONE }]).await;
    }
    rig.commit(vec![Change::TokenRemoved([3; 32]), Change::TokenRemoved([99; 32])]).await;
    rig.commit(vec![Change::TokenAdded { token: [1; 32], of: ONE }]).await;
    for _ in 0..2 {
        let tokens = rig.reopen().await.loaded.tokens;
        assert_eq!(tokens, [9, 7, 5, 1].map(|byte| ([byte; 32], ONE)));
    }
}

pub(crate) async fn a_team_has_the_leaders_that_were_written_last(mut rig: Rig) {
    let led = |team: &str, leaders: Vec<Leader>| Team { name: name(team), leaders };
    let leaders = vec![Leader::Name(name("mason")), Leader::Instance(ONE)];
    rig.commit(vec![
        Change::TeamAdded(name("main")),
        Change::TeamWritten(led("other", leaders.clone())),
    ])
    .await;
    let teams = |mut teams: Vec<Team>| {
        teams.sort_by(|one, other| one.name.cmp(&other.name));
        teams
    };
    let found = teams(rig.reopen().await.loaded.teams);
    assert_eq!(found, [led("main", Vec::new()), led("other", leaders.clone())]);
    rig.commit(vec![
        Change::TeamWritten(led("main", leaders.clone())),
        Change::TeamWritten(led("other", Vec::new())),
    ])
    .await;
    let found = teams(rig.reopen().await.loaded.teams);
    assert_eq!(found, [led("main", leaders), led("other", Vec::new())]);
}

fn assignment(task: u64, by: Principal, label: Option<&str>) -> Assignment {
    Assignment {
        task: Seq(task),
        worker: ONE,
        by,
        label: label.map(Arc::from),
        opened_at: START,
        report: None,
    }
}

pub(crate) async fn an_assignment_is_open_until_it_is_settled(mut rig: Rig) {
    rig.open_boxes(&["human", "i.00000009", "i.00000001"]).await;
    rig.send(2, 2).await;
    let given =
        [assignment(1, Principal::Operator, None), assignment(2, reader(9), Some("it's a label"))];
    let opened = given.iter().cloned().map(Change::AssignmentOpened).collect();
    rig.commit(opened).await;
    assert_eq!(rig.reopen().await.loaded.assignments, given);
    rig.send(1, 1).await;
    let report = Report {
        seq: Seq(3),
        delivery: DeliveryNo(3),
        mailbox: mailbox("i.00000009"),
        at: minutes_after(START, 4),
    };
    rig.commit(vec![Change::AssignmentSettled { task: Seq(2), report: report.clone() }]).await;
    let [first, second] = given;
    let expected = [first, Assignment { report: Some(report), ..second }];
    let start = rig.reopen().await;
    assert_eq!(start.loaded.assignments, expected);
    assert!(start.loaded.unreadable_reports.is_empty());
}

pub(crate) async fn a_report_that_cannot_be_read_is_named(mut rig: Rig) {
    rig.open_boxes(&["human"]).await;
    rig.send(6, 0).await;
    for task in 1..=3 {
        let report = Report {
            seq: Seq(task + 3),
            delivery: DeliveryNo(task + 3),
            mailbox: mailbox("human"),
            at: START,
        };
        rig.commit(vec![
            Change::AssignmentOpened(assignment(task, Principal::Operator, None)),
            Change::AssignmentSettled { task: Seq(task), report },
        ])
        .await;
    }
    let changes = vec![
        rig.dead(2, 2, Reason::Unreadable),
        rig.dead(5, 5, Reason::Unreadable),
        rig.dead(6, 6, Reason::Expired),
    ];
    rig.commit(changes).await;
    assert_eq!(rig.reopen().await.loaded.unreadable_reports, [DeliveryNo(5)]);
}
