//! Readers that go away, at every moment at which one can.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use posthaste_api::client::Client;
use posthaste_api::inbox::{InboxQuery, SettleRequest};
use posthaste_server::ServerConfig;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::house::{
    House, ids, now, read, read_reply, receipt_of, request, send, texts, until, wait, within,
};

fn begin() -> InboxQuery {
    InboxQuery { begin: Some(true), ..now() }
}

#[tokio::test]
async fn a_reader_that_hangs_up_while_it_waits_takes_nothing() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let mut socket = house.dial().await;
    let text = request("GET /v1/inbox?timeout=60&batch_window=0", Some(&bob.token), &[], "");
    socket.write_all(text.as_bytes()).await.expect("sent");
    house.waits(&bob.instance).await;

    drop(socket);
    house.waits_no_more(&bob.instance).await;
    let sent = send(&house.operator(), &bob.instance, "anybody?").await;

    assert_eq!(sent.recipients[0].waiting, 0);
    let inbox = read(&as_bob).await;
    assert_eq!(texts(&inbox), ["anybody?"]);
    assert!(!inbox.messages[0].redelivered, "nobody was handed it");
}

#[tokio::test]
async fn one_of_mail_passes_a_reader_that_hung_up() {
    let house = House::new().await;
    let (first, _) = house.agent("mason").await;
    let (second, as_second) = house.agent("mason").await;
    let mut socket = house.dial().await;
    let text = request("GET /v1/inbox?timeout=60&batch_window=0", Some(&first.token), &[], "");
    socket.write_all(text.as_bytes()).await.expect("sent");
    house.waits(&first.instance).await;
    let waiting = tokio::spawn(async move { as_second.inbox(&wait(60.0)).await });
    house.waits(&second.instance).await;

    drop(socket);
    house.waits_no_more(&first.instance).await;
    let sent = send(&house.operator(), "mason", "a wall, please").await;

    assert_eq!(sent.recipients[0].waiting, 1, "only who is still there");
    let inbox = within("the other", waiting).await.expect("no panic").expect("an answer");
    assert_eq!(texts(&inbox), ["a wall, please"]);
}

/// A connection that takes in as little as possible unless it reads.
async fn narrow(house: &House) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    socket.connect(house.address).await.expect("the door is open")
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut_off_and_the_mail_comes_again() {
    let impatient =
        ServerConfig { write_timeout: Duration::from_millis(50), ..ServerConfig::default() };
    let house = House::with(impatient).await;
    let (bob, as_bob) = house.agent("bob").await;
    let large = "x".repeat(1 << 20);
    for _ in 0..4 {
        send(&house.operator(), &bob.instance, &large).await;
    }
    let mut socket = narrow(&house).await;
    let text = request("GET /v1/inbox?timeout=0&ack=auto", Some(&bob.token), &[], "");
    socket.write_all(text.as_bytes()).await.expect("sent");

    let waiting = wait(60.0);
    let inbox = within("the mail", as_bob.inbox(&waiting)).await.expect("an answer");
    assert!(inbox.messages.iter().all(|m| m.redelivered), "it was on its way once");
    assert!(!inbox.messages.is_empty());
    drop(socket);
}

#[tokio::test]
async fn an_answer_that_was_not_fully_written_comes_again_marked() {
    for ack in ["receipt", "auto"] {
        let house = House::new().await;
        let (bob, as_bob) = house.agent("bob").await;
        let large = "x".repeat(1 << 20);
        let mut seqs = Vec::new();
        for _ in 0..4 {
            seqs.push(send(&house.operator(), &bob.instance, &large).await.seq);
        }
        let mut socket = narrow(&house).await;
        let call = format!("GET /v1/inbox?timeout=0&ack={ack}");
        let text = request(&call, Some(&bob.token), &[], "");
        socket.write_all(text.as_bytes()).await.expect("sent");
        let mut some = [0; 1024];
        socket.read_exact(&mut some).await.expect("the beginning of an answer");
        assert!(some.starts_with(b"HTTP/1.1 200"));
        for seq in &seqs {
            assert_eq!(house.standing(*seq).await.state, "leased", "on its way");
        }

        drop(socket);

        for seq in &seqs {
            let standing = house.becomes(*seq, "queued").await;
            assert!(standing.redelivered, "it may have been seen");
        }
        let inbox = read(&as_bob).await;
        assert_eq!(ids(&inbox), seqs);
        assert!(inbox.messages.iter().all(|m| m.redelivered && m.message == large));
    }
}

