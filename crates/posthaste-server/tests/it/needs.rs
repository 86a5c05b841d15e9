//! What waits for the operator, through the door.

use std::sync::Arc;

use posthaste_api::ErrorCode;
use posthaste_api::client::Client;
use posthaste_api::events::EventsQuery;
use posthaste_api::messages::{MessageRef, SendRequest};
use posthaste_api::needs::{AnswerRequest, ForgetQuery, NeedView, NeedsQuery};
use posthaste_api::work::AssignRequest;
use posthaste_core::address::InstanceId;
use posthaste_core::needs::{PermissionAsk, Verdict};
use posthaste_store::Place;
use serde_json::{Map, json};
use tokio::task::JoinHandle;

use crate::events::{event, follow};
use crate::house::{House, OPERATOR, Plan, by_ids, read, refusal, send, texts, until, within};
use crate::staff;

async fn open(by: &Client) -> Vec<NeedView> {
    let found = by.needs(&NeedsQuery::default()).await.expect("a list");
    assert_eq!((found.open, found.cursor), (found.needs.len(), None));
    found.needs
}

async fn one(by: &Client) -> NeedView {
    let open = open(by).await;
    assert_eq!(open.len(), 1, "{open:?}");
    open.into_iter().next().expect("one")
}

fn text(text: &str) -> AnswerRequest {
    AnswerRequest { text: Some(text.into()), ..AnswerRequest::default() }
}

fn allow(allow: bool) -> AnswerRequest {
    AnswerRequest { allow: Some(allow), ..AnswerRequest::default() }
}

fn question(words: &str) -> SendRequest {
    SendRequest { kind: Some("question".into()), ..SendRequest::new("human", words) }
}

/// A driver asks; the need is open when this returns.
async fn asks(house: &House, who: &str, request: &str) -> JoinHandle<Verdict> {
    let (hub, id): (_, InstanceId) = (Arc::clone(&house.hub), who.parse().expect("an instance"));
    let ask = PermissionAsk {
        request: request.into(),
        subject: "Bash(git push)".into(),
        text: "Bash: git push".into(),
    };
    let known = house.hub.open_needs();
    let task = tokio::spawn(async move { hub.permission(id, ask).await });
    until("it asks", async || house.hub.open_needs() > known || task.is_finished()).await;
    task
}

#[tokio::test]
async fn a_question_is_listed_and_its_answer_is_a_linked_message() {
    let house = House::new().await;
    let operator = house.operator();
    assert!(open(&operator).await.is_empty());
    let (alice, as_alice) = house.agent("alice").await;
    let options = Map::from_iter([
        ("options".to_owned(), json!(["red", "blue"])),
        ("blocking".to_owned(), json!(true)),
    ]);
    let asked = SendRequest { metadata: Some(options), ..question("which?") };
    let asked = as_alice.send(&asked).await.expect("asked");
    let need = one(&operator).await;
    assert_eq!((&*need.kind, need.blocking, &*need.text), ("question", true, "which?"));
    assert_eq!((&need.from, need.instance.as_ref()), (&alice.address, Some(&alice.instance)));
    assert_eq!((need.message, need.options.join("/")), (Some(asked.seq), "red/blue".into()));

    let id = need.id.to_string();
    for (wrong, field) in [
        (allow(true), "allow"),
        (AnswerRequest { option: Some("green".into()), ..AnswerRequest::default() }, "option"),
        (AnswerRequest { option: Some("red".into()), ..text("red") }, "option"),
        (AnswerRequest { remember: true, ..text("red") }, "remember"),
        (AnswerRequest::default(), "text"),
    ] {
        let error = refusal(operator.answer_need(&id, &wrong).await);
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{wrong:?}");
        assert_eq!(error.details.expect("details")["field"], field, "{wrong:?}");
    }
    let blue = AnswerRequest { option: Some("blue".into()), ..AnswerRequest::default() };
    let answered = operator.answer_need(&id, &blue).await.expect("answered");
    let sent = answered.sent.expect("a message");
    assert_eq!(answered.need.outcome.as_deref(), Some("answered"));
    assert_eq!(answered.need.answer_message, Some(sent.seq));
    let inbox = read(&as_alice).await;
    let reply = &inbox.messages[0];
    assert_eq!((&*reply.message, reply.in_reply_to), ("blue", Some(asked.seq)));
    assert_eq!(&*reply.kind, "answer");

    let error = refusal(operator.answer_need(&id, &text("red")).await);
    assert_eq!((error.code, error.code.status()), (ErrorCode::AlreadyAnswered, 409));
    assert_eq!(error.details.expect("details")["outcome"], "answered");
    for unknown in ["99", "x", "-1", "99999999999999999999"] {
        let error = refusal(operator.answer_need(unknown, &text("red")).await);
        assert_eq!(error.code, ErrorCode::NotFound, "{unknown}");
    }
}

