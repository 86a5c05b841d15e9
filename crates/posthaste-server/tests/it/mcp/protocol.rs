//! The protocol: eras, labels, broken words, who may come in.

use serde_json::{Value, json};

use super::agent::{Agent, Era};
use crate::house::{House, JOIN, OPERATOR, SECRET, request, send, until};

const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// A message as it stands, and the answer.
async fn say(house: &House, token: &str, body: &str, more: &[(&str, &str)]) -> (u16, Value) {
    let mut headers = vec![BOTH, JSON];
    headers.extend_from_slice(more);
    house.raw(request("POST /mcp", Some(token), &headers, body)).await
}

#[tokio::test]
async fn every_revision_is_met_in_its_own_words() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let hello = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": version, "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            },
        });
        let (status, answer) = say(&house, &bob.token, &hello.to_string(), &[]).await;
        assert_eq!((status, &answer["result"]["protocolVersion"]), (200, &json!(version)));
        assert_eq!(answer["result"]["serverInfo"]["name"], "posthaste");
        assert!(
            answer["result"]["instructions"].as_str().expect("etiquette").contains("check_inbox")
        );
        let call = json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "whoami" },
        });
        let header = [("MCP-Protocol-Version", version)];
        let (status, answer) = say(&house, &bob.token, &call.to_string(), &header).await;
        assert_eq!(status, 200);
        assert!(answer["result"]["resultType"].is_null(), "{answer}");
    }
    let me = Agent::silent(&house, &bob.token, Era::New, "test");
    let found = me.ask("server/discover", json!({})).await;
    let versions = &found["result"]["supportedVersions"];
    assert!(versions.as_array().expect("a list").contains(&json!("2026-07-28")), "{found}");
    let listed = me.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 9);
    assert!(tools.iter().all(|t| t["_meta"]["anthropic/alwaysLoad"] == true));
    assert!(listed.to_string().len() < 5_000, "{}", listed.to_string().len());
    let told = me.call("whoami", json!({})).await;
    assert_eq!(told.whole["result"]["resultType"], "complete");
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_the_connection_lives() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let mut socket = house.dial().await;
    for (body, status, code) in [
        ("{", 400, -32700),
        ("nonsense", 400, -32700),
        ("[]", 400, -32600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", 400, -32600),
        ("7", 400, -32600),
        ("[\"2.0\",1,\"tools/call\",{\"name\":\"whoami\"}]", 400, -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"foo/bar\"}", 200, -32601),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/get\",\"params\":{\"name\":\"x\"}}",
            200,
            -32601,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"zip\"}}",
            200,
            -32602,
        ),
    ] {
        let text = request("POST /mcp", Some(&bob.token), &[BOTH, JSON], body);
        tokio::io::AsyncWriteExt::write_all(&mut socket, text.as_bytes()).await.expect("sent");
        let reply = crate::house::read_reply(&mut socket).await.expect("the connection lives");
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (status, &json!(code)),
            "{body}"
        );
    }
    let text = request(
        "POST /mcp",
        Some(&bob.token),
        &[BOTH, JSON],
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\"}",
    );
    tokio::io::AsyncWriteExt::write_all(&mut socket, text.as_bytes()).await.expect("sent");
    let reply = crate::house::read_reply(&mut socket).await.expect("the connection lives");
    assert_eq!(reply.json(), json!({ "jsonrpc": "2.0", "id": "x", "result": {} }));
}

#[tokio::test]
async fn methods_of_the_new_era_without_its_headers_are_refused_by_name() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": "whoami",
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    })
    .to_string();
    let (status, answer) = say(&house, &bob.token, &body, &[]).await;
    assert_eq!(status, 400, "{answer}");
    let wrong = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "other"),
    ];
    let (status, answer) = say(&house, &bob.token, &body, &wrong).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "{answer}");
}

#[tokio::test]
async fn labels_are_never_unknown_but_they_are_their_owners_alone() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let (eve, _) = house.agent("eve").await;
    let mut me = Agent::old(&house, &bob).await;
    let label = me.session.clone().expect("a label");
    assert!(label.starts_with("ph1-"), "{label}");
    for forgotten in ["whatever", "0b2c7b2e-7d0c-4b8e-9b0e-2f6e1f6f2d11", &"x".repeat(5_000)] {
        me.session = Some(forgotten.to_owned());
        assert!(!me.call("whoami", json!({})).await.is_error);
    }
    let mut thief = Agent::silent(&house, &eve.token, Era::Old, "test");
    thief.session = Some(label.clone());
    let stolen = thief.request(1, "tools/call", json!({ "name": "whoami" })).await;
    assert_eq!(stolen.status(), 403);
    assert_eq!(thief.listen().await.status(), 403);
    let delete = request("DELETE /mcp", Some(&eve.token), &[("Mcp-Session-Id", &label)], "");
    assert_eq!(house.raw(delete).await.0, 403);
    let delete = request("DELETE /mcp", Some(&bob.token), &[("Mcp-Session-Id", &label)], "");
    assert_eq!(house.raw(delete).await.0, 204);
    me.session = Some(label);
    assert!(!me.call("whoami", json!({})).await.is_error, "it was only a label");
}

