//! Connections that lie idle, that dawdle, and that are too many.

use std::time::Duration;

use posthaste_server::ServerConfig;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::house::{House, OPERATOR, read_reply, request, until, within};

/// Much longer than a test.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);

fn health() -> String {
    request("GET /health", None, &[], "")
}

/// The status of the answer to a request on this connection.
async fn ask(socket: &mut TcpStream, text: &str) -> Option<u16> {
    socket.write_all(text.as_bytes()).await.ok()?;
    Some(read_reply(socket).await?.status)
}

async fn is_hung_up(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = within("the hub hangs up", socket.read_to_end(&mut rest)).await;
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}

#[tokio::test]
async fn a_connection_that_lies_idle_between_two_requests_is_kept() {
    let server =
        ServerConfig { head_timeout: SHORT, idle_timeout: LONG, ..ServerConfig::default() };
    let house = House::with(server).await;
    let mut kept = house.dial().await;
    for _ in 0..3 {
        assert_eq!(ask(&mut kept, &health()).await, Some(200));
        // The time for a head passes: another, which does not send one, is cut.
        let mut silent = house.dial().await;
        is_hung_up(&mut silent).await;
    }
    assert_eq!(ask(&mut kept, &health()).await, Some(200), "it is still there");
}

#[tokio::test]
async fn a_head_that_has_begun_on_a_kept_connection_must_come_in_time() {
    let server =
        ServerConfig { head_timeout: SHORT, idle_timeout: LONG, ..ServerConfig::default() };
    let house = House::with(server).await;
    for begun in ["G", "GET /health HTTP/1.1\r\nHost: loc"] {
        let mut socket = house.dial().await;
        assert_eq!(ask(&mut socket, &health()).await, Some(200));
        socket.write_all(begun.as_bytes()).await.expect("sent");
        is_hung_up(&mut socket).await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_in_the_end() {
    let server =
        ServerConfig { head_timeout: LONG, idle_timeout: SHORT, ..ServerConfig::default() };
    let house = House::with(server).await;
    let mut socket = house.dial().await;
    assert_eq!(ask(&mut socket, &health()).await, Some(200));
    is_hung_up(&mut socket).await;
}

#[test]
fn idle_connections_are_kept_longer_than_clients_keep_them() {
    let server = ServerConfig::default();
    assert!(server.idle_timeout >= Duration::from_secs(75));
    assert_eq!(server.head_timeout, Duration::from_secs(10));
    assert_eq!(server.spare_head_timeout, Duration::from_secs(1));
}

/// A hub with two places and a spare one, all of the common ones taken.
async fn full_house() -> (House, [TcpStream; 2]) {
    full_house_with(LONG).await
}

/// The same; on the spare place a client may be silent for so long.
async fn full_house_with(spare_head_timeout: Duration) -> (House, [TcpStream; 2]) {
    let server = ServerConfig {
        connections: 2,
        spare_connections: 1,
        head_timeout: LONG,
        idle_timeout: LONG,
        spare_head_timeout,
        ..ServerConfig::default()
    };
    let house = House::with(server).await;
    let mut taken = [house.dial().await, house.dial().await];
    for socket in &mut taken {
        assert_eq!(ask(socket, &health()).await, Some(200));
    }
    (house, taken)
}

#[tokio::test]
async fn a_full_hub_says_so_at_once() {
    let (house, [first, _second]) = full_house().await;
    let agent = request("GET /v1/inbox?timeout=60", Some("some-agent"), &[], "");
    let mut third = house.dial().await;
    third.write_all(agent.as_bytes()).await.expect("sent");
    let refused = read_reply(&mut third).await.expect("an answer");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("unavailable")));
    let hint = refused.json()["error"]["hint"].as_str().expect("a hint").to_owned();
    assert!(hint.contains("server.connections"), "{hint}");
    assert!(refused.head.contains("\r\nretry-after: 1\r\n"), "{}", refused.head);
    assert!(refused.head.contains("\r\nconnection: close\r\n"), "{}", refused.head);
    is_hung_up(&mut third).await;

    drop(first);
    until("there is room again", async || {
        let mut again = house.dial().await;
        ask(&mut again, &agent).await == Some(401)
    })
    .await;
}

#[tokio::test]
async fn the_operator_comes_in_when_the_hub_is_full() {
    let (house, _taken) = full_house().await;
    for text in [
        request("GET /v1/instances", Some(OPERATOR), &[], ""),
        request("GET /ready", None, &[], ""),
        health(),
    ] {
        until("the spare place is free", async || {
            let mut socket = house.dial().await;
            ask(&mut socket, &text).await == Some(200)
        })
        .await;
    }
}

#[tokio::test]
async fn the_operator_comes_in_when_others_are_silent_on_the_spare_places() {
    for begun in ["", "GET /hea"] {
        let (house, _taken) = full_house_with(SHORT).await;
        let mut silent = house.dial().await;
        silent.write_all(begun.as_bytes()).await.expect("sent");
        let instances = request("GET /v1/instances", Some(OPERATOR), &[], "");
        until("the operator is served", async || {
            let mut socket = house.dial().await;
            ask(&mut socket, &instances).await == Some(200)
        })
        .await;
        is_hung_up(&mut silent).await;
    }
}

#[tokio::test]
async fn whoever_finds_no_place_at_all_is_told_so_too() {
    let (house, _taken) = full_house().await;
    // Nothing is said on the spare place, so it stays taken.
    let _spare = house.dial().await;
    let mut last = house.dial().await;
    last.write_all(health().as_bytes()).await.expect("sent");
    let refused = read_reply(&mut last).await.expect("an answer");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("unavailable")));
    assert!(refused.head.contains("\r\nretry-after: 1\r\n"), "{}", refused.head);
    is_hung_up(&mut last).await;
}

#[tokio::test]
async fn ready_says_how_many_connections_there_may_be() {
    let server = ServerConfig { connections: 77, ..ServerConfig::default() };
    let house = House::with(server).await;
    let (status, answer) = house.call("GET /ready", None, "").await;
    assert_eq!((status, answer), (200, json!({"status": "ready", "connections": 77})));
}