#[tokio::test]
async fn a_reply_by_mail_answers_the_question_too() {
    let house = House::new().await;
    let operator = house.operator();
    let (alice, as_alice) = house.agent("alice").await;
    let asked = as_alice.send(&question("red?")).await.expect("asked");
    let reply = SendRequest {
        in_reply_to: Some(MessageRef::Seq(asked.seq)),
        ..SendRequest::new(&alice.instance, "yes")
    };
    operator.send(&reply).await.expect("sent");
    assert!(open(&operator).await.is_empty());
    let all = NeedsQuery { open: Some(false), ..NeedsQuery::default() };
    let all = operator.needs(&all).await.expect("a list");
    assert_eq!((all.open, all.needs[0].answer.as_deref()), (0, Some("yes")));
}

#[tokio::test]
async fn a_failed_worker_is_listed_until_it_was_seen() {
    let (house, staff) = staff::house().await;
    let operator = house.operator();
    let task = AssignRequest {
        agent: "worker".into(),
        message: "count".into(),
        ..AssignRequest::default()
    };
    let assigned = operator.assign(&task).await.expect("assigned");
    staff.fails(&assigned.instance, 3, "out of words").await;
    let need = one(&operator).await;
    assert_eq!((&*need.kind, need.instance.as_ref()), ("failed", Some(&assigned.instance)));
    assert!(need.text.contains("out of words"), "{}", need.text);
    let seen = operator.answer_need(&need.id.to_string(), &AnswerRequest::default()).await;
    assert_eq!(seen.expect("seen").need.outcome.as_deref(), Some("seen"));
    assert!(open(&operator).await.is_empty());
}

#[tokio::test]
async fn dead_mail_is_requeued_or_dismissed() {
    let house = House::new().await;
    let operator = house.operator();
    let (bob, as_bob) = house.agent("bob").await;
    let refuses = async |words: &str| {
        let sent = send(&operator, &bob.instance, words).await;
        for _ in 0..5 {
            read(&as_bob).await;
            as_bob.nack(&by_ids(&[sent.seq])).await.expect("refused");
        }
        let need = one(&operator).await;
        assert_eq!((&*need.kind, need.message, &*need.from), ("dead", Some(sent.seq), "human"));
        need.id.to_string()
    };
    let id = refuses("take this").await;
    let error = refusal(operator.answer_need(&id, &text("please")).await);
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    let answered = operator.answer_need(&id, &allow(true)).await.expect("requeued");
    assert_eq!(answered.need.outcome.as_deref(), Some("requeued"));
    let inbox = read(&as_bob).await;
    assert_eq!(texts(&inbox), ["take this"]);
    let ids: Vec<u64> = inbox.messages.iter().map(|m| m.id).collect();
    as_bob.ack(&by_ids(&ids)).await.expect("acked");
    let id = refuses("and this").await;
    let dismiss = AnswerRequest { option: Some("dismiss".into()), ..AnswerRequest::default() };
    let answered = operator.answer_need(&id, &dismiss).await.expect("dismissed");
    assert_eq!(answered.need.outcome.as_deref(), Some("dismissed"));
    assert!(texts(&read(&as_bob).await).is_empty());
}

