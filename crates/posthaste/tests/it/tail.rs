//! Following what happens, from a shell.

use std::io::{Read, Write};
use std::net::TcpListener;

use posthaste_api::Client;
use serde_json::Value;

use crate::world::{World, until};

#[test]
fn what_happens_is_followed_over_a_killed_hub_without_a_gap() {
    let world = World::new();
    let hub = world.hub();
    let port = hub.port().to_owned();
    let mut tail = world.start(&["tail", "--json", "--after", "0", "--count", "6"]);
    let mut heard = || -> (u64, String) {
        let line = tail.line().expect("another event");
        let event: Value = serde_json::from_str(&line).expect("a line of JSON");
        (event["no"].as_u64().expect("a number"), event["type"].as_str().expect("a word").into())
    };
    world.say(&["join", "alice"]);
    world.say(&["join", "bob"]);
    world.say(&["send", "bob", "one", "--as", "alice"]);
    assert_eq!(heard(), (1, "instance.joined".into()));
    assert_eq!(heard(), (2, "instance.joined".into()));
    assert_eq!(heard(), (3, "message.accepted".into()));
    hub.kill();

    let _hub = world.hub_with(&["--listen", &format!("127.0.0.1:{port}")]);
    world.say(&["inbox", "--as", "bob", "--batch-window", "0"]);
    world.say(&["send", "bob", "two", "--as", "alice"]);
    assert_eq!(heard(), (4, "delivery.acked".into()));
    assert_eq!(heard(), (5, "message.accepted".into()));
    world.say(&["leave", "alice"]);
    assert_eq!(heard(), (6, "instance.ended".into()));
    let ended = tail.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("is back"), "{ended:?}");
}

#[test]
fn tail_of_something_that_is_no_hub_ends() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let site = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().expect("a caller");
        let (mut asked, mut byte) = (Vec::new(), [0]);
        while !asked.ends_with(b"\r\n\r\n") {
            caller.read_exact(&mut byte).expect("a request");
            asked.push(byte[0]);
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n";
        caller.write_all(format!("{head}<h1>hello</h1>").as_bytes()).expect("it listens");
    });
    let ran = world.run(&["tail", "--token", "t", "--hub", &url]);
    ran.failed(5, "answered 200, but not like a hub", "the right address and port");
    assert!(!ran.err.contains("is back"), "{ran:?}");
    site.join().expect("no panic");
}

#[test]
fn a_line_of_tail_tells_who_wrote_to_whom() {
    let world = World::new();
    let _hub = world.hub();
    world.say(&["join", "alice"]);
    world.say(&["join", "bob"]);
    world.say(&["send", "bob", "red\u{1b}[31m\nalert", "--as", "alice"]);
    let filters = ["--type", "message", "--agent", "alice", "--after", "0", "--count", "1"];
    let said = world.say(&[&["tail"], &filters[..]].concat());
    assert!(
        said.contains("#3 message.accepted [1] alice.") && said.contains(" → bob: red"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
    world.run(&["tail", "--agent", "nobody"]).failed(3, "nobody called nobody is here", "agents");
    world.run(&["tail", "--type", "sunshine"]).failed(
        2,
        "--type: it is one of message.accepted",
        "",
    );
}

#[test]
fn tail_begins_with_the_last_events_that_fit() {
    let world = World::new();
    let _hub = world.hub();
    let bob = world.joined("bob");
    for text in ["one", "two", "three"] {
        world.say(&["send", &bob, text]);
    }
    let said = world.say(&["tail", "--last", "2", "--count", "2", "--type", "message"]);
    let texts: Vec<&str> = said.lines().filter_map(|line| line.rsplit(": ").next()).collect();
    assert_eq!(texts, ["two", "three"], "{said}");
    assert!(said.contains(&format!("human → {bob}: ")), "{said}");
    assert_eq!(world.run(&["tail", "--last", "1", "--after", "1"]).code, Some(2), "one of them");
}

#[tokio::test]
async fn a_follower_that_has_heard_nothing_yet_misses_nothing_over_a_killed_hub() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "bob"]);
    let (port, client) = (hub.port().to_owned(), Client::new(&hub.url).expect("a good address"));
    let tail = world.start(&["tail", "--count", "1"]);
    let follows = "route=\"/v1/events\",status=\"2xx\"";
    until(async || client.metrics().await.expect("figures").contains(follows)).await;
    hub.kill();

    let _hub = world.hub_with(&["--listen", &format!("127.0.0.1:{port}")]);
    world.say(&["send", "bob", "the first"]);
    let ended = tail.end();
    assert!(ended.out.contains("message.accepted [1] human → bob: the first"), "{ended:?}");
}
