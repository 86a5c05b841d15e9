//! The end of a hub, seen from outside.

use std::time::Duration;

use posthaste_api::client::ClientError;
use posthaste_api::inbox::InboxQuery;
use posthaste_core::messaging::message::{MessageRef, Principal, Seq};
use posthaste_server::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use crate::house::{House, OPERATOR, now, read_reply, request, send, until, wait, within};

/// Asks the hub to stop and waits until its door is closed.
async fn stop(house: &mut House) {
    house.shutdown.cancel();
    let served = within("the door closes", &mut house.served).await;
    served.expect("no panic").expect("a clean end");
}

#[tokio::test]
async fn stopping_ends_long_polls_politely() {
    let mut house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let (carol, as_carol) = house.agent("carol").await;
    let (dave, _) = house.agent("dave").await;
    let gather = InboxQuery { wait_for: Some("3".into()), ..wait(600.0) };
    let open = [
        tokio::spawn(async move { as_bob.inbox(&wait(600.0)).await }),
        tokio::spawn(async move { as_carol.inbox(&gather).await }),
    ];
    let call = format!("GET /terminals/{}/inbox/messages/wait?timeout=600", dave.instance);
    let mut cao = house.dial().await;
    cao.write_all(request(&call, Some(OPERATOR), &[], "").as_bytes()).await.expect("sent");
    for waiting in [&bob, &carol, &dave] {
        house.waits(&waiting.instance).await;
    }

    stop(&mut house).await;

    for call in open {
        let inbox = within("a long poll", call).await.expect("no panic").expect("a good answer");
        assert_eq!((inbox.total, &*inbox.status), (0, "call_again"));
    }
    let reply = read_reply(&mut cao).await.expect("an answer");
    assert_eq!((reply.status, reply.json()), (200, serde_json::json!([])));
    assert!(reply.head.contains("connection: close"), "{}", reply.head);
}

#[tokio::test]
async fn after_a_stop_the_port_is_free_and_the_store_closes() {
    let mut house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    send(&house.operator(), &bob.instance, "kept").await;
    as_bob.inbox(&now()).await.expect("an answer");

    stop(&mut house).await;

    let refused = as_bob.inbox(&now()).await;
    assert!(matches!(refused, Err(ClientError::Unreachable { .. })), "{refused:?}");
    within("the hub closes", house.hub.close()).await.expect("a clean end");
    TcpListener::bind(house.address).await.expect("the port is free");
}

#[tokio::test]
async fn stopping_lets_a_begun_request_finish() {
    let mut house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    let body = format!(r#"{{"to": "{}", "message": "just in time"}}"#, bob.instance);
    let whole = request("POST /v1/messages", Some(OPERATOR), &[], &body);
    let (first, last) = whole.split_at(whole.len() - 5);
    let mut socket = house.dial().await;
    socket.write_all(first.as_bytes()).await.expect("sent");
    // The head has arrived when a request behind it on the loop was answered.
    house.operator().health().await.expect("alive");

    house.shutdown.cancel();
    until("the door is closed", async || house.stranger().health().await.is_err()).await;
    socket.write_all(last.as_bytes()).await.expect("sent");

    let reply = read_reply(&mut socket).await.expect("an answer");
    assert_eq!(reply.status, 201);
    let seq = Seq(reply.json()["seq"].as_u64().expect("a number"));
    stop(&mut house).await;
    let kept = house.hub.message(Principal::Operator, MessageRef::Seq(seq)).await;
    let kept = kept.expect("readable").expect("kept");
    assert_eq!(kept.message.body, "just in time");
}

#[tokio::test]
async fn stopping_hangs_up_on_idle_connections() {
    let mut house = House::new().await;
    let mut silent = house.dial().await;
    let mut idle = house.dial().await;
    idle.write_all(request("GET /health", None, &[], "").as_bytes()).await.expect("sent");
    read_reply(&mut idle).await.expect("an answer");

    stop(&mut house).await;

    for socket in [&mut silent, &mut idle] {
        let mut rest = Vec::new();
        let _ = within("hung up", socket.read_to_end(&mut rest)).await;
        assert!(rest.is_empty());
    }
}

#[tokio::test]
async fn one_that_does_not_take_its_answer_is_cut_off_and_its_mail_goes_back() {
    let grace = Duration::from_millis(100);
    let mut house =
        House::with(ServerConfig { shutdown_grace: grace, ..ServerConfig::default() }).await;
    let (bob, _) = house.agent("bob").await;
    let mut last = 0;
    for _ in 0..4 {
        last = send(&house.operator(), &bob.instance, &"x".repeat(1 << 20)).await.seq;
    }
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut socket = socket.connect(house.address).await.expect("the door is open");
    let text = request("GET /v1/inbox?timeout=0", Some(&bob.token), &[], "");
    socket.write_all(text.as_bytes()).await.expect("sent");
    house.becomes(last, "leased").await;

    stop(&mut house).await;

    let which = MessageRef::Seq(Seq(last));
    let record = house.hub.message(Principal::Operator, which).await.expect("readable");
    let delivery = record.expect("kept").deliveries.remove(0);
    assert_eq!((delivery.state.as_str(), delivery.marked), ("queued", true));
    let mut rest = Vec::new();
    let _ = within("cut off", socket.read_to_end(&mut rest)).await;
    assert!(rest.len() < 4 << 20, "{} bytes", rest.len());
    within("the hub closes", house.hub.close()).await.expect("a clean end");
}
