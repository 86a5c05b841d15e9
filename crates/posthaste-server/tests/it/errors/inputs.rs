//! Words that make no sense.

use posthaste_api::ErrorCode;
use posthaste_api::messages::{MessageRef, SendRequest};
use posthaste_core::Limits;
use posthaste_store::{Place, StoreConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::house::{House, JOIN, OPERATOR, Plan, read, read_reply, refusal, request, send, texts};

/// Every error has the one form.
fn told(answer: &Value) -> (&str, &str) {
    let error = &answer["error"];
    let code = error["code"].as_str().unwrap_or_else(|| panic!("not in the one form: {answer}"));
    let message = error["message"].as_str().expect("a message");
    assert!(!message.is_empty());
    (code, message)
}

#[tokio::test]
async fn an_unknown_recipient_is_404_with_the_nearest_names() {
    let house = House::new().await;
    house.agent("mason").await;
    house.agent("baker").await;
    let cases = [
        ("masonn", json!(["mason"]), "did you mean mason?"),
        ("bekar", json!(["baker"]), "did you mean baker?"),
        ("zzzzzz", json!([]), "`posthaste agents` lists who is here"),
        ("mason@mian", json!(["main"]), "did you mean main?"),
        ("@anyone@mian", json!(["main"]), "did you mean main?"),
        ("@everyone@mian", json!(["main"]), "did you mean main?"),
    ];
    for (to, nearest, hint) in cases {
        let error = refusal(house.operator().send(&SendRequest::new(to, "hello")).await);
        assert_eq!((error.code, error.code.status()), (ErrorCode::NoRecipient, 404), "{to}");
        assert_eq!(error.details.as_deref(), Some(&json!({ "nearest": nearest })), "{to}");
        assert_eq!(error.hint.as_deref(), Some(hint), "{to}");
    }
}

#[tokio::test]
async fn a_bad_address_is_422_with_the_position_and_a_suggestion() {
    let house = House::new().await;
    house.join("mason", Some("avalon"), "a key").await;
    let cases = [
        ("", 0, None),
        ("@avalon", 1, Some("@everyone@avalon")),
        ("@avlon", 1, Some("@everyone@avalon")),
        ("@everyon", 1, Some("@everyone")),
        ("@anyon@avalon", 1, Some("@anyone@avalon")),
        ("@mason", 1, Some("mason")),
        ("@nowhere", 1, None),
        ("nobody!", 6, None),
        ("mason!", 5, Some("mason")),
        ("ma son", 2, None),
        ("bob,alice", 3, None),
        ("mason.12@avalon", 6, Some("mason@avalon")),
        ("mason@avalon!", 12, Some("mason@avalon")),
        ("größe", 2, None),
        ("everyone", 0, Some("@everyone")),
        ("human@avalon", 5, Some("human")),
        ("system", 0, None),
        ("mason@a@b", 7, None),
        ("mason@avalon@main", 12, Some("mason@avalon")),
        ("\u{0}", 0, None),
    ];
    for (to, position, suggestion) in cases {
        let body = json!({"to": to, "message": "hello"}).to_string();
        let (status, answer) = house.call("POST /v1/messages", Some(OPERATOR), &body).await;
        assert_eq!((status, told(&answer).0), (422, "invalid_address"), "{to}: {answer}");
        let details = &answer["error"]["details"];
        assert_eq!(details["position"], position, "{to}: {answer}");
        assert_eq!(details["suggestion"], json!(suggestion), "{to}: {answer}");
        assert!(answer["error"]["hint"].is_string(), "{to}");
    }
}

#[tokio::test]
async fn what_is_no_name_and_no_instance_is_not_called_an_address() {
    let house = House::new().await;
    let agent = |name: &str| json!({ "agent": name }).to_string();
    for (call, body, what) in [
        ("POST /v1/instances", agent("human"), "`human` is not a name"),
        ("POST /v1/instances", agent("INST-764C1466"), "`INST-764C1466` is not a name"),
        (
            "PUT /v1/teams/inst-764c1466",
            r#"{"leaders": []}"#.into(),
            "`inst-764c1466` is not a name",
        ),
        ("GET /v1/instances/zzz", String::new(), "`zzz` is not an instance"),
        ("GET /v1/messages?mailbox=zzz", String::new(), "`zzz` is not a mailbox"),
    ] {
        let (status, answer) = house.call(call, Some(OPERATOR), &body).await;
        assert_eq!((status, told(&answer).0), (422, "invalid_address"), "{call}: {answer}");
        assert!(told(&answer).1.starts_with(what), "{call}: {answer}");
        let error = &answer["error"];
        assert!(error["details"]["suggestion"].is_null(), "{call}: {answer}");
        assert!(!error["hint"].as_str().expect("a hint").contains('@'), "{call}: {answer}");
    }
}

#[tokio::test]
async fn an_exact_address_with_a_wrong_part_names_the_true_one() {
    let house = House::new().await;
    let (mason, _) = house.join("mason", Some("avalon"), "k").await;
    let id = &mason.instance;

    for to in [format!("baker.{id}"), format!("mason.{id}@main"), format!("{id}@camelot")] {
        let error = refusal(house.operator().send(&SendRequest::new(to.clone(), "hello")).await);
        assert_eq!((error.code, error.code.status()), (ErrorCode::NoRecipient, 404), "{to}");
        assert!(error.message.contains(&mason.address), "{to}: {}", error.message);
        assert_eq!(error.details.as_deref(), Some(&json!({"nearest": [mason.address]})), "{to}");
    }
    for to in [id.clone(), format!("mason.{id}"), format!("MASON.inst-{id}@Avalon")] {
        send(&house.operator(), &to, "hello").await;
    }
    let error = refusal(house.operator().send(&SendRequest::new("00000000", "hello")).await);
    assert_eq!(error.code, ErrorCode::NoRecipient);
}

#[tokio::test]
async fn nobody_writes_to_oneself_or_to_the_ended() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    as_bob.leave(&bob.instance).await.expect("left");

    let gone = refusal(as_alice.send(&SendRequest::new(bob.address.clone(), "there?")).await);
    assert_eq!((gone.code, gone.code.status()), (ErrorCode::RecipientGone, 410));
    assert!(gone.message.contains(&bob.address) && gone.hint.is_some(), "{gone:?}");
    let own = refusal(as_alice.send(&SendRequest::new(alice.instance.clone(), "dear me")).await);
    assert_eq!((own.code, own.code.status()), (ErrorCode::InvalidArgument, 422));
    let own = refusal(house.operator().send(&SendRequest::new("human", "dear me")).await);
    assert_eq!(own.code, ErrorCode::InvalidArgument);
}

