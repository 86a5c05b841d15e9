//! What fuzzing has found, each as a case of its own.

use serde_json::{Value, json};

use super::{MESSAGE, exchange, first_reply};
use crate::house::{House, OPERATOR, request};

const MCP: [(&str, &str); 3] = [
    ("Accept", "application/json, text/event-stream"),
    ("Content-Type", "application/json"),
    ("Connection", "close"),
];

async fn call(house: &House, call: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let bytes = request(call, Some(OPERATOR), headers, body);
    first_reply(&exchange(house, bytes.as_bytes(), false).await)
}

#[tokio::test]
async fn an_error_never_repeats_megabytes_of_what_was_sent() {
    let house = House::new().await;
    let long = "z".repeat(1 << 20);
    let near = "y".repeat(40_000);
    let rpc = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method }).to_string();
    for (what, headers, body) in [
        (
            "POST /v1/messages".to_owned(),
            &[][..],
            json!({ "to": "human", "message": "x", &long: 1 }).to_string(),
        ),
        ("POST /v1/hooks/stop".into(), &[], json!({ "stop_active": long }).to_string()),
        ("PUT /v1/teams/main".into(), &[], json!({ "leaders": [long] }).to_string()),
        (format!("GET /v1/{near}"), &[], String::new()),
        (format!("{near} /v1/messages"), &[], String::new()),
        ("POST /mcp".into(), &MCP, rpc(&long)),
    ] {
        let headers = [headers, &[("Connection", "close")]].concat();
        let (_, answer) = call(&house, &what, &headers, &body).await;
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.chars().count() <= MESSAGE, "{}: {} bytes", &what[..9], message.len());
    }
}

#[tokio::test]
async fn an_id_that_is_half_a_character_does_not_come_back() {
    let house = House::new().await;
    for body in [
        r#"{"jsonrpc":"2.0","id":"a\ud800","method":"ping"}"#,
        r#"{"id":"\ude00","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{"name":"whoami"}}"#,
        r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping","error":1}"#,
        r#"{"jsonrpc":"2.0","id":{"x":1},"method":"ping","error":{}}"#,
    ] {
        let (status, answer) = call(&house, "POST /mcp", &MCP, body).await;
        assert_eq!((status, &answer["id"]), (400, &Value::Null), "{body}: {answer}");
        assert_eq!(answer["error"]["code"], -32600, "{body}: {answer}");
    }
    let whole = r#"{"jsonrpc":"2.0","id":"\ud83e\udd80","method":"ping"}"#;
    let (status, answer) = call(&house, "POST /mcp", &MCP, whole).await;
    assert_eq!((status, &answer["id"]), (200, &json!("\u{1f980}")), "{answer}");
}

/// Each message that waits is compared with each name: a list of thirty thousand kept the
/// hub from everything else for seconds.
#[tokio::test]
async fn nobody_stops_the_hub_with_a_long_list_of_names() {
    let house = House::new().await;
    let close = [("Connection", "close")];
    let list = |word: &str, count: usize| vec![word; count].join(",");
    for (calls, most) in [
        ("GET /v1/inbox?timeout=0&from=", list("a", 100)),
        ("GET /v1/events?topics=", list("team:a", 100)),
    ] {
        let (status, answer) = call(&house, &format!("{calls}{most}"), &close, "").await;
        assert_eq!(status, 200, "{calls}: {answer}");
        let word = most.split(',').next().expect("a word");
        let more = format!("{calls}{}", list(word, 101));
        let (status, answer) = call(&house, &more, &close, "").await;
        assert_eq!(status, 422, "{calls}: {answer}");
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.contains("limits.recipients"), "{message}");
    }
}

#[tokio::test]
async fn a_tool_that_its_header_does_not_name_is_not_repeated_at_length() {
    let house = House::new().await;
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": "z".repeat(10_000),
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    let era = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "whoami"),
    ];
    let headers = [&MCP[..], &era].concat();
    let (status, answer) = call(&house, "POST /mcp", &headers, &body.to_string()).await;
    assert_eq!((status, &answer["id"], &answer["error"]["code"]), (400, &json!(1), &json!(-32020)));
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!((1..=MESSAGE).contains(&message.chars().count()), "{} bytes", message.len());
}
