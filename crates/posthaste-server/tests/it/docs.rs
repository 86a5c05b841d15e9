//! The document says what the door does.

use std::collections::BTreeSet;

use posthaste_api::openapi::{Who, calls};
use serde_json::Value;

use crate::house::{House, OPERATOR, read_reply, request};
use tokio::io::AsyncWriteExt;

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
        assert!(reply.status != 405 && !told.starts_with("there is no "), "{line}: {told}");
        assert!(reply.status < 500, "{line}: {told}");
    }
}

#[tokio::test]
async fn every_route_of_the_door_is_in_the_document() {
    let router = include_str!("../../src/rest.rs");
    let routes: BTreeSet<&str> =
        router.split('"').filter(|t| t.starts_with('/') && !t.contains(' ')).collect();
    let known: BTreeSet<&str> = calls().iter().map(|call| call.path).collect();
    let page: BTreeSet<&str> = ["/docs/page.js", "/docs/page.css"].into();
    let missing: Vec<_> = routes.difference(&known).filter(|r| !page.contains(*r)).collect();
    assert!(missing.is_empty(), "add to the table of calls: {missing:?}");
}

#[tokio::test]
async fn what_needs_a_token_says_so_and_does() {
    let house = House::new().await;
    for call in calls() {
        let path: String = call.path.replace("{id}", "4711").replace("{name}", "somebody");
        let (status, _) = house.call(&format!("{} {path}", call.method), None, "").await;
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
