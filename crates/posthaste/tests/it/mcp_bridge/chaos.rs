//! The plug is pulled again and again under two agents that know nothing of it:
//! every call is answered, nothing is lost, nothing comes twice unmarked.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::agent::{Agent, BOTH, Era};
use crate::world::{World, eventually, quick};

/// What the reader saw of one message.
#[derive(Default)]
struct Seen {
    ids: HashSet<u64>,
    unmarked: usize,
}

fn note(seen: &mut HashMap<String, Seen>, inbox: &Value) {
    for message in inbox["messages"].as_array().expect("a list") {
        let text = message["message"].as_str().expect("a text").to_owned();
        let of = seen.entry(text).or_default();
        of.ids.insert(message["id"].as_u64().expect("a number"));
        of.unmarked += usize::from(message["redelivered"] != true);
    }
}

fn read_on(reader: &mut Agent, stop: &AtomicBool) -> HashMap<String, Seen> {
    let mut seen = HashMap::new();
    while !stop.load(Ordering::Relaxed) {
        note(&mut seen, &reader.call("check_inbox", json!({ "timeout": 1 })));
    }
    loop {
        let inbox = reader.call("check_inbox", json!({ "timeout": 0 }));
        if inbox["messages"] == json!([]) {
            return seen;
        }
        note(&mut seen, &inbox);
    }
}

fn send_on(sender: &mut Agent, to: &str, stop: &AtomicBool, count: &AtomicUsize) -> Vec<String> {
    let mut said = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let text = format!("message {}", said.len());
        sender.call("send_message", json!({ "to": to, "message": text }));
        said.push(text);
        count.store(said.len(), Ordering::Relaxed);
    }
    said
}

/// Ends a loop, also when an assertion failed elsewhere.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn kill_again_and_again(era: Era) {
    let kills = if quick() { 3 } else { 8 };
    let world = World::new();
    // As many as the machine can send.
    let file = world.config("[limits]\nsender_per_minute = 1000000\npair_per_minute = 1000000\n");
    let mut hub = world.hub_with(&["--config", &file]);
    let mut alice = Agent::ready(&world, era, &["--name", "alice", "--key", "a"]);
    let mut bob = Agent::ready(&world, era, &["--name", "bob", "--key", "b"]);
    // Both have joined: only their calls meet the kills.
    let to = bob.address();
    alice.address();
    let (sent, read) = (AtomicBool::new(false), AtomicBool::new(false));
    let count = AtomicUsize::new(0);
    let (said, seen) = std::thread::scope(|scope| {
        let (all_sent, all_read) = (End(&sent), End(&read));
        let sending = scope.spawn(|| send_on(&mut alice, &to, &sent, &count));
        let reading = scope.spawn(|| read_on(&mut bob, &read));
        for _ in 0..kills {
            // Also on a slow machine each hub has taken something.
            let before = count.load(Ordering::Relaxed);
            eventually(|| count.load(Ordering::Relaxed) > before);
            let moment = Duration::from_millis(rand::random_range(20..300));
            std::thread::sleep(moment);
            hub.kill();
            hub = world.hub_with(&["--config", &file]);
        }
        drop(all_sent);
        let said = sending.join().expect("every send was answered");
        drop(all_read);
        (said, reading.join().expect("every read was answered"))
    });

    let lost: Vec<_> = said.iter().filter(|text| !seen.contains_key(*text)).collect();
    assert!(lost.is_empty(), "{era:?}: accepted and lost: {lost:?}");
    for (text, seen) in &seen {
        assert_eq!(seen.ids.len(), 1, "{era:?}: one send, two messages: {text}");
        assert!(seen.unmarked <= 1, "{era:?}: read twice unmarked: {text}");
    }
}

#[test]
fn agents_do_not_notice_a_hub_that_is_killed_again_and_again() {
    for era in BOTH {
        kill_again_and_again(era);
    }
}
