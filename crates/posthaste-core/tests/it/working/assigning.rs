//! From the wish to a worker at work.

use posthaste_core::Limits;
use posthaste_core::limits::Write;
use posthaste_core::messaging::delivery::Proof;
use posthaste_core::messaging::message::{Kind, MessageRef, Principal};
use posthaste_core::messaging::send::SendError;
use posthaste_core::orchestration::{AgentsConfig, Assign, AssignError};
use posthaste_core::ports::{HistoryQuery, RecordState};
use posthaste_core::registry::{Leader, Origin, Status, Team};
use posthaste_testkit::staff;
use posthaste_testkit::world::{Agent, World};

use super::{Yard, wish};

#[tokio::test(start_paused = true)]
async fn a_worker_gets_its_task_a_parent_a_label_and_a_place() {
    let yard = Yard::new().await;
    let (label, directory) = (Some("wall".into()), Some("/site".into()));
    let assigned = yard
        .tries(Assign { label, directory, worktree: Some(true), ..wish(&yard.boss, "build") })
        .await
        .expect("assigned");
    assert_eq!(assigned.instance.status, Status::Starting);
    let id = assigned.instance.id;
    let start = yard.staff.runs(id).await;
    assert_eq!((start.task_text(), start.parent.as_str()), ("build", &*yard.boss.address));
    assert_eq!(start.token.0.len(), 64);
    assert_eq!(format!("{:?}", start.token), "Token");

    let worker = yard.world.hub.instance(id).expect("known").instance;
    assert_eq!(worker.parent, Some(yard.boss.id()));
    assert_eq!(worker.label.as_deref(), Some("wall"));
    assert_eq!(worker.status, Status::Running);
    let work = worker.work.expect("the hub started it");
    assert_eq!(work.directory.as_deref(), Some("/site"));
    assert_eq!(work.branch.as_deref(), Some(&*format!("posthaste/{id}")));
    assert!(work.started_at.is_some());

    let record = yard.world.record(assigned.task).await.expect("kept");
    assert_eq!(record.message.kind, Kind::DIRECTIVE);
    assert_eq!(record.message.thread, worker.thread);
    assert!(matches!(record.deliveries[0].state, RecordState::Leased), "{record:?}");
    yard.answers(&yard.knows(id), "done").await;
    assert_eq!(yard.world.state(assigned.task).await, RecordState::Acked(Proof::End));
}

