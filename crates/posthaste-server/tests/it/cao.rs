//! CAO's routes, in its own words: the inbox here, the others below.

mod callers;
mod sessions;
mod stage;
mod steps;
mod terminals;

use std::time::Duration;

use posthaste_api::messages::SendRequest;
use posthaste_core::Limits;
use posthaste_server::CompatConfig;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::house::{
    House, JOIN, OPERATOR, read, read_reply, receipt_of, request, send, texts, within,
};

fn inbox_of(terminal: &str) -> String {
    format!("/terminals/{terminal}/inbox/messages")
}

/// Text as it stands in a query.
fn encoded(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02X}")).collect()
}

async fn listed(house: &House, terminal: &str, query: &str) -> Vec<Value> {
    let call = format!("GET {}?{query}", inbox_of(terminal));
    let (status, answer) = house.call(&call, Some(OPERATOR), "").await;
    assert_eq!(status, 200, "{answer}");
    answer.as_array().expect("a list").clone()
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().expect("an object").keys().map(|k| &**k).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn a_message_is_posted_by_query_or_by_body() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let path = inbox_of(&bob.instance);
    let text = "50% of 1 + 1 = 1 & é🦀?";
    let by_query = format!("POST {path}?sender_id={}&message={}", alice.instance, encoded(text));
    let by_body = json!({"sender_id": alice.instance, "message": text}).to_string();

    let posts = [
        house.call(&by_query, Some(OPERATOR), "").await,
        house.call(&format!("POST {path}"), Some(OPERATOR), &by_body).await,
        house
            .call(&format!("POST {path}?sender_id={}", alice.instance), Some(OPERATOR), &by_body)
            .await,
    ];

    for (status, answer) in &posts {
        assert_eq!(*status, 200, "{answer}");
        let expected = ["created_at", "message_id", "receiver_id", "sender_id", "success"];
        assert_eq!(keys(answer), expected);
        assert_eq!(answer["success"], true);
        assert_eq!(answer["sender_id"], alice.instance);
        assert_eq!(answer["receiver_id"], bob.instance);
        let record = house.record(answer["message_id"].as_u64().expect("a number")).await;
        assert_eq!(answer["created_at"], record.created_at);
        assert_eq!((&*record.via, &*record.message), ("cao", text));
        assert_eq!(record.from, alice.address);
    }
    assert_eq!(texts(&read(&as_bob).await), [text; 3]);
}

#[tokio::test]
async fn a_long_message_fits_into_a_query() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let path = inbox_of(&bob.instance);
    let long = "word ".repeat(12_000);
    let call =
        format!("POST {path}?sender_id={}&message={}", alice.instance, long.replace(' ', "+"));

    let (status, answer) = house.call(&call, Some(OPERATOR), "").await;
    assert_eq!(status, 200, "{answer}");
    let larger = "x".repeat(1 << 20);
    let body = json!({"sender_id": alice.instance, "message": larger}).to_string();
    let token = Some(&*alice.token);
    assert_eq!(house.call(&format!("POST {path}"), token, &body).await.0, 200);

    let inbox = read(&as_bob).await;
    assert!(inbox.messages[0].message == long && inbox.messages[1].message == larger);
}

#[tokio::test]
async fn a_list_shows_each_message_with_caos_statuses_and_takes_nothing() {
    let house = House::with(Limits { attempts: 1, ..Limits::default() }).await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let consumed = send(&as_alice, &bob.instance, "consumed").await;
    as_bob.ack(&receipt_of(&read(&as_bob).await)).await.expect("acked");
    let failed = send(&as_alice, &bob.instance, "failed").await;
    as_bob.nack(&receipt_of(&read(&as_bob).await)).await.expect("refused");
    let delivered = send(&as_alice, &bob.instance, "delivered").await;
    read(&as_bob).await;
    let pending = send(&as_alice, &bob.instance, "pending").await;

    let all = listed(&house, &bob.instance, "").await;

    let expected = [
        (consumed.seq, "consumed"),
        (failed.seq, "failed"),
        (delivered.seq, "delivered"),
        (pending.seq, "pending"),
    ];
    assert_eq!(all.len(), expected.len());
    for (entry, (seq, status)) in all.iter().zip(expected) {
        let names = ["created_at", "id", "message", "receiver_id", "sender_id", "status", "via"];
        assert_eq!(keys(entry), names);
        assert_eq!((&entry["id"], &entry["status"]), (&json!(seq), &json!(status)));
        assert_eq!(entry["message"], status);
        assert_eq!(
            (&entry["sender_id"], &entry["receiver_id"]),
            (&json!(alice.instance), &json!(bob.instance))
        );
        let one = listed(&house, &bob.instance, &format!("status={status}")).await;
        assert_eq!(one, std::slice::from_ref(entry), "{status}");
    }
    assert_eq!(listed(&house, &bob.instance, "status=PENDING").await.len(), 1);
    assert_eq!(listed(&house, &bob.instance, "limit=2").await, all[2..]);
    assert_eq!(house.standing(pending.seq).await.state, "queued", "looking takes nothing");
    assert_eq!(texts(&read(&as_bob).await), ["pending"]);
}

