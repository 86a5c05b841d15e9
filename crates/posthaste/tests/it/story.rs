//! What the README tells, line by line.

use std::io::{Read, Write};

use posthaste_testkit::excerpt::excerpt;
use rustix::process::Signal;

use crate::world::{World, eventually, mode};

/// `[1] alice.1a2b3c4d@main (peer, 12:03:04): the text`, without what changes.
fn told(line: &str) -> (&str, &str) {
    let (head, text) = line.split_once("): ").expect("a head and a text");
    let (_, head) = head.split_once("] ").expect("a number");
    (head.split_once('.').expect("name and instance").0, text)
}

#[test]
fn the_story_of_the_readme() {
    let world = World::new();
    let hub = world.hub();

    let joined = world.say(&["join", "alice"]);
    assert!(joined.starts_with("joined as alice."), "{joined}");
    assert!(joined.contains("`--as alice` now works"), "{joined}");
    world.say(&["join", "bob"]);

    let sent = world.say(&["send", "bob", "the build is green", "--as", "alice"]);
    assert_eq!(sent, "accepted 1 for bob: 1 active, 0 waiting\n");

    let mail = world.say(&["inbox", "--as", "bob", "--batch-window", "0"]);
    assert!(mail.starts_with("[1] alice.") && mail.contains(" (peer, "), "{mail}");
    assert_eq!(told(mail.trim_end()), ("alice", "the build is green"));

    let ran = world.run(&["inbox", "--as", "bob", "--timeout", "0"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(7), ""));
    assert_eq!(ran.err, "note: no mail within 0 s\n");

    let stopped = hub.stop();
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
}

#[test]
fn the_hub_says_where_it_is_and_what_to_try() {
    let world = World::new();
    let mut hub = world.start(&["--listen", "127.0.0.1:0"]);
    let mut said = Vec::new();
    while let Some(line) = hub.line() {
        said.push(line);
        if said.last().is_some_and(|line| line.starts_with("Ctrl-C")) {
            break;
        }
    }
    let said = said.join("\n");
    assert!(said.contains("is listening at http://127.0.0.1:"), "{said}");
    assert!(said.contains(&format!("data: {}", world.data().display())), "{said}");
    for line in [
        "posthaste join alice",
        "posthaste join bob",
        "posthaste send bob \"the build is green\" --as alice",
        "posthaste inbox --as bob",
    ] {
        assert!(said.contains(&format!("\n  {line}\n")), "{line}: {said}");
    }
    hub.signal(Signal::TERM);
    assert_eq!(hub.end().code, Some(0));
}

#[test]
fn secrets_are_for_their_owner_and_stay_the_same() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "alice"]);
    for (path, expected) in [
        ("", 0o700),
        ("operator.token", 0o600),
        ("join.token", 0o600),
        ("hub.json", 0o600),
        ("identities", 0o700),
        ("identities/alice.json", 0o600),
    ] {
        assert_eq!(mode(&world.file(path)), expected, "{path}");
    }
    let before = std::fs::read(world.file("operator.token")).expect("a token");
    hub.stop();
    assert!(!world.file("hub.json").exists());
    let _hub = world.hub();
    assert_eq!(std::fs::read(world.file("operator.token")).expect("a token"), before);
    // The identity of before still is alice.
    assert!(world.run(&["inbox", "--as", "alice", "--timeout", "0"]).has_answered());
}

#[test]
fn mail_waits_for_somebody_who_is_not_there() {
    let world = World::new();
    let _hub = world.hub();
    world.say(&["join", "alice"]);
    world.say(&["join", "bob"]);
    assert!(world.say(&["leave", "bob"]).contains("has left"));
    let sent = world.say(&["send", "bob", "for later", "--as", "alice"]);
    assert_eq!(sent, "accepted 1 for bob: nobody is active yet; it waits\n");
    world.say(&["join", "bob"]);
    let mail = world.say(&["inbox", "--as", "bob", "--batch-window", "0"]);
    assert_eq!(told(mail.trim_end()), ("alice", "for later"));
}

#[test]
fn accepted_mail_survives_a_hub_that_is_killed() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "alice"]);
    world.say(&["join", "bob"]);
    world.say(&["send", "bob", "still here", "--as", "alice"]);
    hub.kill();

    world.run(&["agents"]).failed(5, "no hub is running on", "posthaste up");
    let _hub = world.hub();
    let mail = world.json(&["inbox", "--as", "bob", "--batch-window", "0"]);
    assert_eq!(mail["messages"][0]["message"], "still here");
    assert_eq!(mail["messages"][0]["redelivered"], true);
}

#[test]
fn after_a_clean_stop_unread_mail_is_as_new() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "bob"]);
    world.say(&["send", "bob", "fresh"]);
    hub.stop();
    let _hub = world.hub();
    let mail = world.say(&["inbox", "--as", "bob", "--batch-window", "0"]);
    assert!(mail.starts_with("[1] human (human, ") && !mail.contains("redelivered"), "{mail}");
}

#[test]
fn unread_mail_is_as_new_also_after_a_start_that_failed() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "bob"]);
    world.say(&["send", "bob", "fresh"]);
    hub.stop();

    let fails = |args: &[&str], why: &str| {
        let ran = world.run(&[&["up", "--listen", "127.0.0.1:0"], args].concat());
        assert!(ran.code != Some(0) && ran.err.contains(why), "{why}: {ran:?}");
    };
    let file = world.config("[telemetry]\notlp = 'https://collector'\n");
    fails(&["--config", &file], "telemetry");
    std::fs::write(world.file("join.token"), "?").expect("written");
    fails(&[], "this is not a token");
    std::fs::remove_file(world.file("join.token")).expect("removed");
    std::fs::create_dir(world.file("hub.json")).expect("a folder");
    fails(&[], "hub.json");
    std::fs::remove_dir(world.file("hub.json")).expect("removed");

    let _hub = world.hub();
    let mail = world.say(&["inbox", "--as", "bob", "--batch-window", "0"]);
    assert!(mail.contains("fresh") && !mail.contains("redelivered"), "{mail}");
}