#[tokio::test(start_paused = true)]
async fn its_own_token_opens_the_workers_door_and_nobody_elses() {
    use sha2::{Digest, Sha256};
    let yard = Yard::new().await;
    let worker = yard.puts_to_work(&yard.boss, "build").await;
    let token = yard.staff.runs(worker.id()).await.token.0;
    let hash = Sha256::digest(&token).into();
    assert_eq!(yard.world.hub.caller(&hash), Some(worker.who));
    yard.answers(&worker, "done").await;
    assert_eq!(yard.world.hub.caller(&hash), None, "the ended have none");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_nobody_has_is_an_error_with_the_nearest_and_starts_nothing() {
    let yard = Yard::new().await;
    let agent = "masson".parse().expect("a name");
    let refused = yard.tries(Assign { agent, ..wish(&yard.boss, "build") }).await;
    let Err(AssignError::NoProfile { name, nearest }) = refused else { panic!("{refused:?}") };
    assert_eq!((name.as_str(), nearest[0].as_str()), ("masson", "mason"));
    assert!(yard.world.hub.given(yard.boss.who).is_empty());
    assert!(yard.staff.at_work().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_launcher_refuses_is_refused_before_anything_is_kept() {
    let yard = Yard::new().await;
    staff::profile(&yard.world.hub, "oracle", Some("delphi"), "{}").await;
    let agent = "oracle".parse().expect("a name");
    let refused = yard.tries(Assign { agent, ..wish(&yard.boss, "speak") }).await;
    let Err(AssignError::Launch(error)) = refused else { panic!("{refused:?}") };
    assert!(error.why.contains("delphi") && error.hint.is_some(), "{error:?}");
    let empty = yard.tries(wish(&yard.boss, "")).await;
    assert!(matches!(empty, Err(AssignError::Draft(_))), "{empty:?}");
    assert!(yard.world.hub.given(yard.boss.who).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_worker_and_starts_no_second() {
    let yard = Yard::new().await;
    let keyed =
        |task: &str| Assign { idempotency_key: Some("k1".into()), ..wish(&yard.boss, task) };
    let first = yard.tries(keyed("build")).await.expect("assigned");
    let again = yard.tries(keyed("build")).await.expect("the same");
    assert_eq!((first.instance.id, first.task), (again.instance.id, again.task));
    assert_eq!((first.duplicate, again.duplicate), (false, true));
    yard.staff.runs(first.instance.id).await;
    assert_eq!(yard.staff.at_work().len(), 1);
    let other = yard.tries(keyed("burn")).await;
    let Err(AssignError::Send(SendError::KeyReused { .. })) = other else { panic!("{other:?}") };
    // A message to the name with that key is another thing.
    let details = posthaste_core::messaging::message::Details {
        idempotency_key: Some("k1".into()),
        ..Default::default()
    };
    assert!(!yard.boss.sends_with("mason", "hello", details).await.duplicate);
}

#[tokio::test(start_paused = true)]
async fn the_key_of_an_assignment_has_the_same_bounds_as_that_of_a_message() {
    let yard = Yard::new().await;
    let keyed = |key: String| Assign { idempotency_key: Some(key), ..wish(&yard.boss, "dig") };
    let most = posthaste_core::Limits::default().key_chars;
    yard.tries(keyed("k".repeat(most))).await.expect("as long as it may be");
    for key in [String::new(), "k".repeat(most + 1)] {
        let refused = yard.tries(keyed(key)).await;
        assert!(matches!(refused, Err(AssignError::Draft(_))), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_accepted_work_is_known_when_its_profile_can_start_nobody_any_more() {
    let yard = Yard::new().await;
    let keyed = |key: &str| Assign { idempotency_key: Some(key.into()), ..wish(&yard.boss, "dig") };
    let first = yard.tries(keyed("k1")).await.expect("assigned");
    staff::profile(&yard.world.hub, "mason", Some("nothing-runs-this"), "{}").await;
    let again = yard.tries(keyed("k1")).await.expect("it was accepted");
    assert_eq!((again.task, again.duplicate), (first.task, true));
    let new = yard.tries(keyed("k2")).await;
    assert!(matches!(new, Err(AssignError::Launch(_))), "{new:?}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_comes_by_itself_is_given_the_work_by_mail() {
    let yard = Yard::new().await;
    let agent: posthaste_core::address::Name = "scribe".parse().expect("a name");
    let ask = |task: &str| Assign { agent: agent.clone(), ..wish(&yard.boss, task) };
    staff::profile(&yard.world.hub, "scribe", None, "{}").await;
    let ended = yard.tries(Assign { timeout: Some(super::LONG), ..ask("write") }).await;
    assert!(matches!(ended, Err(AssignError::NoTimeout { .. })), "nobody could end it: {ended:?}");
    let nobody = yard.tries(ask("write")).await;
    assert!(matches!(nobody, Err(AssignError::NobodyHere { .. })), "{nobody:?}");

    let (one, two) = (yard.world.agent("scribe").await, yard.world.agent("scribe").await);
    let first = yard.tries(ask("write")).await.expect("assigned");
    let second = yard.tries(ask("copy")).await.expect("assigned");
    // Who has nothing to do comes first.
    assert_ne!(first.instance.id, second.instance.id);
    let worker = if first.instance.id == one.id() { one } else { two };
    let mail = worker.takes().await;
    assert_eq!(mail.texts(), ["write"]);
    // A peer is asked, not directed.
    assert_eq!(mail.mail[0].leased.message.kind, Kind::default());
    let record = yard.world.hub.message(yard.boss.who, MessageRef::Seq(first.task)).await;
    assert!(record.expect("a look").is_some(), "the giver sees its own task");
    let told =
        posthaste_core::messaging::message::Details { kind: Kind::RESULT, ..Default::default() };
    worker.sends_with(&yard.boss, "written", told).await;
    assert!(yard.world.hub.assignment(first.task).expect("known").assignment.report.is_some());
    assert_eq!(yard.world.status(&worker), Status::Running, "it lives on");
}

#[tokio::test(start_paused = true)]
async fn the_human_assigns_too_and_is_told() {
    let yard = Yard::new().await;
    let human = yard.world.operator();
    let worker = yard.puts_to_work(&human, "build").await;
    assert_eq!(yard.world.hub.instance(worker.id()).expect("known").instance.parent, None);
    yard.answers(&worker, "a house").await;
    let mail = human.takes().await;
    assert_eq!(mail.texts(), ["a house"]);
    assert_eq!(mail.mail[0].leased.message.from.instance, Some(worker.id()));
    assert_eq!(mail.mail[0].leased.relation, posthaste_core::registry::Relation::Child);
    assert!(yard.world.hub.given(Principal::Operator).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_program_is_not_there_after_all_fails_and_its_giver_hears_why() {
    let yard = Yard::new().await;
    let assigned = yard.assigns(&yard.boss, "cannot").await;
    let ask = yard.boss.gather(super::LONG, posthaste_core::messaging::receive::WaitFor::All, &[]);
    let answer = yard.boss.asks(ask).await;
    assert_eq!(answer.mail.len(), 1);
    assert!(answer.texts()[0].contains("no such program: cannot; install it"), "{answer:?}");
    let worker = yard.world.hub.instance(assigned.instance.id).expect("known").instance;
    assert_eq!(worker.status, Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_worker_leads_by_its_name_only_if_the_operator_gave_it_its_work() {
    let yard = Yard::new().await;
    let (name, mason) = ("main".parse().expect("a name"), "mason".parse().expect("a name"));
    let team = Team { name, leaders: vec![Leader::Name(mason)] };
    yard.world.hub.put_team(team).await.expect("a team");
    let main = yard.world.hub.instance(yard.boss.id()).expect("known").instance.team;

    let of_boss = yard.puts_to_work(&yard.boss, "build").await;
    let of_operator = yard.puts_to_work(&yard.world.operator(), "lead").await;

    for (worker, origin, leads) in
        [(&of_boss, Origin::Assigned, false), (&of_operator, Origin::Operator, true)]
    {
        let known = yard.world.hub.instance(worker.id()).expect("known").instance;
        assert_eq!(known.origin, origin);
        let query = HistoryQuery { team: Some(main.clone()), last: 9, ..HistoryQuery::default() };
        let seen = yard.world.hub.history(worker.who, query).await;
        assert_eq!(seen.is_ok(), leads, "{origin:?}");
        assert_eq!(yard.world.hub.is_above(worker.who, yard.boss.id()), leads, "{origin:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn under_the_team_policy_nobody_reaches_another_team_by_a_worker_of_its_own_there() {
    let limits = Limits { write_policy: Write::Team, ..Limits::default() };
    let yard = Yard::with(World::with(limits), AgentsConfig::default()).await;
    let avalon = yard.world.agent_in("mordred", "avalon").await;
    let there = || Assign {
        team: Some("avalon".parse().expect("a name")),
        ..wish(&yard.boss, "listen at the door")
    };
    let refused = yard.tries(there()).await;
    assert!(matches!(refused, Err(AssignError::Send(SendError::NotAllowed { .. }))), "{refused:?}");
    yard.puts_to_work(&yard.boss, "at home").await;
    let by_operator = Assign { by: Principal::Operator, ..there() };
    yard.tries(by_operator).await.expect("the operator may");
    let name = "avalon".parse().expect("a name");
    let team = Team { name, leaders: vec![Leader::Instance(yard.boss.id())] };
    yard.world.hub.put_team(team).await.expect("a team");
    yard.tries(there()).await.expect("so may a leader of that team");
    drop(avalon);
}

#[tokio::test(start_paused = true)]
async fn work_for_one_that_comes_by_itself_is_under_the_same_limits_as_any_mail_to_it() {
    let limits = Limits { pair_per_minute: 2, mailbox_messages: 4, ..Limits::default() };
    let yard = Yard::with(World::with(limits), AgentsConfig::default()).await;
    staff::profile(&yard.world.hub, "scribe", None, "{}").await;
    let scribe = yard.world.agent("scribe").await;
    let ask = |by: &Agent| Assign { agent: "scribe".parse().expect("a name"), ..wish(by, "write") };
    // The first message to a new mailbox is not counted.
    for _ in 0..3 {
        yard.tries(ask(&yard.boss)).await.expect("assigned");
    }
    let refused = yard.tries(ask(&yard.boss)).await;
    assert!(matches!(refused, Err(AssignError::Send(SendError::TooOften { .. }))), "{refused:?}");
    let human = yard.world.operator();
    yard.tries(ask(&human)).await.expect("the operator is under no rate");
    let refused = yard.tries(ask(&human)).await;
    assert!(
        matches!(refused, Err(AssignError::Send(SendError::MailboxFull { .. }))),
        "{refused:?}"
    );
    assert_eq!(scribe.takes().await.mail.len(), 4, "nothing was kept of what was refused");
}
