//! Why a message was not answered, what does not move, and everything in a file.

use serde_json::Value;

use crate::world::{World, mode};

#[test]
fn the_operator_asks_why_a_message_was_not_answered() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "alice"]);
    let bob = world.joined("bob");
    world.say(&["send", "bob", "is the build green?", "--as", "alice", "--type", "question"]);

    let told = world.say(&["trail", "1"]);
    let mut lines = told.lines();
    assert_eq!(
        lines.next(),
        Some("message 1: waits in n.bob: 1 could take it, and none of them waits for mail")
    );
    let accepted = lines.next().expect("a step");
    assert!(accepted.contains("accepted") && accepted.contains("by cli for bob"), "{told}");

    world.say(&["inbox", "--as", "bob", "--batch-window", "0"]);
    let told = world.say(&["trail", "1"]);
    let verdict = format!("message 1: {bob} has it, proved by receipt ");
    assert!(told.starts_with(&verdict), "{told}");
    assert!(told.lines().next().is_some_and(|v| v.ends_with("and has not answered it")), "{told}");

    world.say(&["send", "alice", "yes", "--as", "bob", "--reply-to", "1"]);
    let told = world.say(&["trail", "1", "--as", "alice"]);
    assert!(told.starts_with(&format!("message 1: answered by message 2 from {bob} ")), "{told}");
    let events: Vec<&str> =
        told.lines().skip(1).filter_map(|l| l.split_whitespace().nth(1)).collect();
    assert_eq!(events, ["accepted", "leased", "acked", "answered"], "{told}");

    let trail = world.json(&["trail", "1"]);
    assert_eq!((&trail["seq"], &trail["steps"][3]["message"]), (&1.into(), &2.into()));
    world.run(&["trail", "99"]).failed(3, "no such message", "");
    world.run(&["trail", "soon"]).failed(2, "ID: give a message's number", "");

    // The same after a restart: nothing of it was only in memory.
    hub.stop();
    let _hub = world.hub();
    assert_eq!(world.say(&["trail", "1", "--as", "alice"]), told);
}

#[test]
fn stats_of_an_empty_hub_are_a_sentence() {
    let world = World::new();
    let _hub = world.hub();
    assert_eq!(world.say(&["stats"]), "there are no mailboxes yet\n");
    assert_eq!(world.say(&["stats", "--agents"]), "nobody is here yet\n");
    assert_eq!(world.say(&["stats", "--teams"]), "there are no teams yet\n");
}

#[test]
fn stats_tell_what_lies_where_and_what_is_stuck() {
    let world = World::new();
    let file = world.config("[limits]\nstuck_after = '0s'\n");
    let _hub = world.hub_with(&["--config", &file]);
    assert_eq!(world.say(&["stats", "--stuck"]), "nothing is stuck\n");
    world.say(&["join", "alice"]);
    let bob = world.joined("bob");
    world.say(&["send", &bob, "hello", "--as", "alice"]);

    let told = world.say(&["stats"]);
    assert!(told.starts_with("MAILBOX "), "{told}");
    let own = bob.split(['.', '@']).nth(1).expect("an instance");
    let row = told.lines().find(|l| l.starts_with(&bob)).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..4], ["main", "1", "1"], "{told}");
    let list = world.json(&["stats", "--as", "bob"]);
    assert_eq!((&list[0]["agent_id"], &list[0]["unread"]), (&own.into(), &1.into()));

    let agents = world.run(&["stats", "--agents"]);
    assert!(agents.out.contains(&bob) && agents.err.starts_with("note: counted since "));
    assert!(world.say(&["stats", "--teams"]).lines().any(|l| l.starts_with("main")));

    let told = world.say(&["stats", "--stuck"]);
    assert!(told.starts_with(&format!("{bob}: message 1: {bob} has not read it for ")), "{told}");
    assert_eq!(told.lines().count(), 2, "and what to do: {told}");
    assert_eq!(world.run(&["stats", "--stuck", "--teams"]).code, Some(2));
}

#[test]
fn an_export_goes_to_a_file_and_goes_on_where_it_was() {
    let world = World::new();
    let _hub = world.hub();
    world.say(&["join", "bob"]);
    for n in 1..=3 {
        world.say(&["send", "bob", &format!("message {n}\x1b[2J")]);
    }
    let numbers = |text: &str| -> Vec<u64> {
        let line = |l: &str| serde_json::from_str::<Value>(l).expect("JSON")["seq"].as_u64();
        text.lines().map(|l| line(l).expect("a number")).collect()
    };
    let ran = world.run(&["export"]);
    assert_eq!((ran.code, numbers(&ran.out)), (Some(0), vec![1, 2, 3]));
    assert_eq!(ran.err, "note: 3 messages exported; the last is 3\n");
    assert!(!ran.out.contains('\x1b'), "no terminal obeys an export");

    let path = world.scratch().join("mail.jsonl");
    let out = path.to_str().expect("a plain path");
    let ran = world.run(&["export", "--out", out]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""));
    assert_eq!(mode(&path), 0o600, "mail is for its owner");
    world.say(&["send", "bob", "message 4"]);
    let ran = world.run(&["export", "--out", out, "--after", "3"]);
    assert_eq!(ran.err, "note: 1 message exported; the last is 4\n");
    assert_eq!(numbers(&std::fs::read_to_string(&path).expect("a file")), [1, 2, 3, 4]);

    world.run(&["export", "--as", "bob"]).failed(6, "only the operator", "");
    world.run(&["export", "--out", "/nowhere/at/all"]).failed(1, "/nowhere/at/all", "");
}

#[test]
fn history_is_read_again_and_takes_nothing() {
    let world = World::new();
    let _hub = world.hub();
    world.say(&["join", "alice"]);
    world.say(&["join", "bob"]);
    world.say(&["send", "bob", "one", "--as", "alice", "--label", "ci"]);
    world.say(&["send", "bob", "two", "--as", "alice"]);
    let told = world.say(&["history", "--from", "alice", "--as", "bob"]);
    let ends: Vec<&str> = told.lines().filter_map(|l| l.rsplit(": ").next()).collect();
    assert_eq!(ends, ["one", "two"], "{told}");
    assert!(told.starts_with("[1] alice.") && told.contains(" to bob (queued, "), "{told}");
    let page = world.json(&["history", "--label", "ci"]);
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(1));
    world.run(&["history", "--team", "main", "--as", "bob"]).failed(
        6,
        "leaders of `main`",
        "leader",
    );
    world.run(&["history", "--last", "0"]).failed(2, "--last", "");
    assert_eq!(world.say(&["inbox", "--as", "bob", "--timeout", "0"]).lines().count(), 2);
}
