//! The document says what the door does.

mod examples;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use posthaste_api::error::ErrorCode;
use posthaste_api::openapi::{Who, calls};
use posthaste_core::events::EventKind;
use posthaste_server::CompatConfig;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::doors::sources;
use crate::house::{House, OPERATOR, read_reply, request, send, within};

#[tokio::test]
async fn every_call_of_the_document_is_answered_by_the_door() {
    let house = House::new().await;
    for call in calls() {
        let path: String = call.path.replace("{id}", "4711").replace("{name}", "somebody");
        let wait = if call.path == "/v1/inbox" { "?timeout=0" } else { "" };
        let line = format!("{} {path}{wait}", call.method);
        let mut socket = house.dial().await;
        let text = request(&line, Some(OPERATOR), &[("Connection", "close")], "");
        socket.write_all(text.as_bytes()).await.expect("sent");
        let reply = read_reply(&mut socket).await.expect("an answer");
        let told = reply.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        let missing = format!("there is no {} ", call.method);
        assert!(reply.status != 405 && !told.starts_with(&missing), "{line}: {told}");
        assert!(reply.status < 500, "{line}: {told}");
    }
}

#[tokio::test]
async fn every_route_of_the_door_is_in_the_document() {
    // A route that is not made from the table of calls has its path in quotes.
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![src.join("rest.rs"), src.join("cao.rs")];
    sources(&src.join("rest"), &mut files);
    let read = |file: &PathBuf| std::fs::read_to_string(file).expect("a source");
    let routers: Vec<String> = files.iter().map(read).collect();
    let words = routers.iter().flat_map(|router| router.split('"'));
    let routes: BTreeSet<&str> = words.filter(|t| t.starts_with('/') && !t.contains(' ')).collect();
    let known: BTreeSet<&str> = calls().map(|call| call.path).collect();
    let page: BTreeSet<&str> = ["/docs/", "/docs/page.js", "/docs/page.css"].into();
    let missing: Vec<_> = routes.difference(&known).filter(|r| !page.contains(*r)).collect();
    assert!(missing.is_empty(), "add to the table of calls: {missing:?}");
}

#[tokio::test]
async fn what_needs_a_token_says_so_and_does() {
    let house = House::new().await;
    for call in calls() {
        let path: String = call.path.replace("{id}", "4711").replace("{name}", "somebody");
        let line = format!("{} {path}", call.method);
        let (status, _) = match call.who {
            // Without a token from a program of another kind than CAO's, which the hub's user
            // may run.
            Who::Neighbour => {
                let page = [("Sec-Fetch-Mode", "cors")];
                house.raw(request(&line, None, &page, "")).await
            }
            _ => house.call(&line, None, "").await,
        };
        assert_eq!(status == 401, call.who != Who::Nobody, "{} {path}: {status}", call.method);
    }
}

#[tokio::test]
async fn the_document_is_whole_and_the_page_loads_nothing_from_elsewhere() {
    let house = House::new().await;
    let (status, document) = house.call("GET /openapi.json", None, "").await;
    assert_eq!((status, &document["openapi"]), (200, &Value::from("3.1.0")));
    let text = document.to_string();
    let names = document["components"]["schemas"].as_object().expect("schemas");
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().expect("a name");
        assert!(names.contains_key(name), "{name} is not there");
    }
    let explained = &names["SendRequest"]["properties"]["ttl_s"]["description"];
    assert!(explained.as_str().is_some_and(|text| text.contains("Dies unread")), "{explained}");
    for page in ["/docs", "/docs/page.js", "/docs/page.css"] {
        let mut socket = house.dial().await;
        let text = request(&format!("GET {page}"), None, &[], "");
        socket.write_all(text.as_bytes()).await.expect("sent");
        let reply = read_reply(&mut socket).await.expect("an answer");
        let body = String::from_utf8(reply.body.clone()).expect("text");
        assert_eq!(reply.status, 200);
        assert!(!body.contains("http://") && !body.contains("https://"), "{page}");
        assert!(reply.head.contains("content-security-policy: default-src 'none'"), "{page}");
    }
}

/// The statuses that a call can answer with, by the document.
fn statuses(document: &Value, method: &str, path: &str) -> Vec<u16> {
    let responses = document["paths"][path][method]["responses"].as_object().expect("answers");
    responses.keys().map(|status| status.parse().expect("a status")).collect()
}

#[tokio::test]
async fn each_call_lists_the_errors_that_it_can_answer_and_no_others() {
    let document = House::new().await.call("GET /openapi.json", None, "").await.1;
    let of = |method, path| statuses(&document, method, path);
    assert_eq!(of("get", "/health"), [200, 403, 503]);
    assert_eq!(of("get", "/v1/stats/agents"), [200, 401, 403, 503]);
    assert_eq!(of("get", "/v1/teams/{name}"), [200, 400, 401, 403, 404, 422, 503]);
    let send = of("post", "/v1/messages");
    assert_eq!(send, [201, 207, 400, 401, 403, 404, 408, 409, 410, 413, 422, 429, 503]);
    let conflict = &document["paths"]["/v1/messages"]["post"]["responses"]["409"];
    let told = conflict["description"].as_str().expect("words");
    assert!(told.contains("`key_reused`") && told.contains("`hop_limit`"), "{told}");
    assert!(!told.contains("`lease_lost`"), "{told}");
}

