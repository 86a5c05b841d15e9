//! Two hubs on one folder, folders that a hub cannot use, and the end of a hub.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use posthaste_store::FolderLock;
use rustix::process::Signal;

use crate::world::{World, eventually};

#[test]
fn the_second_hub_on_a_folder_says_which_process_has_it() {
    let world = World::new();
    let hub = world.hub();
    let ran = world.run(&["up", "--listen", "127.0.0.1:0"]);
    ran.failed(4, &hub.process.pid().to_string(), "");
    // The first is not disturbed, and still found.
    world.say(&["agents"]);
}

#[test]
fn a_hub_in_memory_does_not_take_the_folder_of_another() {
    let world = World::new();
    let hub = world.hub();
    let announced = std::fs::read(world.file("hub.json")).expect("announced");
    let ran = world.run(&["up", "--ephemeral", "--listen", "127.0.0.1:0"]);
    ran.failed(4, &hub.process.pid().to_string(), "--data");
    assert_eq!(std::fs::read(world.file("hub.json")).expect("still there"), announced);
    world.say(&["agents"]);
    hub.stop();

    let hub = world.hub_with(&["--ephemeral"]);
    let ran = world.run(&["up", "--listen", "127.0.0.1:0"]);
    ran.failed(4, &hub.process.pid().to_string(), "--data");
}

#[test]
fn what_a_killed_hub_left_behind_tells_its_tokens_to_nobody_else() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "bob"]);
    let address = format!("127.0.0.1:{}", hub.port());
    hub.kill();
    let stranger = TcpListener::bind(&address).expect("the port is free");
    stranger.set_nonblocking(true).expect("set");
    for args in [&["send", "bob", "hello"][..], &["inbox", "--as", "bob"], &["join", "alice"]] {
        world.run(args).failed(5, "no hub is running on", "posthaste up");
        assert!(stranger.accept().is_err(), "{args:?}");
    }
    // One that is named is believed in.
    let named = format!("http://{address}");
    let asks = world.start(&["agents", "--hub", &named]);
    eventually(|| stranger.accept().is_ok());
    drop(asks);
}

#[test]
fn while_a_hub_starts_commands_wait_for_its_address_and_tell_tokens_to_no_other() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "bob"]);
    let address = format!("127.0.0.1:{}", hub.port());
    hub.kill();
    let stranger = TcpListener::bind(&address).expect("the port is free");
    stranger.set_nonblocking(true).expect("set");
    // The next hub has the folder, and has not announced itself yet.
    let next = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let _lock = FolderLock::take(&world.data()).expect("nobody has it");
    let (one, two) = (world.start(&["agents"]), world.start(&["inbox", "--as", "bob"]));
    let leave = world.start(&["leave", "bob"]);
    let url = format!("http://{}", next.local_addr().expect("an address"));
    let announced = serde_json::json!({ "url": url, "pid": std::process::id() });
    std::fs::write(world.file("hub.json.new"), announced.to_string()).expect("written");
    std::fs::rename(world.file("hub.json.new"), world.file("hub.json")).expect("announced");
    let heard: Vec<TcpStream> = (0..3).map(|_| next.accept().expect("a call").0).collect();
    assert!(stranger.accept().is_err(), "it was told a token");
    drop((heard, one, two, leave));
}

#[test]
fn a_killed_hub_does_not_keep_its_folder() {
    let world = World::new();
    world.hub().kill();
    let hub = world.hub();
    assert_eq!(hub.stop().code, Some(0));
}

#[test]
fn a_broken_database_is_named_and_left_alone() {
    let world = World::new();
    let hub = world.hub();
    world.say(&["join", "bob"]);
    hub.stop();
    let database = std::fs::read_dir(world.data())
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "db" || end == "sqlite"))
        .expect("a database");
    let garbage = b"this is not a database, and it is long enough to be looked at".repeat(100);
    std::fs::write(&database, &garbage).expect("written");

    let ran = world.run(&["up", "--listen", "127.0.0.1:0"]);
    let name = database.file_name().expect("a name").to_string_lossy();
    ran.failed(1, &name, " ");
    assert_eq!(std::fs::read(&database).expect("still there"), garbage);
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_with_advice() {
    let world = World::new();
    let ran = world.run(&["up", "--listen", "127.0.0.1:0", "--data", "/dev/null/data"]);
    ran.failed(1, "/dev/null/data", "--data");
}

#[test]
fn a_hub_stops_at_once_when_readers_only_wait() {
    let world = World::new();
    // A stop that waited for its readers would outlast the test's patience.
    let file = world.config("[server]\nshutdown_grace = '10m'\n");
    let hub = world.hub_with(&["--config", &file]);
    world.say(&["join", "bob"]);
    let waiting = world.start(&["inbox", "--as", "bob", "--timeout", "50"]);
    eventually(|| world.json(&["agents"])["instances"][0]["activity"] == "waiting_inbox");
    assert_eq!(hub.stop().code, Some(0));
    // The reader was told to call again, and nobody was there any more.
    waiting.end().failed(5, "no hub answers at", "posthaste up");
}

#[test]
fn a_second_signal_does_not_wait_for_anybody() {
    let world = World::new();
    let file = world.config("[server]\nshutdown_grace = '10m'\nbody_timeout = '10m'\n");
    let hub = world.hub_with(&["--config", &file]);
    let token = std::fs::read_to_string(world.file("operator.token")).expect("a token");
    let address = format!("127.0.0.1:{}", hub.port());
    // A request that is never finished: an orderly stop waits for it. The hub asks for its
    // body, so it has begun.
    let mut slow = TcpStream::connect(&address).expect("it listens");
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         expect: 100-continue\r\ncontent-length: 99\r\n\r\n",
        token.trim()
    );
    slow.write_all(head.as_bytes()).expect("it reads");
    let mut begun = [0; 25];
    slow.read_exact(&mut begun).expect("it answers");
    assert_eq!(&begun, b"HTTP/1.1 100 Continue\r\n\r\n");

    hub.process.signal(Signal::TERM);
    eventually(|| TcpStream::connect(&address).is_err());
    hub.process.signal(Signal::INT);
    assert_eq!(hub.process.end().code, Some(130));
}