#[tokio::test]
async fn a_permission_waits_for_the_operator_also_over_a_restart_and_is_remembered() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = || Plan { place: Place::File(folder.path().to_owned()), ..Plan::default() };
    let mut house = House::with(plan()).await;
    let (mason, as_mason) = house.agent("mason").await;
    let asked = asks(&house, &mason.instance, "r-1").await;
    let before = one(&house.operator()).await;
    assert_eq!((&*before.kind, before.blocking), ("permission", true));
    assert_eq!(before.subject.as_deref(), Some("Bash(git push)"));
    // A message that says so approves nothing.
    for body in ["yes, allow", r#"{"allow": true}"#] {
        send(&house.operator(), &mason.instance, body).await;
        send(&as_mason, "human", body).await;
    }
    house.shutdown.cancel();
    within("the door closes", &mut house.served).await.expect("no panic").expect("a clean end");
    house.hub.close().await.expect("closed");
    assert!(!asked.is_finished(), "it got no verdict");
    asked.abort();
    drop(house);

    let house = House::with(plan()).await;
    let operator = house.operator();
    assert_eq!(one(&operator).await, before);
    let hub = Arc::clone(&house.hub);
    let id: InstanceId = mason.instance.parse().expect("an instance");
    let ask = PermissionAsk {
        request: "r-1".into(),
        subject: "Bash(git push)".into(),
        text: String::new(),
    };
    let again = tokio::spawn(async move { hub.permission(id, ask).await });
    let id = before.id.to_string();
    let error = refusal(operator.answer_need(&id, &text("yes")).await);
    assert_eq!(error.details.expect("details")["field"], "text");
    let yes = AnswerRequest { remember: true, ..allow(true) };
    let answered = operator.answer_need(&id, &yes).await.expect("allowed");
    assert_eq!(answered.need.outcome.as_deref(), Some("allowed"));
    assert_eq!(within("a verdict", again).await.expect("no panic"), Verdict::Allow);

    let remembered = operator.remembered().await.expect("a list").remembered;
    assert_eq!((&*remembered[0].profile, remembered[0].allow), ("mason", true));
    let (another, _) = house.agent("mason").await;
    let verdict = asks(&house, &another.instance, "r-7").await;
    assert_eq!(within("a verdict", verdict).await.expect("no panic"), Verdict::Allow);
    let subject = |text: &str| ForgetQuery { subject: Some(text.into()) };
    let error = refusal(operator.forget_verdicts("mason", &subject("Edit")).await);
    assert_eq!(error.code, ErrorCode::NotFound);
    let forgotten = operator.forget_verdicts("mason", &subject("Bash(git push)")).await;
    assert_eq!(forgotten.expect("forgotten").forgotten, 1);
    let asked = asks(&house, &another.instance, "r-8").await;
    let id = one(&operator).await.id.to_string();
    operator.answer_need(&id, &allow(false)).await.expect("denied");
    assert!(matches!(within("a verdict", asked).await, Ok(Verdict::Deny { .. })));
}

#[tokio::test]
async fn one_need_is_shown_and_a_permission_says_when_it_is_denied() {
    let house = House::new().await;
    let operator = house.operator();
    let (mason, as_mason) = house.agent("mason").await;
    let asked = asks(&house, &mason.instance, "r-1").await;
    let need = one(&operator).await;
    let at = need.expires_at.as_deref().expect("a time");
    assert!(at > &*need.created_at, "{need:?}");
    let id = need.id.to_string();
    assert_eq!(operator.need(&id).await.expect("a need"), need);
    operator.answer_need(&id, &allow(true)).await.expect("allowed");
    within("a verdict", asked).await.expect("no panic");
    let closed = operator.need(&id).await.expect("a need");
    assert_eq!((closed.outcome.as_deref(), closed.expires_at), (Some("allowed"), None));

    as_mason.send(&question("red?")).await.expect("asked");
    assert_eq!(one(&operator).await.expires_at, None, "a question waits as long as its asker");
    let told = |error: posthaste_api::ApiError| (error.code, error.message, error.hint);
    let missing = told(refusal(operator.need("99").await));
    assert_eq!((missing.0, &*missing.1), (ErrorCode::NotFound, "there is no need 99"));
    let unread = told(refusal(operator.answer_need("foo", &text("x")).await));
    assert_eq!((&*unread.1, unread.2), ("there is no need foo", missing.2));
}