#[tokio::test]
async fn the_routes_of_cao_are_in_the_document_of_a_hub_that_has_them() {
    let path = "/terminals/{id}/inbox/messages/wait";
    let document = House::new().await.call("GET /openapi.json", None, "").await.1;
    assert!(document["paths"][path]["get"].is_object(), "{}", document["paths"]);
    let without = House::with(CompatConfig { cao: false }).await;
    let document = without.call("GET /openapi.json", None, "").await.1;
    let paths = document["paths"].as_object().expect("paths");
    assert!(!paths.keys().any(|path| path.starts_with("/terminals")), "{paths:?}");
}

#[tokio::test]
async fn whoever_opens_the_bare_address_is_led_to_the_documentation() {
    let house = House::new().await;
    for call in ["GET /", "GET /docs/"] {
        let mut socket = house.dial().await;
        socket.write_all(request(call, None, &[], "").as_bytes()).await.expect("sent");
        let reply = read_reply(&mut socket).await.expect("an answer");
        assert_eq!(reply.status, 307, "{call}");
        assert!(reply.head.contains("location: /docs\r\n"), "{call}: {}", reply.head);
        let text = String::from_utf8(reply.body).expect("text");
        assert!(text.contains("/docs") && text.contains("/openapi.json"), "{call}: {text}");
    }
}

/// The types of events that a stream sends, up to a count.
async fn heard(house: &House, query: &str, count: usize) -> Vec<String> {
    let mut socket = house.dial().await;
    let call = format!("GET /v1/events?{query}");
    let text = request(&call, Some(OPERATOR), &[], "");
    socket.write_all(text.as_bytes()).await.expect("sent");
    let mut told = Vec::new();
    within("events", async {
        loop {
            let text = String::from_utf8_lossy(&told);
            // The last line may not be whole yet.
            let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
            let words: Vec<String> = whole
                .lines()
                .filter_map(|line| line.strip_prefix("event: ").map(str::to_owned))
                .collect();
            if words.len() >= count {
                return words;
            }
            told.push(socket.read_u8().await.expect("the stream goes on"));
        }
    })
    .await
}

#[tokio::test]
async fn everything_that_a_stream_of_events_can_send_is_in_the_document() {
    let house = House::new().await;
    let document = house.call("GET /openapi.json", None, "").await.1;
    let introduction = document["info"]["description"].as_str().expect("an introduction");
    let listed = |word: &str| introduction.contains(&format!("\n| `{word}` | "));
    for (kind, _, word) in EventKind::ALL {
        assert!(listed(word), "{kind:?}: {word}");
    }
    let (bob, _) = house.agent("bob").await;
    send(&house.operator(), &bob.instance, "hello").await;
    let mut sent = heard(&house, "after=0", 3).await;
    sent.extend(heard(&house, "after=4711", 2).await);
    for word in ["alive", "reset", "instance.joined", "message.accepted"] {
        assert!(sent.iter().any(|sent| sent == word), "{word}: {sent:?}");
    }
    for word in &sent {
        assert!(listed(word), "{word}");
    }
}

#[tokio::test]
async fn the_introduction_says_where_the_hub_is_and_how_to_show_a_token() {
    let document = House::new().await.call("GET /openapi.json", None, "").await.1;
    let introduction = document["info"]["description"].as_str().expect("an introduction");
    for word in
        ["http://127.0.0.1:9889", "Authorization: Bearer", "POST /v1/join", "posthaste token"]
    {
        assert!(introduction.contains(word), "{word}");
    }
    for code in ErrorCode::ALL {
        assert!(introduction.contains(&format!("\n| `{}` | ", code.as_str())), "{code:?}");
    }
}

#[tokio::test]
async fn a_message_has_its_number_under_the_same_name_wherever_it_is_told() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let body = r#"{"to": "bob", "message": "hello"}"#;
    let sent = house.call("POST /v1/messages", Some(OPERATOR), body).await.1;
    let token = Some(bob.token.as_str());
    let inbox = house.call("GET /v1/inbox?timeout=0", token, "").await.1;
    let read = house.call("GET /v1/messages/1", token, "").await.1;
    let trail = house.call("GET /v1/messages/1/trail", token, "").await.1;
    let entry = &inbox["messages"][0];
    for told in [&sent, entry, &read, &trail] {
        assert_eq!(told["seq"], 1, "{told}");
    }
    // The older names mean what they always meant.
    assert_eq!((&entry["id"], &entry["uid"]), (&sent["seq"], &sent["id"]));
}