#[tokio::test]
async fn without_a_good_token_nobody_comes_in_and_is_told_how() {
    let house = House::new().await;
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
    for method in ["POST", "GET", "DELETE"] {
        let body = if method == "POST" { ping } else { "" };
        let call = format!("{method} /mcp");
        let (status, answer) = house.raw(request(&call, None, &[BOTH, JSON], body)).await;
        assert_eq!((status, &answer["error"]["code"]), (401, &json!("unauthorized")));
        assert!(answer["error"]["hint"].as_str().expect("a hint").contains("/v1/join"));
        let (status, _) = house.raw(request(&call, Some("wrong"), &[BOTH, JSON], body)).await;
        assert_eq!(status, 401);
    }
    let (bob, _) = house.agent("bob").await;
    for hostile in [("Host", "evil.example"), ("Origin", "http://evil.example")] {
        for method in ["POST", "GET", "DELETE"] {
            let body = if method == "POST" { ping } else { "" };
            let headers = [BOTH, JSON, hostile];
            let text = request(&format!("{method} /mcp"), Some(&bob.token), &headers, body);
            assert_eq!(house.raw(text).await.0, 403, "{method} {hostile:?}");
        }
    }
    let put = request("PUT /mcp", Some(&bob.token), &[BOTH, JSON], ping);
    assert_eq!(house.raw(put).await.0, 405);
}

#[tokio::test]
async fn the_join_token_shows_the_tools_and_calls_none_without_a_name() {
    let house = House::new().await;
    let mut nobody = Agent::silent(&house, JOIN, Era::Old, "test");
    nobody.hello().await;
    assert!(nobody.ask("tools/list", json!({})).await["result"]["tools"].is_array());
    let refused = nobody.request(1, "tools/call", json!({ "name": "whoami" })).await;
    assert_eq!(refused.status(), 403);
    assert_eq!(nobody.listen().await.status(), 403);

    // A name, a key and a secret make it somebody; the same ones the same.
    nobody.more = vec![
        ("x-posthaste-agent", "mason".into()),
        ("x-posthaste-team", "avalon".into()),
        ("x-posthaste-key", "window 1".into()),
        ("x-posthaste-secret", SECRET.into()),
    ];
    let first = nobody.call("whoami", json!({})).await.json();
    assert!(first["address"].as_str().expect("one").ends_with("@avalon"), "{first}");
    let again = nobody.call("whoami", json!({})).await.json();
    assert_eq!(again["instance"], first["instance"]);
    nobody.more[2].1 = "window 2".into();
    let other = nobody.call("whoami", json!({})).await.json();
    assert_ne!(other["instance"], first["instance"]);
    nobody.more[3].1 = "too short to be one".into();
    let guessable = nobody.request(1, "tools/call", json!({ "name": "whoami" })).await;
    assert_eq!(guessable.status(), 422);
    while nobody.more.len() > 1 {
        nobody.more.pop();
        let incomplete = nobody.request(1, "tools/call", json!({ "name": "whoami" })).await;
        assert_eq!(incomplete.status(), 422, "{:?}", nobody.more);
    }
}

#[tokio::test]
async fn the_operator_may_act_for_an_agent_and_nobody_else_may() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let (eve, _) = house.agent("eve").await;
    let mut me = Agent::silent(&house, OPERATOR, Era::Old, "test");
    assert_eq!(me.call("whoami", json!({})).await.json()["address"], "human");
    me.more.push(("x-posthaste-instance", bob.instance.clone()));
    assert_eq!(me.call("whoami", json!({})).await.json()["instance"], json!(bob.instance));
    me.more[0].1 = "ffffffff".into();
    assert_eq!(me.request(1, "tools/call", json!({ "name": "whoami" })).await.status(), 404);
    let mut thief = Agent::silent(&house, &eve.token, Era::Old, "test");
    thief.more.push(("x-posthaste-instance", bob.instance));
    assert_eq!(thief.call("whoami", json!({})).await.json()["instance"], json!(eve.instance));
}