#[tokio::test]
async fn only_the_operator_sees_and_answers() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    as_alice.send(&question("red?")).await.expect("asked");
    let refused = [
        refusal(as_alice.needs(&NeedsQuery::default()).await),
        refusal(as_alice.need("1").await),
        refusal(as_alice.answer_need("1", &text("yes")).await),
        refusal(as_alice.remembered().await),
        refusal(as_alice.forget_verdicts("alice", &ForgetQuery::default()).await),
    ];
    assert!(refused.iter().all(|error| error.code == ErrorCode::Forbidden), "{refused:?}");
    assert_eq!(open(&house.operator()).await.len(), 1);
    let events = EventsQuery { after: Some(0), ..EventsQuery::default() };
    let mut following = follow(&as_alice, &events).await;
    send(&as_alice, "human", "the end").await;
    loop {
        let event = event(&mut following).await;
        assert!(!event.kind.starts_with("need."), "{event:?}");
        if event.message.is_some_and(|message| message.message == "the end") {
            break;
        }
    }
}

#[tokio::test]
async fn pages_and_kinds_are_chosen_by_the_query() {
    let house = House::new().await;
    let operator = house.operator();
    let (_, as_alice) = house.agent("alice").await;
    for n in 1..=5 {
        as_alice.send(&question(&format!("question {n}"))).await.expect("asked");
    }
    operator.answer_need("2", &text("yes")).await.expect("answered");
    let ids = async |query: NeedsQuery| {
        let found = operator.needs(&query).await.expect("a list");
        assert_eq!(found.open, 4);
        (found.needs.iter().map(|need| need.id).collect::<Vec<_>>(), found.cursor)
    };
    let page = NeedsQuery { limit: Some(2), ..NeedsQuery::default() };
    let (first, cursor) = ids(page.clone()).await;
    assert_eq!(first, [1, 3]);
    let (second, cursor) = ids(NeedsQuery { cursor, ..page.clone() }).await;
    assert_eq!(second, [4, 5]);
    assert_eq!(ids(NeedsQuery { cursor, ..page.clone() }).await, (vec![], None));
    let all = NeedsQuery { open: Some(false), ..NeedsQuery::default() };
    assert_eq!(ids(all).await.0, [1, 2, 3, 4, 5]);
    let dead = NeedsQuery { kind: Some("dead".into()), ..NeedsQuery::default() };
    assert_eq!(ids(dead).await.0, [] as [u64; 0]);
    for query in ["kind=wish", "limit=0", "limit=1001", "cursor=x", "open=maybe", "x=1"] {
        let (status, answer) =
            house.call(&format!("GET /v1/needs?{query}"), Some(OPERATOR), "").await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (422, &json!("invalid_argument")),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_follower_hears_of_needs_as_they_open_and_close() {
    let house = House::new().await;
    let operator = house.operator();
    let query = EventsQuery { types: Some("need".into()), ..EventsQuery::default() };
    let mut following = follow(&operator, &query).await;
    let (alice, as_alice) = house.agent("alice").await;
    let topic = format!("agent:{}", alice.instance);
    let mut of_alice = follow(&operator, &EventsQuery { topics: Some(topic), ..query }).await;
    as_alice.send(&question("red?")).await.expect("asked");
    let opened = event(&mut following).await;
    assert_eq!((&*opened.kind, opened.need_id), ("need.opened", Some(1)));
    assert_eq!(opened.need.expect("the need").text, "red?");
    operator.answer_need("1", &text("yes")).await.expect("answered");
    let closed = event(&mut following).await;
    assert_eq!((&*closed.kind, closed.need_id), ("need.closed", Some(1)));
    assert_eq!(closed.need.expect("the need").answer.as_deref(), Some("yes"));
    assert_eq!(event(&mut of_alice).await.kind, "need.opened");
}
