//! `POST /v1/assign`, what is told of a worker, and whom the work goes to.

use std::sync::Arc;

use posthaste_api::ErrorCode;
use posthaste_api::client::{Client, Heard};
use posthaste_api::events::EventsQuery;
use posthaste_api::inbox::InboxQuery;
use posthaste_api::instances::InstancesQuery;
use posthaste_api::messages::{MessageRef, SendRequest};
use posthaste_api::work::{AssignRequest, Assigned};
use posthaste_core::orchestration::AgentsConfig;
use posthaste_testkit::store_suite::HandClock;

use crate::house::{House, Plan, read, receipt_of, refusal, texts, until, within};
use crate::staff::{self, house, staffed};

pub(super) fn task(agent: &str, message: &str) -> AssignRequest {
    AssignRequest { agent: agent.into(), message: message.into(), ..AssignRequest::default() }
}

pub(super) async fn assign(by: &Client, agent: &str, message: &str) -> Assigned {
    by.assign(&task(agent, message)).await.expect("assigned")
}

fn gather() -> InboxQuery {
    InboxQuery {
        timeout: Some(30.0),
        wait_for: Some("all".into()),
        batch_window: Some(0.0),
        ..InboxQuery::default()
    }
}

#[tokio::test]
async fn a_worker_that_neither_writes_nor_calls_for_long_is_shown_as_quiet() {
    let clock = Arc::new(HandClock::default());
    let plan = Plan { clock: Arc::clone(&clock) as _, ..Plan::default() };
    let (house, staff) = staffed(plan, AgentsConfig::default()).await;
    let (_, as_boss) = house.agent("boss").await;
    let given = as_boss.assign(&task("worker", "count the words")).await.expect("assigned");
    let token = staff.works(&given.instance).await.token.0;
    until("it runs", async || house.instance(&given.instance).await.status == "running").await;
    let activity =
        async || as_boss.instance(&given.instance).await.expect("its boss sees it").activity;
    assert_eq!(activity().await, "busy");

    let quiet = AgentsConfig::default().quiet;
    clock.advance(quiet);
    assert_eq!(activity().await, "quiet");
    read(&house.client(&token)).await;
    assert_eq!(activity().await, "busy", "it called");
    clock.advance(quiet);
    staff.writes(&given.instance, b"half of them").await;
    assert_eq!(activity().await, "busy", "it wrote");
}

#[tokio::test]
async fn whoever_assigns_gets_the_report_by_mail_with_its_label() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let request = AssignRequest {
        label: Some("chapter 1".into()),
        working_directory: Some("/tmp/books".into()),
        worktree: Some(true),
        timeout: Some(90.5),
        ..task("worker", "count the words")
    };

    let given = as_boss.assign(&request).await.expect("assigned");

    assert_eq!((&*given.agent, &*given.team, &*given.status), ("worker", "main", "starting"));
    assert_eq!(given.label.as_deref(), Some("chapter 1"));
    assert!(!given.duplicate && given.address.starts_with("worker."));
    let start = staff.works(&given.instance).await;
    assert_eq!((start.task_text(), &*start.parent), ("count the words", &*boss.address));
    until("it runs", async || house.instance(&given.instance).await.status == "running").await;
    let shown = house.instance(&given.instance).await;
    assert_eq!((&*shown.activity, shown.parent.as_ref()), ("busy", Some(&boss.instance)));
    assert_eq!(shown.session.as_ref(), Some(&boss.instance), "the boss came by itself");
    assert_eq!(shown.working_directory.as_deref(), Some("/tmp/books"));
    assert_eq!(shown.branch, Some(format!("posthaste/{}", given.instance)));
    assert_eq!(shown.timeout_s, Some(91), "as it was asked for");
    assert!(shown.started_at.is_some() && shown.exit_code.is_none());
    let [open] = shown.assignments.as_slice() else { panic!("one assignment: {shown:?}") };
    assert_eq!((open.task, &open.by, &*open.status), (given.task, &boss.address, "open"));

    staff.answers(&given.instance, "4711 words").await;

    let inbox = as_boss.inbox(&gather()).await.expect("an answer");
    assert_eq!((&*inbox.status, texts(&inbox)), ("complete", vec!["4711 words"]));
    let report = &inbox.messages[0];
    assert_eq!((&*report.kind, report.label.as_deref()), ("result", Some("chapter 1")));
    assert_eq!((report.in_reply_to, &*report.relation), (Some(given.task), "child"));
    let ended = house.instance(&given.instance).await;
    assert_eq!((&*ended.status, ended.exit_code), ("finished", Some(0)));
    assert_eq!(ended.why.as_deref(), Some("exit code 0"));
    assert_eq!(ended.assignments[0].report, Some(report.id));
}

