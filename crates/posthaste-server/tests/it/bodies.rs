//! Who calls is asked before a body is read, and all bodies share one budget.

use posthaste_api::messages::SendRequest;
use posthaste_server::{CompatConfig, ServerConfig};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::house::{House, JOIN, OPERATOR, Plan, read, read_reply, request, texts, until};

/// Every call that takes a body.
const CALLS: [&str; 15] = [
    "POST /v1/messages",
    "POST /v1/inbox/ack",
    "POST /v1/inbox/nack",
    "POST /v1/hooks/stop",
    "POST /v1/join",
    "POST /v1/instances",
    "POST /v1/assign",
    "POST /v1/handoff",
    "POST /v1/profiles",
    "PUT /v1/profiles/bob",
    "PUT /v1/teams/main",
    "POST /mcp",
    "POST /terminals/00000000/inbox/messages",
    "POST /terminals/00000000/inbox/messages?sender_id=00000000",
    "POST /terminals/00000000/inbox/messages?sender_id=00000000&message=x",
];

/// The head of a request whose body has not been sent yet.
fn head(call: &str, token: Option<&str>, length: usize) -> String {
    request(call, token, &[("Content-Length", &length.to_string())], "")
}

/// The head of one that does not say how long it is.
fn chunked(call: &str, token: &str) -> String {
    request(call, Some(token), &[("Transfer-Encoding", "chunked")], "")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

async fn held(house: &House) -> usize {
    let text = house.operator().metrics().await.expect("figures");
    let line = text.lines().find_map(|line| line.strip_prefix("posthaste_request_body_bytes "));
    line.expect("the figure").parse().expect("a number")
}

fn message(length: usize) -> String {
    let around = json!({"to": "bob", "message": ""}).to_string().len();
    json!({"to": "bob", "message": "x".repeat(length - around)}).to_string()
}

/// A budget of which large bodies may have 768 KiB.
fn tight() -> ServerConfig {
    ServerConfig {
        bodies_bytes: 1 << 20,
        request_bytes: 600 << 10,
        small_bytes: 4 << 10,
        ..ServerConfig::default()
    }
}

#[tokio::test]
async fn whoever_has_no_token_is_refused_before_a_byte_of_the_body_is_read() {
    let house = House::with(CompatConfig { cao: false }).await;
    for call in CALLS {
        for token in [None, Some("nobody-knows-this-token")] {
            let (status, answer) = house.raw(head(call, token, 8 << 20)).await;
            assert_eq!((status, &answer["error"]["code"]), (401, &json!("unauthorized")), "{call}");
        }
    }
    assert_eq!(held(&house).await, 0);
}

#[tokio::test]
async fn an_agents_token_does_not_make_the_hub_read_what_is_the_operators() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    for call in ["POST /v1/instances", "PUT /v1/teams/main", "POST /v1/join"] {
        let (status, answer) = house.raw(head(call, Some(&bob.token), 8 << 20)).await;
        assert_eq!((status, &answer["error"]["code"]), (403, &json!("forbidden")), "{call}");
    }
}

#[tokio::test]
async fn callers_whom_nobody_knows_send_small_bodies_only() {
    let house = House::new().await;
    for call in CALLS {
        let (status, answer) = house.raw(head(call, None, 8 << 20)).await;
        assert!(matches!(status, 401 | 413), "{call}: {status} {answer}");
    }
}

/// A request of which only the head has come.
async fn begun(house: &House, text: &str) -> TcpStream {
    let mut socket = house.dial().await;
    socket.write_all(text.as_bytes()).await.expect("sent");
    socket
}

