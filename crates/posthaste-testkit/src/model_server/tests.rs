//! Tests of behaviour that no real agent program shows by itself.

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::*;

/// Sends a request as an agent program would; returns status and text of the answer.
async fn ask(url: &str, method: &str, path: &str, body: Value) -> (u16, String) {
    let address = url.trim_start_matches("http://");
    let socket = TcpStream::connect(address).await.expect("it listens");
    let (mut model, connection) = http1::handshake(TokioIo::new(socket)).await.expect("HTTP");
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", address);
    let body = Full::<Bytes>::from(body.to_string());
    let request = request.body(body).expect("plain parts");
    let response = model.send_request(request).await.expect("an answer");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a whole answer").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

fn with_tools(stream: bool) -> Value {
    json!({ "stream": stream, "tools": [
        { "name": "mcp__hub__whoami", "description": "who you are" },
        { "type": "namespace", "name": "mcp__hub", "tools": [{ "name": "whoami" }] },
        { "functionDeclarations": [{ "name": "mcp_hub_whoami" }] },
    ] })
}

#[tokio::test]
async fn what_programs_ask_beside_their_turns_is_answered_and_is_no_turn() {
    let mut model = ModelServer::start().await;
    let url = model.url().to_owned();
    for (path, body) in [
        ("/v1/messages", json!({ "messages": [] })),
        ("/v1/responses", json!({ "input": [], "tools": [] })),
        ("/v1/messages/count_tokens", json!({})),
    ] {
        let (status, _) = ask(&url, "POST", path, body).await;
        assert_eq!(status, 200, "{path}");
    }
    assert_eq!(ask(&url, "GET", "/v1/models", json!({})).await.0, 200);
    assert_eq!(ask(&url, "GET", "/elsewhere", json!({})).await.0, 404);
    assert!(model.is_idle());
}

#[tokio::test]
async fn an_answer_comes_whole_or_in_pieces_as_it_was_asked_for() {
    let mut model = ModelServer::start().await;
    let url = model.url().to_owned();
    for path in ["/v1/messages", "/v1/responses"] {
        for stream in [false, true] {
            let answer = tokio::spawn({
                let url = url.clone();
                async move { ask(&url, "POST", path, with_tools(stream)).await }
            });
            model.asked().await.call("whoami", json!({ "x": 1 }));
            let (status, text) = answer.await.expect("no panic");
            assert_eq!((status, text.starts_with("event: ")), (200, stream), "{text}");
            assert!(text.contains("whoami") && text.contains("mcp__hub"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_path_says_whether_gemini_wants_pieces() {
    let mut model = ModelServer::start().await;
    let url = model.url().to_owned();
    for (verb, start) in [("generateContent", "{"), ("streamGenerateContent", "data: {")] {
        let answer = tokio::spawn({
            let (url, path) = (url.clone(), format!("/v1beta/models/gemini:{verb}?alt=sse"));
            async move { ask(&url, "POST", &path, with_tools(false)).await }
        });
        model.asked().await.call("whoami", json!({ "x": 1 }));
        let (status, text) = answer.await.expect("no panic");
        assert_eq!((status, text.starts_with(start)), (200, true), "{text}");
        assert!(text.contains("mcp_hub_whoami"), "{text}");
    }
}

#[tokio::test]
async fn a_turn_that_nobody_plays_fails() {
    let mut model = ModelServer::start().await;
    let url = model.url().to_owned();
    let answer =
        tokio::spawn(async move { ask(&url, "POST", "/v1/messages", with_tools(true)).await });
    drop(model.asked().await);
    assert_eq!(answer.await.expect("no panic").0, 500);
}

#[tokio::test]
async fn a_test_that_fails_prints_what_differs_and_not_the_whole_request() {
    let mut model = ModelServer::start().await;
    let url = model.url().to_owned();
    let mut request = with_tools(false);
    let said = format!("{}the build is red{0}", "a long prompt ".repeat(20_000));
    request["messages"] = json!([{ "role": "user", "content": said }]);
    let asking = tokio::spawn(async move { ask(&url, "POST", "/v1/messages", request).await });
    let turn = model.asked().await;
    turn.assert_saw("the build is red");
    turn.assert_saw_once("the build is red");
    turn.assert_never_saw("the build is green");

    let fails: [&dyn Fn(); 4] = [
        &|| turn.assert_saw("the build is green"),
        &|| turn.assert_saw_once("a long prompt"),
        &|| turn.assert_never_saw("the build is red"),
        &|| panic!("{turn:?}"),
    ];
    let printed = fails.map(|fails| {
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(fails));
        *failed.expect_err("it fails").downcast::<String>().expect("a text")
    });
    for text in &printed {
        assert!(text.len() < 3_000, "{} bytes", text.len());
    }
    assert!(printed[0].contains("the build is green"), "{}", printed[0]);
    assert!(printed[1].contains("40000"), "{}", printed[1]);
    assert!(printed[2].contains("prompt the build is reda long"), "{}", printed[2]);
    turn.say("done");
    asking.await.expect("no panic");
}