#[test]
fn the_operator_writes_and_reads_without_joining() {
    let world = World::new();
    let _hub = world.hub();
    world.say(&["join", "alice"]);
    let sent =
        world.say(&["send", "human", "may I deploy?", "--type", "question", "--as", "alice"]);
    assert_eq!(sent, "accepted 1 for human: it waits for the operator\n");
    let mail = world.say(&["inbox", "--batch-window", "0"]);
    assert!(mail.contains(", question, ") && mail.ends_with("): may I deploy?\n"), "{mail}");
    world.say(&["send", "alice", "yes", "--reply-to", "1", "--type", "answer"]);
    let mail = world.json(&["inbox", "--as", "alice", "--batch-window", "0"]);
    assert_eq!(mail["messages"][0]["in_reply_to"], 1);
    assert_eq!(mail["messages"][0]["relation"], "human");
}

#[test]
fn a_waiting_reader_gets_the_mail_when_it_comes() {
    let world = World::new();
    let _hub = world.hub();
    world.say(&["join", "bob"]);
    let mut waiting = world.start(&["inbox", "--as", "bob", "--batch-window", "0"]);
    eventually(|| world.json(&["agents"])["instances"][0]["activity"] == "waiting_inbox");
    let sent = world.say(&["send", "bob", "wake up"]);
    assert!(sent.starts_with("accepted 1 for bob: 1 active, "), "{sent}");
    let line = waiting.line().expect("the mail");
    assert!(line.ends_with("): wake up"), "{line}");
    assert_eq!(waiting.end().code, Some(0));
}

#[test]
fn follow_goes_on_over_a_restart_of_the_hub_and_shows_nothing_twice() {
    let world = World::new();
    let hub = world.hub();
    let bob = world.joined("bob");
    let mut follower = world.start(&["inbox", "--as", "bob", "--follow", "--batch-window", "0"]);
    world.say(&["send", &bob, "one"]);
    assert!(follower.line().expect("mail").ends_with("): one"));
    // Proven, before the hub goes.
    eventually(|| world.json(&["agents"])["instances"][0]["unread"] == 0);
    hub.stop();
    eventually(|| follower.complained().contains("trying again"));

    let _hub = world.hub();
    world.say(&["send", &bob, "two"]);
    assert!(follower.line().expect("mail").ends_with("): two"));
    eventually(|| world.json(&["agents"])["instances"][0]["unread"] == 0);
    follower.signal(Signal::INT);
    let ran = follower.end();
    assert_eq!((ran.code, ran.out.as_str()), (Some(130), ""), "{ran:?}");
    assert!(ran.err.contains("trying again") && ran.err.contains("is back"), "{ran:?}");
}

#[test]
fn an_ephemeral_hub_says_that_it_forgets() {
    let world = World::new();
    let hub = world.hub_with(&["--ephemeral"]);
    assert_eq!(hub.greeting["durable"], false);
    world.say(&["join", "bob"]);
    let sent = world.say(&["send", "bob", "a whisper"]);
    assert_eq!(sent, "accepted 1 for bob: 1 active, 0 waiting (in memory only)\n");
    hub.stop();

    // The next hub has never heard of bob, and the error says what to do.
    let _hub = world.hub_with(&["--ephemeral"]);
    let ran = world.run(&["inbox", "--as", "bob", "--timeout", "0"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.err.contains("hint: "), "{ran:?}");
}

#[tokio::test]
async fn an_operators_day() {
    let world = World::new();
    let hub = world.hub();
    let agents = world.scratch().join("agents");
    std::fs::create_dir(&agents).expect("a folder");
    let profile =
        "---\nname: reviewer\ndescription: reads diffs\ntags: [rust, review]\n---\nYou review.\n";
    std::fs::write(agents.join("reviewer.md"), profile).expect("written");

    let loaded = world.say(&["profiles", "load", agents.to_str().expect("a plain path")]);
    assert!(loaded.contains("reviewer"), "{loaded}");
    let found = world.say(&["profiles", "rust", "review"]);
    assert!(found.contains("reviewer"), "{found}");
    world.say(&["send", "reviewer", "a diff waits"]);
    let heard = world.say(&["tail", "--after", "0", "--type", "message", "--count", "1"]);
    assert!(heard.contains("message.accepted [1] human → reviewer: a diff waits"), "{heard}");
    let trail = world.say(&["trail", "1"]);
    assert!(trail.contains("n.reviewer") && trail.contains("nobody"), "{trail}");

    let client = posthaste_api::Client::new(&hub.url).expect("a good address");
    let figures = client.metrics().await.expect("figures");
    assert!(figures.contains("posthaste_messages_accepted_total 1"), "{}", excerpt(&figures));
    let mut page = String::new();
    let mut socket = std::net::TcpStream::connect(&hub.url["http://".len()..]).expect("a hub");
    let ask = "GET /docs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all(ask.as_bytes()).expect("asked");
    socket.read_to_string(&mut page).expect("a page");
    assert!(page.contains("<title>Posthaste"), "{}", excerpt(&page));
}