#[tokio::test]
async fn fifty_workers_are_gathered_by_one_call() {
    let config = AgentsConfig { running: 50, ..AgentsConfig::default() };
    let (house, staff) = staffed(Plan::default(), config).await;
    let (_, as_boss) = house.agent("boss").await;
    let mut given = Vec::new();
    for n in 0..50 {
        given.push(assign(&as_boss, "worker", &format!("part {n}")).await);
    }
    let reader = as_boss.clone();
    let gathering = tokio::spawn(async move { reader.inbox(&gather()).await });

    for (n, one) in given.iter().enumerate() {
        match n {
            7 => staff.fails(&one.instance, 3, "it broke").await,
            _ => staff.answers(&one.instance, &format!("done {n}")).await,
        }
    }

    let inbox = within("the gather", gathering).await.expect("no panic").expect("an answer");
    assert_eq!((&*inbox.status, inbox.total, inbox.missing.len()), ("complete", 50, 0));
    let failed = inbox.messages.iter().filter(|m| m.kind == "system.agent_failed").count();
    assert_eq!(failed, 1, "a failure is a report, too");
}

#[tokio::test]
async fn who_is_missing_is_told_by_label() {
    let (house, staff) = house().await;
    let (_, as_boss) = house.agent("boss").await;
    let labelled = |label: &str| AssignRequest { label: Some(label.into()), ..task("worker", "x") };
    let one = as_boss.assign(&labelled("north")).await.expect("assigned");
    let two = as_boss.assign(&labelled("south")).await.expect("assigned");
    staff.answers(&one.instance, "north is done").await;
    staff.works(&two.instance).await;

    let query = InboxQuery { timeout: Some(0.2), ..gather() };
    let inbox = as_boss.inbox(&query).await.expect("an answer");

    assert_eq!((&*inbox.status, texts(&inbox)), ("partial", vec!["north is done"]));
    assert_eq!(inbox.missing[0].label.as_deref(), Some("south"));
    assert_eq!(inbox.missing[0].instance, Some(two.instance));
}

#[tokio::test]
async fn a_second_report_is_late_and_says_so() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let given = assign(&as_boss, "worker", "count").await;
    let start = staff.works(&given.instance).await;
    let as_worker = house.client(&start.token.0);
    let report = |text: &str| SendRequest {
        kind: Some("result".into()),
        in_reply_to: Some(MessageRef::Seq(given.task)),
        ..SendRequest::new(boss.instance.clone(), text)
    };

    as_worker.send(&report("first")).await.expect("accepted");
    as_worker.send(&report("second thoughts")).await.expect("accepted");

    let inbox = read(&as_boss).await;
    let told: Vec<_> = inbox.messages.iter().map(|m| (&*m.message, m.late)).collect();
    assert_eq!(told, [("first", false), ("second thoughts", true)]);
    assert_eq!(house.instance(&given.instance).await.activity, "idle", "it has reported");
    // Also whoever reads it again can tell which of the two counts.
    let mut again = Vec::new();
    for message in &inbox.messages {
        again.push(house.record(message.id).await.late);
    }
    assert_eq!(again, [false, true]);
}

#[tokio::test]
async fn the_same_key_is_the_same_worker() {
    let (house, staff) = house().await;
    let (_, as_boss) = house.agent("boss").await;
    let request = AssignRequest { idempotency_key: Some("once".into()), ..task("worker", "count") };

    let first = as_boss.assign(&request).await.expect("assigned");
    let again = as_boss.assign(&request).await.expect("assigned before");

    assert!(!first.duplicate && again.duplicate);
    assert_eq!((&again.instance, again.task), (&first.instance, first.task));
    staff.works(&first.instance).await;
    assert_eq!(staff.began(), 1);
}

#[tokio::test]
async fn an_unknown_profile_is_refused_with_the_nearest_names_and_starts_nothing() {
    let (house, staff) = house().await;
    let (_, as_boss) = house.agent("boss").await;

    let error = refusal(as_boss.assign(&task("wroker", "count")).await);

    assert_eq!((error.code, error.code.status()), (ErrorCode::NotFound, 404));
    assert!(error.hint.expect("a hint").contains("worker"));
    assert_eq!(error.details.expect("details")["nearest"][0], "worker");
    assert_eq!(staff.began(), 0);
    let all = InstancesQuery { status: Some("all".into()), ..InstancesQuery::default() };
    let here = house.operator().instances(&all).await.expect("a listing").instances;
    assert_eq!(here.len(), 1, "only the boss");
}

