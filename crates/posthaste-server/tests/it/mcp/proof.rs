//! How the hub knows that a message arrived: through the real door.

use std::time::Duration;

use posthaste_core::Limits;
use posthaste_server::McpConfig;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::agent::{Agent, Era};
use crate::house::{House, Plan, request, send, until};

/// A later call proves at once.
fn at_once() -> Limits {
    Limits { proof_grace: Duration::ZERO, ..Limits::default() }
}

/// Only something stronger than a later call proves.
fn never() -> Limits {
    Limits { proof_grace: Duration::from_secs(3_600), ..Limits::default() }
}

#[tokio::test]
async fn a_later_call_proves_and_the_reader_is_told_which_until_that_is_proven_too() {
    for era in [Era::Old, Era::New] {
        let house = House::with(at_once()).await;
        let (bob, _) = house.agent("bob").await;
        let me = Agent::begin(&house, &bob, era, "test").await;
        let sent = send(&house.operator(), &bob.instance, "hello").await;
        assert_eq!(me.check(5.0).await.texts(), ["hello"]);
        assert_eq!(house.standing(sent.seq).await.state, "leased");

        me.call("whoami", json!({})).await;
        let standing = house.becomes(sent.seq, "acked").await;
        assert_eq!(standing.proof.as_deref(), Some("next_call"));

        let told = me.call("whoami", json!({})).await;
        assert_eq!(told.beside(), json!({ "settled": [sent.seq] }), "beside the answer");
        until("it is told no more", async || me.call("whoami", json!({})).await.blocks.len() == 1)
            .await;
    }
}

#[tokio::test]
async fn mail_that_came_along_is_proven_like_any_other() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    assert_eq!(me.call("whoami", json!({})).await.pending().len(), 1);
    me.check(0.0).await;
    let standing = house.becomes(sent.seq, "acked").await;
    assert_eq!(standing.proof.as_deref(), Some("next_call"));
}

#[tokio::test]
async fn a_failing_call_is_a_later_call_as_well() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    me.check(5.0).await;
    assert!(me.call("check_inbox", json!({ "timeout": 9_999 })).await.is_error);
    house.becomes(sent.seq, "acked").await;
}

#[tokio::test]
async fn a_new_process_gets_again_marked_what_the_old_one_did_not_prove() {
    for era in [Era::Old, Era::New] {
        let house = House::with(at_once()).await;
        let (bob, _) = house.agent("bob").await;
        let before = Agent::begin(&house, &bob, era, "test").await;
        let sent = send(&house.operator(), &bob.instance, "hello").await;
        assert_eq!(before.check(5.0).await.mail(), [(sent.seq, "hello".to_owned(), false)]);
        drop(before);

        let after = Agent::begin(&house, &bob, era, "test").await;
        assert_eq!(after.check(5.0).await.mail(), [(sent.seq, "hello".to_owned(), true)]);
    }
}

#[tokio::test]
async fn a_new_bridge_is_a_new_process_whatever_it_says_first() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    let mut me = Agent::silent(&house, &bob.token, Era::Old, "test");
    me.more.push(("x-posthaste-bridge", "00000000000000aa".into()));
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    assert_eq!(me.check(5.0).await.mail(), [(sent.seq, "hello".to_owned(), false)]);
    // The same process may say hello at any time.
    me.hello().await;
    assert!(me.check(0.0).await.mail().is_empty());
    let again = send(&house.operator(), &bob.instance, "again").await;
    assert_eq!(me.check(5.0).await.texts(), ["again"]);

    let mut next = Agent::silent(&house, &bob.token, Era::Old, "test");
    next.more.push(("x-posthaste-bridge", "00000000000000bb".into()));
    let mail = next.check(5.0).await.mail();
    assert_eq!(mail, [(again.seq, "again".to_owned(), true)], "the first is proven by now");
}

#[tokio::test]
async fn a_cancel_before_the_answer_ends_the_wait_and_takes_nothing() {
    let house = House::with(never()).await;
    let (bob, _) = house.agent("bob").await;
    let me = std::sync::Arc::new(Agent::old(&house, &bob).await);
    let waiting = tokio::spawn({
        let me = std::sync::Arc::clone(&me);
        async move { me.call_as(77, "check_inbox", json!({ "timeout": 60 })).await }
    });
    house.waits(&bob.instance).await;
    me.cancel(77).await;
    let told = waiting.await.expect("no panic");
    assert_eq!((told.status().as_str(), told.mail().len()), ("call_again", 0));
    let sent = send(&house.operator(), &bob.instance, "later").await;
    assert_eq!(me.check(5.0).await.mail(), [(sent.seq, "later".to_owned(), false)]);
}

