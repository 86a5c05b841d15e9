//! Odd JSON-RPC gets an error of JSON-RPC: never an empty answer, never a fault of the
//! hub.

use serde_json::{Value, json};

use crate::house::{House, request};

const HEADERS: [(&str, &str); 2] =
    [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")];

const INVALID: i32 = -32600;
const UNKNOWN: i32 = -32601;
const PARAMS: i32 = -32602;

/// What one message of an agent is answered.
async fn say(house: &House, token: &str, body: &str) -> (u16, Value) {
    house.raw(request("POST /mcp", Some(token), &HEADERS, body)).await
}

/// Each is answered with this code and this id.
async fn are_refused(cases: &[(String, i32, Value)]) {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    for (body, code, id) in cases {
        let start: String = body.chars().take(120).collect();
        let (status, answer) = say(&house, &bob.token, body).await;
        assert!(status == 200 || status == 400, "{start}: {status} {answer}");
        assert_eq!(answer["jsonrpc"], "2.0", "{start}: {answer}");
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), id), "{start}");
        let why = answer["error"]["message"].as_str().expect("words");
        assert!(!why.is_empty() && why.len() < 400, "{start}: {why}");
    }
}

fn ping(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

#[tokio::test]
async fn an_id_that_is_none_is_an_invalid_request() {
    let long = format!("\"{}\"", "x".repeat(5_000));
    let ids = [
        "null",
        "1.5",
        "1e3",
        "{}",
        r#"{"a":1}"#,
        "[]",
        "[1]",
        "true",
        "false",
        "99999999999999999999999",
        "-99999999999999999999999",
        &long,
    ];
    let refused = |id: &&str| (ping(id), INVALID, Value::Null);
    are_refused(&ids.iter().map(refused).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn an_id_that_is_one_comes_back_as_it_was() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let long = format!("\"{}\"", "x".repeat(1_000));
    for id in ["0", "-1", "9007199254740993", "9223372036854775807", "\"\"", "\"é\"", &long] {
        let (status, answer) = say(&house, &bob.token, &ping(id)).await;
        let id: Value = serde_json::from_str(id).expect("JSON");
        assert_eq!((status, answer), (200, json!({"jsonrpc": "2.0", "id": id, "result": {}})));
    }
}

#[tokio::test]
async fn another_version_is_an_invalid_request() {
    let with = |version: &str| format!(r#"{{{version}"id":7,"method":"ping"}}"#);
    let versions = [
        "",
        r#""jsonrpc":"1.0","#,
        r#""jsonrpc":2.0,"#,
        r#""jsonrpc":2,"#,
        r#""jsonrpc":null,"#,
        r#""jsonrpc":["2.0"],"#,
        r#""jsonrpc":"2.0 ","#,
    ];
    let refused = |version: &&str| (with(version), INVALID, json!(7));
    are_refused(&versions.iter().map(refused).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn what_has_no_method_is_an_invalid_request() {
    let with = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":"m"{method}}}"#);
    let odd =
        ["", r#","method":null"#, r#","method":7"#, r#","method":{}"#, r#","method":["ping"]"#];
    let mut cases: Vec<_> = odd.iter().map(|m| (with(m), INVALID, json!("m"))).collect();
    cases.push(("{}".into(), INVALID, Value::Null));
    cases.push((r#"{"jsonrpc":"2.0"}"#.into(), INVALID, Value::Null));
    cases.push((r#"{"jsonrpc":"2.0","id":{},"method":7}"#.into(), INVALID, Value::Null));
    are_refused(&cases).await;
}

#[tokio::test]
async fn a_method_that_nobody_knows_is_named_so_however_long_it_is() {
    let with = |name: String| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}"}}"#);
    let names = ["no/such", "", "tools", "x y", "PING", &"m".repeat(2 << 20)];
    let refused = |name: &&str| (with((*name).to_owned()), UNKNOWN, json!(1));
    are_refused(&names.iter().map(refused).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn params_that_are_no_object_are_invalid_params() {
    let with = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
    };
    let mut cases = Vec::new();
    for method in ["tools/call", "tools/list", "initialize", "ping", "subscriptions/listen"] {
        for params in ["7", "\"x\"", "true", "[]", "[1]"] {
            cases.push((with(method, params), PARAMS, json!(1)));
        }
    }
    for params in [
        "{}",
        r#"{"name":7}"#,
        r#"{"name":null}"#,
        r#"{"name":"whoami","arguments":7}"#,
        r#"{"name":"whoami","arguments":[]}"#,
        r#"{"name":"whoami","_meta":7}"#,
    ] {
        cases.push((with("tools/call", params), PARAMS, json!(1)));
    }
    cases.push((with("initialize", "{}"), PARAMS, json!(1)));
    cases.push((with("initialize", r#"{"protocolVersion":7}"#), PARAMS, json!(1)));
    are_refused(&cases).await;
}

#[tokio::test]
async fn a_batch_is_an_invalid_request() {
    let batches = ["[]", "[1]", &format!("[{}]", ping("1")), &format!("[{0},{0}]", ping("1"))];
    let refused = |batch: &&str| ((*batch).to_owned(), INVALID, Value::Null);
    are_refused(&batches.iter().map(refused).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn notifications_and_responses_are_never_answered() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#,
        r#"{"jsonrpc":"2.0","method":"no/such","params":[1]}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#,
    ] {
        assert_eq!(say(&house, &bob.token, body).await, (202, Value::Null), "{body}");
    }
}

#[tokio::test]
async fn what_rmcp_refuses_in_plain_text_is_told_in_the_protocol() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let body = ping("3");
    for headers in [
        vec![("Content-Type", "application/json")],
        vec![("Accept", "text/html"), ("Content-Type", "application/json")],
        vec![HEADERS[0], ("Content-Type", "text/plain")],
        vec![HEADERS[0]],
        vec![HEADERS[0], HEADERS[1], ("MCP-Protocol-Version", "1999-01-01")],
    ] {
        let text = request("POST /mcp", Some(&bob.token), &headers, &body);
        let (status, answer) = house.raw(text).await;
        assert!((400..500).contains(&status), "{headers:?}: {status}");
        assert!(answer["error"]["code"].is_i64(), "{headers:?}: {answer}");
    }
}
