//! Who calls is asked before a body is read, and all bodies share one budget.

use posthaste_api::instances::InstancesQuery;
use posthaste_api::messages::SendRequest;
use posthaste_server::{McpConfig, ServerConfig};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::house::{House, JOIN, OPERATOR, Plan, read, read_reply, request, until};
use crate::staff;

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
    let house = House::new().await;
    for call in CALLS {
        for token in [None, Some("nobody-knows-this-token")] {
            // A page's request: the tests run as the hub's own user, whose programs need no
            // token for terminals of CAO's.
            let head =
                head(call, token, 8 << 20).replacen("\r\n", "\r\nSec-Fetch-Mode: cors\r\n", 1);
            let (status, answer) = house.raw(head).await;
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

/// A call of a tool, as all clients send it.
fn tool(token: &str, more: &[(&str, &str)], name: &str, arguments: &Value) -> String {
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    });
    let mut headers = vec![
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
    ];
    headers.extend(more);
    request("POST /mcp", Some(token), &headers, &call.to_string())
}

#[tokio::test]
async fn calls_that_wait_for_mail_leave_the_room_for_bodies_to_others() {
    let house = House::with(tight()).await;
    let (_, as_bob) = house.agent("bob").await;
    let ask = json!({"timeout": 60, "after": "x".repeat(500 << 10)});
    let mut waiting = Vec::new();
    // What is not plainly right is answered by a library, and must keep no more.
    for name in ["ann", "cem", "dan", "eve"] {
        let odd = [("Mcp-Param-Odd", "1")];
        let more = if name < "d" { &[][..] } else { &odd };
        let (agent, _) = house.agent(name).await;
        waiting.push(begun(&house, &tool(&agent.token, more, "check_inbox", &ask)).await);
        house.waits(&agent.instance).await;
        until("its share is given back", async || held(&house).await == 0).await;
    }
    let (status, answer) =
        house.call("POST /v1/messages", Some(OPERATOR), &message(500 << 10)).await;
    assert_eq!(status, 201, "{answer}");
    assert_eq!(read(&as_bob).await.total, 1);

    house.operator().send(&SendRequest::new("ann", "ho")).await.expect("accepted");
    assert_eq!(read_reply(&mut waiting[0]).await.expect("an answer").status, 200, "they do wait");
}

#[tokio::test]
async fn a_long_task_that_was_handed_off_leaves_the_room_for_bodies_to_others() {
    let (house, staff) = staff::house().await;
    let (boss, _) = house.agent("boss").await;
    let task = json!({"agent": "worker", "message": "x".repeat(500 << 10), "timeout": 60});
    let content = [("Content-Type", "application/json")];
    for text in [
        request("POST /v1/handoff", Some(&boss.token), &content, &task.to_string()),
        tool(&boss.token, &[], "handoff", &task),
        tool(&boss.token, &[("Mcp-Param-Odd", "1")], "handoff", &task),
    ] {
        let mut waits = begun(&house, &text).await;
        house.waits(&boss.instance).await;
        until("its share is given back", async || held(&house).await == 0).await;
        let working = InstancesQuery { status: Some("running".into()), ..only("worker") };
        let listed = async || house.operator().instances(&working).await.expect("a listing");
        until("it is worked on", async || listed().await.instances.len() == 1).await;
        staff.answers(&listed().await.instances[0].instance, "done").await;
        let told = read_reply(&mut waits).await.expect("an answer");
        assert_eq!(told.status, 200);
        assert!(String::from_utf8_lossy(&told.body).contains("done"));
        house.waits_no_more(&boss.instance).await;
    }
}

fn only(agent: &str) -> InstancesQuery {
    InstancesQuery { agent: Some(agent.into()), ..InstancesQuery::default() }
}

#[tokio::test]
async fn a_call_says_little_of_itself_beside_its_arguments() {
    let mcp = McpConfig { meta_bytes: 1_000, ..McpConfig::default() };
    let house = House::with(Plan { mcp, ..Plan::default() }).await;
    let (bob, as_bob) = house.agent("bob").await;
    let call = |meta: usize, text: usize| {
        let params = json!({
            "name": "send_message",
            "arguments": {"to": "bob", "message": "x".repeat(text)},
            "_meta": {"claudecode/toolUseId": "x".repeat(meta)},
        });
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    };
    let accept =
        [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")];
    let post = |text: String| request("POST /mcp", Some(&bob.token), &accept, &text);

    let (status, refused) = house.raw(post(call(1_000, 1))).await;
    assert_eq!((status, &refused["error"]["code"]), (200, &json!(-32602)), "{refused}");
    let why = refused["error"]["message"].as_str().expect("a reason");
    assert!(why.contains("1000 bytes") && why.contains("mcp.meta_bytes"), "{why}");
    assert_eq!(read(&as_bob).await.total, 0);
    let (_, told) = house.raw(post(call(800, 100_000))).await;
    assert_eq!(told["result"]["isError"], false, "{told}");
}