#[tokio::test]
async fn ten_are_listed_unless_more_are_asked_for() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    for n in 0..12 {
        send(&house.operator(), &bob.instance, &n.to_string()).await;
        send(&as_bob, "human", "what he wrote himself is not in his inbox").await;
    }

    assert_eq!(listed(&house, &bob.instance, "").await.len(), 10);
    assert_eq!(listed(&house, &bob.instance, "limit=1").await.len(), 1);
    assert_eq!(listed(&house, &bob.instance, "limit=100").await.len(), 12);
    assert_eq!(listed(&house, &bob.instance, "").await[0]["sender_id"], "human");
}

#[tokio::test]
async fn a_wait_is_woken_and_consumes_what_it_wrote() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let call = format!("GET {}/wait?timeout=60&batch_window=0.0", inbox_of(&bob.instance));
    let mut socket = house.dial().await;
    socket.write_all(request(&call, Some(OPERATOR), &[], "").as_bytes()).await.expect("sent");
    house.waits(&bob.instance).await;

    let sent = send(&as_alice, &bob.instance, "wake up").await;

    let reply = within("woken", read_reply(&mut socket)).await.expect("an answer");
    assert_eq!(reply.status, 200);
    let answer = reply.json();
    let [entry] = answer.as_array().expect("a list").as_slice() else { panic!("{answer}") };
    assert_eq!(keys(entry), ["created_at", "id", "message", "sender_id", "via"]);
    assert_eq!((&entry["id"], &entry["message"]), (&json!(sent.seq), &json!("wake up")));
    assert_eq!(entry["sender_id"], alice.instance);
    assert_eq!(entry["created_at"], house.record(sent.seq).await.created_at);
    let acked = house.becomes(sent.seq, "acked").await;
    assert_eq!((acked.proof.as_deref(), acked.by.as_deref()), (Some("auto"), Some(&*bob.instance)));
    assert_eq!(listed(&house, &bob.instance, "status=consumed").await.len(), 1);
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn a_wait_collects_for_two_seconds_whatever_other_reads_do() {
    let house = House::with(Limits { default_window: Duration::ZERO, ..Limits::default() }).await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let call = format!("GET {}/wait?timeout=60", inbox_of(&bob.instance));
    let mut socket = house.dial().await;
    socket.write_all(request(&call, Some(OPERATOR), &[], "").as_bytes()).await.expect("sent");
    house.waits(&bob.instance).await;

    for text in ["one", "two", "three"] {
        send(&as_alice, &bob.instance, text).await;
    }

    let reply = within("the window", read_reply(&mut socket)).await.expect("an answer").json();
    let texts: Vec<_> = reply.as_array().expect("a list").iter().map(|m| &m["message"]).collect();
    assert_eq!(texts, ["one", "two", "three"]);
}

#[tokio::test]
async fn a_wait_in_vain_is_an_empty_list() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    for query in ["timeout=0", "timeout=1", "timeout=0&batch_window=2.5"] {
        let call = format!("GET {}/wait?{query}", inbox_of(&bob.instance));
        let (status, answer) = house.call(&call, Some(OPERATOR), "").await;
        assert_eq!((status, answer), (200, json!([])), "{query}");
    }
}

#[tokio::test]
async fn a_dropped_wait_gives_its_mail_back() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let call = format!("GET {}/wait?timeout=60&batch_window=0", inbox_of(&bob.instance));
    let mut socket = house.dial().await;
    socket.write_all(request(&call, Some(OPERATOR), &[], "").as_bytes()).await.expect("sent");
    house.waits(&bob.instance).await;
    drop(socket);
    house.waits_no_more(&bob.instance).await;

    let sent = send(&house.operator(), &bob.instance, "still here").await;

    assert_eq!(house.standing(sent.seq).await.state, "queued");
    assert_eq!(listed(&house, &bob.instance, "status=pending").await.len(), 1);
    assert_eq!(texts(&read(&as_bob).await), ["still here"]);
}