#[tokio::test]
async fn a_cancel_after_the_answer_brings_the_mail_again_once_marked() {
    let house = House::with(never()).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    let told = me.call_as(5, "check_inbox", json!({ "timeout": 5 })).await;
    assert_eq!(told.mail(), [(sent.seq, "hello".to_owned(), false)]);
    me.cancel(5).await;
    house.becomes(sent.seq, "queued").await;
    let told = me.call_as(6, "check_inbox", json!({ "timeout": 5 })).await;
    assert_eq!(told.mail(), [(sent.seq, "hello".to_owned(), true)]);
    // Some clients cancel every finished call: not twice.
    me.cancel(6).await;
    assert_eq!(house.standing(sent.seq).await.state, "leased");
}

#[tokio::test]
async fn a_client_that_cancels_every_finished_call_is_proven_all_the_same() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    for id in 10..40 {
        me.call_as(id, "check_inbox", json!({ "timeout": 0 })).await;
        me.cancel(id).await;
    }
    let standing = house.becomes(sent.seq, "acked").await;
    assert_eq!(standing.proof.as_deref(), Some("next_call"));
}

#[tokio::test]
async fn a_cancel_of_a_stranger_or_of_nothing_does_nothing() {
    let house = House::with(never()).await;
    let (bob, _) = house.agent("bob").await;
    let (eve, _) = house.agent("eve").await;
    let (me, other) = (Agent::old(&house, &bob).await, Agent::old(&house, &eve).await);
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    me.call_as(5, "check_inbox", json!({ "timeout": 5 })).await;
    other.cancel(5).await;
    me.cancel(999).await;
    let again = Agent::old(&house, &eve).await;
    again.cancel(5).await;
    assert_eq!(house.standing(sent.seq).await.state, "leased");
}

#[tokio::test]
async fn a_repeated_call_is_no_later_call_and_gets_its_mail_again() {
    for by_tool in [false, true] {
        let house = House::with(at_once()).await;
        let (bob, _) = house.agent("bob").await;
        let me = Agent::old(&house, &bob).await;
        let sent = send(&house.operator(), &bob.instance, "hello").await;
        let call = |id: u64| {
            let meta = match by_tool {
                true => json!({ "claudecode/toolUseId": "toolu_1" }),
                false => json!({}),
            };
            let params =
                json!({ "name": "check_inbox", "arguments": { "timeout": 5 }, "_meta": meta });
            me.call_with(if by_tool { id } else { 5 }, params)
        };
        assert_eq!(call(5).await.mail(), [(sent.seq, "hello".to_owned(), false)]);
        assert_eq!(call(6).await.mail(), [(sent.seq, "hello".to_owned(), true)], "{by_tool}");
    }
}

#[tokio::test]
async fn a_client_without_a_label_may_use_the_same_number_for_every_call() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::silent(&house, &bob.token, Era::Old, "curl");
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    let arguments = json!({ "timeout": 0 });
    let told = me.call_as(1, "check_inbox", arguments.clone()).await;
    assert_eq!(told.texts(), ["hello"]);
    assert!(me.call_as(1, "check_inbox", arguments.clone()).await.mail().is_empty());
    house.becomes(sent.seq, "acked").await;
}

#[tokio::test]
async fn a_repeated_send_is_the_same_message() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    // Through a bridge, whose numbers never come twice by chance.
    let mut me = Agent::silent(&house, &alice.token, Era::Old, "test");
    me.more.push(("x-posthaste-bridge", "00000000000000aa".into()));
    let arguments = json!({ "to": bob.instance, "message": "once" });
    let first = me.call_as(9, "send_message", arguments.clone()).await.json();
    let again = me.call_as(9, "send_message", arguments.clone()).await.json();
    assert_eq!((&first["id"], &again["duplicate"]), (&again["id"], &json!(true)));
    let other = me.call_as(10, "send_message", arguments.clone()).await.json();
    assert_ne!(other["id"], first["id"], "said twice on purpose");
    // By the name that the model's own call has.
    let params = json!({
        "name": "send_message", "arguments": arguments,
        "_meta": { "claudecode/toolUseId": "toolu_7" },
    });
    let third = me.call_with(11, params.clone()).await.json();
    assert_eq!(me.call_with(12, params).await.json()["id"], third["id"]);
    assert_eq!(crate::house::read(&as_bob).await.messages.len(), 3);
}