#[tokio::test]
async fn what_cannot_be_started_says_why_and_what_to_do() {
    let (house, _staff) = house().await;
    let operator = house.operator();

    let error = refusal(operator.assign(&task("broken", "count")).await);
    assert_eq!((error.code, error.code.status()), (ErrorCode::CannotStart, 422));
    assert!(error.message.contains("frobnicate"), "{}", error.message);
    assert!(error.hint.expect("a hint").contains("install"));

    let error = refusal(operator.assign(&task("visitor", "come")).await);
    assert_eq!((error.code, error.code.status()), (ErrorCode::Conflict, 409));
    assert!(error.hint.expect("a hint").contains("connect or start it"));

    let error = refusal(House::new().await.operator().assign(&task("worker", "x")).await);
    assert_eq!(error.code, ErrorCode::NotFound, "a hub without profiles");
}

#[tokio::test]
async fn wrong_requests_are_refused_before_anything_starts() {
    let (house, staff) = house().await;
    let operator = house.operator();
    let relative =
        AssignRequest { working_directory: Some("src".into()), ..task("worker", "count") };
    let two_teams = AssignRequest { team: Some("a".into()), ..task("worker@b", "count") };
    for (request, told) in [
        (task("@everyone", "count"), "the name of a profile"),
        (task("worker.1a2b3c4d", "count"), "the name of a profile"),
        (relative, "absolute"),
        (two_teams, "another one"),
        (AssignRequest { timeout: Some(0.0), ..task("worker", "count") }, "timeout"),
        (AssignRequest { timeout: Some(-1.0), ..task("worker", "count") }, "timeout"),
    ] {
        let error = refusal(operator.assign(&request).await);
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{request:?}");
        assert!(error.message.contains(told), "{}", error.message);
    }
    let error = refusal(operator.assign(&task("not a name", "count")).await);
    assert_eq!(error.code, ErrorCode::InvalidAddress);
    let error = refusal(operator.assign(&task("worker", "")).await);
    assert_eq!(error.code.status(), 422, "no task: {error:?}");
    assert_eq!(staff.began(), 0);
}

#[tokio::test]
async fn a_full_line_is_refused_by_the_name_of_its_limit() {
    let config = AgentsConfig { running: 1, line: 2, ..AgentsConfig::default() };
    let (house, staff) = staffed(Plan::default(), config).await;
    let operator = house.operator();
    let first = assign(&operator, "worker", "one").await;
    staff.works(&first.instance).await;
    assign(&operator, "worker", "two").await;
    assign(&operator, "worker", "three").await;

    let error = refusal(operator.assign(&task("worker", "four")).await);

    assert_eq!((error.code, error.code.status()), (ErrorCode::LineFull, 429));
    assert_eq!(error.details.expect("details")["key"], "agents.line");
    staff.answers(&first.instance, "done").await;
    until("there is room again", async || staff.began() == 2).await;
    assign(&operator, "worker", "four").await;
}

#[tokio::test]
async fn a_tree_too_deep_is_refused_by_the_name_of_its_limit() {
    let config = AgentsConfig { depth: 1, ..AgentsConfig::default() };
    let (house, staff) = staffed(Plan::default(), config).await;
    let first = assign(&house.operator(), "worker", "one").await;
    let token = staff.works(&first.instance).await.token.0;
    let second = assign(&house.client(&token), "worker", "two").await;
    let token = staff.works(&second.instance).await.token.0;

    let error = refusal(house.client(&token).assign(&task("worker", "three")).await);

    assert_eq!((error.code, error.code.status()), (ErrorCode::CannotStart, 422));
    assert_eq!(error.details.expect("details")["key"], "agents.depth");
}

#[tokio::test]
async fn work_for_one_who_comes_by_itself_goes_to_whoever_is_here() {
    let (house, _staff) = house().await;
    let (_, as_boss) = house.agent("boss").await;
    let (visitor, as_visitor) = house.agent("visitor").await;

    let given = assign(&as_boss, "visitor", "look at this").await;

    assert_eq!((&given.instance, &*given.status), (&visitor.instance, "running"));
    let inbox = read(&as_visitor).await;
    assert_eq!(texts(&inbox), ["look at this"]);
    let reply = SendRequest {
        kind: Some("result".into()),
        in_reply_to: Some(MessageRef::Seq(given.task)),
        ..SendRequest::new("boss", "seen")
    };
    as_visitor.ack(&receipt_of(&inbox)).await.expect("acked");
    as_visitor.send(&reply).await.expect("accepted");
    let told = house.instance(&visitor.instance).await;
    assert_eq!((&*told.activity, told.session), ("unknown", None), "nothing is claimed of it");
}

