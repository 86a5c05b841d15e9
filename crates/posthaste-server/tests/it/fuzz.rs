//! Broken requests, by the thousand: whatever comes in, each is answered or its
//! connection is closed, no answer is a 5xx, and afterwards the hub still delivers.
//!
//! How to run these longer, and where a finding goes: CONTRIBUTING.md, "Fuzzing".

mod calls;
mod found;
mod heads;
mod tools;

use std::time::Duration;

use posthaste_core::Limits;
use posthaste_server::{McpConfig, ServerConfig};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::house::{House, Plan, read, send, texts, within};

/// Longest error message that is an answer and not an echo.
const MESSAGE: usize = 1_000;

/// A hub whose calls wait for next to nothing, and that nobody calls too often.
async fn impatient() -> House {
    let soon = Duration::from_millis(20);
    let limits = Limits {
        wait: soon,
        batch_window: soon,
        sender_per_minute: 0,
        pair_per_minute: 0,
        everyone_every: Duration::ZERO,
        ..Limits::default()
    };
    House::with(Plan {
        limits,
        server: ServerConfig { head_timeout: Duration::from_secs(2), ..ServerConfig::default() },
        mcp: McpConfig { patience: soon, patience_most: soon, ..McpConfig::default() },
        ..Plan::default()
    })
    .await
}

/// The hub still does what it is for.
async fn still_delivers(house: &House) {
    let (_, as_ann) = house.agent("ann").await;
    let (ben, as_ben) = house.agent("ben").await;
    send(&as_ann, &ben.instance, "still here").await;
    assert_eq!(texts(&read(&as_ben).await).last(), Some(&"still here"));
}

/// Everything that comes back until the connection ends; of a stream, its first bytes.
/// After the last byte the client stops sending if `half_close` says so.
async fn exchange(house: &House, request: &[u8], half_close: bool) -> Vec<u8> {
    let mut socket = house.dial().await;
    within("the connection ends", async {
        // The hub may answer and close before it has read everything.
        let _ = socket.write_all(request).await;
        if half_close {
            let _ = socket.shutdown().await;
        }
        let mut answer = Vec::new();
        let mut piece = [0; 16 * 1024];
        while let Ok(n @ 1..) = socket.read(&mut piece).await {
            answer.extend_from_slice(&piece[..n]);
            if is_stream(&answer) {
                break;
            }
        }
        answer
    })
    .await
}

fn is_stream(answer: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&answer[..answer.len().min(1_000)]);
    head.contains("text/event-stream")
}

/// The status, and the body where it is JSON of a known length.
fn first_reply(answer: &[u8]) -> (u16, Value) {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no HTTP answer: {head:?}"));
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// A refusal has a code and a message that people can read.
fn assert_clear(status: u16, body: &Value) {
    assert!(status < 500, "{status}: {body}");
    if status >= 400 {
        let error = &body["error"];
        let message = error["message"].as_str().unwrap_or_else(|| panic!("{status}: {body}"));
        assert!(error["code"].is_string() || error["code"].is_i64(), "{body}");
        let length = message.chars().count();
        assert!((1..=MESSAGE).contains(&length), "{length} characters");
    }
}