#[tokio::test]
async fn a_repeated_send_with_a_long_number_is_the_same_message() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let mut me = Agent::silent(&house, &alice.token, Era::Old, "test");
    me.more.push(("x-posthaste-bridge", "00000000000000aa".into()));
    for _ in 0..2 {
        let answer = me
            .post(json!({
                "jsonrpc": "2.0", "id": "n".repeat(300), "method": "tools/call",
                "params": {
                    "name": "send_message",
                    "arguments": { "to": bob.instance, "message": "once" },
                },
            }))
            .await;
        assert_eq!(answer.status(), 200);
    }
    assert_eq!(crate::house::read(&as_bob).await.messages.len(), 1);
}

#[tokio::test]
async fn bytes_behind_a_request_do_not_hide_that_its_client_has_gone() {
    for behind in ["\r\n", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let house = House::with(at_once()).await;
        let (bob, _) = house.agent("bob").await;
        let me = Agent::old(&house, &bob).await;
        let mut socket = house.dial().await;
        let call = text_of_call(&bob.token, &json!({ "timeout": 60 }));
        socket.write_all(call.as_bytes()).await.expect("sent");
        socket.write_all(behind.as_bytes()).await.expect("sent");
        house.waits(&bob.instance).await;
        drop(socket);
        // The hang-up has no event here; what matters is what becomes of the mail.
        let sent = send(&house.operator(), &bob.instance, "anybody?").await;
        house.waits_no_more(&bob.instance).await;
        until("it goes back", async || house.standing(sent.seq).await.state == "queued").await;
        assert_eq!(me.check(5.0).await.texts(), ["anybody?"], "{behind:?}");
    }
}

#[tokio::test]
async fn an_id_counts_as_told_only_by_an_answer_that_shows_it() {
    let brief = Duration::from_millis(50);
    let mcp = McpConfig { patience: brief, ..McpConfig::default() };
    let house = House::with(Plan { mcp, limits: at_once(), ..Plan::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    me.check(5.0).await;
    me.call("whoami", json!({})).await;
    house.becomes(sent.seq, "acked").await;
    let asked = me.call("ask_user", json!({ "question": "well?" })).await.json();
    assert_eq!(asked["settled"], json!([sent.seq]), "{asked}");
}

#[tokio::test]
async fn a_script_that_numbers_every_request_alike_sends_each_of_them() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let me = Agent::old(&house, &alice).await;
    for text in ["ping", "ping", "pong"] {
        let arguments = json!({ "to": bob.instance, "message": text });
        assert!(!me.call_as(1, "send_message", arguments).await.is_error);
    }
    assert_eq!(crate::house::read(&as_bob).await.messages.len(), 3);
}

#[tokio::test]
async fn two_windows_of_one_identity_do_not_prove_each_others_mail() {
    let house = House::with(at_once()).await;
    let (bob, _) = house.agent("bob").await;
    let first = Agent::old(&house, &bob).await;
    let stream = first.listen().await;
    let second = Agent::old(&house, &bob).await;
    let sent = send(&house.operator(), &bob.instance, "hello").await;
    assert_eq!(second.check(5.0).await.texts(), ["hello"]);
    for _ in 0..5 {
        first.call("whoami", json!({})).await;
        second.call("whoami", json!({})).await;
    }
    assert_eq!(house.standing(sent.seq).await.state, "leased", "only strong proof counts");

    // Once the first has gone, the second is alone again.
    drop(stream);
    let next = send(&house.operator(), &bob.instance, "alone").await;
    until("its mail is proven", async || {
        second.check(0.0).await;
        house.standing(next.seq).await.state == "acked"
    })
    .await;
    assert_eq!(house.standing(sent.seq).await.state, "leased", "that was given in company");
}

#[tokio::test]
async fn two_calls_at_the_same_time_never_get_the_same_message() {
    let house = House::with(never()).await;
    let (bob, _) = house.agent("bob").await;
    let me = std::sync::Arc::new(Agent::old(&house, &bob).await);
    for round in 0..20 {
        let calls: Vec<_> = (0..2)
            .map(|_| {
                let me = std::sync::Arc::clone(&me);
                tokio::spawn(async move { me.check(10.0).await })
            })
            .collect();
        house.waits(&bob.instance).await;
        let mut seqs = Vec::new();
        for n in 0..2 {
            seqs.push(send(&house.operator(), &bob.instance, &format!("{round} {n}")).await.seq);
        }
        let mut got = Vec::new();
        for call in calls {
            got.extend(call.await.expect("no panic").mail());
            if got.len() < 2 {
                got.extend(me.check(0.0).await.mail());
            }
            if got.len() == 2 {
                // The other waits in vain: let it go.
                send(&house.operator(), &bob.instance, "done").await;
            }
        }
        let mut ids: Vec<u64> =
            got.iter().map(|(id, ..)| *id).filter(|id| seqs.contains(id)).collect();
        ids.sort_unstable();
        assert_eq!(ids, seqs);
        assert!(got.iter().all(|(.., marked)| !marked));
        while !me.check(0.0).await.mail().is_empty() {}
    }
}

/// The text of a call, as a client that hangs up sends it.
fn text_of_call(token: &str, arguments: &serde_json::Value) -> String {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "check_inbox", "arguments": arguments, "_meta": { "progressToken": 1 } },
    });
    let headers =
        [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    request("POST /mcp", Some(token), &headers, &body.to_string())
}