#[tokio::test]
async fn a_slow_reader_gets_the_whole_of_a_long_answer() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let mut last = 0;
    for n in 0..4 {
        last = send(&house.operator(), &bob.instance, &n.to_string().repeat(1 << 20)).await.seq;
    }
    let mut socket = narrow(&house).await;
    let text = request("GET /v1/inbox?timeout=0&ack=auto", Some(&bob.token), &[], "");
    socket.write_all(text.as_bytes()).await.expect("sent");

    let answer = read_reply(&mut socket).await.expect("an answer").json();

    assert_eq!(answer["total"], 4);
    for n in 0..4 {
        let text = answer["messages"][n]["message"].as_str().expect("a text");
        assert!(text.len() == 1 << 20 && text.starts_with(&n.to_string()));
    }
    house.becomes(last, "acked").await;
    assert!(read(&as_bob).await.messages.is_empty());
}

#[tokio::test]
async fn what_was_written_but_never_proved_stays_held_until_the_reader_begins_anew() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let sent = send(&house.operator(), &bob.instance, "did you get it?").await;
    let mut socket = house.dial().await;
    let text = request("GET /v1/inbox?timeout=0", Some(&bob.token), &[], "");
    socket.write_all(text.as_bytes()).await.expect("sent");
    let answer = read_reply(&mut socket).await.expect("an answer").json();
    assert_eq!(answer["messages"][0]["id"], sent.seq);
    drop(socket);

    assert!(read(&as_bob).await.messages.is_empty(), "no sign that it was dropped");
    let held = house.standing(sent.seq).await;
    assert_eq!((&*held.state, held.by.as_deref()), ("leased", Some(&*bob.instance)));
    let since = held.leased_at.expect("its age is visible");
    assert!(since >= house.record(sent.seq).await.created_at);

    let inbox = as_bob.inbox(&begin()).await.expect("an answer");
    assert_eq!(ids(&inbox), [sent.seq]);
    assert!(inbox.messages[0].redelivered);
    let late = answer["receipt"].as_str().expect("a receipt").to_owned();
    let late = SettleRequest { receipt: Some(late), ids: None };
    assert_eq!(as_bob.ack(&late).await.expect("heard").acked, 1, "the old receipt is still proof");
}

#[tokio::test]
async fn a_beginning_leaves_what_is_proved_alone() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    send(&house.operator(), &bob.instance, "proved").await;
    as_bob.ack(&receipt_of(&read(&as_bob).await)).await.expect("acked");
    send(&house.operator(), &bob.instance, "held").await;
    read(&as_bob).await;
    send(&house.operator(), &bob.instance, "new").await;

    let inbox = as_bob.inbox(&begin()).await.expect("an answer");

    let got: Vec<_> = inbox.messages.iter().map(|m| (&*m.message, m.redelivered)).collect();
    assert_eq!(got, [("held", true), ("new", false)]);
}

#[tokio::test]
async fn a_beginning_ends_open_calls_politely() {
    let house = House::new().await;
    let (bob, as_bob) = house.agent("bob").await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let (reader, query) =
            (as_bob.clone(), InboxQuery { from: Some("carol".into()), ..wait(60.0) });
        open.push(tokio::spawn(async move { reader.inbox(&query).await }));
    }
    // They sleep through a probe, and its receipt counts them.
    until("three wait", async || {
        let probe = send(&house.operator(), &bob.instance, "probe").await;
        house.operator().cancel(&probe.id).await.expect("taken back");
        probe.recipients[0].waiting == 3
    })
    .await;

    let inbox = as_bob.inbox(&begin()).await.expect("an answer");

    assert_eq!(inbox.total, 0);
    for call in open {
        let ended = within("an open call", call).await.expect("no panic").expect("an answer");
        assert_eq!((ended.total, &*ended.status), (0, "call_again"));
    }
    send(&house.operator(), &bob.instance, "for the new one").await;
    assert_eq!(texts(&read(&as_bob).await), ["for the new one"]);
}