#[tokio::test]
async fn an_open_stream_is_a_sign_of_life_and_ends_with_its_agent() {
    let often = std::time::Duration::from_millis(10);
    let config = posthaste_server::McpConfig { ping: often, streams_each: 2, ..Default::default() };
    let house = House::with(config).await;
    let (bob, as_bob) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let mut stream = me.listen().await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let before = house.instance(&bob.instance).await.last_seen;
    stream.chunk().await.expect("a ping");
    until("it was seen", async || house.instance(&bob.instance).await.last_seen > before).await;
    let second = me.listen().await;
    assert_eq!(second.status(), 200);
    assert_eq!(me.listen().await.status(), 429, "mcp.streams_each");
    drop(second);
    as_bob.leave(&bob.instance).await.expect("gone");
    crate::house::within("its end", async { while let Ok(Some(_)) = stream.chunk().await {} })
        .await;
}

#[tokio::test]
async fn who_listens_in_the_new_era_is_attached_as_long_as_it_does() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::silent(&house, &bob.token, Era::New, "test");
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let mut stream = me.request(4, "subscriptions/listen", params).await;
    assert_eq!(stream.status(), 200, "{}", stream.text().await.unwrap_or_default());
    let first = stream.chunk().await.expect("a line").expect("a line");
    assert!(String::from_utf8_lossy(&first).contains("subscriptions/acknowledged"), "{first:?}");
    house.shutdown.cancel();
    crate::house::within("its end", async { while let Ok(Some(_)) = stream.chunk().await {} })
        .await;
}

#[tokio::test]
async fn who_listens_is_told_to_what_and_alike_by_both_ways() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::silent(&house, &bob.token, Era::New, "test");
    let mut long = Agent::silent(&house, &bob.token, Era::New, "test");
    long.more.push(("mcp-param-x", "1".into()));
    for wanted in
        [json!({ "toolsListChanged": true }), json!({}), json!({ "promptsListChanged": true })]
    {
        let mut told = Vec::new();
        for agent in [&me, &long] {
            let params = json!({ "notifications": wanted });
            let mut stream = agent.request(4, "subscriptions/listen", params).await;
            let first = stream.chunk().await.expect("a line").expect("a line");
            let text = String::from_utf8_lossy(&first).into_owned();
            let json = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
            told.push(serde_json::from_str::<Value>(json).expect("JSON"));
        }
        assert_eq!(told[0], told[1], "{wanted}");
        assert_eq!(told[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 4);
    }
}

#[tokio::test]
async fn a_call_that_is_not_plain_is_answered_alike() {
    // A header that only the whole protocol understands sends the call the long way.
    for era in [Era::Old, Era::New] {
        let house = House::new().await;
        let (bob, _) = house.agent("bob").await;
        let quick = Agent::begin(&house, &bob, era, "test").await;
        let mut long = Agent::silent(&house, &bob.token, era, "test");
        long.session.clone_from(&quick.session);
        long.more.push(("mcp-param-x", "1".into()));
        for (n, params) in [
            json!({ "name": "whoami" }),
            json!({ "name": "whoami", "arguments": {} }),
            json!({ "name": "whoami", "arguments": { "x": 1 } }),
            json!({ "name": "find_agents", "arguments": { "query": "bob" } }),
            json!({ "name": "send_message", "arguments": { "to": "bobb", "message": "x" } }),
            json!({ "name": "check_inbox", "arguments": { "timeout": 0 } }),
            json!({ "name": "no_such_tool", "arguments": {} }),
        ]
        .into_iter()
        .enumerate()
        {
            let id = 100 + n as u64;
            let (a, b) = (
                quick.request(id, "tools/call", params.clone()).await,
                long.request(id + 50, "tools/call", params.clone()).await,
            );
            assert_eq!(a.status(), b.status(), "{params}");
            let (a, b): (Value, Value) =
                (a.json().await.expect("JSON"), b.json().await.expect("JSON"));
            let bare = |mut v: Value| {
                v["id"] = Value::Null;
                v.to_string().replace("\\\"waited_s\\\":0.0,", "")
            };
            assert_eq!(bare(a), bare(b), "{era:?} {params}");
        }
        // Mail by the long way is leased and watched all the same.
        let sent = send(&house.operator(), &bob.instance, "the long way").await;
        let told = long.call_as(900, "check_inbox", json!({ "timeout": 5 })).await;
        assert_eq!(told.texts(), ["the long way"]);
        assert_eq!(house.standing(sent.seq).await.state, "leased");
        long.call_as(901, "check_inbox", json!({ "timeout": 0 })).await;
    }
}