#[tokio::test]
async fn a_client_that_dies_in_mid_wait_takes_nothing_before_and_after_progress() {
    for heard_progress in [false, true] {
        let every = Duration::from_millis(if heard_progress { 20 } else { 60_000 });
        let config = McpConfig { progress_every: every, ..McpConfig::default() };
        let house = House::with(Plan { mcp: config, limits: never(), ..Plan::default() }).await;
        let (bob, _) = house.agent("bob").await;
        let me = Agent::old(&house, &bob).await;
        let mut socket = house.dial().await;
        let call = text_of_call(&bob.token, &json!({ "timeout": 60 }));
        socket.write_all(call.as_bytes()).await.expect("sent");
        house.waits(&bob.instance).await;
        if heard_progress {
            let mut some = [0; 300];
            socket.read_exact(&mut some).await.expect("progress");
            assert!(String::from_utf8_lossy(&some).contains("notifications/progress"));
        }
        drop(socket);
        house.waits_no_more(&bob.instance).await;
        let sent = send(&house.operator(), &bob.instance, "still here?").await;
        assert_eq!(me.check(5.0).await.mail(), [(sent.seq, "still here?".to_owned(), false)]);
    }
}

#[tokio::test]
async fn a_client_that_dies_on_the_long_way_takes_nothing() {
    let house = House::with(never()).await;
    let (bob, _) = house.agent("bob").await;
    let me = Agent::old(&house, &bob).await;
    let mut socket = house.dial().await;
    let call = text_of_call(&bob.token, &json!({ "timeout": 60 }));
    let call = call.replacen("\r\n", "\r\nMcp-Param-X: 1\r\n", 1);
    socket.write_all(call.as_bytes()).await.expect("sent");
    house.waits(&bob.instance).await;
    drop(socket);
    house.waits_no_more(&bob.instance).await;
    let sent = send(&house.operator(), &bob.instance, "still here?").await;
    assert_eq!(me.check(5.0).await.mail(), [(sent.seq, "still here?".to_owned(), false)]);
}

#[tokio::test]
async fn an_answer_that_was_not_written_comes_again_marked() {
    for stream in [false, true] {
        let every = Duration::from_millis(if stream { 10 } else { 60_000 });
        let config =
            McpConfig { progress_every: every, answer_chars: 8 << 20, ..McpConfig::default() };
        let house = House::with(Plan { mcp: config, limits: at_once(), ..Plan::default() }).await;
        let (bob, _) = house.agent("bob").await;
        let me = Agent::old(&house, &bob).await;
        let large = "x".repeat(1 << 20);
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let mut socket = socket.connect(house.address).await.expect("the door is open");
        let call = text_of_call(&bob.token, &json!({ "timeout": 60, "wait_for": 4 }));
        socket.write_all(call.as_bytes()).await.expect("sent");
        house.waits(&bob.instance).await;
        if stream {
            let mut some = [0; 100];
            socket.read_exact(&mut some).await.expect("progress");
        }
        let mut seqs = Vec::new();
        for _ in 0..4 {
            let (_, sender) = house.agent("sender").await;
            seqs.push(send(&sender, &bob.instance, &large).await.seq);
        }
        for seq in &seqs {
            house.becomes(*seq, "leased").await;
        }
        drop(socket);
        for seq in &seqs {
            assert!(house.becomes(*seq, "queued").await.redelivered, "stream: {stream}");
        }
        let again = me.check(5.0).await.mail();
        assert_eq!(again.len(), 4);
        assert!(again.iter().all(|(.., marked)| *marked));
    }
}
