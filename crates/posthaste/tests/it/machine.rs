//! Limits of the machine: how many may wait at the door, and how many come in.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::world::{Hub, PATIENCE, World, eventually, lacks};

/// More than the 128 that a listener has if nobody says otherwise.
const BURST: usize = 600;

fn dial(hub: &Hub) -> std::io::Result<TcpStream> {
    let address: SocketAddr = format!("127.0.0.1:{}", hub.port()).parse().expect("an address");
    let socket = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Asks for this on the connection.
fn request(socket: &mut TcpStream, path: &str) -> std::io::Result<()> {
    socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
}

/// The answer to a request on this connection: its status and its JSON.
fn ask(socket: &mut TcpStream, path: &str) -> Option<(u16, Value)> {
    request(socket, path).ok()?;
    answer(socket)
}

fn answer(socket: &mut TcpStream) -> Option<(u16, Value)> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("ASCII").to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().expect("a status");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().expect("a length")];
    socket.read_exact(&mut body).ok()?;
    Some((status, serde_json::from_slice(&body).expect("JSON")))
}

fn is_well(hub: &Hub) -> bool {
    let answer = dial(hub).ok().and_then(|mut socket| ask(&mut socket, "/health"));
    answer.is_some_and(|(status, _)| status == 200)
}

/// Whether the system has room for that many in a listener's queue.
fn has_room() -> bool {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    let enough = most.trim().parse::<usize>().is_ok_and(|most| most > BURST);
    if !enough {
        lacks(&format!("has net.core.somaxconn {}, and {BURST} are needed", most.trim()));
    }
    enough
}

#[test]
fn a_burst_of_clients_waits_in_line_while_the_hub_is_busy() {
    if !has_room() {
        return;
    }
    let world = World::new();
    let hub = world.hub();
    hub.process.signal(Signal::STOP);
    // Nobody accepts: whoever does not fit into the queue cannot connect at all.
    let mut burst: Vec<_> = (0..BURST).map_while(|_| dial(&hub).ok()).collect();
    // All ask before the hub goes on, which gives nobody long for a request.
    for socket in &mut burst {
        request(socket, "/health").expect("room for a request");
    }
    hub.process.signal(Signal::CONT);
    assert_eq!(burst.len(), BURST, "the rest were dropped");
    for mut socket in burst {
        assert_eq!(answer(&mut socket).expect("an answer").0, 200);
    }
}

#[test]
fn a_hub_with_few_open_files_takes_fewer_connections_and_says_so() {
    let world = World::new();
    let hub = world.hub_with_files(400, &[]);
    let mut socket = dial(&hub).expect("a connection");
    let (status, ready) = ask(&mut socket, "/ready").expect("an answer");
    assert_eq!((status, &ready["connections"]), (200, &(400 - 256 - 8).into()));
    let ran = hub.stop();
    assert!(ran.err.contains("fewer connections than server.connections says"), "{ran:?}");
    assert!(ran.err.contains("most=136") && ran.err.contains("wanted=20000"), "{ran:?}");
}

#[test]
fn a_hub_without_descriptors_says_so_and_goes_on_when_there_are_some_again() {
    let world = World::new();
    let file = world.config("[server]\nspare_files = 0\nspare_connections = 0\n");
    let hub = world.hub_with_files(80, &["--config", &file]);
    for _ in 0..2 {
        let mut held = Vec::new();
        let mut refused = 0;
        for _ in 0..100 {
            let mut socket = dial(&hub).expect("the door is open");
            let (status, answer) = ask(&mut socket, "/health").expect("everybody is answered");
            match status {
                200 => held.push(socket),
                _ => {
                    refused += 1;
                    assert_eq!((status, &answer["error"]["code"]), (503, &"unavailable".into()));
                    let hint = answer["error"]["hint"].as_str().expect("a hint");
                    assert!(hint.contains("open files"), "{answer}");
                }
            }
        }
        assert!(held.len() > 20 && refused > 10, "{} held, {refused} refused", held.len());
        // Those inside are served all the while.
        assert_eq!(ask(&mut held[0], "/ready").expect("an answer").0, 200);
        drop(held);
        eventually(|| is_well(&hub));
    }
    let ran = hub.stop();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let times = |text: &str| ran.err.matches(text).count();
    assert_eq!(times("no descriptor is left"), 1, "once, and not for each connection: {ran:?}");
    assert!(ran.err.lines().count() < 20, "{ran:?}");
}

/// How many arenas this process was told to have.
#[cfg(target_env = "gnu")]
fn arenas(hub: &Hub) -> Vec<String> {
    let all = std::fs::read(format!("/proc/{}/environ", hub.process.pid())).expect("our own");
    let all = String::from_utf8(all).expect("text");
    let told = all.split('\0').filter_map(|line| line.strip_prefix("MALLOC_ARENA_MAX="));
    told.map(str::to_owned).collect()
}

#[cfg(target_env = "gnu")]
#[test]
fn a_hub_has_one_arena_of_memory_unless_its_operator_said_how_many() {
    let world = World::new();
    let hub = world.hub();
    assert_eq!(arenas(&hub), ["1"]);
    assert_eq!(hub.stop().code, Some(0));

    let mut command = world.command(&["up", "--json", "--listen", "127.0.0.1:0"]);
    command.env("MALLOC_ARENA_MAX", "3");
    let hub = world.hub_of(command);
    assert_eq!(arenas(&hub), ["3"]);
}
