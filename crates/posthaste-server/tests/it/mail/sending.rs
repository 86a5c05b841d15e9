//! What a sender is told.

use std::time::Duration;

use posthaste_api::ErrorCode;
use posthaste_api::instances::Joined;
use posthaste_api::messages::{MessageRef, SendOutcome, SendRequest, To};
use posthaste_core::Limits;
use posthaste_core::messaging::message::{Body, Principal};
use posthaste_core::messaging::receive::Ask;
use serde_json::{Value, json};

use crate::house::{House, OPERATOR, now, read, refusal, send, texts, wait, within};
use crate::mcp::agent::Agent;

#[tokio::test]
async fn the_sender_is_whoever_holds_the_token() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;

    send(&as_alice, &bob.instance, "from a colleague").await;
    send(&house.operator(), &bob.instance, "from above").await;

    let mail = read(&as_bob).await.messages;
    let who = |i: usize| (&*mail[i].from, &*mail[i].sender_id, &*mail[i].relation);
    assert_eq!(who(0), (&*alice.address, &*alice.instance, "peer"));
    assert_eq!(who(1), ("human", "human", "human"));
}

#[tokio::test]
async fn a_receipt_tells_what_was_accepted_and_who_is_there() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, _) = house.agent("bob").await;

    let receipt = send(&as_alice, &bob.address, "hello").await;

    let record = house.record(receipt.seq).await;
    assert_eq!(record.id, receipt.id);
    assert!(receipt.id.len() == 16 && receipt.id.bytes().all(|b| b.is_ascii_hexdigit()));
    assert_eq!(receipt.thread_id, alice.thread_id);
    assert_eq!((receipt.duplicate, receipt.durable), (false, false), "new, and kept in memory");
    assert!(receipt.skipped.is_empty());
    let [to] = receipt.recipients.as_slice() else { panic!("{:?}", receipt.recipients) };
    assert_eq!((&*to.mailbox, to.active, to.waiting), (&*format!("i.{}", bob.instance), 1, 0));
}

#[tokio::test]
async fn an_accepted_message_is_answered_with_201_and_numbers_grow() {
    let house = House::new().await;
    let (alice, _) = house.agent("alice").await;
    let body = json!({"to": alice.instance, "message": "one"}).to_string();

    let (first, one) = house.call("POST /v1/messages", Some(OPERATOR), &body).await;
    let (second, two) = house.call("POST /v1/messages", Some(OPERATOR), &body).await;

    assert_eq!((first, second), (201, 201));
    assert!(two["seq"].as_u64() > one["seq"].as_u64(), "{one} {two}");
    assert_ne!(one["id"], two["id"], "the same words are another message");
}

#[tokio::test]
async fn a_list_is_answered_each_in_order_and_one_failure_stops_nobody() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (_, as_bob) = house.agent("bob").await;
    let (_, as_carol) = house.agent("carol").await;

    let list = ["bob", "bbo", "@carol", "carol"].map(str::to_owned).to_vec();
    let request = SendRequest { to: To::Many(list.clone()), ..SendRequest::new("", "all of you") };
    let results = as_alice.send_many(&request).await.expect("an answer each").results;

    let told: Vec<(&str, u16)> = results.iter().map(|r| (&*r.to, r.status)).collect();
    assert_eq!(told, [("bob", 201), ("bbo", 404), ("@carol", 422), ("carol", 201)]);
    let code = |i: usize| match &results[i].outcome {
        SendOutcome::Refused { error } => Some(error.code),
        SendOutcome::Accepted(_) => None,
    };
    assert_eq!(
        [0, 1, 2, 3].map(code),
        [None, Some(ErrorCode::NoRecipient), Some(ErrorCode::InvalidAddress), None]
    );
    assert_eq!(texts(&read(&as_bob).await), ["all of you"]);
    assert_eq!(texts(&read(&as_carol).await), ["all of you"]);

    let body = json!({"to": list, "message": "again"}).to_string();
    let (status, _) = house.call("POST /v1/messages", Some(OPERATOR), &body).await;
    assert_eq!(status, 207);
}

