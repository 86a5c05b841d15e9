//! Too much of a good thing.

use posthaste_api::ErrorCode;
use posthaste_api::messages::SendRequest;
use posthaste_core::Limits;
use posthaste_server::ServerConfig;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::house::{
    House, OPERATOR, by_ids, read, read_reply, receipt_of, refusal, request, send, texts,
};

#[tokio::test]
async fn a_message_has_a_largest_size_and_the_error_says_which() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let just_fits = "é".repeat(512 << 10);
    send(&house.operator(), &bob.instance, &just_fits).await;

    let over = SendRequest::new(bob.instance.clone(), format!("{just_fits}!"));
    let error = refusal(house.operator().send(&over).await);

    assert_eq!((error.code, error.code.status()), (ErrorCode::TooLarge, 413));
    assert_eq!(
        error.details.as_deref(),
        Some(&json!({"limit": 1_048_576, "key": "limits.body_bytes"}))
    );
    assert!(error.hint.as_deref().is_some_and(|h| h.contains("limits.body_bytes")), "{error:?}");
    let inbox = read(&as_bob).await;
    assert_eq!((inbox.total, inbox.messages[0].message == just_fits), (1, true));
}

#[tokio::test]
async fn metadata_has_a_largest_size_too() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    let with = |n: usize| SendRequest {
        metadata: json!({"k": "x".repeat(n)}).as_object().cloned(),
        ..SendRequest::new("bob", "hello")
    };

    // `{"k":"…"}` is eight bytes around the text.
    house.operator().send(&with(4096 - 8)).await.expect("just fits");
    let error = refusal(house.operator().send(&with(4096 - 7)).await);

    assert_eq!(error.code, ErrorCode::TooLarge);
    assert_eq!(
        error.details.as_deref(),
        Some(&json!({"limit": 4096, "key": "limits.metadata_bytes"}))
    );
    assert_eq!(read(&as_bob).await.total, 1);
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn a_request_has_a_largest_size_whether_announced_or_not() {
    let server = ServerConfig { request_bytes: 1000, ..ServerConfig::default() };
    let house = House::with(server).await;
    house.agent("bob").await;
    let padded = |n: usize| {
        let around = json!({"to": "bob", "message": ""}).to_string().len();
        json!({"to": "bob", "message": "x".repeat(n - around)}).to_string()
    };

    let (status, _) = house.call("POST /v1/messages", Some(OPERATOR), &padded(1000)).await;
    assert_eq!(status, 201);
    let announced = request("POST /v1/messages", Some(OPERATOR), &[], &padded(1001));
    let chunked =
        request("POST /v1/messages", Some(OPERATOR), &[("Transfer-Encoding", "chunked")], "");
    let body = padded(1001);
    let chunked = format!("{chunked}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for text in [announced, chunked] {
        let (status, answer) = house.raw(text).await;
        assert_eq!((status, &answer["error"]["code"]), (413, &json!("too_large")), "{answer}");
        let details = &answer["error"]["details"];
        assert_eq!(*details, json!({"limit": 1000, "key": "server.request_bytes"}));
    }
}

