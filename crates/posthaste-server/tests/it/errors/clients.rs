//! Clients that are slow, hasty or talk nonsense.

use std::time::Duration;

use posthaste_server::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::house::{House, OPERATOR, read, read_reply, request, send, texts, within};

fn impatient() -> ServerConfig {
    ServerConfig {
        head_timeout: Duration::from_millis(100),
        body_timeout: Duration::from_millis(100),
        ..ServerConfig::default()
    }
}

/// What comes until the hub hangs up.
async fn rest(socket: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    let read = within("the hub hangs up", socket.read_to_end(&mut rest)).await;
    read.ok();
    String::from_utf8_lossy(&rest).into_owned()
}

async fn is_alive(house: &House) -> bool {
    house.operator().health().await.is_ok_and(|health| health.status == "ok")
}

#[tokio::test]
async fn a_head_that_comes_too_slowly_is_cut_off() {
    let house = House::with(impatient()).await;
    for begun in
        ["", "GET", "GET /health HTTP/1.1\r\nHost: loc", "GET /health HTTP/1.1\r\nA: b\r\n"]
    {
        let mut socket = house.dial().await;
        socket.write_all(begun.as_bytes()).await.expect("sent");
        let answer = rest(&mut socket).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{begun:?}: {answer}");
    }
    assert!(is_alive(&house).await);
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_408() {
    let house = House::with(impatient()).await;
    let (_, as_bob) = house.agent("bob").await;
    let whole =
        request("POST /v1/messages", Some(OPERATOR), &[], r#"{"to": "bob", "message": "slow"}"#);
    let mut socket = house.dial().await;
    socket.write_all(&whole.as_bytes()[..whole.len() - 1]).await.expect("sent");

    let reply = read_reply(&mut socket).await.expect("an answer");

    assert_eq!((reply.status, &reply.json()["error"]["code"]), (408, &"request_timeout".into()));
    assert_eq!(rest(&mut socket).await, "", "and the connection is closed");
    assert!(is_alive(&house).await);
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn a_client_that_goes_away_in_mid_sentence_leaves_no_trace() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let whole =
        request("POST /v1/messages", Some(OPERATOR), &[], r#"{"to": "bob", "message": "half"}"#);

    for part in [1, 20, whole.len() / 2, whole.len() - 1] {
        let mut socket = house.dial().await;
        socket.write_all(&whole.as_bytes()[..part]).await.expect("sent");
        socket.shutdown().await.expect("hung up");
        let answer = rest(&mut socket).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    }

    assert!(is_alive(&house).await);
    assert_eq!(house.instance(&bob.instance).await.unread, 0);
}

#[tokio::test]
async fn two_requests_in_one_breath_get_two_answers_in_order() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    let say = |text: &str| {
        let body = format!(r#"{{"to": "bob", "message": "{text}"}}"#);
        request("POST /v1/messages", Some(OPERATOR), &[], &body)
    };
    let mut socket = house.dial().await;
    let both = format!("{}{}{}", say("one"), say("two"), request("GET /health", None, &[], ""));
    socket.write_all(both.as_bytes()).await.expect("sent");

    let one = read_reply(&mut socket).await.expect("the first");
    let two = read_reply(&mut socket).await.expect("the second");
    let three = read_reply(&mut socket).await.expect("the third");

    assert_eq!((one.status, two.status, three.status), (201, 201, 200));
    assert!(one.json()["seq"].as_u64() < two.json()["seq"].as_u64());
    assert_eq!(texts(&read(&as_bob).await), ["one", "two"]);
}

#[tokio::test]
async fn two_reads_in_one_breath_share_the_mail() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let first = send(&house.operator(), &bob.instance, "first").await;
    let one = request("GET /v1/inbox?timeout=0", Some(&bob.token), &[], "");
    let two = request("GET /v1/inbox?timeout=60&batch_window=0", Some(&bob.token), &[], "");
    let mut socket = house.dial().await;
    socket.write_all(format!("{one}{two}").as_bytes()).await.expect("sent");

    let now = read_reply(&mut socket).await.expect("the first").json();
    house.waits(&bob.instance).await;
    let second = send(&house.operator(), &bob.instance, "second").await;
    let then = read_reply(&mut socket).await.expect("the second").json();

    assert_eq!((&now["total"], &now["messages"][0]["id"]), (&1.into(), &first.seq.into()));
    assert_eq!((&then["total"], &then["messages"][0]["id"]), (&1.into(), &second.seq.into()));
}

#[tokio::test]
async fn a_connection_can_be_used_again_after_an_error() {
    let house = House::new().await;
    let mut socket = house.dial().await;
    for (call, status) in [
        ("GET /v1/nothing", 404),
        ("GET /v1/inbox?timeout=-1", 422),
        ("POST /v1/messages", 400),
        ("GET /health", 200),
    ] {
        let text = request(call, Some(OPERATOR), &[], "");
        socket.write_all(text.as_bytes()).await.expect("sent");
        let reply = read_reply(&mut socket).await.expect("an answer");
        assert_eq!(reply.status, status, "{call}");
    }
}

#[tokio::test]
async fn noise_is_hung_up_on() {
    let house = House::new().await;
    let noise: [&[u8]; 6] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello?\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/join HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
    ];
    for bytes in noise {
        let mut socket = house.dial().await;
        socket.write_all(bytes).await.expect("sent");
        let answer = rest(&mut socket).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert!(is_alive(&house).await);
}

#[tokio::test]
async fn asking_for_the_head_alone_takes_no_mail() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "whole or not at all").await;
    let mut socket = house.dial().await;
    let text = request("HEAD /v1/inbox?timeout=0&ack=auto", Some(&bob.token), &[], "");
    socket.write_all(text.as_bytes()).await.expect("sent");
    socket.shutdown().await.expect("no more to say");
    let _ = rest(&mut socket).await;

    assert_eq!(house.becomes(sent.seq, "queued").await.state, "queued");
    assert_eq!(texts(&read(&as_bob).await), ["whole or not at all"]);
}
