//! A database that was damaged while no hub used it.

use std::path::PathBuf;

use serde_json::Value;

use crate::world::World;

const PAGE: usize = 8192;

/// Texts for bob that lie on pages of their own, in a database that nobody uses.
fn three_texts(world: &World) -> PathBuf {
    let hub = world.hub();
    world.joined("bob");
    for text in ["first", "second", "third"] {
        world.say(&["send", "bob", &format!("{text} {}", "x".repeat(5000))]);
    }
    assert_eq!(hub.stop().code, Some(0));
    world.file("hub.db")
}

/// Where the second text begins in the file.
fn second(bytes: &[u8]) -> usize {
    let begin = b"second xxxx";
    bytes.windows(begin.len()).position(|part| part == begin).expect("the second text")
}

fn first_words(mail: &Value) -> Vec<&str> {
    let texts = mail["messages"].as_array().expect("mail").iter();
    let texts = texts.map(|m| m["message"].as_str().expect("text"));
    texts.map(|text| text.split(' ').next().expect("a word")).collect()
}

#[test]
fn a_text_that_cannot_be_read_does_not_stop_the_mailbox_and_is_told_as_dead() {
    let world = World::new();
    let file = three_texts(&world);
    let mut bytes = std::fs::read(&file).expect("a file");
    let at = second(&bytes);
    bytes[at] = 0xff;
    std::fs::write(&file, &bytes).expect("damaged");

    let _hub = world.hub();
    let mail = world.json(&["inbox", "--as", "bob", "--timeout", "0"]);
    assert_eq!(first_words(&mail), ["first", "third"]);
    world.say(&["send", "bob", "mail is taken"]);
    let trail = world.json(&["trail", "2"]);
    let verdict = trail["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("dead: the database cannot read it"), "{verdict}");
    assert!(trail.to_string().contains("messages, row 2, column body"), "{trail}");
    let doctor = world.run(&["doctor"]);
    assert!(doctor.out.contains("and is ready"), "{}", doctor.out);
}

#[test]
fn a_hub_that_knows_of_damage_takes_no_new_mail_and_gives_what_can_be_read() {
    let world = World::new();
    let file = three_texts(&world);
    let mut bytes = std::fs::read(&file).expect("a file");
    let page = second(&bytes) / PAGE * PAGE;
    bytes[page..page + PAGE].fill(0x5a);
    std::fs::write(&file, &bytes).expect("damaged");

    let _hub = world.hub();
    let mail = world.json(&["inbox", "--as", "bob", "--timeout", "0"]);
    assert_eq!(first_words(&mail), ["first", "third"]);
    let ran = world.run(&["send", "bob", "one more"]);
    ran.failed(5, "hub.db is damaged", "posthaste export");
    let doctor = world.run(&["doctor"]);
    assert!(doctor.out.contains("and is not ready"), "{}", doctor.out);
    assert!(world.run(&["status"]).err.contains("hub.db is damaged"));
}