#[tokio::test]
async fn a_list_of_one_is_a_list_and_none_or_too_many_are_refused() {
    let house = House::new().await;
    let (_, as_bob) = house.agent("bob").await;
    let many = |to: Vec<String>| json!({"to": to, "message": "hello"}).to_string();
    let send = async |to| house.call("POST /v1/messages", Some(OPERATOR), &many(to)).await;

    assert_eq!(send(vec!["bob".into()]).await.0, 207);
    assert_eq!(send(vec!["bob".into(); 100]).await.0, 207);
    for (status, error) in [send(vec![]).await, send(vec!["bob".into(); 101]).await] {
        assert_eq!((status, &error["error"]["details"]["field"]), (422, &json!("to")), "{error}");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains("limits.recipients"), "{message}");
    }
    // None of the refused was kept.
    assert_eq!(texts(&read(&as_bob).await), ["hello"; 101]);
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn everything_a_sender_adds_reaches_the_reader() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let question = send(&as_bob, &alice.instance, "how is it going?").await;
    let metadata = json!({"tries": 3, "nested": {"list": [1, null, "é"]}, "": true});

    let request = SendRequest {
        priority: Some("urgent".into()),
        kind: Some("progress".into()),
        label: Some("step 2 of 3".into()),
        thread_id: Some(bob.thread_id.clone()),
        in_reply_to: Some(MessageRef::Text(question.id.to_string())),
        metadata: metadata.as_object().cloned(),
        ttl_s: Some(3600),
        ..SendRequest::new(bob.address.clone(), "half done")
    };
    let sent = as_alice.send(&request).await.expect("accepted");

    let inbox = read(&as_bob).await;
    let [entry] = inbox.messages.as_slice() else { panic!("{inbox:?}") };
    assert_eq!((entry.id, &*entry.uid), (sent.seq, &*sent.id));
    assert_eq!((&*entry.message, &*entry.to), ("half done", &*bob.address));
    assert_eq!((entry.urgent, &*entry.kind), (true, "progress"));
    assert_eq!(entry.label.as_deref(), Some("step 2 of 3"));
    assert_eq!((&*entry.thread_id, &*sent.thread_id), (&*bob.thread_id, &*bob.thread_id));
    assert_eq!(entry.in_reply_to, Some(question.seq));
    let got = entry.metadata.as_deref().expect("metadata").get();
    assert_eq!(serde_json::from_str::<Value>(got).expect("JSON"), metadata);
    assert!(!entry.redelivered && !entry.truncated);

    let record = house.record(sent.seq).await;
    assert_eq!((&*record.priority, &*record.via), ("urgent", "rest"));
    assert_eq!(Value::Object(record.metadata), metadata);
    assert_eq!(record.created_at, entry.created_at);
    let expires = record.expires_at.expect("a time of death");
    assert!(expires > record.created_at, "{expires}");
}

#[tokio::test]
async fn a_plain_message_has_no_ornaments() {
    let house = House::new().await;
    let (bob, _) = house.agent("bob").await;
    send(&house.operator(), &bob.instance, "plain").await;

    let token = Some(bob.token.as_str());
    let (status, answer) = house.call("GET /v1/inbox?timeout=0", token, "").await;

    assert_eq!(status, 200);
    let entry = answer["messages"][0].as_object().expect("an entry");
    let mut names: Vec<&str> = entry.keys().map(String::as_str).collect();
    names.sort_unstable();
    let plain = [
        "created_at",
        "from",
        "id",
        "message",
        "relation",
        "sender_id",
        "seq",
        "thread_id",
        "to",
        "type",
        "uid",
        "via",
    ];
    assert_eq!(names, plain);
}