#[tokio::test]
async fn a_listing_can_be_of_one_parent_or_of_one_session() {
    let (house, staff) = house().await;
    let (boss, as_boss) = house.agent("boss").await;
    let one = assign(&as_boss, "worker", "one").await;
    let start = staff.works(&one.instance).await;
    let below = assign(&house.client(&start.token.0), "builder", "deeper").await;
    let other = assign(&house.operator(), "worker", "for the human").await;
    let listed = async |query: InstancesQuery| {
        let found = house.operator().instances(&query).await.expect("a listing").instances;
        let mut ids: Vec<String> = found.into_iter().map(|i| i.instance).collect();
        ids.sort();
        ids
    };
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };

    let of_boss =
        InstancesQuery { parent: Some(boss.instance.clone()), ..InstancesQuery::default() };
    assert_eq!(listed(of_boss).await, [one.instance.as_str()]);
    let session =
        InstancesQuery { session: Some(boss.instance.clone()), ..InstancesQuery::default() };
    assert_eq!(listed(session).await, sorted(vec![boss.instance, one.instance, below.instance]));
    let human = InstancesQuery { session: Some("human".into()), ..InstancesQuery::default() };
    assert_eq!(listed(human).await, [other.instance]);
    let wrong = InstancesQuery { parent: Some("xyz".into()), ..InstancesQuery::default() };
    assert_eq!(refusal(house.operator().instances(&wrong).await).code.status(), 422);
}

#[tokio::test]
async fn the_context_tells_who_works_and_what_waits() {
    let (house, staff) = staff::house().await;
    let (_, as_boss) = house.agent("boss").await;
    let quiet = as_boss.context().await.expect("a context");
    assert_eq!(quiet.structured_state.pending_msgs, 0);
    assert!(quiet.context_prompt.contains("Running: 0"), "{}", quiet.context_prompt);
    let one = assign(&as_boss, "worker", "one").await;
    let two = assign(&as_boss, "worker", "two").await;
    staff.answers(&two.instance, "done").await;

    let told = as_boss.context().await.expect("a context");

    let state = told.structured_state;
    let running: Vec<_> = state.running.iter().map(|worker| &worker.instance).collect();
    assert_eq!((running, state.pending_msgs), (vec![&one.instance], 1));
    let open: Vec<_> = state.open_assignments.iter().map(|a| a.task).collect();
    assert_eq!(open, [one.task]);
    for line in ["Running: 1", "Open assignments: 1", "Pending messages: 1"] {
        assert!(told.context_prompt.contains(line), "{}", told.context_prompt);
    }
}

#[tokio::test]
async fn a_session_is_followed_with_all_who_work_in_it_and_nobody_else() {
    let (house, staff) = house().await;
    let ((boss, as_boss), (_, as_other)) = (house.agent("boss").await, house.agent("other").await);
    let mine = assign(&as_boss, "worker", "mine").await;
    let theirs = assign(&as_other, "worker", "theirs").await;
    staff.answers(&theirs.instance, "done").await;
    staff.answers(&mine.instance, "done").await;
    let query = EventsQuery {
        topics: Some(format!("session:{}", boss.instance)),
        types: Some("instance,assignment".into()),
        after: Some(0),
        ..EventsQuery::default()
    };
    let mut following = house.operator().events(&query).await.expect("a stream");
    let mut heard = Vec::new();
    while heard.len() < 5 {
        let next = within("an event", following.next()).await.expect("a line");
        let Some(Heard::Event(event)) = next else { continue };
        let who = event.instance.map(|i| i.instance);
        heard.push((event.kind, who));
    }
    let of = |kind: &str, id: &str| (kind.to_owned(), Some(id.to_owned()));
    assert_eq!(
        heard,
        [
            of("instance.joined", &boss.instance),
            of("instance.starting", &mine.instance),
            of("instance.running", &mine.instance),
            ("assignment.settled".to_owned(), None),
            of("instance.ended", &mine.instance),
        ]
    );
}

#[tokio::test]
async fn workers_are_counted_for_whoever_watches() {
    let (house, staff) = staffed(Plan::default(), one_at_a_time()).await;
    let operator = house.operator();
    let first = assign(&operator, "worker", "one").await;
    let second = assign(&operator, "worker", "two").await;
    staff.works(&first.instance).await;
    let told = operator.metrics().await.expect("metrics");
    for line in [
        "posthaste_workers{status=\"running\"} 1",
        "posthaste_workers{status=\"starting\"} 1",
        "posthaste_workers_ended_total{status=\"failed\"} 0",
    ] {
        assert!(told.lines().any(|l| l == line), "{line}: {told}");
    }
    staff.fails(&first.instance, 1, "").await;
    staff.answers(&second.instance, "done").await;
    let told = operator.metrics().await.expect("metrics");
    for line in [
        "posthaste_workers{status=\"running\"} 0",
        "posthaste_workers_ended_total{status=\"finished\"} 1",
        "posthaste_workers_ended_total{status=\"failed\"} 1",
    ] {
        assert!(told.lines().any(|l| l == line), "{line}: {told}");
    }
}

fn one_at_a_time() -> AgentsConfig {
    AgentsConfig { running: 1, ..AgentsConfig::default() }
}