#[tokio::test]
async fn bad_words_are_refused_as_cao_refuses_them() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let (own, me) = (inbox_of(&bob.instance), &alice.instance);
    let upper = bob.instance.to_uppercase();
    let mut bad_ids = vec!["bob".to_owned(), "1234567".into(), "123456789".into()];
    bad_ids.extend(["ghijklmn".into(), format!("inst-{}", bob.instance), "%20".into()]);
    if upper != bob.instance {
        bad_ids.push(upper);
    }
    for id in &bad_ids {
        for call in [
            format!("GET {}", inbox_of(id)),
            format!("GET {}/wait?timeout=0", inbox_of(id)),
            format!("POST {}?sender_id={me}&message=x", inbox_of(id)),
            format!("POST {own}?sender_id={id}&message=x"),
        ] {
            let (status, answer) = house.call(&call, Some(OPERATOR), "").await;
            assert_eq!(status, 422, "{call}: {answer}");
        }
    }
    let cases = [
        (422, format!("POST {own}?sender_id={me}"), ""),
        (422, format!("POST {own}?message=x"), ""),
        (422, format!("POST {own}?sender_id={me}&message="), ""),
        (422, format!("POST {own}"), r#"{"sender_id": 7, "message": "x"}"#),
        (400, format!("POST {own}"), "{"),
        (400, format!("POST {own}?sender_id={me}&message=%ff"), ""),
        (422, format!("GET {own}?limit=0"), ""),
        (422, format!("GET {own}?limit=101"), ""),
        (422, format!("GET {own}?limit=ten"), ""),
        (400, format!("GET {own}?status=read"), ""),
        (422, format!("GET {own}/wait?timeout=-1"), ""),
        (422, format!("GET {own}/wait?timeout=1.5"), ""),
        (422, format!("GET {own}/wait?timeout=601"), ""),
        (422, format!("GET {own}/wait?timeout=0&batch_window=-1"), ""),
        (422, format!("GET {own}/wait?timeout=0&batch_window=61"), ""),
        (404, format!("POST {}?sender_id={me}&message=x", inbox_of("00000000")), ""),
        (404, format!("POST {own}?sender_id=00000000&message=x"), ""),
        (404, format!("GET {}", inbox_of("00000000")), ""),
        (404, format!("GET {}/wait?timeout=0", inbox_of("00000000")), ""),
        (404, "GET /terminals/00000000".to_owned(), ""),
        (404, "GET /workflows".to_owned(), ""),
    ];
    for (expected, call, body) in &cases {
        let (status, answer) = house.call(call, Some(OPERATOR), body).await;
        assert_eq!(status, *expected, "{call} {body}: {answer}");
        assert!(answer["error"]["message"].is_string(), "{call}: {answer}");
    }
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn the_operators_program_without_a_terminal_is_the_human() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let call = format!("POST {}?sender_id=cao-ops-mcp&message=hello", inbox_of(&bob.instance));
    let (status, answer) = house.call(&call, Some(OPERATOR), "").await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(house.record(answer["message_id"].as_u64().expect("a number")).await.from, "human");
    assert_eq!(texts(&read(&as_bob).await), ["hello"]);
    let (status, _) = house.call(&call, Some(&bob.token), "").await;
    assert_eq!(status, 422, "an agent is nobody else");
}

#[tokio::test]
async fn the_operator_may_post_for_any_terminal() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let call = format!("POST {}?sender_id={}&message=x", inbox_of(&bob.instance), alice.instance);

    assert_eq!(house.call(&call, Some(OPERATOR), "").await.0, 200);

    assert_eq!(read(&as_bob).await.messages[0].sender_id, alice.instance);
}

#[tokio::test]
async fn a_terminal_that_has_ended_is_unknown() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    as_alice.leave(&alice.instance).await.expect("left");

    let from_the_dead =
        format!("POST {}?sender_id={}&message=boo", inbox_of(&bob.instance), alice.instance);
    assert_eq!(house.call(&from_the_dead, Some(OPERATOR), "").await.0, 404);
    let to_the_dead =
        format!("POST {}?sender_id={}&message=boo", inbox_of(&alice.instance), bob.instance);
    let (status, _) = house.call(&to_the_dead, Some(OPERATOR), "").await;
    assert!(matches!(status, 404 | 410), "{status}");
    let wait = format!("GET {}/wait?timeout=0", inbox_of(&alice.instance));
    assert_eq!(house.call(&wait, Some(OPERATOR), "").await.0, 404);
}

