//! JSON-RPC at `/mcp`: broken messages, and the same verdict by both ways.

use posthaste_testkit::fuzz;
use serde_json::{Value, json};

use super::{assert_clear, exchange, first_reply, impatient, still_delivers};
use crate::house::{House, request, send};

/// Valid calls of tools: native ones, and one of each dialect.
fn calls(peer: &str) -> Vec<(&'static str, Value)> {
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    vec![
        ("", call("whoami", json!({}))),
        ("", call("send_message", json!({ "to": "human", "message": "hello", "type": "inform" }))),
        ("", call("check_inbox", json!({ "timeout": 0, "from": ["ann"], "wait_for": "any" }))),
        ("", call("read_messages", json!({ "id": 1, "offset": 0 }))),
        ("", call("read_messages", json!({ "last_n": 5, "team": "main" }))),
        ("", call("find_agents", json!({ "query": "mason", "limit": 3 }))),
        ("", call("agent_status", json!({ "instance": peer }))),
        ("", call("assign", json!({ "agent": "nobody", "message": "x", "label": "l" }))),
        ("", call("handoff", json!({ "agent": "nobody", "message": "x", "timeout": 1 }))),
        ("?dialect=cao", call("send_message", json!({ "receiver_id": peer, "message": "x" }))),
        (
            "?dialect=assistant",
            call(
                "send_message",
                json!({ "to_assistant_id": peer, "thread_id": "t-00000001", "message": "x" }),
            ),
        ),
        ("?dialect=assistant", call("recv_message", json!({ "thread_id": "t-00000001" }))),
        ("?dialect=herd", call("herd_send", json!({ "to": "ann", "message": "x" }))),
        (
            "?dialect=chat",
            call("askUser", json!({ "question": "why", "blocking": false, "options": ["a"] })),
        ),
    ]
}

/// The era that a call claims, and how it goes.
#[derive(Clone, Copy)]
struct Way<'a> {
    token: &'a str,
    query: &'a str,
    /// To rmcp, because of a header that only the whole protocol understands.
    is_long: bool,
    /// What the head of a call of the new era says of its tool.
    named: Option<&'a str>,
}

async fn post(house: &House, way: Way<'_>, body: &str) -> (u16, Value) {
    let mut headers = vec![
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("Connection", "close"),
    ];
    if way.is_long {
        headers.push(("Mcp-Param-X", "1"));
    }
    if let Some(name) = way.named {
        headers.extend([
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", name),
        ]);
    }
    let text = request(&format!("POST /mcp{}", way.query), Some(way.token), &headers, body);
    first_reply(&exchange(house, text.as_bytes(), false).await)
}

/// What is wrong with a call, or that nothing is.
fn verdict((status, answer): &(u16, Value)) -> (u16, Value, Value) {
    (*status, answer["error"]["code"].clone(), answer["result"]["isError"].clone())
}

#[tokio::test]
async fn the_quick_way_and_the_long_way_judge_every_call_alike() {
    let house = impatient().await;
    let (quick, _) = house.agent("ann").await;
    let (long, _) = house.agent("ann").await;
    let (peer, _) = house.agent("ben").await;
    // Message 1 is one that both may read.
    send(&house.operator(), "@everyone", "hello").await;
    let calls = calls(&peer.instance);
    for (n, mut case) in fuzz::cases::<&str>(600, &[]).enumerate() {
        let (query, mut params) = case.dice.pick(&calls).clone();
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let named = case.dice.one_in(3).then_some(&*name);
        if named.is_some() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let params = if case.dice.one_in(6) { params } else { case.odd_json(&params) };
        let body = json!({ "jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params });
        let body = body.to_string();
        case.bytes.clone_from(&body.clone().into_bytes());
        let way = Way { token: &quick.token, query, is_long: false, named };
        let a = post(&house, way, &body).await;
        let b = post(&house, Way { token: &long.token, is_long: true, ..way }, &body).await;
        assert_clear(a.0, &a.1);
        assert_eq!(verdict(&a), verdict(&b), "quick: {}\nlong: {}", a.1, b.1);
    }
    still_delivers(&house).await;
}

#[tokio::test]
async fn no_message_of_json_rpc_breaks_the_hub() {
    let house = impatient().await;
    let (peer, _) = house.agent("ben").await;
    let mut examples: Vec<String> = calls(&peer.instance)
        .into_iter()
        .map(|(_, params)| {
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
                .to_string()
        })
        .collect();
    for (method, params) in [
        (
            "initialize",
            json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "claude-code", "version": "1" },
            }),
        ),
        ("tools/list", json!({ "cursor": "x" })),
        ("ping", json!({})),
        ("server/discover", json!({})),
        ("notifications/cancelled", json!({ "requestId": 1, "reason": "x" })),
        ("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })),
        ("resources/list", json!({})),
        ("logging/setLevel", json!({ "level": "debug" })),
    ] {
        let message = json!({ "jsonrpc": "2.0", "id": "a", "method": method, "params": params });
        examples.push(message.to_string());
    }
    examples.push(json!({ "jsonrpc": "2.0", "id": 7, "result": {} }).to_string());
    let mut agent = house.agent("ann").await.0;
    for (n, case) in fuzz::cases(1_000, &examples).enumerate() {
        if n % 200 == 199 {
            // A call may have ended it.
            agent = house.agent("ann").await.0;
        }
        let body = &case.bytes;
        let head = request(
            "POST /mcp",
            Some(&agent.token),
            &[
                ("Accept", "application/json, text/event-stream"),
                ("Content-Type", "application/json"),
                ("Content-Length", &body.len().to_string()),
                ("Connection", "close"),
            ],
            "",
        );
        let answer = exchange(&house, &[head.as_bytes(), body].concat(), false).await;
        let (status, told) = first_reply(&answer);
        assert_clear(status, &told);
    }
    still_delivers(&house).await;
}