#[tokio::test]
async fn bodies_in_flight_share_one_budget_and_small_ones_still_get_through() {
    let house = House::with(tight()).await;
    let (_, as_bob) = house.agent("bob").await;
    let length = 500 << 10;
    let mut first = begun(&house, &head("POST /v1/messages", Some(OPERATOR), length)).await;
    until("the first has its share", async || held(&house).await == length).await;

    let second = head("POST /v1/messages", Some(OPERATOR), 300 << 10);
    let mut socket = begun(&house, &second).await;
    let refused = read_reply(&mut socket).await.expect("an answer");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("unavailable")));
    assert!(refused.head.contains("\r\nretry-after: 1\r\n"), "{}", refused.head);
    let error = refused.json()["error"].clone();
    assert!(error["hint"].as_str().expect("a hint").contains("server.bodies_bytes"), "{error}");
    assert_eq!(error["details"], json!({"limit": 1 << 20, "key": "server.bodies_bytes"}));
    let (status, answer) = house.call("POST /mcp", Some(OPERATOR), &message(300 << 10)).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("unavailable")), "any door");

    let (status, _) = house.call("POST /v1/messages", Some(OPERATOR), &message(4 << 10)).await;
    assert_eq!(status, 201, "a small one has room");
    first.write_all(message(length).as_bytes()).await.expect("sent");
    assert_eq!(read_reply(&mut first).await.expect("an answer").status, 201, "whoever is in ends");
    let (status, _) = house.call("POST /v1/messages", Some(OPERATOR), &message(300 << 10)).await;
    assert_eq!(status, 201, "there is room again");
    assert_eq!(read(&as_bob).await.total, 3, "and nothing was done by halves");
    until("all is given back", async || held(&house).await == 0).await;
}

#[tokio::test]
async fn a_body_of_unknown_length_takes_what_has_come_so_far() {
    let house = House::with(tight()).await;
    house.agent("bob").await;
    let length = 500 << 10;
    let text = message(length);
    let mut first = begun(&house, &chunked("POST /v1/messages", OPERATOR)).await;
    first.write_all(chunk(&text[..400 << 10]).as_bytes()).await.expect("sent");
    until("what has come counts", async || held(&house).await == 400 << 10).await;

    let mut second = begun(&house, &chunked("POST /v1/messages", OPERATOR)).await;
    second.write_all(chunk(&text).as_bytes()).await.expect("sent");
    assert_eq!(read_reply(&mut second).await.expect("an answer").status, 503);
    until("the second gave its share back", async || held(&house).await == 400 << 10).await;

    first.write_all(chunk(&text[400 << 10..]).as_bytes()).await.expect("sent");
    first.write_all(b"0\r\n\r\n").await.expect("sent");
    assert_eq!(read_reply(&mut first).await.expect("an answer").status, 201);
    until("all is given back", async || held(&house).await == 0).await;
}

#[tokio::test]
async fn whoever_hangs_up_or_is_refused_gives_its_share_back_at_every_door() {
    let house = House::with(tight()).await;
    let (bob, _) = house.agent("bob").await;
    let length = 100 << 10;
    let calls = [
        ("POST /v1/messages", OPERATOR),
        ("POST /mcp", OPERATOR),
        ("POST /v1/join", JOIN),
        ("POST /v1/hooks/stop", bob.token.as_str()),
        ("POST /terminals/00000000/inbox/messages", OPERATOR),
    ];
    for (call, token) in calls {
        let socket = begun(&house, &head(call, Some(token), length)).await;
        until(call, async || held(&house).await == length).await;
        drop(socket);
        until(call, async || held(&house).await == 0).await;
        let (status, _) = house.call(call, Some(token), &"x".repeat(length)).await;
        assert_eq!(status, 400, "{call}");
        until(call, async || held(&house).await == 0).await;
    }
}

#[tokio::test]
async fn a_call_that_waits_for_mail_holds_no_more_than_its_own_words() {
    let house = House::with(Plan::from(tight())).await;
    let (bob, as_bob) = house.agent("bob").await;
    let ask: Value = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "check_inbox", "arguments": {"timeout": 60}},
    });
    let ask = ask.to_string();
    let accept =
        [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")];
    let mut waits = begun(&house, &request("POST /mcp", Some(&bob.token), &accept, &ask)).await;
    house.waits(&bob.instance).await;
    assert_eq!(held(&house).await, ask.len());
    house.operator().send(&SendRequest::new(bob.instance.clone(), "ho")).await.expect("accepted");
    assert_eq!(read_reply(&mut waits).await.expect("an answer").status, 200);
    until("all is given back", async || held(&house).await == 0).await;
    assert!(texts(&read(&as_bob).await).is_empty());
}
