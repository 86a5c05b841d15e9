//! Callers without a token, and what they must not do.

use serde_json::{Value, json};

use super::stage::{MOCK, Stage, id, stage};
use crate::house::{OPERATOR, request, send};

/// Every kind of call about this terminal.
fn calls(id: &str, other: &str) -> Vec<(String, Value)> {
    let calls = [
        format!("GET /terminals/{id}"),
        format!("DELETE /terminals/{id}"),
        format!("POST /terminals/{id}/exit"),
        format!("POST /terminals/{id}/input?message=x"),
        format!("POST /terminals/{other}/input?message=x&sender_id={id}"),
        format!("GET /terminals/{id}/output?mode=last"),
        format!("GET /terminals/{id}/working-directory"),
        format!("GET /terminals/{id}/siblings"),
        format!("GET /terminals/{id}/inbox/messages"),
        format!("GET /terminals/{id}/inbox/messages/wait?timeout=0"),
        format!("POST /terminals/{other}/inbox/messages?sender_id={id}&message=x"),
        format!("POST /sessions/cao-dev/terminals?{MOCK}&caller_id={id}"),
    ];
    let mut calls: Vec<(String, Value)> = calls.map(|call| (call, Value::Null)).into();
    calls.push((format!("PATCH /terminals/{id}/metadata"), json!({"metadata": {}})));
    let step = json!({
        "provider": "mock_cli", "agent": "developer", "prompt": "x", "timeout": 0, "caller_id": id,
    });
    calls.push(("POST /terminals/run-step".to_owned(), step));
    let reuse = json!({
        "provider": "mock_cli", "agent": "developer", "prompt": "x", "timeout": 0,
        "reuse_terminal_id": id,
    });
    calls.push(("POST /terminals/run-step".to_owned(), reuse));
    calls
}

async fn two(stage: &Stage) -> (String, String) {
    let one = id(&stage.session("dev", Value::Null).await);
    let two = id(&stage.session("two", Value::Null).await);
    (one, two)
}

#[tokio::test]
async fn without_a_token_nobody_acts_for_an_instance_of_another_door() {
    let stage = stage().await;
    let (made, _) = two(&stage).await;
    let (alice, as_alice) = stage.house.agent("alice").await;
    let kept = send(&stage.house.operator(), &alice.instance, "for alice alone").await;

    for (call, body) in calls(&alice.instance, &made) {
        let (status, answer) = stage.call(&call, &body).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (401, &json!("unauthorized")),
            "{call}: {answer}"
        );
        assert!(answer["detail"].as_str().is_some_and(|d| d.contains("CAO_AUTH_LOCAL_TOKEN")));
    }

    assert_eq!(stage.house.standing(kept.seq).await.state, "queued");
    assert_eq!(crate::house::texts(&crate::house::read(&as_alice).await), ["for alice alone"]);
    let (status, _) = stage.call("GET /events", &Value::Null).await;
    assert_eq!(status, 401, "events tell of everybody");
}

#[tokio::test]
async fn a_token_counts_for_more_than_a_sender_id() {
    let stage = stage().await;
    let (mine, other) = two(&stage).await;
    let (start, _) = stage.works(&mine).await;
    stage.works(&other).await;
    let token = Some(&*start.token.0);

    for (call, body) in calls(&other, &mine) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = stage.house.call(&call, token, &body).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (403, &json!("forbidden")),
            "{call}: {answer}"
        );
    }

    let own = format!("GET /terminals/{mine}");
    assert_eq!(stage.house.call(&own, token, "").await.0, 200);
    assert_eq!(stage.house.call(&own, Some(OPERATOR), "").await.0, 200);
    let (status, _) = stage.house.call(&own, Some("no such token"), "").await;
    assert_eq!(status, 401, "a wrong token is not the same as none");
}

#[tokio::test]
async fn neither_a_page_that_the_user_looks_at_nor_a_client_of_a_proxy_is_the_user() {
    let stage = stage().await;
    let (made, _) = two(&stage).await;
    for header in [
        ("Origin", "http://127.0.0.1:9889"),
        ("Sec-Fetch-Site", "none"),
        ("Sec-Fetch-Mode", "no-cors"),
        ("Cookie", "a=b"),
        ("X-Forwarded-For", "203.0.113.9"),
        ("Forwarded", "for=203.0.113.9"),
        ("Via", "1.1 proxy"),
    ] {
        for call in [format!("GET /terminals/{made}"), format!("POST /sessions?{MOCK}")] {
            let (status, answer) = stage.house.raw(request(&call, None, &[header], "")).await;
            assert_eq!(
                (status, &answer["error"]["code"]),
                (401, &json!("unauthorized")),
                "{call} {header:?}"
            );
        }
    }
    assert_eq!(stage.get("/sessions").await.as_array().expect("a list").len(), 2);
}
