//! The plug is pulled at random moments, under load. Nothing that was accepted is
//! lost, and nothing is read twice unmarked.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_api::Client;
use posthaste_api::inbox::{Inbox, InboxQuery};
use posthaste_api::messages::SendRequest;
use serde_json::Value;

use crate::world::{World, quick, until};

/// What the clients know: the truth that the hub must agree with.
#[derive(Default)]
struct Truth {
    /// Accepted, by text.
    accepted: HashMap<String, u64>,
    /// How often each number was read, and how often unmarked.
    reads: HashMap<u64, (usize, usize)>,
    /// The numbers under which each text was read.
    numbers: HashMap<String, HashSet<u64>>,
}

impl Truth {
    fn read(&mut self, inbox: &Inbox<'_>) {
        for message in &inbox.messages {
            let (times, unmarked) = self.reads.entry(message.id).or_default();
            *times += 1;
            *unmarked += usize::from(!message.redelivered);
            self.numbers.entry(message.message.to_string()).or_default().insert(message.id);
        }
    }
}

/// Sends one text after the other, and each until the hub has accepted it.
async fn send_on(
    client: Client,
    to: String,
    name: usize,
    truth: Arc<Mutex<Truth>>,
    stop: Arc<AtomicBool>,
) {
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let text = format!("{name}-{n}");
        let request = SendRequest {
            idempotency_key: Some(text.clone()),
            ..SendRequest::new(to.clone(), text.clone())
        };
        // The answer may have died with the hub: the key makes asking again safe.
        let receipt = loop {
            match client.send(&request).await {
                Ok(receipt) => break receipt,
                Err(_) => tokio::time::sleep(Duration::from_millis(3)).await,
            }
        };
        truth.lock().expect("no panic").accepted.insert(text, receipt.seq);
        n += 1;
    }
}

async fn read_on(client: Client, truth: Arc<Mutex<Truth>>, stop: Arc<AtomicBool>) {
    let mut query =
        InboxQuery { timeout: Some(1.0), batch_window: Some(0.0), ..InboxQuery::default() };
    while !stop.load(Ordering::Relaxed) {
        match client.inbox(&query).await {
            Ok(inbox) => {
                truth.lock().expect("no panic").read(&inbox);
                query.receipt = inbox.receipt.map(Into::into);
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(3)).await,
        }
    }
}

fn client(url: &str, identity: &Value) -> Client {
    let token = identity["token"].as_str().expect("a token");
    Client::new(url).expect("a good address").with_token(token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_killed_again_and_again_loses_nothing_and_doubles_nothing_unmarked() {
    let kills = if quick() { 4 } else { 20 };
    let world = World::new();
    let mut hub = world.hub();
    let url = hub.url.clone();
    let listen = url.trim_start_matches("http://").to_owned();
    let bob = world.json(&["join", "bob"]);
    let to = bob["address"].as_str().expect("an address").to_owned();

    let truth = Arc::new(Mutex::new(Truth::default()));
    let (stop_sending, stop_reading) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut senders = Vec::new();
    for n in 0..4 {
        let alice = world.json(&["join", &format!("alice{n}")]);
        let sender =
            send_on(client(&url, &alice), to.clone(), n, truth.clone(), stop_sending.clone());
        senders.push(tokio::spawn(sender));
    }
    let mut readers = Vec::new();
    for _ in 0..2 {
        let reader = read_on(client(&url, &bob), truth.clone(), stop_reading.clone());
        readers.push(tokio::spawn(reader));
    }

    let accepted = || truth.lock().expect("no panic").accepted.len();
    for _ in 0..kills {
        // Also on a slow machine each hub has taken something.
        let before = accepted();
        until(async || accepted() > before).await;
        let moment = Duration::from_micros(rand::random_range(5_000..150_000));
        tokio::time::sleep(moment).await;
        hub.kill();
        hub = world.hub_with(&["--listen", &listen]);
    }
    stop_sending.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.await.expect("no panic");
    }
    stop_reading.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.expect("no panic");
    }

    // Read out what is left, from a new beginning.
    let rest = client(&url, &bob);
    let mut query = InboxQuery { timeout: Some(0.0), begin: Some(true), ..InboxQuery::default() };
    loop {
        let inbox = rest.inbox(&query).await.expect("an answer");
        truth.lock().expect("no panic").read(&inbox);
        query.begin = None;
        query.receipt = inbox.receipt.map(Into::into);
        if inbox.total == 0 {
            break;
        }
    }
    hub.kill();

    let truth = truth.lock().expect("no panic");
    let lost: Vec<_> =
        truth.accepted.iter().filter(|(_, seq)| !truth.reads.contains_key(seq)).collect();
    assert!(lost.is_empty(), "accepted and lost: {lost:?}");
    let twice: Vec<_> = truth.reads.iter().filter(|(_, (_, unmarked))| *unmarked > 1).collect();
    assert!(twice.is_empty(), "read twice unmarked: {twice:?}");
    let doubled: Vec<_> = truth.numbers.iter().filter(|(_, numbers)| numbers.len() > 1).collect();
    assert!(doubled.is_empty(), "one send, two messages: {doubled:?}");
}