#[tokio::test]
async fn both_worlds_share_one_mailbox() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let urgent = SendRequest {
        priority: Some("urgent".into()),
        ..SendRequest::new(bob.instance.clone(), "second and urgent")
    };
    send(&as_alice, &bob.instance, "first").await;
    as_alice.send(&urgent).await.expect("accepted");
    send(&as_alice, "bob", "to the name").await;

    let wait = format!("GET {}/wait?timeout=0", inbox_of(&bob.instance));
    let (_, answer) = house.call(&wait, Some(OPERATOR), "").await;

    let got: Vec<&str> =
        answer.as_array().expect("a list").iter().filter_map(|m| m["message"].as_str()).collect();
    assert_eq!(got, ["second and urgent", "first", "to the name"]);
    assert!(answer[0]["sender_id"] == alice.instance);
}

#[tokio::test]
async fn nobody_reads_consumes_or_forges_mail_by_caos_routes_without_a_token() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let kept = send(&house.operator(), &bob.instance, "for bob alone").await;
    let own = inbox_of(&bob.instance);
    let forged = json!({"sender_id": alice.instance, "message": "trust me"}).to_string();
    let calls = [
        (format!("GET {own}"), ""),
        (format!("GET {own}/wait?timeout=0"), ""),
        (format!("POST {own}?sender_id={}&message=trust+me", alice.instance), ""),
        (format!("POST {own}"), &*forged),
    ];

    for (call, body) in &calls {
        let (status, answer) = house.call(call, None, body).await;
        assert_eq!((status, &answer["error"]["code"]), (401, &json!("unauthorized")), "{call}");
        let hint = answer["error"]["hint"].as_str().expect("what to do");
        for word in ["CAO_AUTH_LOCAL_TOKEN", "POSTHASTE_TOKEN", "posthaste token --operator"] {
            assert!(hint.contains(word), "{call}: {hint}");
        }
        let (status, answer) = house.call(call, Some(JOIN), body).await;
        assert_eq!((status, &answer["error"]["code"]), (403, &json!("forbidden")), "{call}");
    }

    assert_eq!(house.standing(kept.seq).await.state, "queued", "nobody took it");
    let inbox = read(&as_bob).await;
    assert_eq!(texts(&inbox), ["for bob alone"]);
    assert!(!inbox.messages[0].redelivered, "nobody was handed it");
}

#[tokio::test]
async fn without_a_token_the_body_of_a_post_is_not_waited_for() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;
    let call = format!("POST {}?sender_id={}", inbox_of(&bob.instance), alice.instance);
    let head = request(&call, None, &[("Content-Length", "8000000")], "");

    let mut socket = house.dial().await;
    socket.write_all(head.as_bytes()).await.expect("sent");

    let reply = within("before the body", read_reply(&mut socket)).await.expect("an answer");
    assert_eq!(reply.status, 401);
}

#[tokio::test]
async fn a_hub_without_compat_cao_does_not_have_caos_routes() {
    let house = House::with(CompatConfig { cao: false }).await;
    let (bob, as_bob) = house.agent("bob").await;
    let own = inbox_of(&bob.instance);
    let post = format!("POST {own}?sender_id={}&message=x", bob.instance);
    for call in [format!("GET {own}"), format!("GET {own}/wait?timeout=0"), post] {
        for token in [None, Some(&*bob.token), Some(OPERATOR)] {
            let (status, answer) = house.call(&call, token, "").await;
            assert_eq!((status, &answer["error"]["code"]), (404, &json!("not_found")), "{call}");
        }
    }
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn mail_says_through_which_door_it_came() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let own = inbox_of(&bob.instance);
    let post = format!("POST {own}?sender_id={}&message=by+cao", alice.instance);
    assert_eq!(house.call(&post, Some(&alice.token), "").await.0, 200);
    send(&as_alice, &bob.instance, "by rest").await;
    let doors = |list: &Value| -> Vec<String> {
        let list = list.as_array().expect("a list").iter();
        list.map(|entry| entry["via"].as_str().expect("a door").to_owned()).collect()
    };

    let listed = listed(&house, &bob.instance, "").await;
    assert_eq!(doors(&json!(listed)), ["cao", "rest"]);
    let inbox = read(&as_bob).await;
    assert_eq!(inbox.messages.iter().map(|m| &*m.via).collect::<Vec<_>>(), ["cao", "rest"]);
    as_bob.nack(&receipt_of(&inbox)).await.expect("given back");
    let wait = format!("GET {own}/wait?timeout=0&batch_window=0");
    let (status, waited) = house.call(&wait, Some(&bob.token), "").await;
    assert_eq!((status, doors(&waited)), (200, vec!["cao".to_owned(), "rest".to_owned()]));
}
