//! The log of a hub: a line for each request, and never a body, a token or a
//! query.

use std::io::{Read, Write};
use std::net::TcpStream;

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
        assert!(!ran.err.contains(secret), "{secret} in {}", ran.err);
    }
    let lines: Vec<Value> = ran
        .err
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let requests: Vec<&Value> =
        lines.iter().map(|line| &line["fields"]).filter(|f| f["message"] == "request").collect();
    let one = |method: &str, route: &str, status: u16| {
        let mut found = requests
            .iter()
            .filter(|f| f["method"] == method && f["route"] == route && f["status"] == status);
        *found.next().unwrap_or_else(|| panic!("no {method} {route} {status}: {requests:#?}"))
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
    assert_eq!(requests.iter().filter(|f| f["route"] == "/v1/join").count(), 3, "{requests:#?}");
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