#[tokio::test]
async fn what_is_out_of_range_is_refused_and_not_clamped() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "untouched").await;
    let message = format!("GET /v1/messages/{}", sent.seq);
    let cases = [
        "GET /v1/inbox?timeout=-1",
        "GET /v1/inbox?timeout=600.1",
        "GET /v1/inbox?timeout=NaN",
        "GET /v1/inbox?timeout=inf",
        "GET /v1/inbox?timeout=1e999",
        "GET /v1/inbox?timeout=soon",
        "GET /v1/inbox?timeout=",
        "GET /v1/inbox?timeout=0&timeout=0",
        "GET /v1/inbox?timeout=0&batch_window=-0.1",
        "GET /v1/inbox?timeout=0&batch_window=61",
        "GET /v1/inbox?timeout=0&wait_for=0",
        "GET /v1/inbox?timeout=0&wait_for=-1",
        "GET /v1/inbox?timeout=0&wait_for=1.5",
        "GET /v1/inbox?timeout=0&wait_for=some",
        "GET /v1/inbox?timeout=0&wait_for=99999999999999999999",
        "GET /v1/inbox?timeout=0&ack=maybe",
        "GET /v1/inbox?timeout=0&max_chars=0",
        "GET /v1/inbox?timeout=0&max_chars=-1",
        "GET /v1/inbox?timeout=0&begin=yes",
        "GET /v1/inbox?timeout=0&thread_id=7",
        "GET /v1/inbox?timeout=0&thread_id=t-123",
        "GET /v1/inbox?timeout=0&tiemout=5",
        "GET /v1/messages?last_n=0",
        "GET /v1/messages?last_n=201",
        "GET /v1/messages?last_n=-1",
        "GET /v1/messages?cursor=x",
        "GET /v1/messages?cursor=-1",
        "GET /v1/messages?cursor=9223372036854775808",
        "GET /v1/messages?status=read",
        "GET /v1/messages?mailbox=bob",
        "GET /v1/messages?mailbox=i.bob",
        "GET /v1/messages?thread_id=t-xyz",
        "GET /v1/messages?since=yesterday",
        "GET /v1/messages?unknown=1",
        "GET /v1/messages/0",
        "GET /v1/messages/-1",
        "GET /v1/messages/abc",
        "GET /v1/messages/99999999999999999999",
        "GET /v1/messages/%20",
        &format!("{message}?offset=-1"),
        &format!("{message}?max_chars=-1"),
        &format!("{message}?max_chars=0"),
        &format!("{message}?offset=1.5"),
        &format!("{message}?what=1"),
        "GET /v1/instances?limit=0",
        "GET /v1/instances?limit=1001",
        "GET /v1/instances?status=asleep",
        "GET /v1/instances?cursor=zzz",
        "GET /v1/instances?agent=two%20words",
        "GET /v1/instances?team=@main",
        "GET /v1/instances?page=1",
        "GET /v1/instances/bob",
        "GET /v1/teams/two%20words",
        "DELETE /v1/instances/xyz",
        "POST /v1/messages/xyz/cancel",
        "POST /v1/messages/0/requeue",
    ];
    for call in cases {
        let (status, answer) = house.call(call, Some(OPERATOR), "").await;
        assert_eq!(status, 422, "{call}: {answer}");
        let (code, _) = told(&answer);
        assert!(matches!(code, "invalid_argument" | "invalid_address"), "{call}: {answer}");
    }
    assert_eq!(texts(&read(&as_bob).await), ["untouched"]);
}