#[tokio::test]
async fn a_reply_stays_in_the_thread_that_it_answers() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let question = send(&as_alice, &bob.instance, "why?").await;
    let answer = |thread: Option<&str>| SendRequest {
        in_reply_to: Some(MessageRef::Seq(question.seq)),
        thread_id: thread.map(str::to_owned),
        ..SendRequest::new(alice.instance.clone(), "because")
    };

    let there = as_bob.send(&answer(None)).await.expect("accepted");
    let elsewhere = as_bob.send(&answer(Some(&bob.thread_id))).await.expect("accepted");
    let afresh = send(&as_bob, &alice.instance, "by the way").await;

    assert_eq!(there.thread_id, alice.thread_id, "the thread of the question");
    assert_eq!(elsewhere.thread_id, bob.thread_id, "unless another is named");
    assert_eq!(afresh.thread_id, bob.thread_id, "else one's own");
    let from_above = send(&house.operator(), &bob.instance, "well?").await;
    assert_eq!(from_above.thread_id, bob.thread_id, "the operator writes into the agent's thread");
}

#[tokio::test]
async fn a_message_that_nobody_reads_in_time_dies_and_says_why() {
    let limits = Limits { sweep: Duration::from_millis(100), ..Limits::default() };
    let house = House::with(limits).await;
    let (bob, as_bob) = house.agent("bob").await;
    let short = SendRequest { ttl_s: Some(1), ..SendRequest::new(bob.instance, "quickly!") };
    let sent = house.operator().send(&short).await.expect("accepted");

    let dead = house.becomes(sent.seq, "dead").await;

    assert_eq!(dead.reason.as_deref(), Some("expired"));
    assert!(!dead.maybe_seen, "nobody was ever handed it");
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn the_same_key_is_the_same_message() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let keyed = |to: &str, text: &str| SendRequest {
        idempotency_key: Some("job 7".into()),
        ..SendRequest::new(to, text)
    };

    let first = as_alice.send(&keyed("bob", "once")).await.expect("accepted");
    let again = as_alice.send(&keyed("bob", "once")).await.expect("known");
    assert_eq!((again.seq, &again.id, again.duplicate), (first.seq, &first.id, true));
    assert_eq!(again.thread_id, first.thread_id);
    assert_eq!(again.recipients, first.recipients);

    let other = refusal(as_alice.send(&keyed("bob", "twice")).await);
    assert_eq!((other.code, other.code.status()), (ErrorCode::KeyReused, 409));
    assert_eq!(other.details.as_deref(), Some(&json!({"seq": first.seq})));

    let elsewhere = as_alice.send(&keyed(&bob.instance, "once")).await.expect("another recipient");
    let by_another = house.operator().send(&keyed("bob", "once")).await.expect("another sender");
    assert!(!elsewhere.duplicate && !by_another.duplicate);

    let mut got = Vec::new();
    loop {
        let inbox = read(&as_bob).await;
        if inbox.messages.is_empty() {
            break;
        }
        got.extend(inbox.messages.iter().map(|m| m.id));
    }
    got.sort_unstable();
    assert_eq!(got, [first.seq, elsewhere.seq, by_another.seq]);
}

#[tokio::test]
async fn of_many_at_once_with_the_same_key_one_is_new() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let request =
        SendRequest { idempotency_key: Some("k".into()), ..SendRequest::new(bob.instance, "once") };

    let sends: Vec<_> = (0..20)
        .map(|_| {
            let (client, request) = (house.operator(), request.clone());
            tokio::spawn(async move { client.send(&request).await.expect("accepted") })
        })
        .collect();
    let mut receipts = Vec::new();
    for send in sends {
        receipts.push(send.await.expect("no panic"));
    }

    assert!(receipts.iter().all(|r| r.seq == receipts[0].seq && r.id == receipts[0].id));
    assert_eq!(receipts.iter().filter(|r| !r.duplicate).count(), 1);
    assert_eq!(texts(&read(&as_bob).await), ["once"]);
}

#[tokio::test]
async fn a_repeated_key_is_answered_even_when_the_reader_is_gone() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let request = SendRequest {
        idempotency_key: Some("k".into()),
        ..SendRequest::new(bob.instance.clone(), "for you alone")
    };
    let first = as_alice.send(&request).await.expect("accepted");
    as_bob.leave(&bob.instance).await.expect("left");

    let again = as_alice.send(&request).await.expect("known");

    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    let anew = SendRequest { idempotency_key: None, ..request };
    assert_eq!(refusal(as_alice.send(&anew).await).code, ErrorCode::RecipientGone);
}

