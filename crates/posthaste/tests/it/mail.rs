//! `reply`, `read`, `cancel` and `requeue`: commands about one message.

use serde_json::{Value, json};

use crate::world::{Ran, World};

/// A message that alice sends to bob; its number.
fn sent(world: &World, text: &str, more: &[&str]) -> String {
    let receipt = world.json(&[&["send", "bob", text, "--as", "alice"], more].concat());
    receipt["seq"].to_string()
}

fn pair() -> (World, crate::world::Hub) {
    let world = World::new();
    let hub = world.hub();
    world.joined("alice");
    world.joined("bob");
    (world, hub)
}

fn inbox(world: &World, who: &str) -> Value {
    world.json(&["inbox", "--as", who, "--timeout", "10"])["messages"].clone()
}

#[test]
fn a_reply_goes_to_whoever_sent_the_message_and_names_it() {
    let (world, _hub) = pair();
    let question = sent(&world, "is the build green?", &["--type", "question"]);
    assert_eq!(inbox(&world, "bob")[0]["message"], "is the build green?");

    let told = world.say(&["reply", &question, "yes,", "all", "of", "it", "--as", "bob"]);
    assert!(told.starts_with("accepted 2 for alice."), "{told}");

    let answer = &inbox(&world, "alice")[0];
    assert_eq!(answer["message"], "yes, all of it", "the rest of the line is the text");
    assert_eq!((&answer["type"], &answer["in_reply_to"]), (&json!("answer"), &json!(1)));
    let thanks = world.pipe(&["reply", "2", "-", "--as", "alice", "--json"], b"thanks\n");
    assert_eq!(thanks.code, Some(0), "{thanks:?}");
    let thanks = &inbox(&world, "bob")[0];
    assert_eq!((&thanks["message"], &thanks["type"]), (&json!("thanks"), &json!("text")));

    world.run(&["reply", "99", "hello", "--as", "bob"]).failed(3, "no such message", "");
    assert_eq!(world.run(&["reply", "1", "--as", "bob"]).code, Some(2), "without a text");
}

#[test]
fn a_message_is_read_whole_and_in_a_pipe_it_is_its_text_alone() {
    let (world, _hub) = pair();
    let text = "two lines\n\u{1b}[31mand a colour\n\n";
    let seq = sent(&world, text, &["--label", "ci"]);

    assert_eq!(world.say(&["read", &seq]), text, "byte for byte");
    assert_eq!(world.say(&["read", &seq, "--raw", "--as", "alice"]), text);
    let message = world.json(&["read", &seq]);
    assert_eq!((&message["message"], &message["label"]), (&json!(text), &json!("ci")));
    assert_eq!(message["deliveries"][0]["state"], "queued", "it takes nothing");
    world.run(&["read", "99"]).failed(3, "no such message", "");
}

#[test]
fn mail_that_nobody_was_handed_is_taken_back_and_queued_again() {
    let (world, _hub) = pair();
    let (first, second) = (sent(&world, "one", &[]), sent(&world, "two", &[]));

    let cancelled: Ran = world.run(&["cancel", &first, "99", "--as", "alice"]);
    assert_eq!(cancelled.out, "message 1 is taken back: nobody has read it\n");
    assert_eq!(cancelled.code, Some(3), "the first failure decides: {cancelled:?}");
    assert!(cancelled.err.contains("error: 99: no such message"), "{cancelled:?}");
    assert_eq!(inbox(&world, "bob")[0]["message"], "two", "the first never came");

    world.run(&["cancel", &second, "--as", "alice"]).failed(4, "2: ", "");
    let told = world.say(&["requeue", &first]);
    assert_eq!(told, "message 1 is queued again for bob\n");
    assert_eq!(inbox(&world, "bob")[0]["message"], "one");
    let answer = world.run(&["requeue", &second, "--json"]);
    assert_eq!(answer.code, Some(4), "only dead mail: {answer:?}");
}
