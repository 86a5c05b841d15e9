//! The head of a request, and the bytes around it, as they come off the socket.

use posthaste_testkit::fuzz;

use super::{exchange, impatient, still_delivers};
use crate::house::{House, OPERATOR, read, request, within};

/// Heads in every form that the protocol knows, and some that it does not.
fn examples() -> Vec<String> {
    let json = [("Content-Type", "application/json")];
    let send = r#"{"to": "bob", "message": "hello"}"#;
    let token = Some(OPERATOR);
    let chunked = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPERATOR}\r\n\
         Transfer-Encoding: chunked\r\n\r\n8\r\n{{\"to\": \"\r\n5;x=y\r\nbob\",\r\n0\r\nT: v\r\n\r\n"
    );
    let two = request("GET /v1/teams", token, &[], "").repeat(3);
    vec![
        request("GET /health", None, &[], ""),
        request("POST /v1/messages", token, &json, send),
        request("GET /v1/inbox?timeout=0&from=bob%2calice", token, &[], ""),
        request("GET http://localhost/v1/teams", token, &[], ""),
        request("CONNECT localhost:443", token, &[], ""),
        request("OPTIONS *", token, &[], ""),
        request("HEAD /metrics", token, &[("Expect", "100-continue")], ""),
        request("GET /v1/events", token, &[("Last-Event-ID", "17")], ""),
        request(
            "GET /mcp",
            token,
            &[
                ("Connection", "Upgrade, HTTP2-Settings"),
                ("Upgrade", "h2c"),
                ("HTTP2-Settings", ""),
            ],
            "",
        ),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET /health HTTP/1.0\r\nConnection: keep-alive\r\nHost: [::1]:9889\r\n\r\n".to_owned(),
        format!("{}{send}", request("POST /v1/messages", token, &[("Content-Length", "33")], "")),
        chunked,
        two,
    ]
}

#[tokio::test]
async fn no_head_breaks_the_hub_and_every_connection_ends() {
    let house = impatient().await;
    house.agent("bob").await;
    for case in fuzz::cases(1_500, &examples()) {
        let answer = exchange(&house, &case.bytes, true).await;
        if answer.is_empty() {
            continue;
        }
        let text = String::from_utf8_lossy(&answer);
        assert!(text.starts_with("HTTP/1."), "{text:?}");
        for line in text.lines().filter(|line| line.starts_with("HTTP/1.")) {
            assert!(!line.contains(" 5"), "{line}");
        }
    }
    still_delivers(&house).await;
}

/// Sends the bytes and keeps the connection open: the status lines that come back, and
/// whether the hub closed the connection.
async fn told(house: &House, bytes: &str) -> (Vec<String>, bool) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut socket = house.dial().await;
    // A question whose answer shows that everything before it was dealt with.
    let last = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all(format!("{bytes}{last}").as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let _ = within("the connection ends", socket.read_to_end(&mut answer)).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let lines: Vec<String> =
        text.lines().filter(|l| l.starts_with("HTTP/1.1 ")).map(|l| l[9..12].to_owned()).collect();
    let closed = !text.contains("\"service\":\"posthaste\"");
    (lines, closed)
}

#[tokio::test]
async fn nobody_hides_a_second_request_in_the_body_of_a_first() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    let hidden = request(
        "POST /v1/messages",
        Some(OPERATOR),
        &[],
        r#"{"to": "bob", "message": "smuggled"}"#,
    );
    let head = "POST /v1/inbox/ack HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ";
    let length = hidden.len();
    // Two lengths, or two ways to tell one, that do not agree.
    for lengths in [
        format!("Content-Length: 0\r\nContent-Length: {length}"),
        format!("Content-Length: {length}\r\nContent-Length: 0"),
        format!("Content-Length: 0, {length}"),
        format!("Content-Length: +{length}"),
        format!("Content-Length: {length}x"),
        format!("Content-Length: 0x{length:x}"),
        "Content-Length: -1".to_owned(),
        "Content-Length: 99999999999999999999".to_owned(),
        format!("Transfer-Encoding: gzip\r\nContent-Length: {length}"),
        "Transfer-Encoding: chunked, gzip".to_owned(),
        format!("Transfer-Encoding : chunked\r\nContent-Length: {length}"),
    ] {
        let bytes = format!("{head}{OPERATOR}\r\n{lengths}\r\n\r\n{hidden}");
        let (lines, closed) = told(&house, &bytes).await;
        assert_eq!((lines.as_slice(), closed), (&["400".to_owned()][..], true), "{lengths}");
    }
    assert!(read(&as_bob).await.messages.is_empty(), "nothing was smuggled");
}