#[tokio::test]
async fn a_waiting_reader_is_counted_and_woken() {
    let house = House::new().await;
    let (_, as_alice) = house.agent("alice").await;
    let (bob, as_bob) = house.agent("bob").await;
    let waiting = tokio::spawn(async move { as_bob.inbox(&wait(60.0)).await });
    house.waits(&bob.instance).await;

    let exact = send(&as_alice, &bob.instance, "wake up").await;

    assert_eq!((exact.recipients[0].active, exact.recipients[0].waiting), (1, 1));
    let inbox = within("woken", waiting).await.expect("no panic").expect("an answer");
    assert_eq!((texts(&inbox), &*inbox.status), (vec!["wake up"], "complete"));
    assert!(inbox.waited_s < 30.0, "{}", inbox.waited_s);
    house.waits_no_more(&bob.instance).await;
    let late = send(&as_alice, "bob", "and now?").await;
    assert_eq!((late.recipients[0].active, late.recipients[0].waiting), (1, 0));
}

#[tokio::test]
async fn a_message_says_by_which_door_it_came() {
    let house = House::new().await;
    house.agent("bob").await;

    let by_program = send(&house.operator(), "bob", "hello").await;
    let by_hand = send(&house.operator().as_command_line(), "bob", "hello").await;

    assert_eq!(house.record(by_program.seq).await.via, "rest");
    assert_eq!(house.record(by_hand.seq).await.via, "cli");
}

#[tokio::test]
async fn agents_write_to_the_operator_under_any_of_its_names() {
    let house = House::new().await;
    let (alice, as_alice) = house.agent("alice").await;
    for name in ["human", "dashboard", "user", "Operator"] {
        let receipt = send(&as_alice, name, name).await;
        let to = &receipt.recipients[0];
        assert_eq!((&*to.mailbox, to.active), ("human", 1));
    }

    let inbox = house.operator().inbox(&now()).await.expect("an answer");

    assert_eq!(texts(&inbox), ["human", "dashboard", "user", "Operator"]);
    assert!(inbox.messages.iter().all(|m| m.sender_id == alice.instance && m.to == "human"));
}

/// The texts as the hub holds them for these readers.
async fn held_for(house: &House, readers: &[Joined]) -> Vec<Body> {
    let mut held = Vec::new();
    for reader in readers {
        let id = reader.instance.parse().expect("an id");
        let batch = house.hub.receive(Ask::now(Principal::Instance(id))).await.expect("an answer");
        // What is not written comes again, and the newest is the last.
        held.extend(batch.mail.last().map(|entry| entry.leased.message.body.clone()));
    }
    held
}

#[tokio::test]
async fn a_text_for_many_readers_is_held_once() {
    let house = House::new().await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(house.agent("reader").await.0);
    }
    let all: Vec<String> = readers.iter().map(|reader| reader.instance.clone()).collect();
    let text = "x".repeat(1 << 20);
    let to_all = json!({"to": all, "message": text}).to_string();
    let (status, answer) = house.call("POST /v1/messages", Some(OPERATOR), &to_all).await;
    assert_eq!(status, 207, "{answer}");
    let held = held_for(&house, &readers).await;
    assert_eq!((held.len(), held[0] == *text), (20, true));
    assert!(held.iter().all(|body| body.shares_with(&held[0])));

    let (sender, _) = house.agent("sender").await;
    let sender = Agent::old(&house, &sender).await;
    let told = sender.call("send_message", json!({"to": all, "message": "ho"})).await;
    assert!(!told.is_error, "{:?}", told.whole);
    let held = held_for(&house, &readers).await;
    assert_eq!((held.len(), held[0] == "ho"), (20, true));
    assert!(held.iter().all(|body| body.shares_with(&held[0])), "nor over MCP");
}