/// Every reader that hangs up, and when.
async fn rude(house: &House, token: &str, moment: usize) -> Vec<u64> {
    let text = request("GET /v1/inbox?timeout=0&max_chars=300", Some(token), &[], "");
    let patient =
        request("GET /v1/inbox?timeout=1&batch_window=0&max_chars=300", Some(token), &[], "");
    let mut socket = house.dial().await;
    match moment % 6 {
        // In the middle of its own question.
        0 => {
            let part = moment % text.len();
            socket.write_all(&text.as_bytes()[..part]).await.expect("sent");
        }
        // At once.
        1 => socket.write_all(text.as_bytes()).await.expect("sent"),
        // A little later, while the hub is busy with it.
        2 => {
            socket.write_all(patient.as_bytes()).await.expect("sent");
            for _ in 0..moment {
                tokio::task::yield_now().await;
            }
        }
        // In the middle of the answer.
        3 => {
            socket.write_all(text.as_bytes()).await.expect("sent");
            let mut some = vec![0; 1 + moment % 400];
            let _ = socket.read(&mut some).await;
        }
        // Having asked twice.
        4 => {
            socket.write_all(format!("{text}{patient}").as_bytes()).await.expect("sent");
            let _ = read_reply(&mut socket).await;
        }
        // After the whole answer, without a word of thanks.
        _ => {
            socket.write_all(text.as_bytes()).await.expect("sent");
            let answer = read_reply(&mut socket).await.map_or(Value::Null, |reply| reply.json());
            let mail = answer["messages"].as_array().cloned().unwrap_or_default();
            return mail.iter().filter_map(|m| m["id"].as_u64()).collect();
        }
    }
    Vec::new()
}

/// Reads until `enough`, and proves everything.
async fn polite(client: Client, enough: CancellationToken) -> Vec<(u64, bool)> {
    let mut got = Vec::new();
    let query = InboxQuery { max_chars: Some(700), ..wait(0.05) };
    loop {
        let over = enough.is_cancelled();
        let inbox = client.inbox(&query).await.expect("an answer");
        if inbox.messages.is_empty() {
            if over {
                return got;
            }
            continue;
        }
        got.extend(inbox.messages.iter().map(|m| (m.id, m.redelivered)));
        let acked = client.ack(&receipt_of(&inbox)).await.expect("acked");
        assert_eq!(acked.acked, inbox.total, "what one holds one can prove");
    }
}

#[tokio::test]
async fn rude_readers_lose_nothing_and_double_nothing() {
    const MESSAGES: usize = 300;
    const RUDE: usize = 180;
    let house = Arc::new(House::new().await);
    let (bob, as_bob) = house.agent("bob").await;
    let enough = CancellationToken::new();
    let readers: Vec<_> =
        (0..3).map(|_| tokio::spawn(polite(as_bob.clone(), enough.clone()))).collect();

    let sender = {
        let (house, to) = (house.clone(), bob.instance.clone());
        tokio::spawn(async move {
            let operator = house.operator();
            let mut sent = BTreeSet::new();
            for n in 0..MESSAGES {
                sent.insert(send(&operator, &to, &n.to_string()).await.seq);
            }
            sent
        })
    };
    let crowds: Vec<_> = (0..6)
        .map(|crowd| {
            let (house, token) = (house.clone(), bob.token.clone());
            tokio::spawn(async move {
                let mut seen = Vec::new();
                for n in 0..RUDE / 6 {
                    seen.extend(rude(&house, &token, n * 6 + (crowd + n) % 6).await);
                }
                seen
            })
        })
        .collect();

    let mut seen_by_rude = BTreeSet::new();
    for crowd in crowds {
        seen_by_rude.extend(within("the rude", crowd).await.expect("no panic"));
    }
    let sent = within("the sender", sender).await.expect("no panic");
    enough.cancel();
    let mut proven = BTreeMap::new();
    for reader in readers {
        for (id, redelivered) in within("the polite", reader).await.expect("no panic") {
            assert_eq!(proven.insert(id, redelivered), None, "message {id} was proved twice");
        }
    }

    // What the rude were handed and nobody proved comes back when bob begins anew.
    house.waits_no_more(&bob.instance).await;
    let mut leftovers = BTreeSet::new();
    let mut query = begin();
    loop {
        let inbox = as_bob.inbox(&query).await.expect("an answer");
        if inbox.messages.is_empty() {
            break;
        }
        for entry in &inbox.messages {
            assert!(entry.redelivered, "message {} was handed out before", entry.id);
            assert!(leftovers.insert(entry.id), "message {} came twice", entry.id);
        }
        as_bob.ack(&receipt_of(&inbox)).await.expect("acked");
        query = now();
    }

    assert!(!leftovers.is_empty() && !proven.is_empty(), "both kinds took part");
    let all: BTreeSet<u64> = proven.keys().copied().chain(leftovers.iter().copied()).collect();
    assert_eq!(all, sent, "each message, and no other");
    assert_eq!(proven.len() + leftovers.len(), MESSAGES, "each once");
    for id in seen_by_rude {
        assert!(leftovers.contains(&id) || proven.get(&id) == Some(&true), "{id} came unmarked");
    }
    assert_eq!(house.instance(&bob.instance).await.unread, 0);
}
