//! Who sees what, through the door.

use posthaste_api::ErrorCode;
use posthaste_api::client::Client;
use posthaste_api::instances::CreateInstance;
use posthaste_api::messages::{HistoryQuery, MessageRef, ReadQuery, SendRequest};
use posthaste_api::teams::PutTeam;

use crate::house::{House, read, refusal, send, texts};

async fn said(by: &Client, query: &HistoryQuery) -> Vec<String> {
    let page = by.history(query).await.expect("a page");
    page.messages.into_iter().map(|m| m.message).collect()
}

fn team(name: &str) -> HistoryQuery {
    HistoryQuery { team: Some(name.into()), ..HistoryQuery::default() }
}

#[tokio::test]
async fn leaders_see_everything_addressed_to_their_team_and_never_take_it() {
    let house = House::new().await;
    let (arthur, as_arthur) = house.join("arthur", Some("camelot"), "k").await;
    let (mason, as_mason) = house.join("mason", Some("avalon"), "k").await;
    let operator = house.operator();
    for to in [&*mason.instance, "mason@avalon", "@anyone@avalon", "@everyone@avalon"] {
        send(&operator, to, to).await;
    }
    send(&operator, "@anyone", "for all the world").await;
    let lead = PutTeam { leaders: vec![arthur.instance] };
    operator.put_team("avalon", &lead).await.expect("kept");

    let all = [&*mason.instance, "mason@avalon", "@anyone@avalon", "@everyone@avalon"];
    for by in [&as_arthur, &operator] {
        assert_eq!(said(by, &team("avalon")).await, all);
    }
    let exact = HistoryQuery { mailbox: Some(mason.instance.clone()), ..team("avalon") };
    assert_eq!(said(&as_arthur, &exact).await, [&*mason.instance, "@everyone@avalon"]);
    let seen = as_arthur.read("1", &ReadQuery::default()).await.expect("a leader sees it");
    assert_eq!(seen.deliveries[0].state, "queued");
    let remark = SendRequest {
        in_reply_to: Some(MessageRef::Seq(1)),
        ..SendRequest::new("human", "I saw that")
    };
    as_arthur.send(&remark).await.expect("who sees it may answer it");
    let unread = house.instance(&mason.instance).await;
    assert_eq!((unread.unread, unread.unread_shared), (4, 1), "seeing takes nothing");
    assert_eq!(texts(&read(&as_mason).await).len(), 5);
    // Not the team's, unasked; and of anyone's mail not what another took.
    assert_eq!(said(&as_arthur, &HistoryQuery::default()).await, ["I saw that"]);
}

#[tokio::test]
async fn who_comes_later_by_the_name_of_a_leader_sees_it_all() {
    let house = House::new().await;
    let (mason, _) = house.join("mason", Some("avalon"), "k").await;
    let operator = house.operator();
    let lead = PutTeam { leaders: vec!["merlin".into()] };
    operator.put_team("avalon", &lead).await.expect("kept");
    send(&operator, &mason.instance, "before merlin came").await;
    let merlin = CreateInstance {
        agent: "merlin".into(),
        team: Some("avalon".into()),
        ..CreateInstance::default()
    };
    let (_, as_merlin) = house.create(merlin).await;
    assert_eq!(said(&as_merlin, &team("avalon")).await, ["before merlin came"]);

    operator.put_team("avalon", &PutTeam { leaders: vec![] }).await.expect("kept");
    let error = refusal(as_merlin.history(&team("avalon")).await);
    assert_eq!(error.code, ErrorCode::Forbidden, "a leader no more");
}

#[tokio::test]
async fn others_are_refused_with_a_hint_and_an_unknown_team_with_the_nearest_names() {
    let house = House::new().await;
    let (_, as_mason) = house.join("mason", Some("avalon"), "k").await;
    let error = refusal(as_mason.history(&team("avalon")).await);
    assert_eq!((error.code, error.code.status()), (ErrorCode::Forbidden, 403));
    assert!(error.hint.is_some_and(|hint| hint.contains("leader")));
    for by in [&as_mason, &house.operator()] {
        let error = refusal(by.history(&team("avalom")).await);
        assert_eq!(error.code, ErrorCode::NotFound);
        assert_eq!(error.hint.as_deref(), Some("did you mean avalon?"));
    }
    let error = refusal(as_mason.history(&team("no name!")).await);
    assert_eq!(error.code.status(), 422);
}