#[tokio::test]
async fn a_request_of_very_many_values_is_refused_before_they_are_read() {
    let server = ServerConfig { request_values: 1_000, ..ServerConfig::default() };
    let house = House::with(server).await;
    let (bob, as_bob) = house.agent("bob").await;
    let list = vec![0; 1_000];
    let text = "[0,".repeat(10_000);
    let tool = |arguments: Value| {
        let params = json!({"name": "send_message", "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    };
    for (call, body) in [
        ("POST /v1/messages", json!({"to": "bob", "message": "x", "metadata": {"a": list}})),
        ("POST /v1/messages", json!({"to": list, "message": "x"})),
        ("POST /v1/profiles", json!({"name": "ann", "config": {"a": list}})),
        ("POST /v1/hooks/stop", json!({"unknown": list})),
        ("POST /mcp", tool(json!({"to": list, "message": "x"}))),
    ] {
        let token = if call.contains("hooks") { &bob.token } else { OPERATOR };
        let (status, answer) = house.call(call, Some(token), &body.to_string()).await;
        assert_eq!((status, &answer["error"]["code"]), (413, &json!("too_large")), "{call}");
        let details = &answer["error"]["details"];
        assert_eq!(*details, json!({"limit": 1_000, "key": "server.request_values"}), "{call}");
    }
    house.operator().send(&SendRequest::new("bob", text)).await.expect("a text is one value");
    assert_eq!(read(&as_bob).await.total, 1, "and nothing else was done");
}

#[tokio::test]
async fn a_hundred_mebibytes_are_refused_before_they_are_sent() {
    let house = House::new().await;
    let head = |length: usize, more: &str| {
        format!(
            "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPERATOR}\r\n\
             Content-Length: {length}\r\n{more}\r\n"
        )
    };

    // Only the head is sent, and the answer comes at once all the same.
    for more in ["", "Expect: 100-continue\r\n"] {
        let (status, answer) = house.raw(head(100 << 20, more)).await;
        assert_eq!((status, &answer["error"]["code"]), (413, &json!("too_large")), "{answer}");
    }

    // One that does not listen while it sends is heard out for a while, and then stopped.
    let mut socket = house.dial().await;
    let (mut from, mut to) = socket.split();
    to.write_all(head(200 << 20, "").as_bytes()).await.expect("sent");
    let mut sent = 0_usize;
    let block = vec![b'x'; 1 << 20];
    while sent < 200 << 20 && to.write_all(&block).await.is_ok() {
        sent += block.len();
    }
    assert!(sent < 100 << 20, "it took {sent} bytes");
    let mut rest = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut from, &mut rest).await;
    drop(socket);
    assert_eq!(house.operator().health().await.expect("alive").status, "ok");
}

/// Most clients write the whole request before they look at the answer.
#[tokio::test]
async fn whoever_sends_everything_first_still_hears_why_it_was_refused() {
    let server = ServerConfig { request_bytes: 1 << 20, ..ServerConfig::default() };
    let house = House::with(server).await;
    let body = json!({"to": "bob", "message": "x".repeat(20 << 20)}).to_string();
    let chunked = [("Transfer-Encoding", "chunked")];
    let post = |call: &str, token: &str| request(call, Some(token), &[], &body);
    let cases = [
        (post("POST /v1/messages", OPERATOR), 413),
        (post("POST /v1/inbox/ack", OPERATOR), 413),
        (post("POST /mcp", OPERATOR), 413),
        (post("POST /terminals/00000000/inbox/messages", OPERATOR), 413),
        (post("POST /v1/messages", "nobody"), 401),
        (post("POST /v1/inbox/ack", "nobody"), 401),
        (post("PUT /v1/nowhere", OPERATOR), 404),
        (post("PUT /v1/messages", OPERATOR), 405),
        (
            request("POST /v1/messages", Some(OPERATOR), &chunked, "")
                + &format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
            413,
        ),
    ];
    for (text, expected) in cases {
        let call = text.lines().next().expect("a line");
        let mut socket = house.dial().await;
        socket.write_all(text.as_bytes()).await.unwrap_or_else(|e| panic!("{call}: {e}"));
        let reply = read_reply(&mut socket).await.unwrap_or_else(|| panic!("{call}: no answer"));
        assert_eq!(reply.status, expected, "{call}");
        // And the connection goes on.
        socket.write_all(request("GET /health", None, &[], "").as_bytes()).await.expect("sent");
        assert_eq!(read_reply(&mut socket).await.expect("an answer").status, 200, "{call}");
    }
    let told = refusal(house.operator().send(&SendRequest::new("bob", &*body)).await);
    assert_eq!(told.code, ErrorCode::TooLarge, "our own client hears it, too");
}

#[tokio::test]
async fn no_more_is_settled_at_a_time_than_one_answer_holds() {
    let house = House::with(Limits { answer_messages: 3, ..Limits::default() }).await;
    let (bob, as_bob) = house.agent("bob").await;
    let mut seqs = Vec::new();
    for _ in 0..4 {
        seqs.push(send(&house.operator(), &bob.instance, "x").await.seq);
    }
    assert_eq!((read(&as_bob).await.total, read(&as_bob).await.total), (3, 1));

    for error in
        [refusal(as_bob.ack(&by_ids(&seqs)).await), refusal(as_bob.nack(&by_ids(&seqs)).await)]
    {
        assert_eq!((error.code, error.code.status()), (ErrorCode::InvalidArgument, 422));
        assert!(error.message.contains("limits.answer_messages"), "{}", error.message);
    }

    assert_eq!(house.instance(&bob.instance).await.unread, 4, "and none was settled");
    assert_eq!(as_bob.ack(&by_ids(&seqs[..3])).await.expect("acked").acked, 3);
    assert_eq!(as_bob.ack(&by_ids(&[])).await.expect("nothing to do").acked, 0);
}

#[tokio::test]
async fn a_large_query_is_read_and_a_huge_head_is_refused() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    send(&house.operator(), "bob", "hello").await;
    let call = |n: usize| format!("GET /v1/inbox?timeout=0&label={}", "x".repeat(n));

    assert_eq!(house.call(&call(20_000), Some(OPERATOR), "").await.0, 200);
    let (status, _) = house.raw(request(&call(70_000), Some(OPERATOR), &[], "")).await;
    assert_eq!(status, 414);
    let lines = [("X-Padding", "y".repeat(60_000)), ("X-More", "y".repeat(60_000))];
    let lines = lines.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut socket = house.dial().await;
    let text = request("GET /health", None, &lines, "");
    let _ = socket.write_all(text.as_bytes()).await;
    let status = read_reply(&mut socket).await.map(|reply| reply.status);
    assert!(matches!(status, Some(431) | None), "{status:?}");

    assert_eq!(texts(&read(&as_bob).await), ["hello"]);
}

#[tokio::test]
async fn a_full_mailbox_is_429_but_results_and_answers_always_fit() {
    let limits = Limits { mailbox_messages: 2, mailbox_bytes: 100, ..Limits::default() };
    let house = House::with(limits).await;
    let (bob, as_bob) = house.agent("bob").await;
    let message = |kind: &str, text: &str| SendRequest {
        kind: Some(kind.into()),
        ..SendRequest::new(bob.instance.clone(), text)
    };
    let operator = house.operator();
    operator.send(&message("text", "1")).await.expect("fits");
    let large = refusal(operator.send(&message("text", &"x".repeat(100))).await);
    assert_eq!(large.code, ErrorCode::MailboxFull, "one byte too many");
    operator.send(&message("text", "2")).await.expect("fits");

    let error = refusal(operator.send(&message("text", "3")).await);

    assert_eq!((error.code, error.code.status()), (ErrorCode::MailboxFull, 429));
    let details = error.details.as_ref().expect("the limits");
    assert_eq!(details["limits.mailbox_messages"], 2);
    assert_eq!(details["limits.mailbox_bytes"], 100);
    assert!(error.hint.is_some());
    operator.send(&message("result", &"r".repeat(200))).await.expect("a result fits");
    operator.send(&message("answer", "a")).await.expect("an answer fits");

    let inbox = read(&as_bob).await;
    assert_eq!(inbox.total, 4);
    let still = refusal(operator.send(&message("text", "3")).await);
    assert_eq!(still.code, ErrorCode::MailboxFull, "what is held is not yet read");
    as_bob.ack(&receipt_of(&inbox)).await.expect("acked");
    operator.send(&message("text", "3")).await.expect("there is room again");
}