#[tokio::test]
async fn the_edges_of_a_range_are_inside() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "ten chars!").await;
    let message = format!("GET /v1/messages/{}", sent.seq);
    let cases = [
        "GET /v1/inbox?timeout=0&batch_window=60&wait_for=1&ack=receipt&begin=false",
        "GET /v1/inbox?timeout=0.0&batch_window=0&wait_for=any&max_chars=1&begin=true",
        "GET /v1/inbox?timeout=0&max_chars=18446744073709551615&wait_for=all",
        "GET /v1/messages?last_n=1",
        "GET /v1/messages?last_n=200&cursor=1&since=-1",
        "GET /v1/messages?since=-9223372036854775808",
        &format!("{message}?offset=0&max_chars=1"),
        &format!("{message}?offset=10"),
        &format!("{message}?offset=18446744073709551615&max_chars=18446744073709551615"),
        "GET /v1/instances?limit=1",
        "GET /v1/instances?limit=1000",
    ];
    for call in cases {
        let (status, answer) = house.call(call, Some(OPERATOR), "").await;
        assert_eq!(status, 200, "{call}: {answer}");
    }
}

#[tokio::test]
async fn the_largest_number_names_no_message() {
    let house = House::new().await;
    house.agent("bob").await;
    let number = i64::MAX;

    for call in ["GET /v1/messages/N", "POST /v1/messages/N/cancel"] {
        let call = call.replace('N', &number.to_string());
        let (status, answer) = house.call(&call, Some(OPERATOR), "").await;
        assert_eq!((status, told(&answer).0), (404, "not_found"), "{call}: {answer}");
    }
    let reply = json!({"to": "bob", "message": "x", "in_reply_to": number}).to_string();
    let (status, answer) = house.call("POST /v1/messages", Some(OPERATOR), &reply).await;
    assert_eq!((status, told(&answer).0), (404, "not_found"), "{answer}");
    let page = format!("GET /v1/messages?cursor={number}");
    assert_eq!(house.call(&page, Some(OPERATOR), "").await.0, 200);
    let ack = json!({"ids": [number]}).to_string();
    let (status, answer) = house.call("POST /v1/inbox/ack", Some(OPERATOR), &ack).await;
    assert_eq!((status, answer), (200, json!({"acked": 0})));
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_422() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (send, ack, team) = ("POST /v1/messages", "POST /v1/inbox/ack", "PUT /v1/teams/main");
    let (join, create) = ("POST /v1/join", "POST /v1/instances");
    let cases = [
        (send, r#"{}"#),
        (send, r#"[]"#),
        (send, r#""text""#),
        (send, r#"null"#),
        (send, r#"{"to": "bob"}"#),
        (send, r#"{"message": "x"}"#),
        (send, r#"{"to": "bob", "message": ""}"#),
        (send, r#"{"to": "bob", "message": null}"#),
        (send, r#"{"to": "bob", "message": 7}"#),
        (send, r#"{"to": 7, "message": "x"}"#),
        (send, r#"{"to": null, "message": "x"}"#),
        (send, r#"{"to": ["bob", 7], "message": "x"}"#),
        (send, r#"{"to": {"name": "bob"}, "message": "x"}"#),
        (send, r#"{"to": "bob", "message": "x", "message": "y"}"#),
        (send, r#"{"to": "bob", "message": "x", "subject": "y"}"#),
        (send, r#"{"to": "bob", "message": "x", "priority": "high"}"#),
        (send, r#"{"to": "bob", "message": "x", "type": "two words"}"#),
        (send, r#"{"to": "bob", "message": "x", "type": ""}"#),
        (send, r#"{"to": "bob", "message": "x", "type": "system.agent_failed"}"#),
        (send, r#"{"to": "bob", "message": "x", "label": ""}"#),
        (send, r#"{"to": "bob", "message": "x", "thread_id": "main"}"#),
        (send, r#"{"to": "bob", "message": "x", "in_reply_to": 0}"#),
        (send, r#"{"to": "bob", "message": "x", "in_reply_to": -1}"#),
        (send, r#"{"to": "bob", "message": "x", "in_reply_to": "yesterday"}"#),
        (send, r#"{"to": "bob", "message": "x", "metadata": []}"#),
        (send, r#"{"to": "bob", "message": "x", "metadata": "text"}"#),
        (send, r#"{"to": "bob", "message": "x", "ttl_s": 0}"#),
        (send, r#"{"to": "bob", "message": "x", "ttl_s": -1}"#),
        (send, r#"{"to": "bob", "message": "x", "ttl_s": 1.5}"#),
        (send, r#"{"to": "bob", "message": "x", "ttl_s": 2592001}"#),
        (send, r#"{"to": "bob", "message": "x", "ttl_s": 18446744073709551615}"#),
        (send, r#"{"to": "bob", "message": "x", "idempotency_key": ""}"#),
        (ack, r#"{}"#),
        (ack, r#"{"receipt": "r-1", "ids": [1]}"#),
        (ack, r#"{"ids": 1}"#),
        (ack, r#"{"ids": [0]}"#),
        (ack, r#"{"ids": ["x"]}"#),
        (ack, r#"{"ids": [1.5]}"#),
        (ack, r#"{"receipt": 5}"#),
        (ack, r#"{"all": true}"#),
        (join, r#"{"agent": "bob"}"#),
        (join, r#"{"agent": "Two Words", "key": "k"}"#),
        (join, r#"{"agent": "human", "key": "k"}"#),
        (join, r#"{"agent": "a3f7b2c1", "key": "k"}"#),
        (join, r#"{"agent": "bob", "team": "everyone", "key": "k"}"#),
        (join, r#"{"agent": "bob", "key": "k", "kind": "mechanical"}"#),
        (create, r#"{"agent": ""}"#),
        (create, r#"{"agent": "bob", "kind": "llama"}"#),
        (create, r#"{"agent": "bob", "parent": "mother"}"#),
        (create, r#"{"agent": "bob", "label": ""}"#),
        (create, r#"{"agent": "bob", "key": "k"}"#),
        (team, r#"{"leaders": "bob"}"#),
        (team, r#"{"leaders": ["@everyone"]}"#),
        (team, r#"{"leaders": ["human"]}"#),
        (team, r#"{"leaders": ["bob@main"]}"#),
        (team, r#"{"members": []}"#),
        ("POST /v1/inbox/nack", r#"{}"#),
        ("PUT /v1/teams/human", r#"{"leaders": []}"#),
    ];
    for (call, body) in cases {
        let token = if call == join { JOIN } else { OPERATOR };
        let (status, answer) = house.call(call, Some(token), body).await;
        assert_eq!(status, 422, "{call} {body}: {answer}");
        let (code, _) = told(&answer);
        assert!(matches!(code, "invalid_argument" | "invalid_address"), "{body}: {answer}");
    }
    let long = |field: &str| json!({"to": "bob", "message": "x", field: "é".repeat(201)});
    for field in ["label", "idempotency_key"] {
        let (status, answer) = house.call(send, Some(OPERATOR), &long(field).to_string()).await;
        assert_eq!((status, &answer["error"]["details"]["field"]), (422, &json!(field)));
    }
    assert!(read(&as_bob).await.messages.is_empty(), "nothing of it was kept");
    assert_eq!(house.instance(&bob.instance).await.unread, 0);
}

#[tokio::test]
async fn broken_json_and_broken_utf8_are_400() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    let deep = format!("{}{}", "[".repeat(9_000), "]".repeat(9_000));
    let deep = format!(r#"{{"to": "bob", "message": "x", "metadata": {{"a": {deep}}}}}"#);
    let cases: [&[u8]; 12] = [
        b"",
        b"{",
        b"hello",
        b"{\"to\": \"bob\", \"message\": \"x\"",
        b"{\"to\": \"bob\", \"message\": \"x\"} and more",
        b"{'to': 'bob', 'message': 'x'}",
        b"{\"to\": \"bob\", \"message\": \"line\nbreak\"}",
        b"{\"to\": \"bob\", \"message\": \"\\ud800\"}",
        b"{\"to\": \"bob\", \"message\": \"\xff\xfe\"}",
        b"{\"to\": \"b\xf0\x28ob\", \"message\": \"x\"}",
        b"\xef\xbb\xbf{\"to\": \"bob\", \"message\": \"byte order mark\"}",
        deep.as_bytes(),
    ];
    for body in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPERATOR}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let (status, answer) = house.raw([head.as_bytes(), body].concat()).await;
        assert_eq!(status, 400, "{shown}: {answer}");
        assert_eq!(told(&answer).0, "bad_request", "{shown}: {answer}");
    }
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn broken_utf8_in_the_address_line_is_400_in_the_one_form() {
    let house = House::new().await;
    for call in [
        "GET /v1/messages/%ff",
        "GET /v1/instances/%c3%28",
        "DELETE /v1/instances/%ff",
        "GET /v1/teams/%ff",
        "POST /v1/messages/%ff/cancel",
        "GET /terminals/%ff/inbox/messages",
        "GET /v1/inbox?timeout=0&label=%ff",
        "GET /v1/inbox?timeout=0&%ff=1",
        "GET /v1/messages?mailbox=%f0%28",
    ] {
        let (status, answer) = house.call(call, Some(OPERATOR), "").await;
        assert_eq!((status, told(&answer).0), (400, "bad_request"), "{call}: {answer}");
    }
}

#[tokio::test]
async fn unknown_routes_and_methods_say_so() {
    let house = House::new().await;
    for call in [
        "GET /v2/messages",
        "GET /v1/inbox/",
        "GET /v1/message",
        "POST /v1/messages/1/retract",
        "GET /workflows",
        "GET /v1/messages/1/2/3",
    ] {
        let (status, answer) = house.call(call, Some(OPERATOR), "").await;
        assert_eq!((status, told(&answer).0), (404, "not_found"), "{call}: {answer}");
    }
    for call in [
        "DELETE /v1/messages",
        "PUT /v1/messages/1",
        "POST /v1/inbox",
        "GET /v1/inbox/ack",
        "GET /v1/join",
        "GET /v1/messages/1/cancel",
        "POST /v1/teams/main",
        "POST /health",
        "OPTIONS /v1/messages",
        "PATCH /v1/instances/00000000",
        "DELETE /terminals/00000000/inbox/messages",
        "BREW /v1/messages",
    ] {
        let (status, answer) = house.call(call, Some(OPERATOR), "").await;
        assert_eq!((status, told(&answer).0), (405, "method_not_allowed"), "{call}: {answer}");
    }
}

#[tokio::test]
async fn what_does_not_exist_is_404() {
    let house = House::new().await;
    for call in [
        "GET /v1/messages/4711",
        "GET /v1/messages/00000000000000aa",
        "POST /v1/messages/4711/cancel",
        "POST /v1/messages/4711/requeue",
        "GET /v1/instances/00000000",
        "DELETE /v1/instances/00000000",
        "GET /v1/teams/nowhere",
    ] {
        let (status, answer) = house.call(call, Some(OPERATOR), "").await;
        assert_eq!((status, told(&answer).0), (404, "not_found"), "{call}: {answer}");
    }
    house.agent("bob").await;
    let reply = r#"{"to": "bob", "message": "x", "in_reply_to": 4711}"#;
    let (status, answer) = house.call("POST /v1/messages", Some(OPERATOR), reply).await;
    assert_eq!((status, told(&answer).0), (404, "not_found"), "{answer}");
}

#[tokio::test]
async fn a_full_store_is_503_and_what_was_accepted_stays() {
    let store = StoreConfig { wal_bytes: 0, max_bytes: 400 << 10, ..StoreConfig::default() };
    let folder = tempfile::tempdir().expect("a scratch folder");
    let place = Place::File(folder.path().to_owned());
    let house = House::with(Plan { place, store, ..Plan::default() }).await;
    let (bob, as_bob) = house.agent("bob").await;
    let large = SendRequest::new(bob.instance.clone(), "x".repeat(50_000));
    let mut accepted = 0;
    let error = loop {
        match house.operator().send(&large).await {
            Ok(_) => accepted += 1,
            refused => break refusal(refused),
        }
        assert!(accepted < 20, "the store never fills");
    };
    assert!(accepted > 0);
    assert_eq!((error.code, error.code.status()), (ErrorCode::Unavailable, 503));
    assert!(error.hint.as_deref().is_some_and(|h| h.contains("nothing was changed")), "{error:?}");
    assert_eq!(house.operator().health().await.expect("alive").status, "degraded");

    let body = json!({"to": bob.instance, "message": "x".repeat(50_000)}).to_string();
    let mut socket = house.dial().await;
    let again = request("POST /v1/messages", Some(OPERATOR), &[], &body);
    socket.write_all(again.as_bytes()).await.expect("sent");
    let reply = read_reply(&mut socket).await.expect("an answer");
    assert!(reply.status == 503 && reply.head.contains("\r\nretry-after: 1\r\n"), "{}", reply.head);

    assert_eq!(house.instance(&bob.instance).await.unread, accepted, "and nothing half-written");
    let mut read_out = 0;
    loop {
        let inbox = read(&as_bob).await;
        if inbox.messages.is_empty() {
            break;
        }
        read_out += inbox.total;
    }
    assert_eq!(read_out, accepted);
}

#[tokio::test]
async fn who_sends_too_often_is_429_and_told_how_long_to_wait() {
    let house = House::with(Limits { pair_per_minute: 1, ..Limits::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let (eve, _) = house.agent("eve").await;
    let body = format!(r#"{{"to": "{}", "message": "hello"}}"#, bob.instance);
    let text = request("POST /v1/messages", Some(&eve.token), &[], &body);
    for _ in 0..2 {
        assert_eq!(house.raw(&text).await.0, 201);
    }
    let mut socket = house.dial().await;
    socket.write_all(text.as_bytes()).await.expect("sent");
    let reply = read_reply(&mut socket).await.expect("an answer");
    let told = reply.json();
    assert_eq!((reply.status, &told["error"]["code"]), (429, &json!("rate_limited")));
    let wait = told["error"]["details"]["retry_after_s"].as_f64().expect("a number");
    assert!(wait > 0.0 && wait <= 60.0, "{told}");
    assert!(reply.head.contains(&format!("retry-after: {}", wait.ceil())), "{}", reply.head);
    assert_eq!(told["error"]["details"]["key"], "limits.pair_per_minute");
}

#[tokio::test]
async fn what_the_policy_does_not_allow_is_403_and_an_endless_exchange_is_409() {
    let house = House::with(Limits { hops: 1, ..Limits::default() }).await;
    let (bob, as_bob) = house.agent("bob").await;
    let (eve, as_eve) = house.agent("eve").await;
    let order =
        SendRequest { kind: Some("directive".into()), ..SendRequest::new(&bob.instance, "do") };
    let told = refusal(as_eve.send(&order).await);
    assert_eq!((told.code, told.code.status()), (ErrorCode::Forbidden, 403));
    let reply = |to: &str, seq| SendRequest {
        in_reply_to: Some(MessageRef::Seq(seq)),
        ..SendRequest::new(to, "indeed")
    };
    let first = send(&as_eve, &bob.instance, "indeed?").await.seq;
    let second = as_bob.send(&reply(&eve.instance, first)).await.expect("accepted").seq;
    let told = refusal(as_eve.send(&reply(&bob.instance, second)).await);
    assert_eq!((told.code, told.code.status()), (ErrorCode::HopLimit, 409));
}

#[tokio::test]
async fn a_wrong_method_is_answered_with_those_that_the_path_takes() {
    let house = House::new().await;
    for (call, allowed) in [
        ("DELETE /v1/inbox", "get"),
        ("HEAD /v1/inbox", "get"),
        ("DELETE /v1/messages", "get,head,post"),
        ("PATCH /v1/teams", "get,head"),
        ("PUT /mcp", "get, post, delete"),
    ] {
        let mut socket = house.dial().await;
        let text = request(call, Some(OPERATOR), &[], "");
        socket.write_all(text.as_bytes()).await.expect("sent");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.expect("a head"));
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 405"), "{call}: {head}");
        assert!(head.contains(&format!("\r\nallow: {allowed}\r\n")), "{call}: {head}");
    }
}

#[tokio::test]
async fn a_team_has_so_many_leaders_and_no_more() {
    let house = House::with(Limits { team_leaders: 2, ..Limits::default() }).await;
    let leaders = |names: &[&str]| json!({ "leaders": names }).to_string();
    let put = async |names: &[&str]| {
        house.call("PUT /v1/teams/avalon", Some(OPERATOR), &leaders(names)).await
    };
    assert_eq!(put(&["alice", "bob"]).await.0, 200);

    let (status, answer) = put(&["alice", "bob", "eve"]).await;

    assert_eq!((status, told(&answer).0), (422, "invalid_argument"), "{answer}");
    assert!(told(&answer).1.contains("limits.team_leaders"), "{answer}");
    let (_, team) = house.call("GET /v1/teams/avalon", Some(OPERATOR), "").await;
    assert_eq!(team["leaders"], json!(["alice", "bob"]));
}
