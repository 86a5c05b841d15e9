//! The log of a hub: a line for each request, and never a body, a token or a
//! query.

use std::io::{Read, Write};
use std::net::TcpStream;

use posthaste_testkit::excerpt::{excerpt, places};
use serde_json::Value;

use crate::world::{Hub, World};

const BODY: &str = "xyzzy-this-is-the-body";
const QUERY: &str = "plugh-this-is-in-the-query";

/// One request over a connection of its own; the status.
fn call(hub: &Hub, call: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut socket = TcpStream::connect(format!("127.0.0.1:{}", hub.port())).expect("a hub");
    let mut text = format!("{call} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    socket.write_all(text.as_bytes()).expect("sent");
    let mut reply = String::new();
    socket.read_to_string(&mut reply).expect("an answer");
    reply.split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn every_request_is_one_line_and_no_secret_is_in_it() {
    let world = World::new();
    let hub = world.hub_with(&["--log-format", "json", "--log", "trace"]);
    let alice = world.json(&["join", "alice"]);
    let bob = world.json(&["join", "bob"]);
    let token = world.say(&["join", "alice", "--print-token"]).trim().to_owned();
    let bearer = format!("Bearer {token}");
    let bob_id = bob["instance"].as_str().expect("an id");
    let alice_id = alice["instance"].as_str().expect("an id");

    let sent = format!("{{\"to\":\"bob\",\"message\":\"{BODY}\",\"label\":\"{BODY}\"}}");
    let named = [("Authorization", bearer.as_str()), ("X-Request-Id", "my-own-name")];
    assert_eq!(call(&hub, "POST /v1/messages", &named, &sent), "201");
    let cao =
        format!("POST /terminals/{bob_id}/inbox/messages?sender_id={alice_id}&message={QUERY}");
    assert_eq!(call(&hub, &cao, &named, ""), "200");
    assert_eq!(call(&hub, &format!("GET /v1/inbox?label={QUERY}&timeout=0"), &named, ""), "200");
    assert_eq!(call(&hub, &format!("GET /{QUERY}?token={token}"), &[], ""), "404");
    assert_eq!(call(&hub, &format!("{QUERY} /v1/inbox"), &named, ""), "405");
    assert_eq!(call(&hub, "POST /v1/messages", &named, &format!("{{\"message\": \"{BODY}")), "400");
    let wrong = [("Authorization", "Bearer wrong-token-geheim")];
    assert_eq!(call(&hub, "GET /v1/inbox", &wrong, ""), "401");
    assert!(world.say(&["inbox", "--as", "bob", "--batch-window", "0"]).contains(BODY));
    let operator = world.say(&["token", "--operator"]).trim().to_owned();
    let ran = hub.stop();

    for secret in [BODY, QUERY, &token, &operator, "wrong-token-geheim"] {
        assert!(!ran.err.contains(secret), "{secret}: {:?}", places(&ran.err, secret));
    }
    let lines: Vec<Value> = ran
        .err
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let requests: Vec<&Value> =
        lines.iter().map(|line| &line["fields"]).filter(|f| f["message"] == "request").collect();
    let told = || excerpt(&format!("{requests:?}"));
    let one = |method: &str, route: &str, status: u16| {
        let mut found = requests
            .iter()
            .filter(|f| f["method"] == method && f["route"] == route && f["status"] == status);
        *found.next().unwrap_or_else(|| panic!("no {method} {route} {status}: {}", told()))
    };
    let send = one("POST", "/v1/messages", 201);
    assert_eq!(
        (&send["request_id"], &send["principal"]),
        (&"my-own-name".into(), &alice_id.into())
    );
    assert!(send["ms"].is_number(), "{send}");
    assert_eq!(one("GET", "/v1/inbox", 401)["principal"], "-");
    assert_eq!(one("GET", "/v1/inbox", 200)["principal"], alice_id);
    one("POST", "/terminals/{id}/inbox/messages", 200);
    one("GET", "unmatched", 404);
    one("POST", "/v1/messages", 400);
    // The command line is seen in the same way: it joined three times.
    assert_eq!(requests.iter().filter(|f| f["route"] == "/v1/join").count(), 3, "{}", told());
    assert!(requests.iter().all(|f| !f["request_id"].as_str().expect("a name").is_empty()));
}

#[test]
fn unless_asked_the_log_is_silent_about_good_requests() {
    let world = World::new();
    let hub = world.hub_with(&["--log-format", "json"]);
    world.say(&["join", "alice"]);
    world.run(&["send", "nobody-here", "hi"]);
    let ran = hub.stop();
    assert!(!ran.err.contains("\"request\""), "{ran:?}");
}

#[test]
fn the_log_is_configured_by_file_and_environment_too() {
    let world = World::new();
    let file = world.config("[log]\nformat = 'json'\nfilter = 'debug'\n");
    let hub = world.hub_with(&["--config", &file]);
    world.say(&["join", "alice"]);
    let ran = hub.stop();
    let first = ran.err.lines().next().expect("a line");
    assert!(serde_json::from_str::<Value>(first).is_ok(), "{first}");
    assert!(ran.err.contains("/v1/join"), "{ran:?}");
}

#[test]
fn a_failure_of_the_hub_is_logged_without_being_asked_for() {
    let world = World::new();
    let file = world.config("[log]\nformat = 'json'\n[store]\nwal_bytes = 0\nmax_bytes = 400000\n");
    let hub = world.hub_with(&["--config", &file]);
    world.say(&["join", "bob"]);
    let token = world.say(&["join", "alice", "--print-token"]);
    let bearer = format!("Bearer {}", token.trim());
    let named = [("Authorization", bearer.as_str()), ("X-Request-Id", "the-last-straw")];
    let sent = format!("{{\"to\":\"bob\",\"message\":\"{BODY}{}\"}}", "x".repeat(50_000));
    let mut accepted = 0;
    while call(&hub, "POST /v1/messages", &named, &sent) != "503" {
        accepted += 1;
        assert!(accepted < 100, "the limit was never reached");
    }
    let ran = hub.stop();
    assert!(!ran.err.contains(BODY), "{ran:?}");
    let lines = ran.err.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let failed: Vec<Value> = lines.filter(|l| l["fields"]["message"] == "request failed").collect();
    assert_eq!(failed.len(), 1, "{ran:?}");
    assert_eq!(failed[0]["level"], "INFO");
    assert_eq!(failed[0]["fields"]["status"], 503);
    assert_eq!(failed[0]["fields"]["request_id"], "the-last-straw");
    assert_ne!(failed[0]["fields"]["principal"], "-");
}

/// What agents write, wherever they write it, and never a word of the log.
const MARK: &str = "frobozz-of-an-agent";

/// Everything that a client can say at each door, with the mark in it.
fn say_everything(world: &World, hub: &Hub) {
    let token = world.say(&["join", "alice", "--print-token"]).trim().to_owned();
    let bearer = format!("Bearer {token}");
    let huge = MARK.repeat(100_000);
    let marked = [
        ("Authorization", bearer.as_str()),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("User-Agent", MARK),
        ("X-Custom", MARK),
        ("Cookie", MARK),
        ("Traceparent", MARK),
    ];
    let rpc = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":"{MARK}","method":"{method}","params":{params}}}"#)
    };
    let tool = |name: &str, arguments: &str| {
        rpc("tools/call", &format!(r#"{{"name":"{name}","arguments":{arguments}}}"#))
    };
    let hello = format!(
        r#"{{"protocolVersion":"2025-06-18","capabilities":{{"{MARK}":{{}}}},"clientInfo":{{"name":"{MARK}","version":"{MARK}"}}}}"#
    );
    let sent = format!(r#"{{"to":"alice","message":"{MARK}"}}"#);
    let messages = [
        rpc("initialize", &hello),
        rpc(MARK, "{}"),
        rpc(&huge, "{}"),
        rpc("tools/list", &format!(r#"{{"cursor":"{MARK}"}}"#)),
        rpc("prompts/get", &format!(r#"{{"name":"{MARK}"}}"#)),
        rpc("ping", &format!(r#"{{"_meta":{{"{MARK}":"{MARK}"}}}}"#)),
        tool(MARK, "{}"),
        tool("send_message", &sent),
        tool("send_message", &format!(r#"{{"to":"{MARK}","message":"{huge}"}}"#)),
        tool("send_message", &format!(r#"{{"{MARK}":"{MARK}"}}"#)),
        tool("check_inbox", r#"{"timeout":0}"#),
        tool("read_messages", "{}"),
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{MARK}","params":{{"a":"{MARK}"}}}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{MARK}","reason":"{MARK}"}}}}"#
        ),
        format!(r#"{{"jsonrpc":"{MARK}","id":1,"method":"ping"}}"#),
        format!("{MARK}{{"),
    ];
    // A protocol version that the front leaves to rmcp, beside one that it does not.
    let versions = [("MCP-Protocol-Version", "2025-06-18"), ("MCP-Protocol-Version", "2026-07-28")];
    for message in &messages {
        for version in versions {
            let headers = [&marked[..], &[version, ("Mcp-Name", MARK)]].concat();
            call(hub, "POST /mcp", &headers, message);
            call(hub, &format!("POST /mcp?{MARK}={MARK}"), &headers, message);
        }
        // Without these headers rmcp is asked what is wrong.
        call(hub, "POST /mcp", &marked[..1], message);
        call(hub, "POST /mcp", &[&marked[..3], &[("Mcp-Param-X", MARK)]].concat(), message);
    }
    let send = format!(
        r#"{{"to":"alice","message":"{MARK}","label":"{MARK}","metadata":{{"{MARK}":"{MARK}"}},"idempotency_key":"{MARK}"}}"#
    );
    let hook = format!(r#"{{"client":"{MARK}","tool":"{MARK}","call":"{MARK}"}}"#);
    let profile = format!(r#"{{"name":"scribe","description":"{MARK}","prompt":"{MARK}"}}"#);
    for (line, body) in [
        ("POST /v1/messages", send.as_str()),
        ("POST /v1/messages", huge.as_str()),
        ("POST /v1/hooks/tool", hook.as_str()),
        ("POST /v1/hooks/stop", hook.as_str()),
        ("POST /v1/profiles", profile.as_str()),
        ("POST /v1/assign", sent.as_str()),
        ("POST /v1/inbox/ack", sent.as_str()),
    ] {
        call(hub, line, &marked, body);
    }
    for line in [
        format!("GET /v1/inbox?timeout=0&label={MARK}"),
        format!("GET /v1/messages?{MARK}={MARK}"),
        format!("GET /v1/messages/{MARK}"),
        format!("GET /{MARK}/{MARK}"),
        format!("POST /terminals/{MARK}/inbox/messages?message={MARK}"),
        format!("{MARK} /v1/messages"),
        format!("PUT /v1/teams/{MARK}"),
    ] {
        call(hub, &line, &marked, "");
    }
}

fn says_nothing_of_it(log: &str) {
    for line in log.lines() {
        assert!(!line.contains(MARK), "{}", &line[..line.len().min(600)]);
        assert!(line.len() <= 4_096, "{} bytes: {}", line.len(), &line[..600]);
    }
    assert!(log.contains("/v1/messages") && log.contains("/mcp"), "and yet it tells of requests");
}

#[test]
fn no_door_puts_what_agents_say_into_the_log_however_much_it_tells() {
    let world = World::new();
    let hub = world.hub_with(&["--log-format", "json", "--log", "trace"]);
    say_everything(&world, &hub);
    says_nothing_of_it(&hub.stop().err);
}

#[test]
fn nor_does_a_filter_that_asks_for_the_words_of_a_library() {
    let world = World::new();
    let hub = world.hub_with(&["--log", "debug,rmcp=trace,axum=trace,hyper=trace,tower=trace"]);
    say_everything(&world, &hub);
    says_nothing_of_it(&hub.stop().err);
}
