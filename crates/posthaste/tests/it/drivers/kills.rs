//! The hub is killed again and again while it talks with a worker. A script plays the
//! program: it notes all that it hears.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_api::Client;
use posthaste_api::messages::{MessageView, ReadQuery, SendRequest};
use posthaste_api::profiles::ProfileInput;
use serde_json::{Value, json};

use super::stage::block;
use crate::agents::talking::WORDS;
use crate::world::{World, eventually, quick, until};

/// Answers each message with its own id; the first one takes a while.
const PROGRAM: &str = "next; takes; sleep 0.5; speaks working; ends first
while :; do next; takes; sleep 0.01; speaks working; ends \"$id\"; done";

/// Sends one text after the other, every third one urgent, each until it is accepted.
async fn send_on(
    client: Client,
    to: String,
    accepted: Arc<Mutex<Vec<u64>>>,
    stop: Arc<AtomicBool>,
) {
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let text = format!("mail {n}");
        let request = SendRequest {
            idempotency_key: Some(text.clone()),
            priority: (n % 3 == 0).then(|| "urgent".to_owned()),
            ..SendRequest::new(to.clone(), text)
        };
        let receipt = loop {
            match client.send(&request).await {
                Ok(receipt) => break receipt,
                Err(_) => tokio::time::sleep(Duration::from_millis(3)).await,
            }
        };
        accepted.lock().expect("no panic").push(receipt.seq);
        n += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The messages in a prompt, each with whether it is marked.
fn mail_in(prompt: &Value) -> Vec<(u64, bool)> {
    let text = prompt["message"]["content"].as_str().expect("a text");
    let letters = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    letters
        .map(|letter| (letter["id"].as_u64().expect("a number"), letter["redelivered"] == true))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_killed_again_and_again_in_a_conversation_says_all_of_it_once() {
    let kills = if quick() { 5 } else { 30 };
    let world = World::new();
    let mut hub = world.hub();
    let (url, listen) = (hub.url.clone(), hub.url.trim_start_matches("http://").to_owned());
    let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
    let operator = Client::new(&url).expect("a good address").with_token(token.trim());
    let program = world.scratch().join("program");
    std::fs::write(&program, format!("{WORDS}\n{PROGRAM}\n")).expect("written");
    let config = json!({ "command": ["/bin/sh", program] });
    let profile = ProfileInput {
        name: Some("talker".to_owned()),
        driver: Some("claude".to_owned()),
        config: config.as_object().cloned().expect("an object"),
        ..ProfileInput::default()
    };
    operator.create_profile(&profile).await.expect("a profile");
    world.say(&["join", "alice"]);
    let given = world.json(&["assign", "talker", "the task", "--as", "alice"]);
    let worker = given["instance"].as_str().expect("an id").to_owned();

    let (accepted, stop) = (Arc::<Mutex<Vec<u64>>>::default(), Arc::new(AtomicBool::new(false)));
    let sender = send_on(operator.clone(), worker.clone(), accepted.clone(), stop.clone());
    let sender = tokio::spawn(sender);
    let count = || accepted.lock().expect("no panic").len();
    for _ in 0..kills {
        // Also on a slow machine each hub has taken something.
        let before = count();
        until(async || count() > before).await;
        let moment = Duration::from_micros(rand::random_range(1_000..200_000));
        tokio::time::sleep(moment).await;
        hub.kill();
        hub = world.hub_with(&["--listen", &listen]);
    }
    stop.store(true, Ordering::Relaxed);
    sender.await.expect("no panic");

    let accepted = accepted.lock().expect("no panic").clone();
    let task = given["task"].as_u64().expect("a number");
    for seq in [&[task], accepted.as_slice()].concat() {
        let look = || -> MessageView {
            block(operator.read(&seq.to_string(), &ReadQuery::default())).expect("kept")
        };
        eventually(|| look().deliveries[0].state == "acked");
        assert_eq!(look().deliveries[0].proof.as_deref(), Some("turn"), "{seq}");
    }
    let heard = world.file("agents").join(&worker).join("work/heard");
    let heard = std::fs::read_to_string(heard).expect("it heard something");
    let prompts: Vec<Value> =
        heard.lines().map(|line| serde_json::from_str(line).expect("whole lines")).collect();
    let ids: HashSet<&str> = prompts.iter().filter_map(|prompt| prompt["uuid"].as_str()).collect();
    assert_eq!(ids.len(), prompts.len(), "no prompt is written twice");
    let mut unmarked: HashMap<u64, usize> = HashMap::new();
    for (seq, marked) in prompts[1..].iter().flat_map(mail_in) {
        *unmarked.entry(seq).or_default() += usize::from(!marked);
    }
    let missing: Vec<_> = accepted.iter().filter(|seq| !unmarked.contains_key(seq)).collect();
    assert!(missing.is_empty(), "acked and never said: {missing:?}");
    let twice: Vec<_> = unmarked.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "said twice unmarked: {twice:?}");
    let told = world.json(&["inbox", "--as", "alice", "--timeout", "60"]);
    let reports: Vec<&Value> =
        told["messages"].as_array().expect("a list").iter().map(|mail| &mail["type"]).collect();
    assert_eq!(reports, ["result"], "one report: {told}");
    hub.kill();
}