#[tokio::test]
async fn a_thread_is_read_by_its_family_and_others_see_their_own_part() {
    let house = House::new().await;
    let child = |of: &str, name: &str| CreateInstance {
        agent: name.into(),
        parent: Some(of.into()),
        ..CreateInstance::default()
    };
    let (boss, as_boss) = house.agent("boss").await;
    let (worker, as_worker) = house.create(child(&boss.instance, "worker")).await;
    let (_, as_sibling) = house.create(child(&boss.instance, "sibling")).await;
    let (_, as_helper) = house.create(child(&worker.instance, "helper")).await;
    let (peer, as_peer) = house.agent("peer").await;
    let (_, as_stranger) = house.agent("stranger").await;
    send(&as_worker, &boss.instance, "to the boss").await;
    send(&as_worker, &peer.instance, "to a peer").await;

    let thread =
        HistoryQuery { thread_id: Some(worker.thread_id.clone()), ..HistoryQuery::default() };
    for by in [&as_boss, &as_worker, &as_sibling, &as_helper, &house.operator()] {
        assert_eq!(said(by, &thread).await, ["to the boss", "to a peer"]);
    }
    assert_eq!(said(&as_peer, &thread).await, ["to a peer"]);
    assert!(said(&as_stranger, &thread).await.is_empty());
    assert_eq!(
        refusal(as_stranger.read("1", &ReadQuery::default()).await).code,
        ErrorCode::NotFound
    );
}

#[tokio::test]
async fn sender_label_and_type_are_joined_by_and() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let operator = house.operator();
    for (by, text, label, kind) in [
        (&as_alice, "a", "build", "result"),
        (&as_alice, "b", "test", "result"),
        (&operator, "c", "build", "result"),
        (&as_alice, "d", "build", "question"),
    ] {
        let request = SendRequest {
            label: Some(label.into()),
            kind: Some(kind.into()),
            ..SendRequest::new(bob.instance.clone(), text)
        };
        by.send(&request).await.expect("accepted");
    }
    let some = |text: &str| Some(text.to_owned());
    let mut query = HistoryQuery { label: some("build"), ..HistoryQuery::default() };
    assert_eq!(said(&operator, &query).await, ["a", "c", "d"]);
    query.kind = some("result");
    assert_eq!(said(&operator, &query).await, ["a", "c"]);
    query.from = some("alice");
    assert_eq!(said(&operator, &query).await, ["a"]);
    query.from = some("human");
    assert_eq!(said(&operator, &query).await, ["c"]);
}

#[tokio::test]
async fn pages_go_forward_from_a_number_and_end() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    for n in 0..5 {
        send(&house.operator(), &bob.instance, &n.to_string()).await;
    }
    let mut query =
        HistoryQuery { after: Some("0".into()), last_n: Some(2), ..HistoryQuery::default() };
    let mut pages = Vec::new();
    while query.after.is_some() {
        let page = as_bob.history(&query).await.expect("a page");
        assert_eq!(page.cursor, None, "one way at a time");
        pages.push(page.messages.iter().map(|m| &*m.message).collect::<String>());
        query.after = page.after;
        assert!(pages.len() < 9, "pages end");
    }
    assert_eq!(pages, ["01", "23", "4"]);
}

#[tokio::test]
async fn a_bad_cursor_is_422() {
    let house = House::new().await;
    let some = |text: &str| Some(text.to_owned());
    let too_far = "9223372036854775808";
    for bad in ["", "-1", "x", "1.5", too_far, "t-00000000"] {
        for query in [
            HistoryQuery { cursor: some(bad), ..HistoryQuery::default() },
            HistoryQuery { after: some(bad), ..HistoryQuery::default() },
        ] {
            let error = refusal(house.operator().history(&query).await);
            assert_eq!(error.code.status(), 422, "{query:?}");
        }
    }
    let both = HistoryQuery { cursor: some("5"), after: some("1"), ..HistoryQuery::default() };
    assert_eq!(refusal(house.operator().history(&both).await).code.status(), 422);
}

#[tokio::test]
async fn ones_own_replies_in_anothers_thread_are_in_ones_history() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let asked = send(&as_alice, &bob.instance, "asked").await;
    let reply = SendRequest {
        in_reply_to: Some(MessageRef::Seq(asked.seq)),
        ..SendRequest::new("alice", "replied")
    };
    let replied = as_bob.send(&reply).await.expect("accepted");
    assert_eq!(replied.thread_id, asked.thread_id, "in her thread");
    assert_eq!(said(&as_bob, &HistoryQuery::default()).await, ["asked", "replied"]);
}

#[tokio::test]
async fn a_message_number_that_no_store_counts_to_is_422() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let operator = house.operator();
    for number in [i64::MAX as u64 + 1, u64::MAX] {
        let text = number.to_string();
        let reply = |which| SendRequest {
            in_reply_to: Some(which),
            ..SendRequest::new(bob.instance.clone(), "an answer")
        };
        let refusals = [
            refusal(operator.read(&text, &ReadQuery::default()).await),
            refusal(operator.trail(&text).await),
            refusal(operator.cancel(&text).await),
            refusal(operator.requeue(&text).await),
            refusal(operator.send(&reply(MessageRef::Seq(number))).await),
            refusal(operator.send(&reply(MessageRef::Text(text))).await),
        ];
        for error in refusals {
            assert_eq!((error.code, error.code.status()), (ErrorCode::InvalidArgument, 422));
        }
    }
    let last = i64::MAX.to_string();
    let error = refusal(operator.read(&last, &ReadQuery::default()).await);
    assert_eq!(error.code, ErrorCode::NotFound, "the last number is only unused");
}
